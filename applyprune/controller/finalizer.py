"""Handle the deletion of a Bundle: delete or orphan its objects, then remove its finalizer.

This runs as the same ServiceAccount as the apply. If it fails, the finalizer stays and the
condition says why: no object may be left that is neither deleted nor listed anywhere.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from applyprune.controller.bundle import Bundle, DeletionPolicy
from applyprune.controller.bundle_client import BundleObjects, status_of
from applyprune.controller.constants import FINALIZER, Reason
from applyprune.controller.pending_plan import PendingPlan, pending_plan
from applyprune.controller.result import (
    RunResult,
    follow,
    problem_message,
    reason_of,
    reason_of_exit,
)
from applyprune.controller.runtime.event_recorder import EventRecorder, EventType
from applyprune.controller.runtime.impersonation import (
    AccountMissing,
    Impersonation,
    ServiceAccountClient,
)
from applyprune.controller.status import ConditionStatus, ReconcileResult
from applyprune.engine.cancellation import Cancellation
from applyprune.engine.context import WorkerPool
from applyprune.engine.listing import KindProofs, all_labelled_objects
from applyprune.engine.operations.release import release
from applyprune.engine.plan_stage import RunRequest
from applyprune.engine.run import run
from applyprune.errors import ApplypruneError, problems_of
from applyprune.model.live import LiveObject, deleted_at
from applyprune.model.options import Mode
from applyprune.model.problem import ProblemKind
from applyprune.model.text.display import seconds_since
from applyprune.planning.annotations import APPROVE
from applyprune.planning.applyset import PART_OF


@dataclass(frozen=True, slots=True)
class Finalizer:
    """Removes the objects of one Bundle, by its deletion policy."""

    bundles: BundleObjects
    impersonation: Impersonation
    recorder: EventRecorder
    stop: Cancellation

    def of(self, live: LiveObject, bundle: Bundle) -> ReconcileResult:
        """Remove the objects, then the finalizer; ``done`` in the result says whether both are.

        Raises Interrupted.
        """
        if FINALIZER not in live.finalizers:
            return ReconcileResult(
                ConditionStatus.SAME, Reason.REMOVED, "nothing is left to remove", done=True
            )
        account, terminating = bundle.spec.service_account_name, False
        try:
            if self._is_deleted_by_crd(live):
                return self._ended(live, self._release(live, bundle))
            terminating = self.impersonation.is_terminating(bundle.namespace)
            # In a terminating namespace the account is deleted first and cannot be created again.
            # Its name may still have rights, by a ClusterRoleBinding: try with those.
            with self.impersonation.as_account(
                bundle.namespace, account, must_exist=not terminating
            ) as account_client:
                result = self._remove(account_client, live, bundle, terminating=terminating)
        except AccountMissing as error:
            missing = problem_message(problems_of(error)[0])
            message = f"{missing}; its objects stay until the account exists again"
            result = ReconcileResult(
                ConditionStatus.NOT_READY, Reason.SERVICE_ACCOUNT_NOT_FOUND, message, retries=True
            )
        except ApplypruneError as error:
            result = self._failed(error)
        if not result.done and terminating and _age(live) > bundle.timeout:
            result = self._give_up(bundle, result)
        return self._ended(live, result) if result.done else result

    def _ended(self, live: LiveObject, result: ReconcileResult) -> ReconcileResult:
        """Remove the finalizer; a result that says so if that fails."""
        try:
            self.bundles.remove_finalizer(live)
        except ApplypruneError as error:
            return self._failed(error)
        return result

    def _failed(self, error: ApplypruneError) -> ReconcileResult:
        self.stop.check()
        message = problem_message(problems_of(error)[0])
        return ReconcileResult(ConditionStatus.NOT_READY, reason_of(error), message, retries=True)

    def _is_deleted_by_crd(self, live: LiveObject) -> bool:
        """Return whether this Bundle is being deleted only because its CRD is."""
        crd, own = self.impersonation.crd_deleted_at(), deleted_at(live)
        return crd is not None and own is not None and crd <= own

    def _release(self, live: LiveObject, bundle: Bundle) -> ReconcileResult:
        """Release the set to the command line: uninstalling the controller must delete nothing.

        If its inventory cannot be written now, `applyprune inventory release` can do it later.
        """
        message = "the Bundle CRD is being deleted: all objects stay, and the inventory keeps them"
        self.recorder.event(live, EventType.WARNING, Reason.REMOVED, message)
        with (
            suppress(ApplypruneError),
            self.impersonation.as_account(
                bundle.namespace, bundle.spec.service_account_name, must_exist=True
            ) as account_client,
        ):
            options = bundle.options(Mode.APPLY)
            store = account_client.store(bundle.target)
            run = account_client.cluster.run
            done = release(
                bundle.target, options, store, self.stop, run=run, is_active=lambda _: False
            )
            for _ in done:
                pass
        self.stop.check()
        return ReconcileResult(ConditionStatus.SAME, Reason.REMOVED, message, done=True)

    def _remove(
        self,
        account_client: ServiceAccountClient,
        live: LiveObject,
        bundle: Bundle,
        *,
        terminating: bool,
    ) -> ReconcileResult:
        inventory = account_client.store(bundle.target).read()
        if inventory.exists and inventory.owner != bundle.owner:
            # Released, or never taken over: it now belongs to someone else, with all its objects.
            owner = inventory.owner or "no Bundle"
            message = f"the set {inventory.name} belongs to {owner}; nothing was removed"
            self.recorder.event(live, EventType.NORMAL, Reason.REMOVED, message)
            return ReconcileResult(ConditionStatus.SAME, Reason.REMOVED, message, done=True)
        if not inventory.exists:
            lost = terminating and "inventory" in status_of(live)
            return self._without_inventory(account_client, bundle, lost=lost)
        if bundle.spec.suspend:
            message = "spec.suspend is true: its objects are not removed"
            return ReconcileResult(ConditionStatus.SAME, Reason.SUSPENDED, message)
        orphan = bundle.spec.deletion_policy is DeletionPolicy.ORPHAN
        options = bundle.options(
            Mode.ORPHAN if orphan else Mode.DELETE,
            approved=live.annotations.get(APPROVE, ""),
        )
        request = RunRequest(
            bundle.target,
            (),
            bundle.namespace,
            options,
            who=bundle.owner,
            owner=bundle.owner,
        )
        run_result = RunResult()
        events = run(
            request, account_client.cluster, account_client.store(bundle.target), self.stop
        )
        follow(events, run_result, lambda _: None)
        self.stop.check()
        pending = pending_plan(run_result, bundle, live.annotations.get(APPROVE, ""))
        return self._result(live, bundle, run_result, pending)

    def _result(
        self,
        live: LiveObject,
        bundle: Bundle,
        run_result: RunResult,
        pending: PendingPlan | None,
    ) -> ReconcileResult:
        if run_result.exit_code == 0:
            message = f"objects processed: {len(run_result.gone)}"
            return ReconcileResult(
                ConditionStatus.SAME, Reason.REMOVED, message, run_result=run_result, done=True
            )
        failing = sorted(
            run_result.failing.values(), key=lambda failed: (failed.skipped, failed.ref)
        )
        message = "; ".join(f"{failed.ref.short}: {failed.message}" for failed in failing[:3])
        if run_result.refusal is not None and not message:
            message = f"{run_result.refusal.message}: {run_result.refusal.reason}"
        only_waiting = bool(failing) and all(
            failed.kind is ProblemKind.NOT_READY for failed in failing
        )
        if bundle.spec.deletion_policy is DeletionPolicy.DELETE and only_waiting:
            # All of them are deleted, and wait for a finalizer of someone else.
            self.recorder.event(
                live, EventType.WARNING, Reason.REMOVAL_INCOMPLETE, message, run_result.run
            )
            return ReconcileResult(
                ConditionStatus.SAME,
                Reason.REMOVAL_INCOMPLETE,
                message,
                run_result=run_result,
                done=True,
            )
        reason = reason_of_exit(run_result.exit_code)
        if reason is not Reason.PRUNE_REFUSED:
            reason = Reason.REMOVAL_FAILED
        return ReconcileResult(
            ConditionStatus.NOT_READY,
            reason,
            message,
            run_result=run_result,
            pending=pending,
            retries=True,
        )

    def _without_inventory(
        self, account_client: ServiceAccountClient, bundle: Bundle, *, lost: bool
    ) -> ReconcileResult:
        """Search for labelled objects, as there is no inventory; without any, nothing is left.

        A list that fails proves nothing: it is tried again, unless a right is missing. ``lost``:
        the inventory was deleted with its namespace. Objects elsewhere may be left that this
        account can no longer list.
        """
        with WorkerPool(4, self.stop) as workers:
            cluster = account_client.cluster
            proofs = KindProofs(cluster, workers, cluster.resource_map(), cluster.patience)
            marked, _ = all_labelled_objects(proofs, bundle.target)
        self.stop.check()
        missing = marked.unseen if lost else marked.failed  # guard: finalizer-search
        if not marked.objects and missing:
            message = f"there is no inventory, and the search was incomplete: {missing[0]}"
            return ReconcileResult(
                ConditionStatus.NOT_READY, Reason.REMOVAL_FAILED, message, retries=True
            )
        if not marked.objects:
            message = "there is no inventory, and no object has its label"
            if marked.unseen:
                message += f"; not searched: {'; '.join(marked.unseen)}"
            return ReconcileResult(ConditionStatus.SAME, Reason.REMOVED, message, done=True)
        # A lost inventory is never restored in a terminating namespace: retry, then give up.
        reason = Reason.REMOVAL_FAILED if lost else Reason.INVENTORY_UNREADABLE
        first = ", ".join(str(live.ref) for live in marked.objects[:3])
        message = (
            f"the inventory is gone, and {len(marked.objects)} objects have the set's label: "
            f"{first}. To rebuild it: applyprune inventory repair {bundle.target.arguments}"
        )
        return ReconcileResult(ConditionStatus.NOT_READY, reason, message, retries=True)

    def _give_up(self, bundle: Bundle, result: ReconcileResult) -> ReconcileResult:
        """Give up in a terminating namespace; say in an Event which objects may be left."""
        message = (
            f"the Bundle {bundle.name} was deleted with its namespace {bundle.namespace}, before "
            f"all of its objects elsewhere could be removed: {result.message}. "
            f"See: kubectl get -A -l {PART_OF}={bundle.target.id}"
        )
        self.recorder.namespace_event(bundle.namespace, Reason.REMOVAL_INCOMPLETE, message)
        return ReconcileResult(
            ConditionStatus.SAME,
            Reason.REMOVAL_INCOMPLETE,
            message,
            run_result=result.run_result,
            done=True,
        )


def _age(live: LiveObject) -> float:
    """Return the seconds since an object was deleted, by the server's clock and ours."""
    return seconds_since(live.metadata.get("deletionTimestamp"), datetime.now(UTC)) or 0.0
