"""A Bundle that is being deleted: delete or orphan its objects, then remove its finalizer.

This runs as the same ServiceAccount as the apply. If it fails, the finalizer stays and the
condition says why: no object may be left that is neither deleted nor listed anywhere. If nobody has
the rights for it, the removal ends after ``spec.timeout``: then its inventory keeps the objects.
With its namespace, a Bundle goes as soon as waiting cannot help.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from pydantic import ValidationError

from applyprune.clock import BOOT_CLOCK
from applyprune.controller.clients import (
    AccountMissing,
    BundleObjects,
    Impersonation,
    ServiceAccountClient,
    status_of,
)
from applyprune.controller.clusters import OtherClusters, read_kubeconfig
from applyprune.controller.pending_plan import PendingPlan, pending_plan
from applyprune.controller.reasons import NO_CLUSTER, Reason
from applyprune.controller.report import EventRecorder, EventType, WarningLog, log_event
from applyprune.controller.result import (
    REMOVED,
    RunResult,
    collect,
    new_result,
    observation_in,
    outcomes_text,
    problem_message,
    reason_of,
    reason_of_exit,
)
from applyprune.controller.spec import (
    SPEC,
    BundleSpec,
    DeletionPolicy,
    fault_text,
    name_fault,
    without_null_fields,
)
from applyprune.controller.status import ConditionStatus, ReconcileResult, known_elsewhere
from applyprune.controller.task import ReconcileHistory
from applyprune.engine.context import RunRequest, WorkerPool
from applyprune.engine.inventory import release
from applyprune.engine.ports import Cancellation
from applyprune.engine.reader import KindProofs, all_labelled_objects
from applyprune.engine.run import run
from applyprune.errors import ApplypruneError, NoSuchSet, UsageError, problems_of
from applyprune.model.fate import Fate, Outcome
from applyprune.model.identity import Ref
from applyprune.model.inventory import LONGEST_LEASE
from applyprune.model.live import BUNDLES, LiveObject, deleted_at, mapping, text, whole_number
from applyprune.model.options import Mode
from applyprune.model.plan import Cause, Guard, GuardVerdict
from applyprune.model.problem import ProblemKind
from applyprune.model.text import counted, is_dns_subdomain
from applyprune.planning.applyset import PART_OF, ApplySetIdentity, set_name
from applyprune.planning.marks import APPROVE, FINALIZER, ORPHAN
from applyprune.values import replace

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from applyprune.model.plan import Plan
    from applyprune.planning.world import Siblings

_NO_RIGHTS = NO_CLUSTER | {Reason.INVALID_SPEC, Reason.SERVICE_ACCOUNT_NOT_FOUND, Reason.FORBIDDEN}
"""Why nobody may remove the objects; what the inventory lists is safe there."""
_GONE_WITH_NAMESPACE = frozenset(
    {Reason.FORBIDDEN, Reason.INVENTORY_UNREADABLE, Reason.KUBE_CONFIG_NOT_FOUND}
)
"""Why waiting cannot help in a namespace that is being deleted: nothing can be created there."""
_NAMED = 3
_LONGEST = 700
"""Characters of a message about objects, so that what to do fits behind it."""


class Finalizer(Struct, frozen=True):
    """Removes the objects of one Bundle, by its deletion policy."""

    bundles: BundleObjects
    impersonation: Impersonation
    clusters: OtherClusters
    recorder: EventRecorder
    stop: Cancellation
    history: ReconcileHistory
    warnings: WarningLog
    siblings: Siblings | None = None
    """The sets that may take its objects; None if there are none."""

    def finalize(self, deleted: DeletedBundle) -> ReconcileResult:
        """Remove the objects, then the finalizer; ``done`` in the result says whether both are.

        Raises Interrupted.
        """
        live, bundle = deleted.live, deleted.bundle
        if FINALIZER not in live.finalizers:
            return ReconcileResult(
                ConditionStatus.SAME, Reason.REMOVED, "nothing is left to remove", done=True
            )
        try:
            terminating = self.impersonation.is_terminating(bundle.namespace)
            ended = self._without_removal(deleted, terminating=terminating)
            if ended is not None:
                return ended
            result = self._obstacle(deleted, terminating=terminating)
        except ApplypruneError as error:
            # What the controller itself could not read proves nothing.
            return self._failed(error)
        result = result or self._removed(deleted)
        # It may have begun long after the deletion: the Bundle was suspended, or nobody served it.
        waited = self.history.has_waited(bundle.timeout, BOOT_CLOCK.now())
        may_wait = deleted.seconds_left > 0 if terminating else not waited
        if may_wait and result.run_result and result.run_result.waiting:
            # What is deleted, and not gone yet, is looked at again: a wait holds no worker.
            return replace(
                result,
                ready=ConditionStatus.WAITING,
                reason=Reason.PROGRESSING,
                message=result.run_result.waiting_summary,
            )
        if result.done:
            return self._ended(live, result, terminating=terminating)
        if self._ends(deleted, result.reason, terminating=terminating):
            return self._leave(deleted, result.message, terminating=terminating, before=result)
        if result.reason in _NO_RIGHTS and not terminating and not bundle.spec.suspend:
            result = replace(
                result, message=f"{result.message}; {deleted.outlook(_total(result.run_result))}"
            )
        return result

    def _without_removal(
        self, deleted: DeletedBundle, *, terminating: bool
    ) -> ReconcileResult | None:
        """End a removal for which nothing needs to be removed; None for any other."""
        live = deleted.live
        if terminating and deleted.is_all_in_namespace:  # guard: nothing-elsewhere -> terminating
            message = "its objects are deleted with its namespace"
            result = ReconcileResult(ConditionStatus.SAME, Reason.REMOVED, message, done=True)
            return self._ended(live, result, terminating=True)
        if deleted.is_orphaned:
            why = f'the annotation {ORPHAN} is "true"'
            return self._leave(deleted, why, terminating=terminating)
        if self._is_deleted_by_crd(live):
            why = "the Bundle CRD is being deleted"
            return self._leave(deleted, why, terminating=terminating)
        return None

    def _obstacle(self, deleted: DeletedBundle, *, terminating: bool) -> ReconcileResult | None:
        """Return why nobody may remove the objects of a Bundle; None if its account may try."""
        bundle = deleted.bundle
        if deleted.faults:  # guard: undecided-removal never
            reason, message = Reason.INVALID_SPEC, "; ".join(deleted.faults)
            return ReconcileResult(ConditionStatus.NOT_READY, reason, message, retries=True)
        if terminating:
            # There, the account is deleted first and cannot be created again. Its name may still
            # have rights, by a ClusterRoleBinding: try with those.
            return None
        try:
            self.impersonation.require_account(bundle.namespace, bundle.spec.service_account_name)
        except AccountMissing as error:
            message = problem_message(problems_of(error)[0])
            return ReconcileResult(
                ConditionStatus.NOT_READY, Reason.SERVICE_ACCOUNT_NOT_FOUND, message, retries=True
            )
        return None

    def _removed(self, deleted: DeletedBundle) -> ReconcileResult:
        bundle = deleted.bundle
        try:
            with self._target(deleted, must_exist=False) as account_client:
                return self._remove(account_client, deleted.live, bundle)
        except ApplypruneError as error:
            return self._failed(error, secret=bundle.has_secret_source)

    @contextmanager
    def _target(
        self, deleted: DeletedBundle, *, must_exist: bool
    ) -> Iterator[ServiceAccountClient]:
        """Yield a client for the cluster that has the objects."""
        bundle = deleted.bundle
        with self.impersonation.as_account(
            bundle.namespace, bundle.spec.service_account_name, must_exist=must_exist
        ) as own:
            kubeconfig = read_kubeconfig(bundle, own.cluster, {})
            with self.clusters.target(
                deleted.live, bundle, own, kubeconfig, self.history
            ) as target:
                yield target.client

    def _remove(
        self,
        account_client: ServiceAccountClient,
        live: LiveObject,
        bundle: BundleSpec,
    ) -> ReconcileResult:
        inventory = account_client.store(bundle.target).read()
        if inventory.exists and inventory.owner != bundle.owner:
            # Released, or never taken over: it now belongs to someone else, with all its objects.
            owner = inventory.owner or "no Bundle"
            message = f"the set {inventory.name} belongs to {owner}; what it lists stays"
            return ReconcileResult(ConditionStatus.SAME, Reason.REMOVED, message, done=True)
        if not inventory.exists:
            return self._without_inventory(account_client, live, bundle)
        if bundle.spec.suspend:
            message = "spec.suspend is true: its objects are not removed"
            return ReconcileResult(ConditionStatus.SAME, Reason.SUSPENDED, message)
        orphan = bundle.deletion_policy is DeletionPolicy.ORPHAN
        options = bundle.options(
            Mode.ORPHAN if orphan else Mode.DELETE,
            approved=live.annotations.get(APPROVE, ""),
        )
        request = RunRequest(
            bundle.target,
            options=options,
            who=bundle.owner,
            owner=bundle.owner,
            observation=self.history.observation,
            siblings=self.siblings,
        )
        run_result = new_result(bundle)
        events = run(
            request, account_client.cluster, account_client.store(bundle.target), self.stop
        )
        try:
            collect(events, run_result, partial(log_event, self.warnings, request, run_result))
        except NoSuchSet:  # it was deleted just now
            return self._without_inventory(account_client, live, bundle)
        self.stop.check()
        pending = pending_plan(run_result, bundle, live.annotations.get(APPROVE, ""))
        return self._result(bundle, run_result, pending)

    def _result(
        self, bundle: BundleSpec, run_result: RunResult, pending: PendingPlan | None
    ) -> ReconcileResult:
        if (offered := run_result.offered) and not run_result.failing:
            message = f"{objects_named([step.entry.ref for step in offered])} {offered[0].reason}"
            return ReconcileResult(
                *(ConditionStatus.WAITING, Reason.PROGRESSING, message), run_result=run_result
            )
        if run_result.exit_code == 0:
            message = outcomes_text(removed_by(self.history, run_result)) or "the set had no object"
            return ReconcileResult(
                ConditionStatus.SAME, Reason.REMOVED, message, run_result=run_result, done=True
            )
        failing = sorted(
            run_result.failing.values(), key=lambda failed: (failed.skipped, failed.ref)
        )
        message = "; ".join(f"{failed.ref.short}: {failed.message}" for failed in failing[:_NAMED])
        if run_result.refusal is not None and not message:
            message = run_result.refusal_message
        reason = _reason(run_result, bundle.deletion_policy)
        if reason is Reason.REMOVAL_FAILED:
            # Nothing else ends it. The objects have their own messages, if this one gets too long.
            shown = message if len(message) <= _LONGEST else f"{message[: _LONGEST - 1]}…"
            message = f"{shown}. To end the removal, and keep what is left: {_orphaning(bundle)}"
        return ReconcileResult(
            ConditionStatus.NOT_READY,
            reason,
            message,
            run_result=run_result,
            pending=pending,
            retries=True,
        )

    def _without_inventory(
        self, account_client: ServiceAccountClient, live: LiveObject, bundle: BundleSpec
    ) -> ReconcileResult:
        """Search for labelled objects, as there is no inventory; without any, nothing is left.

        A list that fails proves nothing: it is tried again, unless a right is missing. If the
        inventory was deleted with its namespace, the rights were too: objects elsewhere may be left
        that this account can no longer list.
        """
        # Only now: the deletion of the namespace may have begun after that of the Bundle.
        terminating = self.impersonation.is_terminating(bundle.namespace)
        lost = terminating and "inventory" in status_of(live)  # guard: inventory-lost -> False
        with WorkerPool(4, self.stop) as workers:
            cluster = account_client.cluster
            proofs = KindProofs(cluster, workers, cluster.resource_map(), cluster.patience)
            marked, _ = all_labelled_objects(proofs, bundle.target)
        self.stop.check()
        missing = marked.unseen if lost else marked.failed  # guard: finalizer-search -> ()
        if not marked.objects and missing:
            why = "" if bundle.has_secret_source else f": {missing[0]}"
            message = f"there is no inventory, and the search was incomplete{why}"
            reason = Reason.REMOVAL_FAILED if marked.failed else Reason.FORBIDDEN
            return ReconcileResult(ConditionStatus.NOT_READY, reason, message, retries=True)
        if not marked.objects:
            message = "there is no inventory, and no object has its label"
            if marked.unseen and not bundle.has_secret_source:
                message += f"; not searched: {'; '.join(marked.unseen)}"
            return ReconcileResult(ConditionStatus.SAME, Reason.REMOVED, message, done=True)
        first = ", ".join(str(live.ref) for live in marked.objects[:_NAMED])
        message = (
            f"the inventory is gone, and "
            f"{counted(len(marked.objects), 'object', 'has', 'have')} the set's label: "
            f"{first}. To rebuild it: applyprune inventory repair {bundle.target.arguments}"
        )
        return ReconcileResult(
            ConditionStatus.NOT_READY, Reason.INVENTORY_UNREADABLE, message, retries=True
        )

    def _ends(self, deleted: DeletedBundle, reason: Reason, *, terminating: bool) -> bool:
        """Return whether the removal ends here, although objects are left.

        A namespace that is being deleted takes the inventory along whatever happens.
        """
        if reason is Reason.REMOVAL_INCOMPLETE:
            return True
        bundle, is_over = deleted.bundle, deleted.seconds_left <= 0
        if terminating and (is_over or deleted.orphans):
            return True
        if not (terminating or is_over):
            return False
        helpless = _GONE_WITH_NAMESPACE if terminating else _NO_RIGHTS
        held = bundle.spec.suspend and not terminating
        if held or reason not in helpless:  # guard: removal-goes-on never
            return False
        account = bundle.namespace, bundle.spec.service_account_name
        # Else the account may have the rights, and the controller may not act as the account.
        # guard: may-impersonate -> True
        return reason is not Reason.FORBIDDEN or self.impersonation.is_allowed(*account)

    def _leave(
        self,
        deleted: DeletedBundle,
        why: str,
        *,
        terminating: bool,
        before: ReconcileResult | None = None,
    ) -> ReconcileResult:
        """End a removal, and leave what is left of the objects; say in an Event what that is.

        ``before`` is the result of the removal so far.
        """
        live, bundle = deleted.live, deleted.bundle
        run_result = before.run_result if before is not None else None
        if terminating:
            done = "orphaned" if deleted.orphans else "removed"
            message = (
                f"the Bundle {bundle.name} was deleted with its namespace {bundle.namespace}, "
                f"before all of its objects elsewhere could be {done}: {why}"
            )
            if not deleted.faults:
                there = ", in the other cluster" if bundle.spec.kube_config is not None else ""
                message += f". See{there}: {_search(bundle.target)}"
            self.recorder.namespace_event(bundle.namespace, Reason.REMOVAL_INCOMPLETE, message)
        else:
            # Only finalizers of others hold the rest. A new Bundle of the same name continues.
            is_held = before is not None and before.reason is Reason.REMOVAL_INCOMPLETE
            left = deleted.left_unreleased(_total(run_result)) if is_held else self._left(deleted)
            message = f"{why}; {left}"
            run_id = run_result.run if run_result is not None else ""
            self.recorder.event(live, EventType.WARNING, Reason.REMOVAL_INCOMPLETE, message, run_id)
        self.stop.check()
        result = ReconcileResult(
            ConditionStatus.SAME,
            Reason.REMOVAL_INCOMPLETE,
            message,
            run_result=run_result,
            done=True,
        )
        return self._ended(live, result, terminating=terminating)

    def _left(self, deleted: DeletedBundle) -> str:
        """Release the set to the command line, and return what is left of it, and what to do.

        If its inventory cannot be written now, `applyprune inventory release` can do it later.
        """
        if deleted.faults:
            return deleted.left_unreleased()
        bundle, target = deleted.bundle, deleted.bundle.target
        try:
            with self._target(deleted, must_exist=True) as account_client:
                inventory = account_client.store(target).read()
                if not inventory.exists:
                    return f"there is no inventory. See: {_search(target)}"
                self._release(account_client, bundle)
        except UsageError as error:
            return problem_message(problems_of(error)[0])
        except ApplypruneError:
            return deleted.left_unreleased()
        left = f"left in the inventory {target.inventory.name}: {objects_named(inventory.entries)}"
        return f"{left}. To delete that: applyprune delete {deleted.at(target.name)}"

    def _release(self, account_client: ServiceAccountClient, bundle: BundleSpec) -> None:
        # There is no second try: wait for a holder that has crashed.
        options = replace(bundle.options(Mode.REPAIR), lock_timeout=LONGEST_LEASE + 2.0)
        done = release(
            RunRequest(bundle.target, options=options),
            account_client.cluster,
            account_client.store(bundle.target),
            self.stop,
            is_active=lambda owner: owner != bundle.owner,  # guard: release-own -> lambda _: False
        )
        for _ in done:
            pass

    def _ended(
        self, live: LiveObject, result: ReconcileResult, *, terminating: bool
    ) -> ReconcileResult:
        """Say what has happened, and remove the finalizer; a result that says so if that fails."""
        if result.reason is Reason.REMOVED and not terminating:
            run_id = result.run_result.run if result.run_result is not None else ""
            self.recorder.event(live, EventType.NORMAL, result.reason, result.message, run_id)
        try:
            self.bundles.remove_finalizer(live)
        except ApplypruneError as error:
            return self._failed(error)
        return result

    def _failed(self, error: ApplypruneError, *, secret: bool = False) -> ReconcileResult:
        self.stop.check()
        message = problem_message(problems_of(error)[0], secret=secret)
        return ReconcileResult(
            ConditionStatus.NOT_READY,
            reason_of(error),
            message,
            retries=True,
            observation=observation_in(error),
        )

    def _is_deleted_by_crd(self, live: LiveObject) -> bool:
        """Return whether this Bundle is being deleted only because its CRD is."""
        crd, own = self.impersonation.crd_deleted_at(), deleted_at(live)
        return crd is not None and own is not None and crd <= own


def _reason(run_result: RunResult, policy: DeletionPolicy) -> Reason:
    """Return the reason for a removal that has not removed everything."""
    failing = run_result.failing.values()
    if policy is DeletionPolicy.DELETE and {failed.kind for failed in failing} == {
        ProblemKind.NOT_READY
    }:
        # All of them are deleted, and wait for a finalizer of someone else.
        return Reason.REMOVAL_INCOMPLETE
    reason = reason_of_exit(run_result.exit_code)
    if reason is Reason.PRUNE_REFUSED:
        # guard: uncounted-removal -> reason
        return Reason.FORBIDDEN if _lacks_rights(run_result.plan) else reason
    causes = {failed.kind for failed in failing if not failed.skipped}
    waits = {ProblemKind.NOT_READY} if policy is DeletionPolicy.DELETE else set()
    return Reason.FORBIDDEN if causes - waits == {ProblemKind.FORBIDDEN} else Reason.REMOVAL_FAILED


def _lacks_rights(plan: Plan | None) -> bool:
    """Return whether a guard refuses a plan only because the account lacks a right to count."""
    if plan is None:
        return False
    guards = {one.guard for one in plan.guards if one.verdict is GuardVerdict.REFUSED}
    refused = [step for step in plan.removals if step.is_doomed and step.fate is Fate.REFUSE]
    uncounted = all(step.cause is Cause.NO_RIGHT_TO_COUNT for step in refused)
    return guards == {Guard.CASCADE} and uncounted


def removed_by(history: ReconcileHistory, run_result: RunResult | None) -> Mapping[Outcome, int]:
    """Return how many objects all looks of a removal have removed, by outcome."""
    removed = dict(history.removed)
    for outcome, count in run_result.outcomes.items() if run_result is not None else ():
        if outcome in REMOVED:
            # What an earlier look has deleted, and has waited for.
            is_late = outcome is Outcome.REMOVED_FROM_INVENTORY and history.waiting_since
            known = Outcome.DELETED if is_late else outcome
            removed[known] = removed.get(known, 0) + count
    return removed


def _total(run_result: RunResult | None) -> int | None:
    """Return how many objects a run has left in the inventory; None if it has not come so far."""
    return run_result.total if run_result is not None and run_result.plan is not None else None


def _orphaning(bundle: BundleSpec) -> str:
    """Return the command that ends the removal of a Bundle."""
    kind = f"{BUNDLES.full_plural} {bundle.name} -n {bundle.namespace}"
    return f"kubectl annotate {kind} {ORPHAN}=true"


def _search(target: ApplySetIdentity) -> str:
    return f"kubectl get -A -l {PART_OF}={target.id}"


# A Bundle that is being deleted, each field read on its own: an invalid one must neither block the
# removal, nor decide that anything is deleted.


_DECIDES = frozenset(
    {"deletionPolicy", "inventoryName", "kubeConfig", "serviceAccountName", "suspend"}
)
"""The fields that decide which objects are deleted, where, by whom, and whether at all."""
_MIRRORED = frozenset({"prune", "prune.enabled"})
"""The fields that decide it with the policy ``MirrorPrune``."""
_NO_SOURCE = {"inline": ""}
_SECRET_SOURCE = {"secretRefs": [{"name": "secret"}]}


def read_deleted(live: LiveObject) -> DeletedBundle:
    """Return what can be read of a Bundle that is being deleted; never fails."""
    raw = (live.body or {}).get("spec")
    if not isinstance(raw, Mapping):
        return _read(live, {}, ("spec: must be an object",))
    is_encrypted = raw.get("decryption") is not None
    # guard: secret-removal -> False
    is_secret = is_encrypted or bool(mapping(raw.get("source")).get("secretRefs"))
    source = _SECRET_SOURCE if is_secret else _NO_SOURCE
    spec: dict[str, Any] = {**without_null_fields(dict(raw)), "source": source}
    faults: dict[str, str] = {}
    try:
        SPEC.validate_python(spec)
    except ValidationError as error:
        for fault in error.errors(include_url=False):
            faults[_drop(spec, fault)] = fault_text(fault)
    found = _read(live, spec, ())
    mirrors = found.bundle.spec.deletion_policy is DeletionPolicy.MIRROR
    decides = _DECIDES | _MIRRORED if mirrors else _DECIDES
    # guard: unreadable-decides -> ()
    decisive = tuple(text for path, text in faults.items() if path in decides)
    return _read(live, spec, (*decisive, *name_fault(found.bundle)))


class DeletedBundle(Struct, frozen=True):
    """A Bundle that is being deleted, as far as it could be read."""

    live: LiveObject
    bundle: BundleSpec
    """It has the default of each field that could not be read.

    Of its source, it only tells whether that is in Secrets.
    """
    faults: tuple[str, ...] = ()
    """What is wrong with a field that decides what is deleted: then nothing may be."""

    @property
    def is_orphaned(self) -> bool:
        """Return whether somebody has asked to end the removal at once, and leave the objects."""
        return self.live.annotations.get(ORPHAN) == "true"

    @property
    def orphans(self) -> bool:
        """Return whether its deletion shall leave the objects, as far as that can be read."""
        return not self.faults and self.bundle.deletion_policy is DeletionPolicy.ORPHAN

    @property
    def is_all_in_namespace(self) -> bool:
        """Return whether its namespace takes all of its objects with it, by its status.

        A status that was written before a run adds objects elsewhere says so.
        """
        return known_elsewhere(status_of(self.live)) == 0

    @property
    def ends(self) -> datetime:
        """Return when a removal ends that nobody has the rights for."""
        began = deleted_at(self.live) or datetime.now(UTC)
        return began + timedelta(seconds=self.bundle.spec.timeout)

    @property
    def seconds_left(self) -> float:
        """Return the seconds until then, by the server's clock and ours; less than 0 after it."""
        return (self.ends - datetime.now(UTC)).total_seconds()

    def left(self, total: int | None = None) -> str:
        """Return what its inventory still lists, in words: by its status, or ``total`` objects."""
        if not (name := self._inventory_name):
            return "nothing is known to have been applied"
        if total is None:
            total = whole_number(status_of(self.live), "objects", "total")
        objects = "its objects" if total is None else objects_text(total)
        return f"left in the inventory {name}: {objects}"

    def left_unreleased(self, total: int | None = None) -> str:
        """Return the same, and how to delete it while the set belongs to this Bundle."""
        left = self.left(total)
        if not (name := set_name(self._inventory_name)):
            return left
        where = self.at(name)
        release = f"applyprune inventory release {where}"
        return f"{left}. To delete that: {release}, then applyprune delete {where}"

    def outlook(self, total: int | None) -> str:
        """Return what is left, and when the removal ends without it."""
        return f"{self.left(total)}; the Bundle goes at {self.ends:%Y-%m-%dT%H:%M:%SZ}"

    def at(self, name: str) -> str:
        """Return the arguments of a command about a set where the objects are."""
        elsewhere = " --kubeconfig FILE" if self.bundle.spec.kube_config is not None else ""
        return f"{name} -n {self.bundle.namespace}{elsewhere}"

    @property
    def _inventory_name(self) -> str:
        """Return the name of the inventory's ConfigMap; empty if it is unknown.

        Whoever may write a status may write any text, and people run the command with the name.
        """
        if not self.faults:  # guard: forged-inventory-name never
            return self.bundle.target.inventory.name
        known = text(status_of(self.live), "inventory", "name")
        return known if is_dns_subdomain(known) else ""  # guard: forged-inventory-text -> known


