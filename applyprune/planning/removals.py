"""Decide about what has left the set: prune or orphan it, remove it from the inventory, or keep it.

The fate LEAVE, of an object of the input, is another subject: ``decide.py`` has it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from msgspec import Struct, field

from applyprune.errors import NotReady, RunFailed
from applyprune.model.fate import Fate
from applyprune.model.identity import Ref
from applyprune.model.inventory import InventoryEntry, Ownership, Wave
from applyprune.model.kinds import (
    BUNDLE,
    CRD,
    GUARDED_KINDS,
    NAMESPACE,
    SERVICE,
    SERVICE_ACCOUNT,
    Trait,
    kinds_with,
)
from applyprune.model.live import (
    API_SERVICES,
    Absent,
    KindDeleted,
    LiveObject,
    Missing,
    Resource,
    Unknown,
)
from applyprune.model.options import Approval, Mode, Options, PruneAlso
from applyprune.model.plan import Cause, Desired, Removals, RemoveStep
from applyprune.model.problem import IgnoredManifest, Problem, ProblemKind
from applyprune.planning.applyset import OWNED_BY, PART_OF, SET_ID, SHARD_OF, ApplySetIdentity
from applyprune.planning.cascade import (
    NOTHING,
    Cascade,
    Cascades,
    cascade_of,
    has_foreign_finalizer,
)
from applyprune.planning.guards import GuardedPrune, check_guards, hinted, refusal_of
from applyprune.planning.managed_fields import is_applied
from applyprune.planning.marks import DISABLED, PRUNE, leave_mark, orphan_mark, unknown_mark
from applyprune.planning.names import selected
from applyprune.planning.order import is_built_in
from applyprune.planning.own_namespace import HOLDS_INVENTORY
from applyprune.planning.ownership import (
    Owner,
    foreign_label,
    foreign_owner,
    has_witness,
    is_listed_elsewhere,
    is_marked,
    label_problem,
    other_applier,
    other_owner,
    owner_of,
    owners_among,
)
from applyprune.planning.prune_waits import is_workload, unless_used
from applyprune.planning.recovery import why_gone
from applyprune.planning.references import names_in, references
from applyprune.planning.requests import delete_request, orphan_request
from applyprune.planning.served_kinds import service_of
from applyprune.planning.uids import is_among, known_as, owners_of, uid_of, uids_of
from applyprune.planning.world import World
from applyprune.values import replace


def remove_steps(
    entries: Iterable[InventoryEntry], world: World
) -> tuple[Removals, Removals | None]:
    """Decide about the entries that have left the set, and about the prune as a whole.

    A refused prune comes with what it becomes if exactly its deletions are approved; else None. Two
    groups may serve the same object, and a desired object must not be deleted with its Namespace or
    CRD: these are refused if they contain objects that this prune does not delete itself.
    """
    listed, options, desired = world.inventory.entries, world.options, world.desired
    entries = list(entries)
    # Where nothing has left, as in most runs, nothing asks for the objects of the input.
    wanted = _desired_uids(desired, world) if entries else frozenset()
    steps = _unless_owner_stays(
        unless_used(_decided(entries, world, wanted), world.pod_use, desired, options), world
    )
    deleting = uids_of(pruned_objects(steps))
    going = uids_of(step.live for step in steps if step.live is not None and step.is_going)
    found = _cascades(world, deleting, wanted)
    stays = {step.entry.ref: step.reason for step in steps if step.fate is not Fate.PRUNE}
    cascades = Cascades(found, listed, _desired_within(steps, world, wanted), stays)
    steps = [
        replace(
            step,
            cascade=cascades.of(step.entry.ref).roots if step.fate is Fate.PRUNE else (),
            unlisted=cascades.of(step.entry.ref).unlisted,
            ignored=world.ignored.get(step.entry.ref, ""),
        )
        for step in steps
    ]
    steps.sort(key=lambda step: step.entry.wave, reverse=True)
    # Nothing has left a set of which only a part is applied, whatever that part is.
    if not options.prune.enabled or options.applies_part:
        return Removals(tuple(steps)), None
    members = [member for member in desired if not member.is_outside]
    own = _own_objects(world) if deleting > going else {}
    own_uids = uids_of(own.values())
    # Not by what only an aggregated API says: this lifts the guard of all other objects too.
    in_input = _desired_uids(members, world) if own_uids else frozenset()
    shares = not own_uids.isdisjoint(in_input)  # guard: shares-proved -> True
    passing = {member.ref for member in desired if member.has_ttl}
    prune = GuardedPrune(
        world,
        steps,
        cascades,
        own={
            ref: known_as(live, own_uids)
            for ref, live in own.items()
            if is_among(live, deleting - going)
            or (ref not in passing and _counts_as_member(live, world.applyset))
        },
        shares=shares
        or any(ref in listed for ref in (*world.left_out, *(member.ref for member in members))),
    )
    return _guarded(prune)


def ignored_objects(
    manifests: Iterable[IgnoredManifest], namespace: str, override: str
) -> Mapping[Ref, str]:
    """Return which ignore rule leaves out the manifest of each object, and where that is.

    ``namespace`` is that of manifests that name none, and ``override`` that of all, if it is given.
    """
    # Whether a kind has namespaces is not asked: a Ref without one names such an object only.
    found: dict[Ref, str] = {}
    for one in manifests:
        kind, text = one.gvk.group_kind, f"its manifest in {one.path} is ignored, by {one.rule}"
        for place in (override or one.namespace or namespace, ""):
            found.setdefault(Ref(kind.group, kind.kind, place, one.name), text)
    return found


def pruned_objects(steps: Iterable[RemoveStep]) -> Sequence[LiveObject]:
    """Return the objects that steps would delete."""
    return [step.live for step in steps if step.fate is Fate.PRUNE and step.live is not None]


def _recorded_uids(world: World) -> frozenset[str]:
    """Return the UIDs of the listed objects, but for those that somebody else has recreated.

    Their owners may make these, so they count like what nobody lists.
    """
    return uids_of(
        live
        for entry, live in world.recorded
        if owner_of(live, entry, world.applyset) in {Owner.RECORDED, Owner.OTHER}
    )


def _cascades(
    world: World, deleting: frozenset[str], wanted: Collection[str]
) -> Mapping[Ref, Cascade]:
    """Return the cascade of each object that has any.

    ``deleting`` and ``wanted`` have UIDs. What must stay counts, whatever owns it.
    """
    contents = world.contents
    if not (contents or world.dependants):
        return {}
    # guard: listed-stays -> {*()}
    staying = _recorded_uids(world).union(wanted).difference(deleting)
    dependants = {
        ref: replace(
            owned,
            objects=tuple(
                live
                for live in owned.objects
                if is_among(live, staying) or live.ref.group_kind in GUARDED_KINDS
            ),
        )
        for ref, owned in world.dependants.items()
    }
    sets = [ref for ref in contents if ref.group_kind == BUNDLE]
    # What goes with a Bundle is counted there, and not again as a stranger in its Namespace.
    taken = deleting | uids_of(live for ref in sets for live in contents[ref].objects)
    return {
        ref: replace(
            cascade_of(
                contents.get(ref, NOTHING),
                deleting if ref in sets else taken,
                world.manager,
                dependants.get(ref, NOTHING),
                staying,
            ),
            is_set=ref in sets,
        )
        for ref in {*contents, *dependants}
    }


def _desired_within(
    steps: Iterable[RemoveStep], world: World, wanted: Collection[str]
) -> Mapping[Ref, frozenset[Ref]]:
    """Return the desired objects that would be deleted with each Namespace, CRD and owner.

    ``wanted`` has the UIDs of the desired objects.
    """
    deleting = {step.entry.ref for step in steps if step.fate is Fate.PRUNE and not step.is_going}
    namespaces = {ref.name: ref for ref in deleting if ref.group_kind == NAMESPACE}
    kinds = {ref.name: ref for ref in deleting if ref.group_kind == CRD}
    found: dict[Ref, set[Ref]] = {}
    for member in world.desired if namespaces or kinds else ():
        for place in (namespaces.get(member.ref.namespace), kinds.get(member.resource.full_plural)):
            if place is not None:
                found.setdefault(place, set()).add(member.ref)
    for ref in deleting & world.dependants.keys():
        owned = {live.ref for live in world.dependants[ref].objects if is_among(live, wanted)}
        if owned:
            found.setdefault(ref, set()).update(owned)
    return {ref: frozenset(inside) for ref, inside in found.items()}


def _own_objects(world: World) -> Mapping[Ref, LiveObject]:
    return {
        entry.ref: live
        for entry, live in world.recorded
        if owner_of(live, entry, world.applyset) is Owner.RECORDED
    }


def _counts_as_member(live: LiveObject, applyset: ApplySetIdentity) -> bool:
    """Return whether an object that this prune leaves alone counts in the size of the set.

    One that is being deleted, or has lost the set's label or field manager, says nothing of it.
    """
    return not live.terminating and is_marked(live, applyset)  # guard: own-live-objects -> True


def _guarded(prune: GuardedPrune) -> tuple[Removals, Removals | None]:
    """Return what the guards leave of a prune, and what an approval of a refused one leaves."""
    options, cascades = prune.world.options, prune.cascades
    allowed = options.prune.allow_cascade
    judged = _after_guards(prune, allowed)
    if judged.refusal is None:
        return judged, None
    # A cascade that could not be counted is not approved: the digest does not contain it.
    refs = {step.entry.ref for step in prune.steps} & cascades.found.keys()
    counted = {ref.short for ref in refs if not cascades.of(ref).uncounted}
    lifted = _after_guards(replace(prune, approved=True), allowed | counted)
    # An approval of the whole plan covers its deletions too.
    if options.approval is Approval.ALWAYS:
        return lifted, None
    return judged, lifted


def _after_guards(prune: GuardedPrune, allow_cascade: Collection[str]) -> Removals:
    refused = [_with_cascade(step, prune.cascades, allow_cascade) for step in prune.steps]
    prune = replace(prune, steps=refused)
    results = check_guards(prune)
    refusal = refusal_of(prune, results)
    return Removals(hinted(prune), results, refusal)


def _with_cascade(step: RemoveStep, cascades: Cascades, allowed: Collection[str]) -> RemoveStep:
    if step.fate is not Fate.PRUNE:
        return step
    if problem := cascades.refusal(step.entry.ref, allowed):
        lacks_rights = cascades.lacks_rights(step.entry.ref)
        cause = Cause.NO_RIGHT_TO_COUNT if lacks_rights else step.cause
        return replace(step, fate=Fate.REFUSE, cause=cause, problem=problem, request=None)
    return replace(step, reason=cascades.described(step.entry.ref))


def entries_to_remove(world: World) -> list[InventoryEntry]:
    """Return the entries that have left the set: none if the input is only a part of the set.

    An object that must exist, but does not belong to the set, leaves it too: it is orphaned.
    """
    if world.options.applies_part:  # guard: part-of-input never
        return []
    wanted = {member.ref: member for member in world.desired}
    left: list[InventoryEntry] = []
    for entry in selected(world.inventory, world.states, world.options):
        member = wanted.get(entry.ref)
        if member is None:
            left.append(entry)
        elif member.is_outside and world.live(entry.ref) is not None:
            # guard: released-is-orphaned -> left.append(entry)
            left.append(replace(entry, orphan_reason=member.apply_mark))
    return left


def objects_to_prune(world: World) -> Sequence[LiveObject]:
    """Return the objects that a prune would delete, before any guard; none if it may not run."""
    if not world.options.prune.enabled:
        return ()
    entries = entries_to_remove(world)
    wanted = _desired_uids(world.desired, world) if entries else frozenset()
    return pruned_objects(_decided(entries, world, wanted))


def _desired_uids(desired: Iterable[Desired], world: World) -> frozenset[str]:
    lives = (world.live(member.ref) for member in desired)
    return uids_of(live for live in lives if live is not None)


def without_other_uid(step: RemoveStep) -> RemoveStep:
    """Return the step of a restored set, in which every UID differs: that is one problem."""
    if step.fate is not Fate.REFUSE or step.live is None or step.live.uid == step.entry.uid:
        return step
    return replace(step, fate=Fate.LEAVE, reason="it was restored", problem=None)


def _decided(
    entries: Iterable[InventoryEntry], world: World, wanted: Collection[str]
) -> Sequence[RemoveStep]:
    """Decide about each entry that has left the set, before any guard.

    ``wanted`` has the UIDs of the desired objects. What goes keeps none of the objects that it
    owns: these are decided again, until nothing more goes.
    """
    entries = list(entries)
    while entries:
        steps = _decided_once(entries, world, wanted)
        going = objects_going(steps)
        owned = [step.live for step in steps if step.cause is Cause.OWNED and step.live is not None]
        if not any(owners_among(live, world.manager, going - world.going) for live in owned):
            return steps
        world = replace(world, going=going)
    return ()


def objects_going(steps: Iterable[RemoveStep]) -> frozenset[tuple[Ref, str]]:
    """Return the objects that these steps delete, each with its UID."""
    return frozenset((live.ref, live.uid) for live in pruned_objects(steps))


def _unless_owner_stays(steps: Sequence[RemoveStep], world: World) -> Sequence[RemoveStep]:
    """Return the steps; what belongs to an object of the set that is not deleted yet stays with it.

    That one is to be deleted, but Pods use it, or it is refused: a later run deletes both.
    """
    found = list(steps)
    late = [one for one in steps if one.fate is Fate.REFUSE or one.cause is Cause.IN_USE]
    while late:
        owners = frozenset((one.live.ref, one.live.uid) for one in late if one.live is not None)
        late = []
        for at, step in enumerate(found):
            belongs = bool(step.owners) or (step.fate is Fate.ORPHAN and step.cause is Cause.OWNED)
            if step.live is None or not belongs:
                continue
            above = owners_among(step.live, world.manager, owners)
            if above:  # guard: owner-is-late never
                reason = f"it belongs to {above[0].short}, which is to be deleted and stays for now"
                late.append(replace(step, fate=Fate.LEAVE, reason=reason, request=None, owners=()))
                found[at] = replace(late[-1], cause=Cause.ORDINARY)
    return found


def _decided_once(
    entries: Iterable[InventoryEntry], world: World, wanted: Collection[str]
) -> Sequence[RemoveStep]:
    outside = {member.ref for member in world.desired if member.is_outside}
    twins = _served_twice(world)
    # Only an apply lists the object under its new group; until then the old entry must stay.
    lists = world.options.mode is Mode.APPLY
    fate = Fate.REMOVE_FROM_INVENTORY if lists else Fate.LEAVE
    settled = [
        step
        if step.entry.ref in outside
        else _unless_hook(_unless_wanted(step, wanted, fate, twins), world.left_out)
        for step in (remove_step(entry, world) for entry in entries)
    ]
    # guard: object-once -> sorted(settled, key=lambda step: step.entry.ref)
    return _each_once(sorted(settled, key=lambda step: step.entry.ref))


def _unless_hook(step: RemoveStep, left_out: Collection[Ref]) -> RemoveStep:
    """Keep an existing object that is a chart hook now: Helm would not delete it either."""
    # guard: kept-hook always
    if step.entry.ref not in left_out or step.fate is Fate.REMOVE_FROM_INVENTORY:
        return step
    return replace(
        step, fate=Fate.LEAVE, reason="a chart hook, left out", problem=None, request=None
    )


def _served_twice(world: World) -> Mapping[tuple[str, ...], Ref]:
    """Return the desired objects that are not built in, by UID, kind, namespace and name."""
    lives = (world.live(one.ref) for one in world.desired if not is_built_in(one.ref.group))
    return {_names_of(live.ref, live.uid): live.ref for live in lives if live is not None}


def _names_of(ref: Ref, uid: str) -> tuple[str, ...]:
    return uid, ref.kind, ref.namespace, ref.name


def _unless_wanted(
    step: RemoveStep, wanted: Collection[str], fate: Fate, twins: Mapping[tuple[str, ...], Ref]
) -> RemoveStep:
    if step.live is None:
        return step
    if is_among(step.live, wanted):
        reason = "it is in the set under another API group"
        return replace(step, fate=fate, reason=reason, problem=None, request=None)
    # An aggregated API may say so. If it is true, the input still has the object; if it is not,
    # the inventory must still list it.
    twin = twins.get(_names_of(step.entry.ref, step.live.uid))
    # guard: served-twice-stays always
    if twin is None or step.fate not in {Fate.PRUNE, Fate.ORPHAN}:
        return step
    reason = f"its UID is that of {twin.short}, which is in the input"
    return replace(step, fate=Fate.LEAVE, reason=reason, request=None)


def _each_once(steps: Sequence[RemoveStep]) -> Sequence[RemoveStep]:
    """Return the steps; what two groups serve is deleted or orphaned, and counted, once."""
    going = {Fate.PRUNE, Fate.ORPHAN}
    lives = [(step.live, step.entry.ref) for step in steps if step.fate in going]
    first = {uid_of(live): ref for live, ref in reversed(lives) if live is not None}
    return [_unless_twin(step, first) if step.fate in going else step for step in steps]


def _unless_twin(step: RemoveStep, first: Mapping[str, Ref]) -> RemoveStep:
    same = step.entry.ref if step.live is None else first[known_as(step.live, first)]
    if same == step.entry.ref:
        return step
    reason = f"it is the same object as {same.short}"
    return replace(step, fate=Fate.REMOVE_FROM_INVENTORY, reason=reason, request=None)


# One entry whose object has left the set.


ADOPTED = "it was adopted, not created, by this set"
NO_WITNESS = f"it has lost the annotation {OWNED_BY}, so it counts as adopted"
_SYSTEM_NAMESPACES = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})


def remove_step(entry: InventoryEntry, world: World) -> RemoveStep:
    """Decide about one entry, independent of the other entries."""
    state = world.states[entry.ref]
    resource = world.resources.get(entry.ref.group_kind)
    if isinstance(state, Unknown):
        return RemoveStep(entry, resource, Fate.REFUSE, problem=state.problem)
    if isinstance(state, Absent):
        return RemoveStep(entry, resource, Fate.REMOVE_FROM_INVENTORY, reason=why_gone(entry))
    if isinstance(state, KindDeleted):
        return RemoveStep(entry, resource, Fate.REMOVE_FROM_INVENTORY, reason=state.reason)
    if isinstance(state, Missing):
        doubt = RunFailed(
            f"it is unknown whether {entry.ref} exists",
            reason="the server has not confirmed that it is gone",
            hint="Run again.",
        )
        return RemoveStep(entry, resource, Fate.REFUSE, problem=doubt.problem)
    selector = world.options.select_labels
    if selector is not None and not selector.matches(state.labels):  # guard: selected-labels never
        return RemoveStep(entry, resource, Fate.LEAVE, state, "it has lost the selected labels")
    if (step := _step_of_foreign(entry, resource, state, world)) is not None:
        return step
    if world.options.mode is Mode.ORPHAN:
        return _orphan(entry, resource, state, world.applyset)
    return _step_of_existing(entry, resource, state, world)


class _OrphanReason(NamedTuple):
    """Why an object is orphaned."""

    reason: str
    cause: Cause = Cause.ORDINARY


def _orphan(
    entry: InventoryEntry,
    resource: Resource | None,
    live: LiveObject,
    applyset: ApplySetIdentity,
) -> RemoveStep:
    """Orphan an object with our label or field manager; else only remove it from the inventory."""
    if not (live.labels.get(PART_OF) == applyset.id or is_applied(live, applyset.manager)):
        reason = "it has neither this set's label nor its field manager"
        return RemoveStep(entry, resource, Fate.REMOVE_FROM_INVENTORY, live, reason)
    return _orphaned(entry, resource, live, _OrphanReason(""), applyset)


def _step_of_existing(
    entry: InventoryEntry, resource: Resource | None, live: LiveObject, world: World
) -> RemoveStep:
    applyset, options = world.applyset, world.options
    recorded = owner_of(live, entry, applyset) is Owner.RECORDED
    labelled = live.labels.get(PART_OF) == applyset.id
    applied = is_applied(live, applyset.manager)
    # Without an Apply entry too: a restored object has none. Controllers copy labels.
    # guard: restored-stays-listed never
    if labelled and not recorded and (applied or entry.uid):
        problem = RunFailed(
            f"{entry.ref} was recreated with this set's label",
            reason="its UID differs from the UID in the inventory",
            hint=f"To record the current object: applyprune inventory repair {applyset.arguments}",
        )
        return RemoveStep(entry, resource, Fate.REFUSE, live, problem=problem.problem)
    if not recorded and not applied:  # guard: applied-stays-listed -> not recorded
        reason = "somebody else has recreated it" if entry.uid else "this set did not create it"
        return RemoveStep(entry, resource, Fate.REMOVE_FROM_INVENTORY, live, reason)
    if not labelled:
        return _unlabelled(entry, resource, live, world)
    if (alone := _step_of_marked(entry, resource, live, applyset, options)) is not None:
        return alone
    orphan = _why_orphaned(entry, live, world)
    asked = applied and entry.ref.is_among(options.prune.orphan)
    if orphan is None and asked:
        orphan = _OrphanReason("--orphan")
    refused = _protected_in_part(entry.ref, world)
    if refused is None and orphan is not None and orphan.cause is Cause.SHARED and not asked:
        refused = _applied_by_others(entry.ref, live, applyset)
    if refused is None and orphan is not None:
        return _orphaned(entry, resource, live, orphan, applyset)
    refused = refused or _why_refused(entry, live, applyset)
    if refused is None and not live.terminating:
        refused = _unread_namespace(entry.ref, world.occupied)
    if refused is not None:
        return RemoveStep(entry, resource, Fate.REFUSE, live, problem=refused)
    # What is being deleted already needs no request, only a wait.
    request = (
        None
        if live.terminating or resource is None
        else delete_request(resource, live, options.prune.propagation)
    )
    shared = PruneAlso.SHARED in options.prune.also and entry.ref != applyset.own_namespace
    owners = () if shared else owners_among(live, applyset.manager, world.going)
    return RemoveStep(entry, resource, Fate.PRUNE, live, request=request, owners=owners)


def _unlabelled(
    entry: InventoryEntry, resource: Resource | None, live: LiveObject, world: World
) -> RemoveStep:
    applyset, options = world.applyset, world.options
    applied = is_applied(live, applyset.manager)
    adopted = entry.ownership is Ownership.ADOPTED
    # An interrupted run may have orphaned it without recording that: that removes both marks.
    was_left = adopted or not entry.uid or entry.orphan_reason or entry.orphaning
    if was_left and not applied:  # guard: orphaned-without-record -> was_left
        return RemoveStep(
            entry, resource, Fate.REMOVE_FROM_INVENTORY, live, "it has lost the set's label"
        )
    recorded = owner_of(live, entry, applyset) is Owner.RECORDED
    if recorded and (
        (adopted and PruneAlso.ADOPTED not in options.prune.also) or entry.orphan_reason
    ):
        orphan = _why_orphaned(entry, live, world) or _OrphanReason("")
        return _orphaned(entry, resource, live, orphan, applyset)
    # A forged entry can name any object: nobody must be told to label that.
    problem = _not_applied(entry, live, applyset)  # guard: label-hint -> None
    if problem is None:
        hint = f"To let the next run delete it: kubectl label {_arguments(entry.ref)} "
        lost = RunFailed(
            f"{entry.ref} has lost the set's label",
            reason="without the label, only the inventory shows that this set owns it",
            hint=_to_orphan(entry.ref, applyset)
            if _why_orphaned(entry, live, world)
            else f"{hint}{PART_OF}={applyset.id}",
        )
        problem = lost.problem
    return RemoveStep(entry, resource, Fate.REFUSE, live, problem=problem)


def _step_of_marked(
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
    mark = leave_mark(live.metadata)  # guard: left-alone-at-prune -> ""
    orphans = entry.orphan_reason or orphan_mark(live.metadata)
    if not mark or live.terminating or orphans or entry.ref.is_among(options.prune.orphan):
        return None
    if options.removes_set:  # guard: left-alone-in-part always
        return _orphaned(
            entry, resource, live, _OrphanReason(f"marked {mark}", Cause.MARKED), applyset
        )
    return RemoveStep(entry, resource, Fate.LEAVE, live, f"marked {mark}", Cause.LEAVE_MARK)


def _why_orphaned(entry: InventoryEntry, live: LiveObject, world: World) -> _OrphanReason | None:
    applyset, also = world.applyset, world.options.prune.also
    if entry.ref == applyset.own_namespace:
        # No option widens what is deleted with the inventory and everything around it.
        also = frozenset()  # guard: own-namespace-owned -> also
    if rule := entry.orphan_reason or orphan_mark(live.metadata):
        return _OrphanReason(f"marked {rule}", Cause.MARKED)
    if entry.ownership is Ownership.ADOPTED and PruneAlso.ADOPTED not in also:
        return _OrphanReason(ADOPTED, Cause.ADOPTED)
    applied = is_applied(live, applyset.manager)
    if applied and not (has_witness(live, applyset) or PruneAlso.ADOPTED in also):
        return _OrphanReason(NO_WITNESS, Cause.ADOPTED)  # guard: witness -> None
    if SET_ID in live.labels or SHARD_OF in live.labels:
        return _OrphanReason("it is the inventory of a set")
    shared = PruneAlso.SHARED in also
    if not shared and (owner := foreign_owner(live, applyset.manager, world.going)):
        return _OrphanReason(f"it belongs to {owner} now, by its ownerReferences", Cause.OWNED)
    if not shared and (other := other_owner(entry, live, applyset)):
        return _OrphanReason(other, Cause.SHARED)  # guard: other-owner -> None
    protected = _why_protected(entry.ref, applyset, world.own_namespace_stays, world.occupied)
    return _OrphanReason(protected) if protected else None


def _protected_in_part(ref: Ref, world: World) -> Problem | None:
    """Return why a Namespace stays listed though a part of the set is deleted, and names it.

    Only a delete of the whole set orphans it by itself.
    """
    applyset, options, protected = world.applyset, world.options, ""
    if options.is_part:
        protected = _why_protected(ref, applyset, world.own_namespace_stays, world.occupied)
    if not protected or ref.is_among(options.prune.orphan):  # guard: protected-in-part always
        return None
    return RunFailed(
        f"{ref} was not deleted",
        reason=protected,
        hint=f"To orphan it: applyprune inventory orphan {applyset.arguments} {ref.short}",
    ).problem


_NEEDS_BACKEND = kinds_with(Trait.BLOCKS)
"""The kinds whose object, without its backend, can block a cluster."""


def _applied_by_others(ref: Ref, live: LiveObject, applyset: ApplySetIdentity) -> Problem | None:
    """Return why an object that another manager applies is neither deleted nor orphaned.

    Its backend may leave with the set, so a person decides.
    """
    other = other_applier(live, applyset) if ref.group_kind in _NEEDS_BACKEND else ""
    if not other or live.terminating:  # guard: applier-needs-backend always
        return None
    return RunFailed(
        f"{ref} was not deleted",
        reason=f"{other}; if it stays without what it calls, it can block the cluster",
        hint=f"To delete it: --prune-also shared. To orphan it: --orphan {ref.short}.",
    ).problem


def _orphaned(
    entry: InventoryEntry,
    resource: Resource | None,
    live: LiveObject,
    orphan: _OrphanReason,
    applyset: ApplySetIdentity,
) -> RemoveStep:
    request = None if resource is None else orphan_request(resource, live, applyset)
    reason, cause = orphan
    return RemoveStep(entry, resource, Fate.ORPHAN, live, reason, cause, request=request)


def _why_refused(
    entry: InventoryEntry, live: LiveObject, applyset: ApplySetIdentity
) -> Problem | None:
    """Return why an object with the set's label may not be deleted; None if it may."""
    if (problem := _not_applied(entry, live, applyset)) is not None:
        return problem
    unknown = unknown_mark(live.metadata, live.ref.group_kind)  # guard: mark-before-delete -> ""
    if not unknown or live.terminating:
        return None
    # It may mean that the object must stay.
    kind, _, key = unknown.rpartition(" ")
    verb = "label" if kind.endswith("label") else "annotate"
    return RunFailed(
        f"{entry.ref} was not deleted",
        reason=f"{unknown} is not understood",
        hint=f"To let the next run delete it: kubectl {verb} {_arguments(entry.ref)} {key}-. "
        f"To orphan it: --orphan {entry.ref.short}, or the annotation {PRUNE}: {DISABLED}.",
    ).problem


