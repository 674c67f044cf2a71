"""Delete and re-create an object, if it cannot be changed in place and that is allowed.

Each step is recorded before it is taken, so the entry stays true if the run is interrupted: first
the intent to delete exactly this object, then that no object exists. Only then comes the create,
whose guard allows nothing but a create.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

from applyprune.engine.context import RunContext
from applyprune.engine.inventory_lock import DELETE_TIMEOUT
from applyprune.engine.steps.dry_run import random_name, try_create
from applyprune.engine.steps.failures import created_by_others
from applyprune.engine.steps.wait_deleted import DeletedObject, DeletionWait, Gone
from applyprune.errors import ApplypruneError, Invalid, NotFound, NotReady
from applyprune.model.inventory import Ownership
from applyprune.model.live import Absent, LiveObject, State
from applyprune.model.plan import ApplyStep, Desired
from applyprune.planning.schema.server_errors import explained, is_worth_a_trial, why_not


@dataclass(frozen=True, slots=True)
class Recreator:
    """Recreates objects for one run."""

    context: RunContext

    def check(self, step: ApplyStep, live: LiveObject, error: ApplypruneError) -> None:
        """Return if the object may be re-created.

        Raises ``error`` itself if it is not about an immutable field. Raises RunFailed, which
        names the field, if the object may not be re-created.
        """
        desired = step.desired
        if not (isinstance(error, Invalid) and is_worth_a_trial(error) and self._is_valid(desired)):
            raise error
        if reason := why_not(
            desired, step.entry, live, self.context.applyset, self.context.options
        ):
            raise explained(desired, error, reason) from error

    def delete(self, step: ApplyStep, live: LiveObject) -> ApplyStep:
        """Delete the object, wait until it is gone, and return the step that creates it.

        Raises NotReady if it is not gone before the timeout.
        """
        desired = step.desired
        self.context.lock.record_entry(replace(step.entry, uid=live.uid, deleting=True))
        self.context.lock.ensure(DELETE_TIMEOUT)
        with suppress(NotFound):
            self.context.cluster.delete(
                desired.resource,
                desired.ref,
                uid=live.uid,
                resource_version=live.resource_version,
                propagation=self.context.options.prune.propagation,
                dry_run=False,
                timeout=DELETE_TIMEOUT,
            )
        self._await_gone(desired, live)
        fresh = replace(
            step.entry,
            uid_before_apply=None,
            uid="",
            ownership=Ownership.OWNED,
            digest="",
            fingerprint=None,
            deleting=False,
        )
        self.context.lock.record_entry(fresh)
        return replace(step, entry=fresh, live=None, fence=False, migrate=frozenset())

    def _is_valid(self, desired: Desired) -> bool:
        """Return whether the server would create the manifest as it is, under another name."""
        name, namespace = random_name(desired.ref.name), desired.ref.namespace
        try:
            try_create(
                self.context.cluster, self.context.applyset, desired, name=name, namespace=namespace
            )
        except ApplypruneError:
            return False
        return True

    def _await_gone(self, desired: Desired, live: LiveObject) -> None:
        cancellation = self.context.cancellation
        deleted = [DeletedObject(desired.resource, desired.ref, live.uid)]
        wait = DeletionWait(deleted, self.context.options.wait.timeout, cancellation)
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
        try:
            return deleted, self.context.cluster.get(deleted.resource, deleted.ref)
        except NotFound:
            return deleted, Absent(proven=True)
