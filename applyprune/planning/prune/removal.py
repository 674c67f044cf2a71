"""Decide what to do with one entry whose object has left the set."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from applyprune.errors import RunFailed, as_problem
from applyprune.model.identity import Ref
from applyprune.model.inventory import InventoryEntry, Ownership
from applyprune.model.live import (
    NAMESPACE,
    Absent,
    KindDeleted,
    LiveObject,
    Missing,
    Resource,
    Unknown,
)
from applyprune.model.options import Mode, Options
from applyprune.model.plan import Fate, Kept, RemoveStep
from applyprune.model.problem import Problem
from applyprune.planning.annotations import DISABLED, PRUNE, not_understood, orphan_mark
from applyprune.planning.applyset import OWNED_BY, PART_OF, SET_ID, SHARD_OF, ApplySetIdentity
from applyprune.planning.marks.apply_mark import left_alone
from applyprune.planning.ownership.managed_fields import is_applied
from applyprune.planning.ownership.other_owner import other_owner
from applyprune.planning.ownership.owner import Owner, foreign_owner, has_witness, owner_of
from applyprune.planning.prune.foreign_step import step_of_foreign
from applyprune.planning.requests import delete_request, orphan_request
from applyprune.planning.snapshot import ClusterSnapshot

ORPHANED = "as asked"
GONE = "it is gone"
ADOPTED = "it was adopted, not created, by this set"
NO_WITNESS = f"it has lost the annotation {OWNED_BY}, so it counts as adopted"
_SYSTEM_NAMESPACES = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})


class _Left(NamedTuple):
    """Why an object is orphaned."""

    reason: str
    kept: Kept | None = None


def remove_step(
    entry: InventoryEntry, snapshot: ClusterSnapshot, applyset: ApplySetIdentity, options: Options
) -> RemoveStep:
    """Decide about one entry, independent of the other entries."""
    state = snapshot.states[entry.ref]
    resource = snapshot.resources.get(entry.ref.group_kind)
    if isinstance(state, Unknown):
        return RemoveStep(entry, resource, Fate.REFUSE, problem=state.problem)
    if isinstance(state, Absent):
        return RemoveStep(entry, resource, Fate.REMOVE_FROM_INVENTORY, reason=GONE)
    if isinstance(state, KindDeleted):
        return RemoveStep(entry, resource, Fate.REMOVE_FROM_INVENTORY, reason=state.reason)
    if isinstance(state, Missing):
        doubt = RunFailed(
            f"it is unknown whether {entry.ref} exists",
            reason="the server has not confirmed that it is gone",
            hint="Run again.",
        )
        return RemoveStep(entry, resource, Fate.REFUSE, problem=as_problem(doubt))
    selector = options.select_labels
    if selector is not None and not selector.matches(state.labels):  # guard: selected-labels
        return RemoveStep(entry, resource, Fate.LEAVE, state, "it has lost the selected labels")
    if options.mode is Mode.ORPHAN:
        return _orphan(entry, resource, state, snapshot, applyset)
    return _of_live(entry, resource, state, snapshot, applyset, options)


def _orphan(
    entry: InventoryEntry,
    resource: Resource | None,
    live: LiveObject,
    snapshot: ClusterSnapshot,
    applyset: ApplySetIdentity,
) -> RemoveStep:
    """Orphan an object with our label or field manager; else only remove it from the inventory."""
    if (step := step_of_foreign(entry, resource, live, snapshot, applyset)) is not None:
        return step
    if not (live.labels.get(PART_OF) == applyset.id or is_applied(live, applyset.manager)):
        reason = "it has neither this set's label nor its field manager"
        return RemoveStep(entry, resource, Fate.REMOVE_FROM_INVENTORY, live, reason)
    return _orphaned(entry, resource, live, _Left(ORPHANED), applyset)


def _of_live(
    entry: InventoryEntry,
    resource: Resource | None,
    live: LiveObject,
    snapshot: ClusterSnapshot,
    applyset: ApplySetIdentity,
    options: Options,
) -> RemoveStep:
    if (step := step_of_foreign(entry, resource, live, snapshot, applyset)) is not None:
        return step
    recorded = owner_of(live, entry, applyset) is Owner.RECORDED
    labelled = live.labels.get(PART_OF) == applyset.id
    applied = is_applied(live, applyset.manager)
    # Without an Apply entry too: a restored object has none. Controllers copy labels.
    if labelled and not recorded and (applied or entry.uid):  # guard: restored-stays-listed
        problem = RunFailed(
            f"{entry.ref} was recreated with this set's label",
            reason="its UID differs from the UID in the inventory",
            hint=f"To record the current object: applyprune inventory repair {applyset.arguments}",
        )
        return RemoveStep(entry, resource, Fate.REFUSE, live, problem=as_problem(problem))
    if not recorded and not applied:  # guard: applied-stays-listed
        reason = "somebody else has recreated it" if entry.uid else "this set did not create it"
        return RemoveStep(entry, resource, Fate.REMOVE_FROM_INVENTORY, live, reason)
    if not labelled:
        return _unlabelled(entry, resource, live, snapshot, applyset, options)
    if (alone := _left_alone(entry, resource, live, applyset, options)) is not None:
        return alone
    left = _why_left(entry, live, snapshot, applyset, options)
    if left is None and applied and entry.ref.is_among(options.prune.orphan):
        left = _Left("--orphan")
    refused = _protected_in_part(entry.ref, snapshot, applyset, options)
    if refused is None and left is not None:
        return _orphaned(entry, resource, live, left, applyset)
    refused = refused or _why_refused(entry, live, applyset)
    if refused is not None:
        return RemoveStep(entry, resource, Fate.REFUSE, live, problem=refused)
    # What is being deleted already needs no request, only a wait.
    request = (
        None
        if live.terminating or resource is None
        else delete_request(resource, live, options.prune.propagation)
    )
    return RemoveStep(entry, resource, Fate.PRUNE, live, request=request)


def _left_alone(
    entry: InventoryEntry,
    resource: Resource | None,
    live: LiveObject,
    applyset: ApplySetIdentity,
    options: Options,
) -> RemoveStep | None:
    """Leave an object that is marked so, and keep its entry; None if it is not marked.

    If the whole set is deleted, it is orphaned: no inventory would list it. So is an object that
    another mark, or the user, keeps.
    """
    mark = left_alone(live.metadata, {})  # guard: left-alone-at-prune
    keeps = entry.orphan_reason or orphan_mark(live.metadata)
    if not mark or live.terminating or keeps or entry.ref.is_among(options.prune.orphan):
        return None
    if options.removes_set:  # guard: left-alone-in-part
        return _orphaned(entry, resource, live, _Left(f"marked {mark}", Kept.MARKED), applyset)
    return RemoveStep(entry, resource, Fate.LEAVE, live, f"marked {mark}", is_left_alone=True)


def _unlabelled(
    entry: InventoryEntry,
    resource: Resource | None,
    live: LiveObject,
    snapshot: ClusterSnapshot,
    applyset: ApplySetIdentity,
    options: Options,
) -> RemoveStep:
    applied = is_applied(live, applyset.manager)
    adopted = entry.ownership is Ownership.ADOPTED
    # An interrupted run may have orphaned it without recording that: that removes both marks.
    was_left = adopted or not entry.uid or entry.orphan_reason or entry.orphaning
    if was_left and not applied:  # guard: orphaned-without-record
        return RemoveStep(
            entry, resource, Fate.REMOVE_FROM_INVENTORY, live, "it has lost the set's label"
        )
    recorded = owner_of(live, entry, applyset) is Owner.RECORDED
    if recorded and ((adopted and not options.prune.prune_adopted) or entry.orphan_reason):
        left = _why_left(entry, live, snapshot, applyset, options) or _Left("")
        return _orphaned(entry, resource, live, left, applyset)
    # A forged entry can name any object: nobody must be told to label that.
    problem = _not_applied(entry, live, applyset)  # guard: label-hint
    if problem is None:
        hint = f"To let the next run delete it: kubectl label {_arguments(entry.ref)} "
        lost = RunFailed(
            f"{entry.ref} has lost the set's label",
            reason="without the label, only the inventory shows that this set owns it",
            hint=_to_orphan(entry.ref, applyset)
            if _why_left(entry, live, snapshot, applyset, options)
            else f"{hint}{PART_OF}={applyset.id}",
        )
        problem = as_problem(lost)
    return RemoveStep(entry, resource, Fate.REFUSE, live, problem=problem)


def _why_refused(
    entry: InventoryEntry, live: LiveObject, applyset: ApplySetIdentity
) -> Problem | None:
    """Return why an object with the set's label may not be deleted; None if it may."""
    if (problem := _not_applied(entry, live, applyset)) is not None:
        return problem
    unknown = not_understood(live.metadata, live.ref.group_kind)  # guard: mark-before-delete
    if not unknown or live.terminating:
        return None
    # It may mean that the object must stay.
    kind, _, key = unknown.rpartition(" ")
    verb = "label" if kind.endswith("label") else "annotate"
    return as_problem(
        RunFailed(
            f"{entry.ref} was not deleted",
            reason=f"{unknown} is not understood",
            hint=f"To let the next run delete it: kubectl {verb} {_arguments(entry.ref)} {key}-. "
            f"To orphan it: --orphan {entry.ref.short}, or the annotation {PRUNE}: {DISABLED}.",
        )
    )