def _not_applied(
    entry: InventoryEntry, live: LiveObject, applyset: ApplySetIdentity
) -> Problem | None:
    """Return the problem of an object that the set's field manager has not applied.

    An edited inventory, and a label that anybody may set, prove nothing.
    """
    if is_applied(live, applyset.manager):
        return None
    return RunFailed(
        f"{entry.ref} was not applied by this set",
        reason=f"{applyset.manager} is not among its field managers",
        hint=_to_orphan(entry.ref, applyset),
    ).problem


def _to_orphan(ref: Ref, applyset: ApplySetIdentity) -> str:
    command = f"applyprune inventory orphan {applyset.arguments} {ref.short}"
    return f"Add it to the input again, or orphan it: {command}"


def _arguments(ref: Ref) -> str:
    """Return the arguments of kubectl that name an object."""
    return f"{ref.short} -n {ref.namespace}" if ref.namespace else ref.short


def stays_as_owned(rule: str, live: LiveObject, applyset: ApplySetIdentity) -> str:
    """Return why an object is orphaned even if the set owns it; empty if it may be deleted.

    ``rule`` is the annotation that its entry or its manifest has.
    """
    if rule := rule or orphan_mark(live.metadata):  # guard: told-as-owned never
        return f"marked {rule}"
    return _why_protected(live.ref, applyset)


