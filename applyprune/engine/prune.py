"""Prune what has left the set, in the reverse order of the apply, each with two preconditions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct, field

from applyprune.engine.context import RunContext
from applyprune.engine.lock import DELETE_TIMEOUT, WRITE_MARGIN
from applyprune.engine.reader import (
    ContentCounter,
    KindProofs,
    SnapshotReader,
    read_pod_use,
)
from applyprune.engine.send import send
from applyprune.engine.waiting import DeletedObject, DeletionWait, Gone
from applyprune.errors import (
    ApplypruneError,
    Conflict,
    InventoryLocked,
    NotFound,
    NotReady,
    NotServed,
    PruneRefused,
    RunFailed,
    Unavailable,
    Unreachable,
)
from applyprune.model.events import Event, ObjectDone
from applyprune.model.fate import Fate, Outcome
from applyprune.model.identity import Ref
from applyprune.model.kinds import COUNTED_WITH, HOLDERS
from applyprune.model.live import (
    Absent,
    LiveObject,
    Registrations,
    Resource,
    Unknown,
)
from applyprune.model.options import Mode
from applyprune.model.plan import ApplyStep, Cause, DeleteRequest, PatchRequest, RemoveStep
from applyprune.model.text import and_more
from applyprune.planning.applyset import PART_OF
from applyprune.planning.cascade import cascade_of, diagnose, has_foreign_finalizer
from applyprune.planning.order import is_built_in
from applyprune.planning.own_namespace import (
    OwnRecords,
    holds_other_set,
    own_namespace_removal,
    refused_before_own_namespace,
)
from applyprune.planning.plan import removed_again
from applyprune.planning.prune_waits import is_named_by_pods, unless_used, used_stays
from applyprune.planning.recovery import GONE
from applyprune.planning.references import has_references
from applyprune.planning.remaining import Blocker, Remaining
from applyprune.planning.removals import objects_going, pruned_objects
from applyprune.planning.replies import not_deleted, refuse_false_absence
from applyprune.planning.served_kinds import still_registered
from applyprune.planning.uids import is_among, uid_in, uids_of
from applyprune.planning.world import CascadeContents, World
from applyprune.values import replace

if TYPE_CHECKING:
    from typing import Any

    from applyprune.model.inventory import Wave
    from applyprune.model.problem import Problem


AGAIN_WHEN_UNUSED = "run the same command again when no Pod uses it"
_SHOWN = 3
_MOST_HOLDERS = 5
_TRIES = 8
_DISCOVERY_LAG = 15.0
_SETTLING_PAUSE = 0.5


class Pruner(Struct):
    """Executes the removals of one plan."""

    context: RunContext
    world: World
    """What the plan was made from."""
    applied: frozenset[str]
    """The UIDs of all objects that this run applied: an object may be served under two groups."""
    applies: Sequence[ApplyStep] = ()
    """The plan's steps for the input."""
    gone: set[Ref] = field(default_factory=set)
    """The entries whose removal is confirmed."""
    planned_uids: frozenset[str] = frozenset()
    """The UIDs of all objects that the plan deletes."""
    planned_refs: frozenset[Ref] = frozenset()
    """The entries of these objects."""
    listed: frozenset[Ref] = frozenset()
    """All entries of the inventory."""
    is_own_namespace_going: bool = False
    """Whether the Namespace of the inventory is being deleted, or is gone."""
    asked: set[Ref] = field(default_factory=set)
    """The objects for which a DELETE was sent, or may have been."""
    held_back: set[Ref] = field(default_factory=set)
    """The objects that were to be deleted, and stay: somebody has changed them since the plan."""

    def run(self, steps: Sequence[RemoveStep]) -> Iterator[Event]:
        """Yield an event for each step; if something of a turn remains, all later turns wait."""
        self.planned_uids = uids_of(pruned_objects(steps))
        self.planned_refs = frozenset(step.entry.ref for step in steps if step.fate is Fate.PRUNE)
        self.world = replace(self.world, going=objects_going(steps))
        own = own_namespace_removal(steps, self.context.applyset)
        if own is not None:
            yield from self._run([step for step in steps if step is not own])
            yield from self._delete_own_namespace(own)
        else:
            yield from self._run(steps)

    def _run(self, steps: Sequence[RemoveStep]) -> Iterator[Event]:
        """Process these steps in their order."""
        remaining = Remaining(self.planned_refs)
        staying = {step.entry.ref: step for step in self._staying(steps)}
        each = self.context.workers.each
        for step, body, unread in each(self._fields, staying.values(), in_order=True):
            remaining.add(step, body, unread, step.problem)
        orders = _deletion_orders(steps)
        for order in sorted(set(orders.values()), reverse=True):
            batch = {step.entry.ref: step for step in steps if orders[step.entry.ref] == order}
            found = {ref: remaining.blocker(step) for ref, step in batch.items()}
            blocked = {ref: blocker for ref, blocker in found.items() if blocker is not None}
            used = self._in_use([step for ref, step in batch.items() if ref not in blocked])
            free = [step for ref, step in batch.items() if ref not in {*blocked, *used}]
            failures: dict[Ref, Problem] = {}
            for event in self._prune(blocked, used, free):
                if isinstance(event, ObjectDone) and event.problem is not None:
                    failures[event.ref] = event.problem
                yield event
            self.context.cancellation.check()
            for ref in batch.keys() & self.held_back - failures.keys():
                # Its deletion was announced, and nobody has taken that back.
                changed = RunFailed(f"{ref} has changed since the plan")
                failures[ref] = changed.problem  # guard: kept-since-the-plan
            if not remaining.waits(order[0]):
                left = sorted({*blocked, *used, *failures} - staying.keys())
                rest = [batch[ref] for ref in left]
                for step, body, unread in each(self._fields, rest, in_order=True):
                    remaining.add(step, body, unread, failures.get(step.entry.ref))
            self.context.cancellation.check()

    def _prune(
        self,
        blocked: Mapping[Ref, Blocker],
        used: Mapping[Ref, RemoveStep],
        free: Sequence[RemoveStep],
    ) -> Iterator[Event]:
        """Report what is blocked and what Pods use; delete the rest."""
        for ref, found in blocked.items():
            if found.is_failure:
                yield ObjectDone(ref, Outcome.SKIPPED, problem=found.problem(ref))
            else:
                yield ObjectDone(ref, Outcome.NOT_PRUNED, reason=found.reason)
        yield from map(_left, used.values())
        yield from self._remove(self._recount(free))

    def _delete_own_namespace(self, step: RemoveStep) -> Iterator[Event]:
        """Delete the Namespace of the inventory, and the inventory with it, after all the rest."""
        ref = step.entry.ref
        problem = refused_before_own_namespace(ref, self.listed, self.gone)
        if problem is None and not step.is_going and self._reader.occupied([ref]):
            problem = holds_other_set(ref)  # guard: own-namespace-occupied-late
        if problem is not None:
            yield ObjectDone(ref, Outcome.SKIPPED, problem=problem)
            return
        self.context.cancellation.check()
        (step,) = self._recount([step])
        self.is_own_namespace_going = step.is_going
        if not step.is_going:
            self.context.lock.ensure(DELETE_TIMEOUT)
        # From now on a renewal could meet a ConfigMap that is gone.
        self.context.lock.pause()
        yield from self._remove([step])
        self.context.cancellation.check()

    def _in_use(self, batch: Sequence[RemoveStep]) -> Mapping[Ref, RemoveStep]:
        """Return those steps whose objects live Pods now use, as steps that keep them.

        A rollout that the plan waited for is over; what else has begun to use it, nobody knew.
        """
        context = self.context
        if not used_stays(context.options):
            return {}
        asked = [
            step
            for step in batch
            if step.fate is Fate.PRUNE
            and not step.is_going
            and is_named_by_pods(step.entry.ref)
            and not step.pods_unread
        ]
        refs = [step.entry.ref for step in asked]
        use = read_pod_use(refs, context.cluster, context.workers, self.world.pod_use)
        desired = [step.desired for step in self.applies]
        judged = unless_used(asked, use, desired, context.options, self.planned_uids)
        found: dict[Ref, RemoveStep] = {}
        for step in judged:
            ref = step.entry.ref
            if step.pods_unread:
                unknown = RunFailed(
                    f"{ref} was not deleted",
                    reason=f"it is unknown whether Pods use it: {step.pods_unread}",
                    hint="Run again.",
                )
                found[ref] = replace(step, fate=Fate.REFUSE, problem=unknown.problem)
            elif step.cause is Cause.IN_USE or step.rollouts:  # guard: used-when-deleted never
                reason = step.reason
                if step.cause is not Cause.IN_USE:
                    names = and_more([root.short for root in step.rollouts], _SHOWN)
                    reason = f"old Pods of {names} still use it"
                stays = replace(step, fate=Fate.LEAVE, reason=reason, cause=Cause.IN_USE)
                found[ref] = replace(stays, request=None)
        return found

    def _staying(self, steps: Sequence[RemoveStep]) -> Sequence[RemoveStep]:
        """Return what the plan keeps or refuses; what an allowed cascade deletes does not stay."""
        if not self.planned_uids:
            return ()
        doomed = {
            uid_in(one.ref.group, one.uid)
            for step in steps
            if step.fate is Fate.PRUNE
            for one in step.cascade
        }
        wanted = (
            RemoveStep(step.entry, step.desired.resource, Fate.LEAVE, step.live)
            for step in self.applies
            if (step.cause is Cause.LEAVE_MARK and not step.is_unlisted) or step.keeps_drift
        )
        left = [*wanted, *(step for step in steps if step.fate in {Fate.LEAVE, Fate.REFUSE})]
        # guard: left-alone-needs -> []
        return [step for step in left if step.live is not None and not is_among(step.live, doomed)]

    def _remove(self, batch: Sequence[RemoveStep]) -> Iterator[Event]:
        """Process one wave, and wait until what it deletes is gone."""
        deleted: list[DeletedObject] = []
        lost: InventoryLocked | None = None
        try:
            for done in self.context.workers.each(self._step, batch):
                if isinstance(done, DeletedObject):
                    deleted.append(done)
                else:
                    yield done
        except InventoryLocked as error:
            lost = error  # what is deleted is reported before the run ends
        found = self._still_there([one for one in deleted if one.is_confirmed])
        left = {
            one.ref: one
            for one in deleted
            if not one.is_confirmed
            # guard: gone-is-seen
            or one.ref in found
        }
        for one in deleted:
            if one.ref not in left:
                yield self._done(one.ref, self._deleted())
        if lost is not None:
            raise lost
        yield from self._await_gone([*left.values()])

    def _still_there(self, deleted: Sequence[DeletedObject]) -> set[Ref]:
        """Return which objects are still there, or may be, though the server calls them gone.

        The reply to a dry run is the same. So there is one more read for each kind and namespace.
        """
        places: dict[tuple[Resource, str], list[DeletedObject]] = {}
        for one in deleted:
            places.setdefault((one.resource, one.ref.namespace), []).append(one)
        workers = self.context.workers
        left: set[Ref] = set()
        for place, there in workers.each(lambda one: (one, self._there(places[one])), [*places]):
            left |= there
            del places[place]
        for unread in places.values():  # a cancelled run finishes what is in flight
            left |= self._there(unread)
        return left

    def _there(self, deleted: Sequence[DeletedObject]) -> set[Ref]:
        """Return which of some objects of one kind and namespace are there, or may be."""
        resource, namespace = deleted[0].resource, deleted[0].ref.namespace
        label = f"{PART_OF}={self.context.applyset.id}"
        if len(deleted) > 1:
            with suppress(ApplypruneError):
                listed = self.context.cluster.list(resource, namespace=namespace, selector=label)
                uids = {live.uid for live in listed}
                return {one.ref for one in deleted if one.uid in uids}
            return {one.ref for one in deleted}
        (one,) = deleted
        state = self._reader.read_object(resource, one.ref)
        is_gone = isinstance(state, Absent) or (
            isinstance(state, LiveObject) and state.uid != one.uid
        )
        return set() if is_gone else {one.ref}

    def _fields(self, step: RemoveStep) -> tuple[RemoveStep, Mapping[str, Any] | None, str]:
        """Return the fields of an object that stays, if they name others; or why not."""
        ref = step.entry.ref
        if is_built_in(ref.group) and not has_references(ref.group_kind):
            return step, None, ""
        if step.resource is None:
            return step, None, "its kind is not served"
        state = self._reader.read_object(step.resource, ref, full=True)
        if isinstance(state, Unknown):
            return step, None, state.problem.message
        return step, state.body if isinstance(state, LiveObject) else None, ""

    def _step(self, step: RemoveStep) -> ObjectDone | DeletedObject:
        """Process one entry; return its object if that is deleted but not gone yet."""
        ref = step.entry.ref
        try:
            for _ in range(_TRIES):
                served = step.resource
                try:
                    return self._try_step(step)
                except NotServed:
                    # This run may have ended its version, by the CRD.
                    served = self.context.cluster.resource_map().find_kind(ref.group_kind)
                    if served in {None, step.resource}:
                        raise
                except Conflict:
                    pass  # it has changed since it was read
                owners, step = step.owners, self._decide_again(replace(step, resource=served))
                gone = step.fate is Fate.REMOVE_FROM_INVENTORY and step.live is None
                if gone and not self.asked.isdisjoint(owners):
                    # The garbage collector was faster.
                    return self._done(ref, self._deleted())
            raise RunFailed(f"{ref} changes faster than it can be deleted", hint="Run again.")
        except InventoryLocked:
            raise
        except ApplypruneError as error:
            return ObjectDone(ref, Outcome.FAILED, problem=error.problem_at(str(ref)))

    def _try_step(self, step: RemoveStep) -> ObjectDone | DeletedObject:
        entry, live = step.entry, step.live
        if step.fate in {Fate.REFUSE, Fate.LEAVE}:
            return _left(step)
        if live is not None and is_among(live, self.applied):
            return self._done(
                entry.ref,
                Outcome.REMOVED_FROM_INVENTORY,
                "it belongs to the set under another API group",
            )
        if step.fate is Fate.REMOVE_FROM_INVENTORY or live is None or step.resource is None:
            return self._done(entry.ref, Outcome.REMOVED_FROM_INVENTORY, step.reason)
        if isinstance(step.request, PatchRequest):
            return self._orphan(step, step.request, live)
        return self._delete(step, step.resource, live)

    def _orphan(self, step: RemoveStep, request: PatchRequest, live: LiveObject) -> ObjectDone:
        self.context.lock.ensure(WRITE_MARGIN)
        try:
            after = send(self.context.cluster, request, live)
        except NotFound as error:
            self._confirm_absence(request.resource, live, error)
            return self._done(step.entry.ref, Outcome.REMOVED_FROM_INVENTORY, GONE)
        if after.labels.get(PART_OF) == self.context.applyset.id:  # guard: orphan-keeps-label never
            raise RunFailed(
                f"{step.entry.ref} was not orphaned",
                reason="it was stored with the set's label: a webhook or policy may have kept it",
            )
        return self._done(step.entry.ref, Outcome.ORPHANED, step.reason)

    def _delete(
        self, step: RemoveStep, resource: Resource, live: LiveObject
    ) -> ObjectDone | DeletedObject:
        ref = step.entry.ref
        if isinstance(step.request, DeleteRequest):
            self.context.lock.ensure(DELETE_TIMEOUT)
            self.asked.add(ref)  # guard: asked-to-delete
            try:
                gone = self.context.cluster.delete(step.request, timeout=DELETE_TIMEOUT)
            except NotFound as error:
                self._confirm_absence(resource, live, error)
                return self._done(ref, self._deleted())
            except (Unreachable, Unavailable):
                # The reply is lost, but the delete may have succeeded.
                state = self._reader.read_object(resource, ref)
                is_going = isinstance(state, Absent) or (
                    isinstance(state, LiveObject) and state.uid == live.uid and state.terminating
                )
                if not is_going:
                    raise
                gone = False
            if ref == self.context.applyset.own_namespace:
                self.is_own_namespace_going = True
            return DeletedObject(resource, ref, live.uid, is_confirmed=gone)
        return DeletedObject(resource, ref, live.uid)

    def _confirm_absence(self, resource: Resource, live: LiveObject, error: NotFound) -> None:
        """Read an object that a DELETE or PATCH did not find; raise RunFailed if it exists."""
        state = self._reader.read_object(resource, live.ref)
        refuse_false_absence(live.uid, state, error)  # guard: absence-confirmed

    @property
    def _reader(self) -> SnapshotReader:
        context = self.context
        return SnapshotReader(context.cluster, context.workers, context.applyset, context.store)

    def _recount(self, batch: Sequence[RemoveStep]) -> Sequence[RemoveStep]:
        """Refuse to delete what takes more along than when it was counted."""
        own = self.context.applyset.own_namespace  # counted again whatever the options allow
        to_recount = {
            step.entry.ref
            for step in batch
            if step.fate is Fate.PRUNE
            and not step.is_going
            # guard: recounted-before-delete -> step.entry.ref.group_kind in HOLDERS
            and step.entry.ref.group_kind in COUNTED_WITH
            # guard: own-namespace-recount -> not self._may_cascade(step.entry.ref)
            and not (self._may_cascade(step.entry.ref) and step.entry.ref != own)
        }
        if not to_recount:
            return batch
        # After this run has deleted a CRD, discovery still lists its kind for some seconds, and
        # that kind cannot be read.
        cancellation = self.context.cancellation
        deadline = cancellation.now() + _DISCOVERY_LAG
        counter = self._counter(self.world.registered)
        while True:
            contents = {ref: counter.contents(ref) for ref in sorted(to_recount)}
            doubts = (ref for ref, counted in contents.items() if counted.uncounted)
            if all(map(self._may_cascade, doubts)):
                break
            if cancellation.requested or cancellation.now() > deadline:
                break
            cancellation.wait(_SETTLING_PAUSE)
            counter = self._counter(None)  # somebody else may have added or removed a CRD
        return [
            self._refuse_if_grown(step, contents[step.entry.ref])
            if step.entry.ref in to_recount
            else step
            for step in batch
        ]

    def _may_cascade(self, ref: Ref) -> bool:
        return ref.is_among(self.context.options.prune.allow_cascade)

    def _counter(self, registered: Registrations | None) -> ContentCounter:
        """Return a counter for the kinds that the server serves now.

        The CRDs and APIServices are those of the plan, without what this run has deleted; they are
        read again for None.
        """
        cluster, workers = self.context.cluster, self.context.workers
        gone = self.gone & self.planned_refs  # what was orphaned is still there
        known = still_registered(registered, gone) if registered is not None else None
        proofs = KindProofs(cluster, workers, cluster.resource_map(), patience=0, known=known)
        records = OwnRecords(self.context.applyset, self.context.lock.inventory.uid)
        return ContentCounter(proofs, self.planned_refs, records, self.context.store)

    def _refuse_if_grown(self, step: RemoveStep, contents: CascadeContents) -> RemoveStep:
        ref = step.entry.ref
        before = self.world.contents.get(ref, CascadeContents(()))
        # The plan has checked the earlier contents.
        known = self.planned_uids | uids_of(before.objects)
        cascade = cascade_of(contents, known, self.context.applyset.manager)
        doubt = "" if self._may_cascade(ref) else cascade.uncounted
        if not (cascade.foreign or doubt):
            return step
        reason = f"cannot be counted: {doubt}"
        if cascade.foreign:
            reason = and_more(cascade.foreign, _SHOWN)
        problem = PruneRefused(
            f"{ref.short} was not deleted",
            reason=f"its deletion would now cascade to more objects than planned: {reason}",
            hint="Run again.",
        )
        return replace(step, fate=Fate.REFUSE, problem=problem.problem, request=None)

    def _decide_again(self, step: RemoveStep) -> RemoveStep:
        if step.resource is None:
            return step
        ref, resource = step.entry.ref, step.resource
        world = self._reader.read_again(self.world, resource, ref)
        world = replace(world, resources={**world.resources, ref.group_kind: resource})
        again = removed_again(step, world)
        uid = step.live.uid if step.live is not None and step.fate is Fate.PRUNE else ""
        if again.live is not None and again.live.uid == uid and again.fate is not Fate.PRUNE:
            self.held_back.add(step.entry.ref)
        return again

    def _await_gone(self, deleted: Sequence[DeletedObject]) -> Iterator[Event]:
        """Wait until each object is gone; yield a failure for each that is not at the timeout."""
        cancellation = self.context.cancellation
        options = self.context.options.wait
        read = partial(self._reader.read_object, full=True)
        longest = min(options.timeout, options.turn)
        wait = DeletionWait(deleted, longest, cancellation, read, self.context.workers, is_own=True)
        for event in wait.run():
            yield self._done(event.ref, self._deleted()) if isinstance(event, Gone) else event
        if cancellation.requested:
            return
        stuck = [wait.last[left.ref] for left in wait.pending if left.ref in wait.last]
        # Only the contents of the first few are read: each costs a LIST per kind.
        holders = [live.ref for live in stuck if live.ref.group_kind in HOLDERS][:_MOST_HOLDERS]
        remains = {ref: self._remains(ref) for ref in holders}
        reasons = {live.ref: diagnose(live, remains.get(live.ref)) for live in stuck}
        for left in wait.pending:
            error: ApplypruneError = NotReady(
                f"{left.ref} is deleted but not gone yet",
                reason=reasons.get(left.ref, "its state could not be read"),
                hint="It stays in the inventory. Run again to continue.",
            )
            if wait.is_unmarked(left):
                error = not_deleted(left.ref)
                self.is_own_namespace_going &= left.ref != self.context.applyset.own_namespace
            yield ObjectDone(left.ref, Outcome.FAILED, problem=error.problem)

    def _remains(self, ref: Ref) -> CascadeContents:
        """Return what a Namespace or CRD that is being deleted still contains."""
        cluster, workers = self.context.cluster, self.context.workers
        try:
            workers.check()
            proofs = KindProofs(cluster, workers, cluster.resource_map(), patience=0)
            contents = ContentCounter(proofs, frozenset()).contents(ref)
            workers.check()
        except ApplypruneError as error:
            return CascadeContents((), error.message)
        return contents

    def _deleted(self) -> Outcome:
        return Outcome.DELETED if self.context.options.mode is Mode.DELETE else Outcome.PRUNED

    def _done(self, ref: Ref, outcome: Outcome, reason: str = "") -> ObjectDone:
        self.gone.add(ref)
        return ObjectDone(ref, outcome, reason=reason)