def _not_applied(
    entry: InventoryEntry, live: LiveObject, applyset: ApplySetIdentity
) -> Problem | None:
    """Return the problem of an object that the set's field manager has not applied.

    An edited inventory, and a label that anybody may set, prove nothing.
    """
    if is_applied(live, applyset.manager):
        return None
    return as_problem(
        RunFailed(
            f"{entry.ref} was not applied by this set",
            reason=f"{applyset.manager} is not among its field managers",
            hint=_to_orphan(entry.ref, applyset),
        )
    )


def _to_orphan(ref: Ref, applyset: ApplySetIdentity) -> str:
    command = f"applyprune inventory orphan {applyset.arguments} {ref.short}"
    return f"Add it to the input again, or orphan it: {command}"


def _arguments(ref: Ref) -> str:
    """Return the arguments of kubectl that name an object."""
    return f"{ref.short} -n {ref.namespace}" if ref.namespace else ref.short


def _orphaned(
    entry: InventoryEntry,
    resource: Resource | None,
    live: LiveObject,
    left: _Left,
    applyset: ApplySetIdentity,
) -> RemoveStep:
    request = None if resource is None else orphan_request(resource, live, applyset)
    return RemoveStep(
        entry, resource, Fate.ORPHAN, live, left.reason, kept=left.kept, request=request
    )


