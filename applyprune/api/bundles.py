"""The client's view of Bundles: read one, wait for it, follow its log, and tell it what to do."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from applyprune.api.sets import ApplySet, ClusterConnection, given_or_new
from applyprune.engine.context import WorkerPool
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
    ObjectStatus,
    ObjectStuck,
    Readiness,
    ReadinessReported,
    Status,
    TreeNode,
    Waiting,
    WarningRaised,
    current,
    failed,
    in_progress,
    stuck,
)
from applyprune.model.fate import Outcome
from applyprune.model.identity import Ref
from applyprune.model.live import (
    BUNDLES,
    CONFIG_MAPS,
    PODS,
    SECRETS,
    LiveObject,
    items,
    mapping,
    text,
    whole_number,
)
from applyprune.model.options import CONTROLLER_NAMESPACE, StatusOptions
from applyprune.model.reports import (
    BundleChange,
    BundleCondition,
    BundlePlan,
    BundleStatus,
    FailingObject,
    LogLine,
    PendingObject,
)
from applyprune.model.text import is_dns_subdomain, seconds_since
from applyprune.output.report import RunReport, report_of
from applyprune.planning.marks import APPROVE, RECONCILE_NOW
from applyprune.values import dataclass, field, replace

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
        try:
            live = self.cluster.client.get(BUNDLES, self.ref, full=True)
        except NotFound:
            raise UsageError(
                f"there is no Bundle {self.name} in namespace {self.namespace}",
                hint="To list all Bundles: applyprune bundle list -A",
            ) from None
        except NotServed as error:
            raise _no_bundles(error) from error
        return bundle_status(live, self.cluster.client.server_time or datetime.now(UTC))

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
        before = self.status()
        if before.suspended:
            raise UsageError(
                f"the Bundle {self.name} is suspended",
                reason="the controller does nothing about it",
                hint=f"First: applyprune bundle resume {self.name} -n {self.namespace}",
            )
        now = datetime.now(UTC).isoformat(timespec="microseconds")
        self._annotate(before, RECONCILE_NOW, now)
        yield ObjectDone(self.ref, Outcome.UPDATED, reason="a reconcile was requested")
        if wait:
            wanted = BundleWait(self.ref, now, timeout, fail_fast)
            yield from until_ready(wanted, self.cluster.client, given_or_new(cancellation))

    def approve(self, digest: str) -> BundleStatus:
        """Approve the pending plan with this digest; return the Bundle's state before.

        Raises UsageError if nothing waits for an approval, and PlanOutdated if another plan waits.
        """
        before = self.status()
        pending = before.pending
        if pending is None:
            raise UsageError(
                f"nothing of the Bundle {self.name} waits for an approval",
                hint=f"See: applyprune bundle show {self.name} -n {self.namespace}",
            )
        if digest != pending.digest:  # guard: approve-shown-digest never
            raise PlanOutdated(
                f"the Bundle {self.name} waits for the approval of another plan",
                reason=f"the digest of its pending plan is {pending.digest}",
                hint=f"Review it: applyprune bundle show {self.name} -n {self.namespace}",
            )
        self._annotate(before, APPROVE, pending.digest)
        return before

    def tree(self, *, cancellation: Cancellation | None = None) -> RunReport:
        """Return its objects with what they own, down to Pods and the objects of other Bundles."""
        return report_of(self.iter_tree(cancellation=cancellation))

    def iter_tree(self, *, cancellation: Cancellation | None = None) -> Iterator[Event]:
        """Do what ``tree`` does, and yield the events."""
        return _tree(self, given_or_new(cancellation), frozenset())

    def iter_logs(
        self,
        *,
        follow: bool = False,
        since: float | None = None,
        controller_namespace: str = CONTROLLER_NAMESPACE,
        cancellation: Cancellation | None = None,
    ) -> Iterator[Event]:
        """Yield the LogLine events about it, from the logs of the controller's Pods.

        ``since`` limits them to the last seconds. With ``follow``, they continue until the
        cancellation.
        """
        try:
            applyset = self.status().applyset
        except UsageError:
            applyset = self.name  # the log may be about a Bundle that is gone
        yield from controller_logs(
            self.cluster.client,
            controller_namespace,
            LogFilter(self.namespace, self.name, applyset),
            given_or_new(cancellation),
            follow=follow,
            since=since,
        )

    def _set_suspended(self, *, suspended: bool) -> bool:
        before = self.status()
        if before.suspended == suspended:
            return False
        self._patch(before, {"spec": {"suspend": suspended}})
        return True

    def _annotate(self, before: BundleStatus, key: str, value: str) -> None:
        self._patch(before, {"metadata": {"annotations": {key: value}}})

    def _patch(self, before: BundleStatus, patch: Mapping[str, Any]) -> None:
        """Send a merge patch, as Flux does, for exactly the Bundle that was read."""
        metadata = {**patch.get("metadata", {}), "uid": before.uid}
        self.cluster.client.merge_patch(BUNDLES, self.ref, {**patch, "metadata": metadata})


def list_bundles(
    cluster: ClusterConnection, namespace: str = "", *, all_namespaces: bool = False
) -> list[BundleStatus]:
    """Return the Bundles of a namespace, by default the connection's, or of all namespaces."""
    where = "" if all_namespaces else namespace or cluster.namespace
    client = cluster.client
    try:
        found = client.list(BUNDLES, namespace=where, full=True)
    except NotServed as error:
        raise _no_bundles(error) from error
    now = client.server_time or datetime.now(UTC)
    return sorted(
        (bundle_status(live, now) for live in found), key=lambda one: (one.namespace, one.name)
    )


