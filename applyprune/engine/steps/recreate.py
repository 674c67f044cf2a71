"""Deleting an object and creating it anew, where it cannot be changed and that is allowed.

Each step is recorded before it is taken, so that a run that is cut off leaves an entry that is
true: first the intent to delete this very object, then that there is none, and only then comes the
create, which can do nothing but create.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from applyprune.engine.inventory_lock import DELETE_TIMEOUT
from applyprune.engine.steps.dry_run import another_name, try_create
from applyprune.engine.steps.wait_deleted import DeletedObject, DeletionWait, Gone
from applyprune.errors import ApplypruneError, Invalid, NotFound, NotReady, RunFailed
from applyprune.model.inventory import Ownership
from applyprune.model.live import Absent
from applyprune.planning.schema.server_errors import explained, is_worth_a_trial, why_not

if TYPE_CHECKING:
    from applyprune.engine.context import RunContext
    from applyprune.model.live import LiveObject, State
    from applyprune.model.plan import ApplyStep, Desired


@dataclass(frozen=True, slots=True)
class Recreator:
    """Recreates objects for one run."""

    context: RunContext

    def judge(self, step: ApplyStep, live: LiveObject, error: ApplypruneError) -> None:
        """Return when the object may be made anew.

        Raises ``error`` itself when it is about anything but a field that cannot be changed, and
        RunFailed, which names the field, when the object may not be made anew.
        """
        one = step.desired
        if not (isinstance(error, Invalid) and is_worth_a_trial(error) and self._is_valid(one)):
            raise error
        if why := why_not(one, step.entry, live, self.context.applyset, self.context.options):
            raise explained(one, error, why) from error

    def clear(self, step: ApplyStep, live: LiveObject) -> ApplyStep:
        """Delete the object, wait until it is gone, and return the step that creates it.

        Raises NotReady when it does not go in time.
        """
        one = step.desired
        self.context.lock.note(replace(step.entry, uid=live.uid, deleting=True))
        self.context.lock.ensure(DELETE_TIMEOUT)
        with suppress(NotFound):
            self.context.cluster.delete(
                one.resource,
                one.ref,
                uid=live.uid,
                resource_version=live.resource_version,
                propagation=self.context.options.prune.propagation,
                dry_run=False,
                timeout=DELETE_TIMEOUT,
            )
        self._await_gone(one, live)
        fresh = replace(
            step.entry,
            uid_before_apply=None,
            uid="",
            ownership=Ownership.OWNED,
            digest="",
            fingerprint=None,
            deleting=False,
        )
        self.context.lock.note(fresh)
        return replace(step, entry=fresh, live=None, fence=False, migrate=frozenset())

    def _is_valid(self, one: Desired) -> bool:
        """Return whether the server would create the manifest as it is, under another name."""
        name, namespace = another_name(one.ref.name), one.ref.namespace
        try:
            try_create(
                self.context.cluster, self.context.applyset, one, name=name, namespace=namespace
            )
        except ApplypruneError:
            return False
        return True

    def _await_gone(self, one: Desired, live: LiveObject) -> None:
        stop = self.context.stop
        deleted = [DeletedObject(one.resource, one.ref, live.uid)]
        wait = DeletionWait(deleted, self.context.options.wait.timeout, stop)
        # This is a worker's thread already.
        for event in wait.events(lambda left: map(self._look, left)):
            if isinstance(event, Gone) and event.replaced:
                raise RunFailed(
                    f"{one.ref} was created by somebody else while this run was under way",
                    location=one.origin,
                    hint="Run again to decide about it.",
                )
        if not wait.pending:
            return
        stop.check()
        held = ", ".join(wait.last.get(one.ref, live).finalizers)
        raise NotReady(
            f"{one.ref} is still being deleted; it cannot be re-created yet",
            location=one.origin,
            reason=f"its finalizers have not finished: {held}" if held else "",
            hint="Run again when it is gone.",
        )

    def _look(self, deleted: DeletedObject) -> tuple[DeletedObject, State]:
        try:
            return deleted, self.context.cluster.get(deleted.resource, deleted.ref)
        except NotFound:
            return deleted, Absent(proven=True)