def _drop(spec: dict[str, Any], fault: ErrorDetails) -> str:
    """Remove the field with a fault, so that it gets its default; return its path."""
    top, *below = map(str, fault["loc"])
    inner = spec.get(top)
    # Of what another part needs, nothing is left.
    if below and isinstance(inner, Mapping) and top != "kubeConfig":
        spec[top] = {key: value for key, value in inner.items() if key != below[0]}
        return f"{top}.{below[0]}"
    spec.pop(top, None)
    return top


def _read(live: LiveObject, spec: Mapping[str, Any], faults: tuple[str, ...]) -> DeletedBundle:
    parsed = SPEC.validate_python({"source": _NO_SOURCE, **spec})
    bundle = BundleSpec(
        live.ref.namespace, live.ref.name, parsed, parsed.timeout, live.generation or 0
    )
    return DeletedBundle(live, bundle, faults)


def objects_named(refs: Collection[Ref]) -> str:
    """Return ``2 objects (configmap/a, service/web)``, with the first three."""
    objects = objects_text(len(refs))
    shown = ", ".join(ref.short for ref in sorted(refs)[:_NAMED])
    more = ", …" if len(refs) > _NAMED else ""
    return f"{objects} ({shown}{more})" if shown else objects


def objects_text(count: int) -> str:
    """Return ``1 object`` or ``2 objects``."""
    return f"{count} object{'' if count == 1 else 's'}"
