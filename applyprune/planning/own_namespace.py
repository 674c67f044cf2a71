"""The Namespace that holds a set's own inventory, when it is an object of that set.

The inventory cannot be written before its Namespace exists. So the create-only request that makes
the Namespace carries the whole record: the set's label, and the annotation of ownership. A run that
finds both, and no inventory, continues from that record. For the same reason the Namespace takes
the inventory with it: only a delete of the whole set removes it, after everything else.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import Struct

from applyprune.errors import NoSuchNamespace, NotReady, PruneRefused, RunFailed
from applyprune.model.fate import Fate
from applyprune.model.identity import Ref
from applyprune.model.inventory import Inventory, InventoryEntry, Ownership
from applyprune.model.live import NAMESPACES, Absent, LiveObject, State
from applyprune.model.options import Mode, Options
from applyprune.model.plan import ApplyRule, ApplyStep, Plan, RemoveStep
from applyprune.model.problem import Problem
from applyprune.model.text import and_more, counted
from applyprune.planning.applyset import SET_ID, SHARD_OF, ApplySetIdentity
from applyprune.planning.desired import Resolved
from applyprune.planning.marks import orphan_mark
from applyprune.planning.order import wave_of
from applyprune.planning.ownership import has_witness, is_marked
from applyprune.values import replace

HOLDS_INVENTORY = "it contains this set's inventory"
_SHOWN = 3


# Before the first write: does the Namespace exist, and may this run create it?


def makes_namespace(
    own: State | None,
    resolved: Resolved,
    applyset: ApplySetIdentity,
    options: Options,
    coming: Collection[str] = (),
) -> bool:
    """Return whether a run creates the Namespace of a new inventory that is not in the set.

    One that is in the set is created by its own request, and others bring those in ``coming``.
    ``own`` is None if the account may not read it. Raises UsageError if it does not exist and may
    not be created, NotReady if it is being deleted.
    """
    refuse_terminating(own, applyset)
    if not isinstance(own, Absent) or _is_created(resolved, applyset):
        return False
    if applyset.namespace in coming:
        return False
    if not options.apply.create_namespace:
        raise NoSuchNamespace(
            f"the namespace {applyset.namespace} does not exist",
            reason="the inventory of the set belongs there",
            hint="Add the Namespace to the input (deleting the set deletes it), create it with "
            "--create-namespace (deleting the set keeps it), or name another one with -n.",
        )
    return True


def refuse_terminating(own: State | None, applyset: ApplySetIdentity) -> None:
    """Refuse an apply whose inventory is about to be deleted with its Namespace."""
    if isinstance(own, LiveObject) and own.terminating:  # guard: leaving-own-namespace never
        raise NotReady(
            f"the namespace {applyset.namespace} is being deleted",
            reason="the inventory of the set belongs there",
            hint="Nothing was applied. Run again when it is gone.",
        )


def _is_created(resolved: Resolved, applyset: ApplySetIdentity) -> bool:
    """Return whether the set creates the Namespace of its inventory if that does not exist.

    Of a manifest with an error, nobody knows: its own error is enough.
    """
    own, applied = applyset.own_namespace, {ApplyRule.ALWAYS, ApplyRule.ONCE}
    now = (one for one in resolved.desired if one.ref not in resolved.blocked)
    if any(one.ref == own and one.apply in applied for one in now):
        return True
    named = ((one.gvk.group_kind, one.name) for one in resolved.manifests)
    return bool(resolved.errors) and (own.group_kind, own.name) in named


def step_before_inventory(
    plan: Plan, inventory: Inventory, applyset: ApplySetIdentity
) -> ApplyStep | None:
    """Return the step that must be sent before the inventory can be written; usually None."""
    if inventory.exists:
        return None
    own = (step for step in plan.applies if step.desired.ref == applyset.own_namespace)
    return next((one for one in own if one.fate is Fate.CREATE and one.request is not None), None)


# After a run that was interrupted between the Namespace and its inventory.


def with_own_namespace(
    inventory: Inventory, own: State | None, applyset: ApplySetIdentity
) -> Inventory:
    """Return the inventory that a run would have written if it had not been interrupted.

    It lists the Namespace as an object that did not exist before. Both marks must be on the object,
    in the set's own Apply entry. If the inventory exists, it is returned as it is.
    """
    if inventory.exists or not isinstance(own, LiveObject):
        return inventory
    # guard: own-namespace-marks never
    if not (is_marked(own, applyset) and has_witness(own, applyset)):
        return inventory
    entry = InventoryEntry(
        ref=own.ref,
        plural=NAMESPACES.plural,
        version=NAMESPACES.version,
        uid_before_apply=None,
        ownership=Ownership.OWNED,
        wave=wave_of(own.ref.group_kind),
        orphan_reason=orphan_mark(own.metadata),
    )
    return replace(inventory, entries={own.ref: entry})


# Its deletion: with the whole set, after everything else.


def why_own_namespace_stays(options: Options, owner: str) -> str:
    """Return why a run never deletes the Namespace of its inventory; empty if it may.

    ``owner`` is the Bundle that the run is for: it is in that Namespace itself.
    """
    whole = options.mode is Mode.DELETE and options.removes_set
    if owner:  # guard: own-namespace-of-a-bundle never
        return HOLDS_INVENTORY
    return "" if whole else HOLDS_INVENTORY  # guard: own-namespace-with-the-set -> ""


def own_namespace_removal(
    steps: Sequence[RemoveStep], applyset: ApplySetIdentity
) -> RemoveStep | None:
    """Return the step that deletes the Namespace of the inventory; None if none does."""
    own = (step for step in steps if step.entry.ref == applyset.own_namespace)
    return next((step for step in own if step.fate is Fate.PRUNE), None)


def only_waits(steps: Sequence[RemoveStep], applyset: ApplySetIdentity) -> bool:
    """Return whether all that is left of a set is to wait until its Namespace is gone.

    Then no request is sent, so nothing needs the inventory, which may vanish at any moment.
    """
    own = own_namespace_removal(steps, applyset)
    return own is not None and own.is_going and all(step.request is None for step in steps)


def refused_before_own_namespace(
    ref: Ref, listed: Collection[Ref], gone: Collection[Ref]
) -> Problem | None:
    """Return why the Namespace must stay after everything else was deleted; None if it may go.

    ``listed`` are all entries of the inventory, ``gone`` those whose removal is proved.
    """
    left = sorted(set(listed) - set(gone) - {ref})
    if not left:  # guard: own-namespace-last always
        return None
    names = and_more([one.short for one in left], _SHOWN)
    return RunFailed(
        f"{ref.short} was not deleted",
        reason=f"{counted(len(left), 'object')} of the set {'is' if len(left) == 1 else 'are'} "
        f"still there: {names}",
        hint="The inventory stays too. Run again.",
    ).problem


def holds_other_set(ref: Ref) -> Problem:
    """Return why the Namespace stays if another set has written its inventory there meanwhile."""
    return PruneRefused(
        f"{ref.short} was not deleted",
        reason="it now contains another set's inventory, or that is unknown",
        hint="Run again.",
    ).problem


class OwnRecords(Struct, frozen=True):
    """The inventory that is deleted with its Namespace, so it is none of the contents that count.

    Without a UID there is none, and everything counts.
    """

    applyset: ApplySetIdentity
    uid: str = ""

    def has(self, live: LiveObject) -> bool:
        """Return whether an object is that very inventory, or one of its shards."""
        if not self.uid or not self.applyset.records_in(live.ref):
            return False
        if live.ref == self.applyset.inventory:
            return (
                live.uid == self.uid  # guard: own-records
                and live.labels.get(SET_ID) == self.applyset.id
            )
        return live.labels.get(SHARD_OF) == self.applyset.name