def _why_protected(
    ref: Ref,
    applyset: ApplySetIdentity,
    own_namespace_stays: str = HOLDS_INVENTORY,
    occupied: Mapping[str, Problem | None] = MappingProxyType({}),
) -> str:
    """Return why a Namespace is not deleted; empty if it may be, and for any other kind.

    ``own_namespace_stays`` says why that of the set's own inventory is not; empty if it may be.
    """
    name = ref.name
    if ref.group_kind != NAMESPACE:
        return ""
    if name in _SYSTEM_NAMESPACES:
        return "a system namespace is never deleted"
    if ref == applyset.own_namespace and own_namespace_stays:  # guard: own-namespace-stays never
        return own_namespace_stays
    is_held = name in occupied and occupied[name] is None
    return "it contains another set's inventory" if is_held else ""


def _unread_namespace(ref: Ref, occupied: Mapping[str, Problem | None]) -> Problem | None:
    """Return why a Namespace is not deleted: nobody knows what it contains.

    It is not orphaned either: then no set would list it any more.
    """
    unread = occupied.get(ref.name) if ref.group_kind == NAMESPACE else None
    if unread is None:  # guard: unread-namespace always
        return None
    return RunFailed(
        f"{ref} was not deleted",
        reason=f"it is unknown whether it contains another set's inventory: {unread.message}",
        hint="Run again.",
    ).problem


