"""The client's view of Bundles: read one, wait for it, and tell it what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from applyprune.api.sets import ClusterConnection, given_or_new
from applyprune.engine.ports import Cancellation, Cluster
from applyprune.engine.waiting import Informer, Listed, Upserted, WatchChange, WatchScope
from applyprune.errors import (
    ApplypruneError,
    ConflictsFound,
    Forbidden,
    InputError,
    InventoryError,
    NotApproved,
    NotFound,
    NotReady,
    NotServed,
    OwnedByBundle,
    PlanOutdated,
    PruneRefused,
    RunFailed,
    UsageError,
)
from applyprune.model.events import (
    Event,
    Finished,
    ObjectDone,
    ObjectStuck,
    Readiness,
    ReadinessReported,
    Status,
    Waiting,
    current,
    failed,
    in_progress,
    stuck,
)
from applyprune.model.fate import Outcome
from applyprune.model.identity import Ref
from applyprune.model.live import (
    BUNDLES,
    Absent,
    LiveObject,
    is_after,
    items,
    mapping,
    text,
    whole_number,
)
from applyprune.model.reports import (
    BundleCondition,
    BundlePlan,
    BundleStatus,
    PendingObject,
)
from applyprune.model.text import is_dns_subdomain
from applyprune.output.report import RunReport, report_of
from applyprune.planning.marks import APPROVE, RECONCILE_NOW
from applyprune.planning.replies import not_stored

Body = Mapping[str, Any]


class Bundle:
    """One Bundle: its name, its namespace, and its cluster. The controller does the work.

    Nothing here writes but ``suspend``, ``resume``, ``reconcile`` and ``approve``: each sends one
    merge patch of one field or annotation. All methods raise AccessError, and UsageError if the
    Bundle does not exist.
    """

    def __init__(self, name: str, namespace: str = "", *, cluster: ClusterConnection) -> None:
        """Name a Bundle; raise UsageError for an invalid name."""
        if not is_dns_subdomain(name):
            raise UsageError(f"{name!r} is not the name of a Bundle")
        self.ref = Ref(BUNDLES.group, BUNDLES.kind, namespace or cluster.namespace, name)
        """Its kind, namespace and name."""
        self.cluster = cluster

    def __repr__(self) -> str:
        """Return the name and the namespace."""
        return f"<Bundle {self.name} -n {self.namespace}>"

    @property
    def name(self) -> str:
        """Return the name of the Bundle."""
        return self.ref.name

    @property
    def namespace(self) -> str:
        """Return the namespace of the Bundle."""
        return self.ref.namespace

    def status(self) -> BundleStatus:
        """Return its state, as the controller has reported it."""
        return bundle_status(self._read())

    def _read(self) -> LiveObject:
        try:
            return self.cluster.client.get(BUNDLES, self.ref, full=True)
        except NotFound:
            raise UsageError(
                f"there is no Bundle {self.name} in namespace {self.namespace}",
                hint="To list all Bundles: kubectl get bundles -A",
            ) from None
        except NotServed as error:
            raise _no_bundles(error) from error

    def suspend(self) -> bool:
        """Let the controller do nothing about it; return False if it was suspended already."""
        return self._set_suspended(suspended=True)

    def resume(self) -> bool:
        """Let the controller continue; return False if it was not suspended."""
        return self._set_suspended(suspended=False)

    def reconcile(
        self,
        *,
        wait: bool = False,
        timeout: float = 300.0,
        fail_fast: bool = False,
        cancellation: Cancellation | None = None,
    ) -> RunReport:
        """Request a reconcile now, and with ``wait`` wait until it is done and all is ready.

        ``timeout`` is in seconds. The controller retries what may pass, and the wait goes on; with
        ``fail_fast`` it ends at the first failure.
        """
        return report_of(
            self.iter_reconcile(
                wait=wait, timeout=timeout, fail_fast=fail_fast, cancellation=cancellation
            )
        )

    def iter_reconcile(
        self,
        *,
        wait: bool = False,
        timeout: float = 300.0,
        fail_fast: bool = False,
        cancellation: Cancellation | None = None,
    ) -> Iterator[Event]:
        """Do what ``reconcile`` does, and yield the events."""
        live = self._read()
        if bundle_status(live).suspended:
            raise UsageError(
                f"the Bundle {self.name} is suspended",
                reason="the controller does nothing about it",
                hint=f"First: applyprune bundle resume {self.name} -n {self.namespace}",
            )
        now = datetime.now(UTC).isoformat(timespec="microseconds")
        self._annotate(live, RECONCILE_NOW, now)
        yield ObjectDone(self.ref, Outcome.UPDATED, reason="a reconcile was requested")
        if wait:
            wanted = BundleWait(self.ref, now, timeout, fail_fast)
            yield from until_ready(wanted, self.cluster.client, given_or_new(cancellation))

    def approve(self, digest: str) -> BundleStatus:
        """Approve the pending plan with this digest; return the Bundle's state before.

        Raises UsageError if nothing waits for an approval, and PlanOutdated if another plan waits.
        """
        live = self._read()
        before = bundle_status(live)
        pending = before.pending
        if pending is None:
            raise UsageError(
                f"nothing of the Bundle {self.name} waits for an approval",
                hint=f"See: kubectl describe bundle {self.name} -n {self.namespace}",
            )
        if digest != pending.digest:  # guard: approve-shown-digest never
            raise PlanOutdated(
                f"the Bundle {self.name} waits for the approval of another plan",
                reason=f"the digest of its pending plan is {pending.digest}",
                hint=f"Review it: kubectl describe bundle {self.name} -n {self.namespace}",
            )
        self._annotate(live, APPROVE, pending.digest)
        return before

    def _set_suspended(self, *, suspended: bool) -> bool:
        live = self._read()
        if bundle_status(live).suspended == suspended:
            return False
        self._patch(live, {"spec": {"suspend": suspended}})
        return True

    def _annotate(self, live: LiveObject, key: str, value: str) -> None:
        self._patch(live, {"metadata": {"annotations": {key: value}}})

    def _patch(self, live: LiveObject, patch: Mapping[str, Any]) -> None:
        """Send a merge patch, as Flux does, for exactly the Bundle that was read.

        Raises RunFailed if neither the reply nor a read shows that it is stored.
        """
        wanted = {**patch, "metadata": {**patch.get("metadata", {}), "uid": live.uid}}
        client = self.cluster.client
        after = client.merge_patch(BUNDLES, self.ref, wanted)
        if is_after(after, live.resource_version) and _has(after.body, wanted):
            return
        state = client.read(BUNDLES, self.ref, full=True)
        if isinstance(state, Absent) or not _has(state.body, wanted):
            raise not_stored(state)  # guard: verb-is-stored


def _has(body: object, patch: object) -> bool:
    """Return whether an object has each value of a merge patch, which removes nothing."""
    if not isinstance(patch, Mapping):
        return body == patch
    return isinstance(body, Mapping) and all(_has(body.get(key), patch[key]) for key in patch)


def _no_bundles(error: NotServed) -> UsageError:
    return UsageError(
        "this cluster has no Bundles",
        reason=error.message,
        hint="Install the controller: applyprune install",
    )


# The state of a Bundle, from its object.


def bundle_status(live: LiveObject) -> BundleStatus:
    """Return the state of a Bundle that was read in full."""
    body = live.body or {}
    spec, status = mapping(body.get("spec")), mapping(body.get("status"))
    conditions = tuple(_conditions(status))
    ready = next((one for one in conditions if one.type == "Ready"), None)
    observed = whole_number(status, "observedGeneration")
    return BundleStatus(
        name=live.ref.name,
        namespace=live.ref.namespace,
        uid=live.uid,
        generation=live.generation or 0,
        observed_generation=-1 if observed is None else observed,
        ready=ready.status if ready is not None else "Unknown",
        reason=ready.reason if ready is not None else "",
        message=ready.message if ready is not None else "",
        suspended=spec.get("suspend") is True,
        deleting=live.terminating,
        revision=text(status, "lastAppliedRevision"),
        requested_at=live.annotations.get(RECONCILE_NOW, ""),
        reconciled_at=text(status, "lastHandledReconcileAt"),
        pending=_pending(status, live.annotations.get(APPROVE, "")),
        conditions=conditions,
    )


def _conditions(status: Body) -> Iterator[BundleCondition]:
    for one in map(mapping, items(status, "conditions")):
        yield BundleCondition(
            text(one, "type"),
            text(one, "status"),
            text(one, "reason"),
            text(one, "message"),
            text(one, "lastTransitionTime"),
        )


def _pending(status: Body, approved: str) -> BundlePlan | None:
    plan = mapping(status.get("pendingPlan"))
    if not plan:
        return None
    counts = mapping(plan.get("counts"))
    return BundlePlan(
        digest=text(plan, "digest"),
        scope=text(plan, "scope"),
        since=text(plan, "since"),
        revision=text(plan, "revision"),
        counts={str(key): count for key, count in counts.items() if isinstance(count, int)},
        objects=tuple(
            PendingObject(
                text(one, "object"),
                text(one, "namespace"),
                text(one, "fate"),
                text(one, "cascade"),
            )
            for one in map(mapping, items(plan, "objects"))
        ),
        approved=bool(approved) and approved == text(plan, "digest"),
    )


_TRUE = "True"


def bundle_readiness(status: BundleStatus, requested: str) -> Readiness:
    """Return whether a Bundle is ready since the reconcile that was ``requested``; empty for none.

    What is Failed does not become ready until someone changes something.
    """
    why = f"{status.reason}: {status.message}"
    stalled = status.condition("Stalled")
    if status.deleting:
        return Readiness(Status.TERMINATING, "the Bundle is being deleted")
    if status.suspended:
        return failed("the Bundle is suspended")
    # Somebody else may have requested another reconcile since.
    if requested and status.reconciled_at not in {requested, status.requested_at}:
        return in_progress("the controller has not handled the request yet")
    if status.observed_generation != status.generation:
        return in_progress(f"generation {status.generation} has not been handled yet")
    if status.ready == _TRUE:
        return current(status.message)
    if status.pending is not None or (stalled is not None and stalled.status == _TRUE):
        return failed(why)
    return stuck(why) if status.ready == "False" else in_progress(why)


ERRORS: Mapping[str, type[ApplypruneError]] = {
    "ApplyFailed": RunFailed,
    "Conflicts": ConflictsFound,
    "InvalidKubeConfig": UsageError,
    "InvalidSource": InputError,
    "InvalidSpec": UsageError,
    "InventoryOwned": OwnedByBundle,
    "InventoryUnreadable": InventoryError,
    "PendingApproval": NotApproved,
    "PruneRefused": PruneRefused,
}
"""The error of a Bundle that is not ready, by the reason; NotReady for any other reason."""


def not_ready(
    status: BundleStatus, readiness: Readiness, *, within: float | None = None
) -> ApplypruneError:
    """Return the error of a wait that has ended without readiness.

    ``within`` is after how many seconds its time was over; None if it has ended before.
    """
    is_final = readiness.status is Status.FAILED
    kind = ERRORS.get(status.reason, NotReady) if is_final or readiness.stuck else NotReady
    late = "" if within is None else f" within {within:.0f} s"
    return kind(
        f"the Bundle {status.name} in namespace {status.namespace} is not ready{late}",
        reason=readiness.message,
        hint=f"See: kubectl describe bundle {status.name} -n {status.namespace}",
    )


# The wait until the controller has reconciled a Bundle and the Bundle is ready.


class BundleWait(Struct, frozen=True):
    """What to wait for, and how long."""

    ref: Ref
    """The Bundle."""
    requested: str
    """The value of the annotation reconcile-now that the controller must have handled."""
    timeout: float
    """Seconds."""
    fail_fast: bool = False
    """Whether to end at the first failure, although the controller retries."""


_POLL = 1.0


def until_ready(wait: BundleWait, cluster: Cluster, stop: Cancellation) -> Iterator[Event]:
    """Yield what a Bundle waits for until it is ready, cannot become ready, or the time is over.

    Raises Forbidden if the Bundle may not be read.
    """
    began = stop.now()
    readiness = in_progress("it has not been read yet")
    status = BundleStatus(wait.ref.name, wait.ref.namespace)
    reported = ""
    counts = {Outcome.UPDATED: 1}
    # guard: clock-of-bundle -> closing(Informer(cluster))
    with closing(Informer(cluster, clock=stop.clock)) as informer:
        informer.open(WatchScope(BUNDLES, wait.ref.namespace, name=wait.ref.name))
        while True:
            for change in informer.changes(_POLL):
                known, live = _live(change, wait.ref, cluster)
                if known and live is None:
                    error = RunFailed(f"{wait.ref} is gone")
                    yield _failed(error, stop.now() - began)
                    return
                if live is not None:
                    status = bundle_status(live)
                    readiness = bundle_readiness(status, wait.requested)
            elapsed = stop.now() - began
            if stop.requested:
                yield Finished(counts, stop.exit_code, elapsed)
                return
            if readiness.status is Status.CURRENT:
                yield ReadinessReported(wait.ref, readiness, elapsed)
                yield Finished(counts, 0, elapsed)
                return
            if _is_over(wait, readiness, elapsed):
                within = wait.timeout if elapsed > wait.timeout else None
                yield _failed(not_ready(status, readiness, within=within), elapsed)
                return
            if readiness.stuck and readiness.message != reported:
                reported = readiness.message
                yield ObjectStuck(wait.ref, readiness, elapsed)
            yield Waiting(wait.ref, "ready", elapsed, wait.timeout, readiness.message)


def _live(change: WatchChange, ref: Ref, cluster: Cluster) -> tuple[bool, LiveObject | None]:
    """Return whether a change says what the Bundle is now, and the Bundle; None if it is gone."""
    if isinstance(change, Upserted):
        return change.ref == ref, change.live
    if isinstance(change, Listed):
        return True, change.objects.get(ref)
    if not isinstance(change.error, Forbidden):
        return False, None
    # Without the right to list or watch, ask for the object itself.
    try:
        return True, cluster.get(BUNDLES, ref, full=True)
    except NotFound:
        return True, None


def _failed(error: ApplypruneError, elapsed: float) -> Finished:
    return Finished({Outcome.UPDATED: 1}, error.exit_code, elapsed, error.problem)


def _is_over(wait: BundleWait, readiness: Readiness, elapsed: float) -> bool:
    ended = readiness.status in {Status.FAILED, Status.TERMINATING}
    return ended or (wait.fail_fast and readiness.stuck) or elapsed > wait.timeout