def _no_bundles(error: NotServed) -> UsageError:
    return UsageError(
        "this cluster has no Bundles",
        reason=error.message,
        hint="Install the controller: applyprune install",
    )


_TREE = StatusOptions(tree=True)


def _tree(bundle: Bundle, stop: Cancellation, above: frozenset[Ref]) -> Iterator[Event]:
    """Yield the status of the set of a Bundle, with the objects of each Bundle in it.

    ``above`` are the Bundles that it belongs to: a Bundle may list itself.
    """
    above |= {bundle.ref}
    status = bundle.status()
    if status.kubeconfig is not None:
        raise UsageError(
            f"the objects of the Bundle {bundle.name} are in another cluster",
            reason=f"spec.kubeConfig names {status.kubeconfig.short}",
            hint=f"There: applyprune status {status.applyset} -n {bundle.namespace} --tree",
        )
    applyset = ApplySet(status.applyset, bundle.namespace, cluster=bundle.cluster)
    for event in applyset.iter_status(_TREE, cancellation=stop):
        if (
            isinstance(event, ObjectStatus)
            and event.ref.group_kind == BUNDLES.group_kind
            and event.ref not in above
        ):
            yield _with_its_objects(event, bundle.cluster, stop, above)
        else:
            yield event


def _with_its_objects(
    event: ObjectStatus, cluster: ClusterConnection, stop: Cancellation, above: frozenset[Ref]
) -> ObjectStatus:
    """Return the status of a Bundle that is an object of another one, with its own objects."""
    inner = Bundle(event.ref.name, event.ref.namespace, cluster=cluster)
    try:
        owned = tuple(
            replace(
                found.tree or TreeNode(found.ref, "", "", None, found.age),
                state=found.readiness.status.text,
            )
            for found in _tree(inner, stop, above)
            if isinstance(found, ObjectStatus)
        )
    except ApplypruneError as error:
        why = f"its objects cannot be read: {error.message}"
        return replace(event, not_read="; ".join(filter(None, (event.not_read, why))))
    node = event.tree or TreeNode(event.ref, "", event.readiness.status.text, None, event.age)
    return replace(event, tree=replace(node, owned=(*node.owned, *owned)))


# The state of a Bundle, from its object.