def _why_left(
    entry: InventoryEntry,
    live: LiveObject,
    snapshot: ClusterSnapshot,
    applyset: ApplySetIdentity,
    options: Options,
) -> _Left | None:
    """Return why an object of ours is orphaned; None if it may be deleted."""
    if rule := entry.orphan_reason or orphan_mark(live.metadata):
        return _Left(f"marked {rule}", Kept.MARKED)
    if entry.ownership is Ownership.ADOPTED and not options.prune.prune_adopted:
        return _Left(ADOPTED, Kept.ADOPTED)
    applied = is_applied(live, applyset.manager)
    if applied and not (has_witness(live, applyset) or options.prune.prune_adopted):
        return _Left(NO_WITNESS, Kept.ADOPTED)  # guard: witness
    if SET_ID in live.labels or SHARD_OF in live.labels:
        return _Left("it is the inventory of a set")
    if owner := foreign_owner(live, applyset.manager):
        return _Left(f"it belongs to {owner} now, by its ownerReferences")
    if not options.prune.prune_shared and (other := other_owner(entry, live, applyset)):
        return _Left(other, Kept.SHARED)  # guard: other-owner
    protected = _why_protected(entry.ref, snapshot.occupied, applyset)
    return _Left(protected) if protected else None


def kept_as_owned(rule: str, live: LiveObject, applyset: ApplySetIdentity) -> str:
    """Return why an object is orphaned even if the set owns it; empty if it may be deleted.

    ``rule`` is the annotation that its entry or its manifest has.
    """
    if rule := rule or orphan_mark(live.metadata):  # guard: told-as-owned
        return f"marked {rule}"
    return _why_protected(live.ref, (), applyset)


def _protected_in_part(
    ref: Ref, snapshot: ClusterSnapshot, applyset: ApplySetIdentity, options: Options
) -> Problem | None:
    """Return why a Namespace stays listed though a part of the set is deleted, and names it.

    Only a delete of the whole set orphans it by itself.
    """
    protected = _why_protected(ref, snapshot.occupied, applyset) if options.is_part else ""
    if not protected or ref.is_among(options.prune.orphan):  # guard: protected-in-part
        return None
    return as_problem(
        RunFailed(
            f"{ref} was not deleted",
            reason=protected,
            hint=f"To orphan it: applyprune inventory orphan {applyset.arguments} {ref.short}",
        )
    )


def _why_protected(ref: Ref, occupied: Collection[str], applyset: ApplySetIdentity) -> str:
    """Return why a Namespace is never deleted; empty if it may be, and for any other kind."""
    name = ref.name
    if ref.group_kind != NAMESPACE:
        return ""
    if name in _SYSTEM_NAMESPACES:
        return "a system namespace is never deleted"
    if name == applyset.namespace:
        return "it contains this set's inventory"
    return "it contains another set's inventory" if name in occupied else ""
