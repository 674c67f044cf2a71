"""Delete and re-create an object, if it cannot be changed in place and that is allowed.

Each step is recorded before it is taken, so the entry stays true if the run is interrupted: first
the intent to delete exactly this object, then that no object exists. Only then comes the create,
whose guard allows nothing but a create.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.engine.inventory_lock import DELETE_TIMEOUT
from applyprune.engine.steps.wait_deleted import DeletedObject, DeletionWait, Gone
from applyprune.errors import Conflict, NotFound, NotReady, PruneRefused, RunFailed
from applyprune.model.inventory import Ownership
from applyprune.model.live import LiveObject, State
from applyprune.model.plan import NO_MIGRATION
from applyprune.planning.cascade import cascades_of, deletions_of, refused_recreation_of
from applyprune.planning.plan import decided_again
from applyprune.planning.replies import created_by_others, refuse_false_absence
from applyprune.values import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from applyprune.engine.cascade_counter import DependantCounter
    from applyprune.engine.context import RunContext
    from applyprune.model.identity import Ref
    from applyprune.model.plan import ApplyStep, DeleteRequest, Desired

_TRIES = 8


@dataclass(frozen=True, slots=True)
class Recreator:
    """Recreates objects for one run."""

    context: RunContext
    dependants: DependantCounter
    """What the garbage collector deletes with what the plan deletes."""
    listed: Collection[Ref]
    """All refs in the inventory."""

    def refuse_cascade(self, live: LiveObject) -> None:
        """Refuse an object that the plan does not recreate, if others would be deleted with it.

        Raises PruneRefused.
        """
        options = self.context.options
        deletions = deletions_of([live], {}, options.prune.propagation)
        found = self.dependants.count(deletions, in_worker=True)
        cascades = cascades_of(found, {live.uid}, self.listed)
        if problem := refused_recreation_of(live.ref, cascades, options):
            raise PruneRefused(problem.message, reason=problem.reason, hint=problem.hint)

    def delete(
        self,
        step: ApplyStep,
        live: LiveObject,
        request: DeleteRequest,
        judge_again: Callable[[], tuple[LiveObject, DeleteRequest]],
    ) -> ApplyStep:
        """Delete the object, wait until it is gone, and return the step that creates it.

        If the object has changed since it was read, as a Job does whenever its controller writes
        its status, ``judge_again`` reads it and returns its delete. It raises if the object may not
        be deleted any more. Raises NotReady if the object is not gone before the timeout.
        """
        for _ in range(_TRIES):
            try:
                return self._delete(step, live, request)
            except Conflict:  # guard: recreation-judged-again
                live, request = judge_again()
        raise RunFailed(
            f"{step.desired.ref} changes faster than it can be deleted",
            location=step.desired.origin,
            hint="Run again.",
        )

    def _delete(self, step: ApplyStep, live: LiveObject, request: DeleteRequest) -> ApplyStep:
        context, desired = self.context, step.desired
        context.lock.record_entry(replace(step.entry, uid=live.uid, deleting=True))
        context.lock.ensure(DELETE_TIMEOUT)
        try:
            context.cluster.delete(request, timeout=DELETE_TIMEOUT)
        except NotFound as error:
            state = context.cluster.read(desired.resource, desired.ref)
            refuse_false_absence(live.uid, state, error)
        self._await_gone(desired, live)
        fresh = replace(
            step.entry,
            uid_before_apply=None,
            uid="",
            ownership=Ownership.OWNED,
            digest="",
            fingerprint=None,
            owned_fields="",
            marks=(),
            deleting=False,
            job=None,
        )
        context.lock.record_entry(fresh)
        fresh_step = replace(
            step, entry=fresh, fence=False, migration=NO_MIGRATION, takes_over=False
        )
        return decided_again(fresh_step, None, context.applyset, context.options)

    def _await_gone(self, desired: Desired, live: LiveObject) -> None:
        cancellation = self.context.cancellation
        deleted = [DeletedObject(desired.resource, desired.ref, live.uid)]
        options = self.context.options.wait
        # What is gone later is created by a later run, as after a crash.
        longest = min(desired.timeout or options.timeout, options.turn)
        wait = DeletionWait(deleted, longest, cancellation)
        # This thread is a worker already.
        for event in wait.events(lambda left: map(self._look, left)):
            if isinstance(event, Gone) and event.replaced:
                raise created_by_others(desired)
        if not wait.pending:
            return
        cancellation.check()
        held = ", ".join(wait.last.get(desired.ref, live).finalizers)
        raise NotReady(
            f"{desired.ref} is still being deleted; it cannot be re-created yet",
            location=desired.origin,
            reason=f"its finalizers have not finished: {held}" if held else "",
            hint="Run again when it is gone.",
        )

    def _look(self, deleted: DeletedObject) -> tuple[DeletedObject, State]:
        return deleted, self.context.cluster.read(deleted.resource, deleted.ref)
