"""Decide about what has left the set: prune, orphan or leave it, or only remove its entry.

Whether an object of the input is left as it is, is another subject: ``decide.py`` has it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from msgspec import Struct

from applyprune.errors import RunFailed
from applyprune.model.fate import Fate
from applyprune.model.identity import Ref
from applyprune.model.inventory import InventoryEntry, Ownership
from applyprune.model.kinds import (
    BUNDLE,
    CRD,
    GUARDED_KINDS,
    NAMESPACE,
    Trait,
    kinds_with,
)
from applyprune.model.live import (
    Absent,
    KindDeleted,
    LiveObject,
    Resource,
    Unknown,
)
from applyprune.model.options import Approval, DryRun, Mode, PruneAlso
from applyprune.model.plan import Cause, Desired, Removals, RemoveStep
from applyprune.model.problem import IgnoredManifest, Problem
from applyprune.model.text import and_more
from applyprune.planning.applyset import OWNED_BY, PART_OF, SET_ID, SHARD_OF, ApplySetIdentity
from applyprune.planning.cascade import (
    NOTHING,
    Cascade,
    Cascades,
    cascade_of,
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
from applyprune.planning.prune_waits import unless_used
from applyprune.planning.recovery import why_gone
from applyprune.planning.requests import delete_request, orphan_request
from applyprune.planning.uids import is_among, known_as, uid_of, uids_of
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
    return _instead(step, Fate.LEAVE, "a chart hook, left out")


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
        return _instead(step, fate, "it is in the set under another API group")
    # An aggregated API may say so. If it is true, the input still has the object; if it is not,
    # the inventory must still list it.
    twin = twins.get(_names_of(step.entry.ref, step.live.uid))
    # guard: served-twice-stays always
    if twin is None or step.fate not in {Fate.PRUNE, Fate.ORPHAN}:
        return step
    return _instead(step, Fate.LEAVE, f"its UID is that of {twin.short}, which is in the input")


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
    return _instead(step, Fate.REMOVE_FROM_INVENTORY, f"it is the same object as {same.short}")


def _instead(step: RemoveStep, fate: Fate, reason: str) -> RemoveStep:
    return replace(step, fate=fate, reason=reason, problem=None, request=None)


# One entry whose object has left the set.


ADOPTED = "it was adopted, not created, by this set"
NO_WITNESS = f"it has lost the annotation {OWNED_BY}, so it counts as adopted"
_SHOWN = 3
_SYSTEM_NAMESPACES = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})
_NEEDS_BACKEND = kinds_with(Trait.BLOCKS)
"""The kinds whose object, without its backend, can block a cluster."""


def remove_step(entry: InventoryEntry, world: World) -> RemoveStep:
    """Decide about one entry, independent of the other entries."""
    state, resource = world.states[entry.ref], world.resources.get(entry.ref.group_kind)
    if isinstance(state, LiveObject):
        return _Removal(entry, resource, state, world).step()
    if isinstance(state, Unknown):
        return RemoveStep(entry, resource, Fate.REFUSE, problem=state.problem)
    if isinstance(state, Absent | KindDeleted):
        reason = why_gone(entry) if isinstance(state, Absent) else state.reason
        return RemoveStep(entry, resource, Fate.REMOVE_FROM_INVENTORY, reason=reason)
    doubt = RunFailed(
        f"it is unknown whether {entry.ref} exists",
        reason="the server has not confirmed that it is gone",
        hint="Run again.",
    )
    return RemoveStep(entry, resource, Fate.REFUSE, problem=doubt.problem)


class _OrphanReason(NamedTuple):
    """Why an object is orphaned."""

    reason: str
    cause: Cause = Cause.ORDINARY


class _Removal(Struct, frozen=True):
    """An object that has left the set, with all that decides about it."""

    entry: InventoryEntry
    resource: Resource | None
    live: LiveObject
    world: World

    def step(self) -> RemoveStep:
        options, live, others = self.world.options, self.live, self.world.others
        selector = options.select_labels
        # guard: selected-labels never
        if selector is not None and not selector.matches(live.labels):
            return self._step(Fate.LEAVE, "it has lost the selected labels")
        if foreign_label(live, self.world.applyset):
            if is_listed_elsewhere(live, others):
                other = others[live.labels[PART_OF]].named
                return self._unlist(f"it belongs to the set {other} now")
            if problem := label_problem(self.entry, live, others, self.world.applyset):
                return self._refuse(problem)
        if options.mode is not Mode.ORPHAN:
            return self._unless_it_moves(self._step_of_existing())
        if self._is_labelled or self._is_applied:
            return self._orphan()
        return self._unlist("it has neither this set's label nor its field manager")

    def _unless_it_moves(self, step: RemoveStep) -> RemoveStep:
        """Return the step, unless another set of the same command has the object in its input."""
        others = self.world.command.others_with(self.entry.ref)
        # guard: claimed-stays never
        if others and step.fate in {Fate.PRUNE, Fate.ORPHAN, Fate.REFUSE}:
            reason = f"it moves to the set {and_more(list(map(str, others)), _SHOWN)}"
            # Until that set has it, it stays listed here.
            is_dry = self.world.options.dry_run is not DryRun.OFF
            fate = Fate.REMOVE_FROM_INVENTORY if is_dry else Fate.LEAVE
            return self._step(fate, reason, Cause.MOVES)
        return step

    def _step_of_existing(self) -> RemoveStep:
        entry, labelled = self.entry, self._is_labelled
        recorded, applied = self._is_recorded, self._is_applied
        # Without an Apply entry too: a restored object has none. Controllers copy labels.
        # guard: restored-stays-listed never
        if labelled and not recorded and (applied or entry.uid):
            repair = f"applyprune inventory repair {self.world.applyset.arguments}"
            problem = self._problem(
                "was recreated with this set's label",
                "its UID differs from the UID in the inventory",
                f"To record the current object: {repair}",
            )
            return self._refuse(problem)
        if not recorded and not applied:  # guard: applied-stays-listed -> not recorded
            other = "somebody else has recreated it" if entry.uid else "this set did not create it"
            return self._unlist(other)
        return self._step_of_labelled() if labelled else self._step_of_unlabelled()

    def _step_of_labelled(self) -> RemoveStep:
        ref, live, options = self.entry.ref, self.live, self.world.options
        named = ref.is_among(options.prune.orphan)
        # A mark against deletion, and the user, orphan an object that is to be left as it is.
        mark = leave_mark(live.metadata)  # guard: left-alone-at-prune -> ""
        if mark and not (live.terminating or self._orphan_mark or named):
            if options.removes_set:  # guard: left-alone-in-part always
                return self._orphan(f"marked {mark}", Cause.MARKED)  # no inventory would list it
            return self._step(Fate.LEAVE, f"marked {mark}", Cause.LEAVE_MARK)
        asked = named and self._is_applied
        orphan = self._why_orphaned() or (_OrphanReason("--orphan") if asked else None)
        problem = self._why_not_orphaned_in_part(named=named)
        if problem is None and orphan is not None and orphan.cause is Cause.SHARED and not asked:
            problem = self._why_it_needs_its_backend()
        if problem is None and orphan is not None:
            return self._orphan(*orphan)
        if problem := problem or self._why_not_deleted():
            return self._refuse(problem)
        # What is being deleted already needs no request, only a wait.
        request = None
        if not live.terminating and self.resource is not None:
            request = delete_request(self.resource, live, options.prune.propagation)
        applyset = self.world.applyset
        shared = PruneAlso.SHARED in options.prune.also and ref != applyset.own_namespace
        owners = () if shared else owners_among(live, applyset.manager, self.world.going)
        return self._step(Fate.PRUNE, request=request, owners=owners)

    def _step_of_unlabelled(self) -> RemoveStep:
        entry, applyset = self.entry, self.world.applyset
        adopted = entry.ownership is Ownership.ADOPTED
        # An interrupted run may have orphaned it without recording that: that removes both marks.
        was_left = adopted or not entry.uid or entry.orphan_reason or entry.orphaning
        # guard: orphaned-without-record -> was_left
        if was_left and not self._is_applied:
            return self._unlist("it has lost the set's label")
        orphan = self._why_orphaned()
        stays = adopted and PruneAlso.ADOPTED not in self.world.options.prune.also
        if self._is_recorded and (stays or entry.orphan_reason):
            return self._orphan(*(orphan or ()))
        # A forged entry can name any object: nobody must be told to label that.
        problem = self._why_not_applied()  # guard: label-hint -> None
        if problem is not None:
            return self._refuse(problem)
        label = f"kubectl label {_arguments(entry.ref)} {PART_OF}={applyset.id}"
        problem = self._problem(
            "has lost the set's label",
            "without the label, only the inventory shows that this set owns it",
            self._to_orphan if orphan else f"To let the next run delete it: {label}",
        )
        return self._refuse(problem)

    def _why_orphaned(self) -> _OrphanReason | None:
        entry, live, world = self.entry, self.live, self.world
        applyset, also = world.applyset, world.options.prune.also
        if entry.ref == applyset.own_namespace:
            # No option widens what is deleted with the inventory and everything around it.
            also = frozenset()  # guard: own-namespace-owned -> also
        if rule := self._orphan_mark:
            return _OrphanReason(f"marked {rule}", Cause.MARKED)
        if entry.ownership is Ownership.ADOPTED and PruneAlso.ADOPTED not in also:
            return _OrphanReason(ADOPTED, Cause.ADOPTED)
        if self._is_applied and not (has_witness(live, applyset) or PruneAlso.ADOPTED in also):
            return _OrphanReason(NO_WITNESS, Cause.ADOPTED)  # guard: witness -> None
        if SET_ID in live.labels or SHARD_OF in live.labels:
            return _OrphanReason("it is the inventory of a set")
        shared = PruneAlso.SHARED in also
        if not shared and (owner := foreign_owner(live, applyset.manager, world.going)):
            return _OrphanReason(f"it belongs to {owner} now, by its ownerReferences", Cause.OWNED)
        if not shared and (other := other_owner(entry, live, applyset)):
            return _OrphanReason(other, Cause.SHARED)  # guard: other-owner -> None
        return _OrphanReason(self._why_protected) if self._why_protected else None

    def _why_not_orphaned_in_part(self, *, named: bool) -> Problem | None:
        """Return why a Namespace stays listed though a part of the set is deleted, and names it.

        Only a delete of the whole set orphans it by itself.
        """
        protected = self._why_protected if self.world.options.is_part else ""
        if not protected or named:  # guard: protected-in-part always
            return None
        return self._problem("was not deleted", protected, f"To orphan it: {self._orphan_command}")

    def _why_it_needs_its_backend(self) -> Problem | None:
        """Return why an object that another manager applies is neither deleted nor orphaned.

        Its backend may leave with the set, so a person decides.
        """
        ref, applyset = self.entry.ref, self.world.applyset
        other = other_applier(self.live, applyset) if ref.group_kind in _NEEDS_BACKEND else ""
        if not other or self.live.terminating:  # guard: applier-needs-backend always
            return None
        return self._problem(
            "was not deleted",
            f"{other}; if it stays without what it calls, it can block the cluster",
            f"To delete it: --prune-also shared. To orphan it: --orphan {ref.short}.",
        )

    def _why_not_deleted(self) -> Problem | None:
        """Return why an object with the set's label may not be deleted; None if it may."""
        ref, live = self.entry.ref, self.live
        problem = self._why_not_applied()
        if problem is not None or live.terminating:
            return problem
        # It may mean that the object must stay.
        unknown = unknown_mark(live.metadata, ref.group_kind)  # guard: mark-before-delete -> ""
        if unknown:
            kind, _, key = unknown.rpartition(" ")
            verb = "label" if kind.endswith("label") else "annotate"
            return self._problem(
                "was not deleted",
                f"{unknown} is not understood",
                f"To let the next run delete it: kubectl {verb} {_arguments(ref)} {key}-. "
                f"To orphan it: --orphan {ref.short}, or the annotation {PRUNE}: {DISABLED}.",
            )
        # It is not orphaned either: then no set would list it any more.
        unread = self.world.occupied.get(ref.name) if ref.group_kind == NAMESPACE else None
        if unread is None:  # guard: unread-namespace always
            return None
        unknown = f"it is unknown whether it contains another set's inventory: {unread.message}"
        return self._problem("was not deleted", unknown, "Run again.")

    def _why_not_applied(self) -> Problem | None:
        """Return the problem of an object that the set's field manager has not applied.

        An edited inventory, and a label that anybody may set, prove nothing.
        """
        if self._is_applied:
            return None
        reason = f"{self.world.applyset.manager} is not among its field managers"
        return self._problem("was not applied by this set", reason, self._to_orphan)

    @property
    def _is_recorded(self) -> bool:
        return owner_of(self.live, self.entry, self.world.applyset) is Owner.RECORDED

    @property
    def _is_labelled(self) -> bool:
        return self.live.labels.get(PART_OF) == self.world.applyset.id

    @property
    def _is_applied(self) -> bool:
        return is_applied(self.live, self.world.applyset.manager)

    @property
    def _orphan_mark(self) -> str:
        """Return the annotation that forbids its deletion; empty if none does."""
        return self.entry.orphan_reason or orphan_mark(self.live.metadata)

    @property
    def _why_protected(self) -> str:
        world = self.world
        return _why_protected(
            self.entry.ref, world.applyset, world.own_namespace_stays, world.occupied
        )

    @property
    def _orphan_command(self) -> str:
        return f"applyprune inventory orphan {self.world.applyset.arguments} {self.entry.ref.short}"

    @property
    def _to_orphan(self) -> str:
        return f"Add it to the input again, or orphan it: {self._orphan_command}"

    def _problem(self, what: str, reason: str, hint: str) -> Problem:
        return RunFailed(f"{self.entry.ref} {what}", reason=reason, hint=hint).problem

    def _step(
        self, fate: Fate, reason: str = "", cause: Cause = Cause.ORDINARY, **more: Any
    ) -> RemoveStep:
        return RemoveStep(self.entry, self.resource, fate, self.live, reason, cause, **more)

    def _unlist(self, reason: str) -> RemoveStep:
        return self._step(Fate.REMOVE_FROM_INVENTORY, reason)

    def _refuse(self, problem: Problem) -> RemoveStep:
        return self._step(Fate.REFUSE, problem=problem)

    def _orphan(self, reason: str = "", cause: Cause = Cause.ORDINARY) -> RemoveStep:
        resource, applyset = self.resource, self.world.applyset
        request = None if resource is None else orphan_request(resource, self.live, applyset)
        return self._step(Fate.ORPHAN, reason, cause, request=request)


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