def bundle_status(live: LiveObject, now: datetime) -> BundleStatus:
    """Return the state of a Bundle that was read in full; ``now`` is the server's time."""
    body = live.body or {}
    spec, status = mapping(body.get("spec")), mapping(body.get("status"))
    conditions = tuple(_conditions(status))
    by_type = {one.type: one for one in conditions}
    ready, drifted = by_type.get("Ready"), by_type.get("Drifted")
    observed = whole_number(status, "observedGeneration")
    inventory = text(status, "inventory", "name")
    kubeconfig = text(spec, "kubeConfig", "secretRef", "name")
    return BundleStatus(
        name=live.ref.name,
        namespace=live.ref.namespace,
        uid=live.uid,
        generation=live.generation or 0,
        observed_generation=-1 if observed is None else observed,
        ready=ready.status if ready is not None else "Unknown",
        reason=ready.reason if ready is not None else "",
        message=ready.message if ready is not None else "",
        drifted=drifted.status if drifted is not None else "",
        suspended=spec.get("suspend") is True,
        deleting=live.terminating,
        age=seconds_since(live.metadata.get("creationTimestamp"), now),
        source=tuple(_source(spec)),
        account=text(spec, "serviceAccountName") or "default",
        kubeconfig=Ref("", SECRETS.kind, live.ref.namespace, kubeconfig) if kubeconfig else None,
        applyset=text(spec, "inventoryName") or live.ref.name,
        inventory=Ref("", CONFIG_MAPS.kind, live.ref.namespace, inventory) if inventory else None,
        revision=text(status, "lastAppliedRevision"),
        attempted_revision=text(status, "lastAttemptedRevision"),
        requested_at=live.annotations.get(RECONCILE_NOW, ""),
        reconciled_at=text(status, "lastHandledReconcileAt"),
        objects=whole_number(status, "objects", "total"),
        failing_count=whole_number(status, "objects", "failing") or 0,
        failing=tuple(
            FailingObject(text(one, "object"), text(one, "namespace"), text(one, "message"))
            for one in map(mapping, items(status, "failing"))
        ),
        pending=_pending(status, live.annotations.get(APPROVE, "")),
        last_change=_change(mapping(status.get("lastChange"))),
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


INLINE = "spec.source.inline"
"""The source of a Bundle that contains its manifests itself."""
_SOURCES = (("configMapRefs", CONFIG_MAPS), ("secretRefs", SECRETS))
_REMOTE_SOURCES = ("git", "oci", "archive")


def _source(spec: Body) -> Iterator[str]:
    """Yield what the source is read from, never its text."""
    source = mapping(spec.get("source"))
    if "inline" in source:
        yield INLINE
    for key, resource in _SOURCES:
        for ref in map(mapping, items(source, key)):
            keys = ", ".join(str(one) for one in items(ref, "keys"))
            yield f"{resource.kind.lower()}/{text(ref, 'name')}{f' ({keys})' if keys else ''}"
    for key in _REMOTE_SOURCES:
        if key in source:
            remote = mapping(source[key])
            path = text(remote, "path")
            yield f"{_without_secrets(text(remote, 'url'))}{f' ({path})' if path else ''}"


def _without_secrets(url: str) -> str:
    """Return a URL without what may be a credential, also one that no Bundle may have."""
    bare = url.partition("?")[0].partition("#")[0]
    scheme, separator, rest = bare.rpartition("://")
    login, at, place = rest.rpartition("@")
    user = f"{login.partition(':')[0]}{at}" if scheme == "ssh" else ""
    return f"{scheme}{separator}{user}{place}"


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
            PendingObject(text(one, "object"), text(one, "namespace"), text(one, "fate"))
            for one in map(mapping, items(plan, "objects"))
        ),
        approved=bool(approved) and approved == text(plan, "digest"),
    )


def _change(change: Body) -> BundleChange | None:
    if not change:
        return None
    seconds = change.get("seconds")
    return BundleChange(
        text(change, "time"),
        float(seconds) if isinstance(seconds, int | float) else 0.0,
        whole_number(change, "created") or 0,
        whole_number(change, "updated") or 0,
        whole_number(change, "removed") or 0,
    )