def _left(step: RemoveStep) -> ObjectDone:
    """Return the outcome of an object that stays in the set; if Pods use it, with what to do."""
    if step.problem is not None:
        return ObjectDone(step.entry.ref, Outcome.FAILED, problem=step.problem)
    reason = f"{step.reason}; {AGAIN_WHEN_UNUSED}" if step.cause is Cause.IN_USE else step.reason
    return ObjectDone(step.entry.ref, Outcome.NOT_PRUNED, reason=reason)


def _deletion_orders(steps: Sequence[RemoveStep]) -> Mapping[Ref, tuple[Wave, bool, int]]:
    """Return when each object is deleted: the highest first.

    What goes only because its owners do follows them, if it is not deleted before them anyway.
    """
    owners = {step.entry.ref: step.owners for step in steps}

    def depth(ref: Ref) -> int:
        return max((depth(owner) + 1 for owner in owners.get(ref, ())), default=0)

    refs = {step.entry.ref: _deletion_order(step) for step in steps}
    # guard: after-its-owner -> {ref: (*order, 0) for ref, order in refs.items()}
    return {ref: (*order, -depth(ref)) for ref, order in refs.items()}


def _deletion_order(step: RemoveStep) -> tuple[Wave, bool]:
    """Return the wave of an object, and whether it comes first in it.

    What a controller must clean up goes before what may be that controller.
    """
    awaits = step.fate is Fate.PRUNE and step.live is not None and has_foreign_finalizer(step.live)
    return step.entry.wave, awaits  # guard: controller-after-finalizer -> step.entry.wave, False