# Another set's label.


def _step_of_foreign(
    entry: InventoryEntry, resource: Resource | None, live: LiveObject, world: World
) -> RemoveStep | None:
    """Decide about an object of ours with another set's label; None for any other object."""
    applyset, others = world.applyset, world.others
    if not foreign_label(live, applyset):
        return None
    if is_listed_elsewhere(live, others):
        other = world.others[live.labels[PART_OF]].named
        reason = f"it belongs to the set {other} now"
        return RemoveStep(entry, resource, Fate.REMOVE_FROM_INVENTORY, live, reason)
    problem = label_problem(entry, live, others, applyset)
    if problem is None:
        return None
    return RemoveStep(entry, resource, Fate.REFUSE, live, problem=problem)


# What must stay because something else does.


_RIGHTS = kinds_with(Trait.ROLE, Trait.BINDING) | {SERVICE_ACCOUNT}
"""What gives a controller its rights: that of the set, or one elsewhere that works for it."""


class Remaining(Struct):
    """What one prune has not deleted so far.

    If something of a turn remains, all later turns wait; a turn is what was applied together.
    Within a turn, what the object needs waits: its Namespace, its CRD or APIService, its
    dependencies, its owners and what its fields name. If it may have a controller, the set's
    accounts and roles wait too, and its workloads, which may run that controller.

    What stays on purpose holds what it needs as well, without a failure.
    """

    deleting: Collection[Ref] = ()
    """All objects that the prune deletes."""
    _all: Blocker | None = None
    _needed: dict[Ref, Blocker] = field(default_factory=dict)
    _owners: dict[str, Blocker] = field(default_factory=dict)
    _not_gone: dict[Ref, Blocker] = field(default_factory=dict)
    _workloads: Blocker | None = None
    _rights: Blocker | None = None
    _turn: tuple[Wave, Blocker] | None = None
    """The first turn of which something remains."""

    def add(
        self,
        step: RemoveStep,
        body: Mapping[str, Any] | None,
        unread: str = "",
        failure: Problem | None = None,
    ) -> None:
        """Hold what an object needs; ``unread`` says why its fields are unknown.

        ``failure`` says why it is not gone; None if it stays on purpose.
        """
        entry, ref = step.entry, step.entry.ref
        stays = "stays" if failure is None else "is not gone"
        is_late = failure is not None and failure.kind is ProblemKind.NOT_READY

        def because(reason: str) -> Blocker:
            return Blocker(f"{ref.short} {reason}", is_late, is_failure=failure is not None)

        if failure is not None:
            self._fail(step, because)
            unread = failure.message if failure.kind is ProblemKind.UNREACHABLE else unread
        if unread:
            unknown = because(f"{stays}, and what it needs could not be read: {unread}")
            self._all = self._all or unknown  # guard: unread-remains -> _ = unknown
        needs = because(f"needs it, and {stays}")
        self._not_gone[ref] = because(f"owns it, and {stays}")
        named = [] if body is None else [found.ref for found in references(ref, body)]
        if is_custom := not is_built_in(ref.group):
            named += names_in(ref, body or {}, self.deleting)  # guard: custom-remains
            of_its_kind = because(f"is of its kind, and {stays}")
            crd = Ref(CRD.group, CRD.kind, "", entry.crd or f"{entry.plural}.{ref.group}")
            self._needed.setdefault(crd, of_its_kind)  # guard: crd-remains
            self._needed.setdefault(service_of(entry), of_its_kind)  # guard: api-service-remains
        for target in (*entry.depends_on, *named):
            self._needed.setdefault(target, needs)
        if any(one.group_kind == SERVICE_ACCOUNT for one in named) and (
            is_custom or is_workload(ref.group_kind)
        ):
            self._rights = self._rights or needs  # guard: account-remains
        if ref.group_kind == API_SERVICES.group_kind and named:
            self._workloads = self._workloads or needs  # guard: backend-remains
            self._rights = self._rights or needs
        if step.live is not None:
            for uid in owners_of(step.live):
                self._owners.setdefault(uid, needs)
        if ref.namespace:
            home = Ref(NAMESPACE.group, NAMESPACE.kind, "", ref.namespace)
            inside = because("is still in it")
            self._needed.setdefault(home, inside)  # guard: namespace-remains

    def _fail(self, step: RemoveStep, because: Callable[[str], Blocker]) -> None:
        """Hold all later turns, and what may be the controller of an object that is not gone."""
        if self._turn is None or self._turn[0] < step.entry.wave:
            self._turn = step.entry.wave, because("is deleted first, and is not gone")
        # guard: foreign-finalizer -> False
        foreign = step.live is not None and has_foreign_finalizer(step.live)
        if foreign or not is_built_in(step.entry.ref.group):
            needed = because("is not gone, and its controller may need it")
            self._workloads = self._workloads or needed
            self._rights = self._rights or needed

    def waits(self, wave: Wave) -> bool:
        """Return whether a turn waits for an earlier one."""
        return self._turn is not None and wave < self._turn[0]  # guard: later-turns-wait -> False

    def blocker(self, step: RemoveStep) -> Blocker | None:
        """Return why an object must not be deleted now; None if it may, or is not deleted."""
        ref = step.entry.ref
        if step.fate is not Fate.PRUNE:
            return None
        found = [self._all, self._needed.get(ref)]  # guard: needed-remains -> [self._all]
        if step.live is not None:
            uid = known_as(step.live, self._owners)
            found.append(self._owners.get(uid))  # guard: owner-remains
        found += map(self._not_gone.get, step.owners)  # guard: owner-not-gone
        if ref.group_kind in _RIGHTS:
            found.append(self._rights)  # guard: rights-remain
        elif is_workload(ref.group_kind) or (
            ref.group_kind == SERVICE and any(is_workload(one.group_kind) for one in self.deleting)
        ):
            found.append(self._workloads)  # guard: controller-remains
        if self._turn is not None and self.waits(step.entry.wave):
            found.append(self._turn[1])
        return next((one for one in found if one is not None), None)


class Blocker(Struct, frozen=True):
    """Why an object is not deleted now: another one is still there."""

    reason: str
    is_late: bool = False
    """Whether only time is missing: that object, or what it waits for itself, is deleted."""
    is_failure: bool = True
    """Whether that object should be gone; if not, it stays on purpose."""

    def problem(self, ref: Ref) -> Problem:
        """Return the problem of an object that waits."""
        error = NotReady if self.is_late else RunFailed
        return error(f"{ref} was not deleted", reason=self.reason).problem