_TRUE = "True"


def bundle_readiness(status: BundleStatus, requested: str) -> Readiness:
    """Return whether a Bundle is ready since the reconcile that was ``requested``; empty for none.

    What is Failed does not become ready until someone changes something.
    """
    why = f"{status.reason}: {status.message}"
    stalled = next((one for one in status.conditions if one.type == "Stalled"), None)
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
        hint=f"See: applyprune bundle show {status.name} -n {status.namespace}",
    )


# The wait until the controller has reconciled a Bundle and the Bundle is ready.


@dataclass(frozen=True, slots=True)
class BundleWait:
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
                    status = bundle_status(live, datetime.now(UTC))
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


# The logs of the controller's Pods, as far as they are about one Bundle.


_OWN = ("time", "level", "message")


@dataclass(frozen=True, slots=True)
class LogFilter:
    """The Bundle that a line must be about."""

    namespace: str
    bundle: str
    applyset: str
    """The name of its set: the lines about objects name the set."""

    def parsed(self, pod: Ref, text: str) -> LogLine | None:
        """Return a line of the log if it is about the Bundle; None for any other line."""
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(line, dict) or not self._is_about(line):
            return None
        others = {key: value for key, value in line.items() if key not in _OWN}
        at, level, message = (str(line.get(key, "")) for key in _OWN)
        return LogLine(pod, at, level, message, others)

    def _is_about(self, line: Mapping[str, Any]) -> bool:
        if line.get("set") == f"{self.namespace}/{self.applyset}":
            return True
        return (line.get("namespace"), line.get("bundle")) == (self.namespace, self.bundle)


SELECTOR = "app.kubernetes.io/name=applyprune,app.kubernetes.io/component=controller"
"""The labels of the controller's Pods."""


def controller_logs(
    cluster: Cluster,
    namespace: str,
    wanted: LogFilter,
    stop: Cancellation,
    *,
    follow: bool = False,
    since: float | None = None,
) -> Iterator[Event]:
    """Yield the lines about a Bundle, of all Pods of the controller in ``namespace``, by time.

    ``since`` limits them to the last seconds. With ``follow``, yield each new one as it comes, also
    of new Pods, until ``stop``. A Pod whose log cannot be read is a warning, unless it is the only
    one. Raises UsageError if there is no Pod.
    """
    pods = controller_pods(cluster, namespace)
    if not pods:
        raise UsageError(
            f"no controller runs in the namespace {namespace}",
            reason=f"no Pod there has the labels {SELECTOR}",
            hint="Name the controller's namespace with --controller-namespace.",
        )
    recent = None if since is None else max(1, math.ceil(since))
    if follow:
        yield from _Follower(cluster, namespace, wanted, stop).events(pods, recent)
        return
    lines: list[LogLine] = []
    errors: list[ApplypruneError] = []
    with WorkerPool(len(pods), stop) as workers:
        for found in workers.each(lambda pod: _read(cluster, pod, wanted, recent, stop), pods):
            if isinstance(found, ApplypruneError):
                errors.append(found)
            else:
                lines += found
    if len(errors) == len(pods):
        raise errors[0]
    yield from (WarningRaised(error.problem) for error in errors)
    yield from sorted(lines, key=lambda line: line.time)


def controller_pods(cluster: Cluster, namespace: str) -> Sequence[Ref]:
    """Return the Pods of the controller; raise Forbidden, with the rights that are missing."""
    try:
        return [live.ref for live in cluster.list(PODS, namespace=namespace, selector=SELECTOR)]
    except Forbidden as error:
        raise _explained(error, namespace) from None


CONTAINER = "controller"


def _read(
    cluster: Cluster, pod: Ref, wanted: LogFilter, since: int | None, stop: Cancellation
) -> list[LogLine] | ApplypruneError:
    lines = cluster.log_lines(
        pod, CONTAINER, follow=False, since=since, stop=lambda: stop.requested
    )
    try:
        return [line for text in lines if (line := wanted.parsed(pod, text)) is not None]
    except Forbidden as error:
        return _explained(error, pod.namespace)
    except ApplypruneError as error:
        return error


def _explained(error: Forbidden, namespace: str) -> Forbidden:
    """Return the error with the rights that the logs need."""
    hint = (
        "The log comes from the controller's Pods: this needs the rights to list pods and to get "
        f"pods/log in the namespace {namespace}."
    )
    error.problem = replace(error.problem, hint=hint)
    return error


_LOG_POLL = 0.5
_PODS_INTERVAL = 5.0
"""Seconds between two lists of the Pods."""
_REOPEN_PAUSE = 1.0
_OVERLAP = 5
_EARLY = 30.0


@dataclass(slots=True)
class _Follower:
    """Follows each Pod on a thread of its own."""

    cluster: Cluster
    namespace: str
    wanted: LogFilter
    stop: Cancellation
    queue: SimpleQueue[LogLine | ApplypruneError] = field(default_factory=SimpleQueue)
    followed: set[Ref] = field(default_factory=set)

    def events(self, pods: Sequence[Ref], since: int | None) -> Iterator[Event]:
        self._open(pods, since)
        began = listed_at = self.stop.now()
        while not self.stop.requested:
            yield from self._arrived()
            if self.stop.now() - listed_at > _PODS_INTERVAL:
                listed_at = self.stop.now()
                # All of a new Pod's log is new.
                self._open(controller_pods(self.cluster, self.namespace), None)
        yield Finished({}, self.stop.exit_code, self.stop.now() - began)

    def _arrived(self) -> Iterator[Event]:
        try:
            found = self.queue.get(timeout=_LOG_POLL)
            while True:
                if isinstance(found, Forbidden):
                    raise found
                if isinstance(found, ApplypruneError):
                    yield WarningRaised(found.problem)
                else:
                    yield found
                found = self.queue.get_nowait()
        except Empty:
            return

    def _open(self, pods: Sequence[Ref], since: int | None) -> None:
        for pod in pods:
            if pod not in self.followed:
                self.followed.add(pod)
                thread = Thread(target=self._follow, args=(pod, since), daemon=True)
                thread.start()

    def _follow(self, pod: Ref, since: int | None) -> None:
        """Read a log again where it ended: its container restarts, a connection dies."""
        printed = _Printed()
        failure = ""
        while not self.stop.requested:
            opened = heard = self.stop.now()
            try:
                for text in self._lines(pod, since):
                    heard = self.stop.now()
                    line = self.wanted.parsed(pod, text)
                    if line is not None and printed.is_new(line.time, text):
                        self.queue.put(line)
                failure = ""
            except NotFound:
                return
            except Forbidden as error:
                self.queue.put(_explained(error, pod.namespace))
                return
            except ApplypruneError as error:
                # After a minute without a line a connection is given up, which says nothing.
                is_early = self.stop.now() - opened < _EARLY
                if is_early and error.message != failure:
                    self.queue.put(error)
                failure = error.message
            self.stop.wait(_REOPEN_PAUSE)
            since = math.ceil(self.stop.now() - heard) + _OVERLAP

    def _lines(self, pod: Ref, since: int | None) -> Iterator[str]:
        return self.cluster.log_lines(
            pod, CONTAINER, follow=True, since=since, stop=lambda: self.stop.requested
        )


@dataclass(slots=True)
class _Printed:
    """What was printed of one log, of which the end may be read twice."""

    last: str = ""
    texts: set[str] = field(default_factory=set)
    """The lines of the time ``last``."""

    def is_new(self, at: str, text: str) -> bool:
        """Take a line; return whether it was not printed before."""
        if at < self.last or text in self.texts:
            return False
        self.texts = {text, *(self.texts if at == self.last else ())}
        self.last = at
        return True
