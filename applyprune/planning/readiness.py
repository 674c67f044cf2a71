"""Whether an object is ready, and why not: kstatus, workloads, Pods, events; what is waited for.

The source is sigs.k8s.io/cli-utils, pkg/kstatus/status (status.go, generic.go, core.go). The
differences:

- a custom resource without a status, whose CRD has a status, is in progress for 5 seconds;
- a condition with an older observedGeneration is ignored (as in ``kubectl wait``);
- a Job must complete, unless the user only wants it to start;
- a Pod in phase Failed is Failed, and the reason why containers wait in vain is reported;
- a Service of type LoadBalancer needs an address of the load balancer;
- a DaemonSet with the update strategy OnDelete is Current, like a StatefulSet;
- a ReplicationController is judged like a ReplicaSet;
- an APIService must be Available, a Namespace Active, an autoscaler able to scale; without metrics
  it is Current, with a warning;
- what is Failed cannot recover; what needs a change but may still recover is InProgress and stuck;
- a user's rule replaces the rule of a kind;
- a workload that a run has changed must also stay ready (``steady_pods.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec import field as struct_field

from applyprune.model.events import (
    Readiness,
    Status,
    WarningEvent,
    current,
    failed,
    in_progress,
    stuck,
)
from applyprune.model.identity import GVK, Ref
from applyprune.model.kinds import CLAIM, JOB, POD, Trait, kinds_with, row_of
from applyprune.model.live import (
    Condition,
    condition,
    conditions,
    count,
    field,
    items,
    mapping,
    text,
    whole_number,
)
from applyprune.model.plan import Desired
from applyprune.planning.marks import WAIT
from applyprune.planning.pods import (
    controller_of,
    grace_of,
    is_refusal,
    last_failure,
    last_warnings,
    pod_problem,
    pod_readiness,
    pods_problem,
    refused_creation,
)
from applyprune.values import replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from applyprune.model.live import LiveObject
    from applyprune.planning.cel import Rule

    Body = Mapping[str, Any]
    Events = Sequence[Mapping[str, Any]]


STATUS_GRACE = 5.0
"""Seconds in which the controller of a custom resource should set a status."""


def assess(
    body: Body,
    *,
    waited: float = 0.0,
    has_status: bool = False,
    rule: Rule | None = None,
    job_started: bool = False,
) -> Readiness:
    """Return the readiness of a live object (kstatus Compute).

    ``waited`` is the time since our apply in seconds. ``has_status`` says whether this is a custom
    kind whose CRD has a status. ``job_started`` says whether a Job only needs to start.
    """
    if text(body, "metadata", "deletionTimestamp"):
        return Readiness(Status.TERMINATING, _going(body))
    if lag := _lag(body):
        return in_progress(lag)
    standard = _standard_conditions(body)
    if rule is not None:
        judged = rule.judge(body)
        # A rule is only true or false; the conditions show whether the controller has given up.
        gave_up = standard if standard and standard.status is Status.FAILED else None
        return gave_up or judged if judged.status is Status.IN_PROGRESS else judged
    if standard is not None:
        return standard
    kind = GVK.parse(text(body, "apiVersion"), text(body, "kind")).group_kind
    if kind == JOB:
        return _job(body, job_started=job_started)
    word = row_of(kind).ready
    if word in _WITH_PATIENCE:
        return _WITH_PATIENCE[word](body, waited)
    if word:
        return _RULES[word](body)
    return _by_ready_condition(body, has_status, waited)


def _going(body: Body) -> str:
    """Return that an object is being deleted, and what it still waits for."""
    parts = ["the object is being deleted"]
    if finalizers := items(body, "metadata", "finalizers"):
        parts.append(f"held by {', '.join(map(str, finalizers))}")
    if text(body, "kind") == POD.kind:
        parts.append(grace_of(body))
    return "; ".join(filter(None, parts))


def _lag(body: Body) -> str:
    """Return that the controller has not seen the generation yet; empty if it has, or is unknown.

    See checkGeneration of kstatus.
    """
    generation = whole_number(body, "metadata", "generation")
    observed = whole_number(body, "status", "observedGeneration")
    if generation is None or observed is None or generation == observed:
        return ""
    return f"its controller has seen generation {observed}, not yet {generation}"


def _standard_conditions(body: Body) -> Readiness | None:
    """Return the readiness by the first condition of kstatus (checkGenericProperties)."""
    for item in conditions(body):
        if item.type == "Reconciling" and item.status == "True" and not item.outdated:
            return in_progress(item.told or "Reconciling")
        if item.type == "Stalled" and item.status == "True" and not item.outdated:
            return failed(item.told or "Stalled")
    return None


def _by_ready_condition(body: Body, has_status: bool, waited: float) -> Readiness:
    """Return the readiness by the Ready condition, if any (kstatus checkReadyCondition)."""
    ready = condition(body, "Ready")
    if ready is None or ready.status not in {"True", "False", "Unknown"}:
        if has_status and not field(body, "status") and waited < STATUS_GRACE:
            return in_progress("it has no status yet")
        return current("no sign that it is not ready")
    if ready.outdated:
        return in_progress("its Ready condition is of an older generation")
    if ready.status == "True":
        return current("it is ready")
    return in_progress(ready.told or f"Ready is {ready.status}")


# Workloads: the numbers of kstatus (core.go), in its order. Each function states its differences.


# A word, the number in the status, and the one that it must reach; without that, the wanted one.
# Without a word, the number may not be greater.
_TOO_MANY = ("", "replicas", "")
_DEPLOYMENT = (
    ("replicas", "replicas", ""),
    ("updated", "updatedReplicas", ""),
    _TOO_MANY,
    ("available", "availableReplicas", "updatedReplicas"),
    ("ready", "readyReplicas", ""),
)
_REPLICA_SET = (
    ("labelled", "fullyLabeledReplicas", ""),
    ("available", "availableReplicas", ""),
    ("ready", "readyReplicas", ""),
    _TOO_MANY,
)
_STATEFUL_SET = (("replicas", "replicas", ""), ("ready", "readyReplicas", ""), _TOO_MANY)
_PARTITION = (("updated above the partition", "updatedReplicas", ""),)
_ROLLED_OUT = (("current", "currentReplicas", ""),)
_DAEMON_SET = (
    ("scheduled", "currentNumberScheduled", ""),
    ("updated", "updatedNumberScheduled", ""),
    ("available", "numberAvailable", ""),
    ("ready", "numberReady", ""),
)
# The Deployment controller reads this as "no deadline", and then sets no Progressing condition.
_NO_DEADLINE = 2**31 - 1
_ON_DELETE = "the update strategy is OnDelete: Pods are replaced manually"


def _short(body: Body, wanted: int, rows: Sequence[tuple[str, str, str]]) -> str:
    """Return the first number that is not as it must be; empty if all are."""
    for word, name, limit in rows:
        have = count(body, "status", name)
        want = count(body, "status", limit) if limit else wanted
        if not word and have > want:
            return f"Pods to remove: {have - want}"
        if word and have < want:
            return f"{word}: {have} of {want}"
    return ""


def _deployment(body: Body) -> Readiness:
    """Return the readiness of a Deployment (kstatus deploymentConditions).

    Unlike in kstatus, the reason names what the API server rejects (ReplicaFailure). As in kstatus,
    a paused Deployment is in progress: its Progressing condition says DeploymentPaused.
    """
    for item in conditions(body):
        if item.type == "Progressing" and item.reason == "ProgressDeadlineExceeded":
            return failed(f"the progress deadline is exceeded: {item.message or item.reason}")
    if short := _short(body, count(body, "spec", "replicas", default=1), _DEPLOYMENT):
        paused = ", paused" if field(body, "spec", "paused") is True else ""
        failure = _replica_failure(body)
        missing = f"; Pods are missing: {failure.told}" if failure else ""
        return in_progress(f"{short}{paused}{missing}")
    deadline = whole_number(body, "spec", "progressDeadlineSeconds")
    progressing, available = condition(body, "Progressing"), condition(body, "Available")
    done = progressing is not None and (progressing.status, progressing.reason) == (
        "True",
        "NewReplicaSetAvailable",
    )
    if not done and deadline is not None and deadline != _NO_DEADLINE:
        return in_progress(f"the new ReplicaSet is not available{_detail(progressing)}")
    if available is None or available.status != "True":
        return in_progress(f"the Deployment is not available{_detail(available)}")
    return current(f"the Deployment is available, replicas: {count(body, 'status', 'replicas')}")


def _detail(found: Condition | None) -> str:
    return f" ({found.told})" if found and found.told else ""


def _replica_failure(body: Body) -> Condition | None:
    """Return the condition that Pods are missing, because the API server rejects them."""
    failure = condition(body, "ReplicaFailure")
    return failure if failure is not None and failure.status == "True" else None


def _replica_set(body: Body, waited: float) -> Readiness:
    """Return the readiness of a ReplicaSet or ReplicationController (kstatus replicasetConditions).

    As in kstatus, a ReplicaFailure is in progress, regardless of the numbers. It is stuck if the
    API server rejects the Pods.
    """
    if failure := _replica_failure(body):
        if is_refusal(failure.message, waited=waited):
            return stuck(f"its Pods are rejected: {failure.message}")
        return in_progress(f"Pods are missing: {failure.told or 'ReplicaFailure'}")
    if short := _short(body, count(body, "spec", "replicas", default=1), _REPLICA_SET):
        return in_progress(short)
    return current(f"all Pods are available: {count(body, 'status', 'replicas')}")


def _stateful_set(body: Body) -> Readiness:
    """Return the readiness of a StatefulSet (kstatus stsConditions): by numbers, never Failed."""
    if text(body, "spec", "updateStrategy", "type") == "OnDelete":
        return current(_ON_DELETE)
    wanted = count(body, "spec", "replicas", default=1)
    if short := _short(body, wanted, _STATEFUL_SET):
        return in_progress(short)
    partition = whole_number(body, "spec", "updateStrategy", "rollingUpdate", "partition")
    if partition is not None and partition != -1:
        if short := _short(body, wanted - partition, _PARTITION):
            return in_progress(short)
        return current(f"the partition is rolled out: {count(body, 'status', 'updatedReplicas')}")
    if short := _short(body, wanted, _ROLLED_OUT):
        return in_progress(short)
    old, new = text(body, "status", "currentRevision"), text(body, "status", "updateRevision")
    if old != new:
        return in_progress(f"the revision is {old}, to be {new}")
    return current(f"all replicas are ready: {count(body, 'status', 'replicas')}")


def _daemon_set(body: Body) -> Readiness:
    """Return the readiness of a DaemonSet (kstatus daemonsetConditions and checkGenerationSet).

    Unlike in kstatus, one with OnDelete is Current, as a StatefulSet is: somebody replaces its Pods
    at a time of their own.
    """
    if text(body, "spec", "updateStrategy", "type") == "OnDelete":
        return current(_ON_DELETE)
    for path in (("metadata", "generation"), ("status", "observedGeneration")):
        if whole_number(body, *path) is None:
            return in_progress(f"the DaemonSet has no {'.'.join(path)} yet")
    wanted = whole_number(body, "status", "desiredNumberScheduled")
    if wanted is None or wanted == -1:
        return in_progress("the DaemonSet has no status.desiredNumberScheduled yet")
    short = _short(body, wanted, _DAEMON_SET)
    return in_progress(short) if short else current(f"all Pods are ready: {wanted}")


def _job(body: Body, *, job_started: bool) -> Readiness:
    """Return the readiness of a Job (kstatus jobConditions).

    Unlike in kstatus, a started Job is Current only with ``job_started``; by default it must
    complete. As in kstatus, a Job that is suspended as desired is Current. A Job that must fail
    (FailureTarget) has failed once its Pods have ended.
    """
    succeeded, active = count(body, "status", "succeeded"), count(body, "status", "active")
    lost = count(body, "status", "failed")
    parallel = count(body, "spec", "parallelism", default=1)
    wanted = count(body, "spec", "completions", default=parallel)
    suspend = field(body, "spec", "suspend")
    for item in conditions(body):
        if item.status != "True":
            continue
        if item.type == "Complete":
            return current(f"the Job is complete: {succeeded} of {wanted} succeeded")
        if item.type == "Failed":
            return failed(f"the Job has failed: {item.told or f'{lost} Pods failed'}")
        if item.type == "Suspended" and suspend is not False:
            return current("the Job is suspended")
    if (failing := condition(body, "FailureTarget")) is not None and failing.status == "True":
        return in_progress(f"the Job is failing, and its Pods end: {failing.told}")
    if suspend is True:
        return in_progress("the Job is being suspended")
    if not text(body, "status", "startTime"):
        return in_progress("the Job has not started")
    message = f"{succeeded} of {wanted} succeeded, active: {active}, failed: {lost}"
    return current(f"the Job has started: {message}") if job_started else in_progress(message)


# The Pods of a workload.


_DEPLOYMENT_REVISION = "deployment.kubernetes.io/revision"


def current_pods(workload: Body, related: Related) -> Sequence[Body]:
    """Return the Pods of a workload's current template.

    Pods of an earlier template show nothing about the current template, which may repair them. The
    Pods of a Deployment are found through its ReplicaSets.
    """
    if _lag(workload):
        return ()
    if workload.get("kind") == "Deployment":
        newest = _newest(workload, related.replica_sets)
        return [pod for replica_set in newest for pod in _owned(replica_set, related.pods)]
    owned = _owned(workload, related.pods)
    label, wanted = "", ""
    if workload.get("kind") == "StatefulSet":
        label = "controller-revision-hash"
        wanted = text(workload, "status", "updateRevision")
    elif workload.get("kind") == "DaemonSet":
        label = "pod-template-generation"
        template = "deprecated.daemonset.template.generation"
        wanted = text(workload, "metadata", "annotations", template)
    return [pod for pod in owned if not wanted or text(pod, "metadata", "labels", label) == wanted]


def rejected_pods(workload: Body, replica_sets: Sequence[Body], *, waited: float) -> str:
    """Return why the API server rejects the Pods of a Deployment's newest ReplicaSet, else "".

    The Deployment's own condition also tells of older ReplicaSets, which may be what it repairs.
    """
    found = map(_replica_failure, _newest(workload, replica_sets))
    failure = next(filter(None, found), None)
    refused = failure is not None and is_refusal(failure.message, waited=waited)
    return failure.message if failure and refused else ""


def _newest(deployment: Body, replica_sets: Sequence[Body]) -> Sequence[Body]:
    """Return the ReplicaSet of a Deployment's current template, if it was read."""
    revision = text(deployment, "metadata", "annotations", _DEPLOYMENT_REVISION)
    return [
        replica_set
        for replica_set in _owned(deployment, replica_sets)
        if text(replica_set, "metadata", "annotations", _DEPLOYMENT_REVISION) == revision
    ]


def _owned(owner: Body, bodies: Sequence[Body]) -> Sequence[Body]:
    uid = field(owner, "metadata", "uid")
    return [body for body in bodies if controller_of(body).get("uid") == uid]


# The other kinds.


def _service(body: Body) -> Readiness:
    """Return the readiness of a Service; kstatus serviceConditions only requires a cluster IP."""
    if text(body, "spec", "type") != "LoadBalancer":
        return current("the Service is ready")
    if not text(body, "spec", "clusterIP"):
        return in_progress("the Service has no cluster IP yet")
    if not items(body, "status", "loadBalancer", "ingress"):
        return in_progress("its load balancer has no address yet")
    return current("its load balancer has an address")


def _volume_claim(body: Body) -> Readiness:
    """Return the readiness of a PersistentVolumeClaim (kstatus pvcConditions)."""
    phase = text(body, "status", "phase", default="unknown")
    if phase == "Bound":
        return current("the claim is bound")
    return in_progress(f"the claim is not bound, its phase is {phase}")


def _definition(body: Body) -> Readiness:
    """Return the readiness of a CRD (kstatus crdConditions)."""
    for item in conditions(body):
        message = item.told or item.type
        if item.type == "NamesAccepted" and item.status == "False":
            return failed(f"its names are not accepted: {message}")
        if item.type == "Established":
            if item.status == "True":
                return current("the CRD is established")
            if item.status == "False" and item.reason != "Installing":
                return failed(f"it is not established: {message}")
    return in_progress("the CRD is being installed")


def _api_service(body: Body) -> Readiness:
    available = condition(body, "Available")
    if available is None:
        return in_progress("its Available condition is not set yet")
    if available.status == "True":
        return current("its backend is available")
    return in_progress(f"its backend is not available: {available.told or available.status}")


def _namespace(body: Body) -> Readiness:
    phase = text(body, "status", "phase")
    if phase == "Active":
        return current("the Namespace is active")
    return in_progress(f"the Namespace is {phase or 'not active yet'}")


def _autoscaler(body: Body) -> Readiness:
    # An autoscaler is disabled by setting the replicas of its target to 0.
    is_false = {
        item.type: item.told
        for item in conditions(body)
        if item.status == "False" and item.reason != "ScalingDisabled"
    }
    if "AbleToScale" in is_false:
        return in_progress(f"AbleToScale is False: {is_false['AbleToScale']}")
    # Without metrics, it leaves its target alone: nothing that an apply should wait for.
    blind = is_false.get("ScalingActive")
    warning = "" if blind is None else f"it does not scale now: {blind}"
    return current("the autoscaler can scale", warning=warning)


# The rules by their names in the table of kinds. Those with patience are sure of a failure only
# after some time. Not in kstatus: that of an APIService, an autoscaler and a Namespace.
_WITH_PATIENCE: Mapping[str, Callable[[Body, float], Readiness]] = {
    "pod": pod_readiness,
    "replica-set": _replica_set,
}
_RULES: Mapping[str, Callable[[Body], Readiness]] = {
    "always": lambda _: current("there is nothing to wait for"),
    "api-service": _api_service,
    "autoscaler": _autoscaler,
    "claim": _volume_claim,
    "daemon-set": _daemon_set,
    "definition": _definition,
    "deployment": _deployment,
    "namespace": _namespace,
    "service": _service,
    "stateful-set": _stateful_set,
}


# Why an object is not ready, by its Pods, ReplicaSets, events and claims.


class Related(Struct, frozen=True):
    """What was read about one object."""

    pods: Sequence[Body] = ()
    """The Pods that it controls, through its ReplicaSets too."""
    replica_sets: Sequence[Body] = ()
    """The ReplicaSets that it controls."""
    events: Mapping[str, Sequence[Body]] = struct_field(default_factory=dict)
    """The events in its namespace, by the UID of their object."""
    claims: Mapping[Ref, LiveObject] | None = None
    """The claims of its namespace; None if they were not read."""


def with_pods_explained(
    readiness: Readiness, live: LiveObject, related: Related, *, manager: str, waited: float
) -> Readiness:
    """Return the readiness with the problem of its Pods as the reason, if there is one.

    ``manager`` is the set's field manager: what happened before its last apply does not count.
    """
    unready = readiness.status in {Status.IN_PROGRESS, Status.FAILED}
    if not unready or live.body is None or _lag(live.body):
        return readiness  # what is around it is of the earlier generation
    pods = pods_of(live, related)
    if live.ref.group_kind == POD:
        found = pod_problem(live.body, related.events, waited=waited)
    else:
        found = pods_problem(pods, related.events, waited=waited)
    if readiness.status is Status.FAILED:
        return _with_cause(readiness, live, pods, found)
    if found is None or not (found.stuck or found.status is Status.FAILED):
        refused = rejected_pods(live.body, related.replica_sets, waited=waited) or refused_creation(
            related.events.get(live.uid, ()), waited=waited, since=_applied_at(live, manager)
        )
        if refused:
            # The server has made up another name for the Pod of each try.
            lasting = refused.partition(" is forbidden: ")[2] or refused
            found = replace(
                stuck(f"its Pods are rejected: {refused}"),
                lasting_message=f"its Pods are rejected: {lasting}",
            )
    found = found or _with_cause(readiness, live, pods, None)
    missing = "; ".join(_missing_claims(live.ref.namespace, (live.body, *pods), related))
    if not missing:
        return found
    return replace(
        found, message=f"{found.message}; {missing}", lasting_message=f"{found.fact}; {missing}"
    )


def _with_cause(
    readiness: Readiness, live: LiveObject, pods: Sequence[Body], problem: Readiness | None
) -> Readiness:
    """Return what the status of a workload says, with what its Pods show of the cause.

    The status of a Job counts its failed Pods, and that of a Deployment says that time is up.
    """
    cause = lasting = ""
    if live.ref.group_kind == JOB:
        cause = last_failure(pods)
        lasting = cause if readiness.status is Status.FAILED else ""
    elif live.ref.group_kind != POD and problem is not None:
        cause, lasting = problem.message, problem.fact
    if not cause or cause.partition(":")[0].removeprefix("pod/") in readiness.message:
        return readiness
    return replace(
        readiness,
        message=f"{readiness.message.rstrip('.')}; {cause}",
        lasting_message=f"{readiness.fact.rstrip('.')}; {lasting}" if lasting else readiness.fact,
    )


def pods_of(live: LiveObject, related: Related) -> Sequence[Body]:
    """Return the Pods that show why an object is not ready: a Pod shows it itself."""
    body = live.body or {}
    return (body,) if live.ref.group_kind == POD else current_pods(body, related)


def _applied_at(live: LiveObject, manager: str) -> str:
    """Return the time of the set's last apply that changed the object; empty if unknown."""
    return max(
        (
            one.time
            for one in live.writers
            if (one.manager, one.operation, one.subresource) == (manager, "Apply", "")
        ),
        default="",
    )


def _missing_claims(namespace: str, bodies: Sequence[Body], related: Related) -> Iterator[str]:
    """Yield what is wrong with each claim that a pending Pod mounts."""
    if related.claims is None:
        return
    for name in sorted(mounts_claims(bodies)):
        ref = Ref(CLAIM.group, CLAIM.kind, namespace, name)
        if (claim := related.claims.get(ref)) is None:
            yield f"{ref.short} does not exist"
        elif (phase := text(claim.body or {}, "status", "phase") or "Pending") != "Bound":
            yield f"{ref.short} is {phase}"


def warnings_about(live: LiveObject, related: Related) -> tuple[WarningEvent, ...]:
    """Return the last warnings about an object, its ReplicaSets and the Pods of its template."""
    body = live.body or {}
    about = (body, *related.replica_sets, *current_pods(body, related))
    uids = [text(one, "metadata", "uid") for one in about]
    return last_warnings([event for uid in uids for event in related.events.get(uid, ())])


def mounts_claims(bodies: Sequence[Body]) -> frozenset[str]:
    """Return the claims that the pending Pods among these objects mount."""
    return frozenset(
        text(mapping(volume), "persistentVolumeClaim", "claimName")
        for body in bodies
        if text(body, "status", "phase") == "Pending" and body.get("kind", "Pod") == "Pod"
        for volume in items(body, "spec", "volumes")
    ) - {""}


# Which objects a run waits for, and by which rule.


WITH_PODS = kinds_with(Trait.KEEPS_PODS) | {JOB}
"""The kinds whose Pods show why they are not ready."""


class Wait:
    """The values of the wait annotation."""

    SKIP = "skip"
    STARTED = "started"


def wait_word(metadata: Mapping[str, object]) -> str:
    """Return the value of the wait annotation; empty if there is none."""
    return str(mapping(metadata.get("annotations")).get(WAIT, ""))


class Applied(Struct, frozen=True):
    """An object as this run has left it, by the server's last reply about it."""

    at: float
    """When, on the clock of the run's waits."""
    uid: str = ""
    generation: int | None = None
    resource_version: str = ""
    replaced: str = ""
    """The UID of the object that this run has deleted to create this one."""
    has_changed: bool = False
    """Whether it has changed, or may have, since a run last saw it ready."""


class Awaited(Struct, frozen=True):
    """An object that a run waits for until it is ready."""

    desired: Desired
    applied: Applied
    """How this run has left it."""
    rule: Rule | None = None
    """The user's ready-when rule; None for the rule of the kind."""
    has_status: bool = False
    """Whether the kind is a custom kind whose CRD has a status."""
    completed: bool = False
    """Whether an earlier run has recorded that a Job with a TTL has completed."""
    was_ready: bool = False
    """Whether it was ready before in this run: then it only needs to be there still."""


def outdated_read(live: LiveObject, applied: Applied) -> Readiness | None:
    """Return that a read is older than the reply to this run; None if it is not.

    Another API server, or a cache in between, may lag. What has no generation has a
    resourceVersion, and a lower number of that is older.
    """
    if applied.replaced and live.uid == applied.replaced:
        return in_progress("the server still shows the object that this run has replaced")
    if live.uid != applied.uid:
        return None
    if applied.generation is not None and live.generation is not None:
        if live.generation < applied.generation:
            return in_progress(
                f"the server still shows generation {live.generation}, and this run has applied "
                f"generation {applied.generation}"
            )
        return None
    versions = live.resource_version, applied.resource_version
    if all(one.isdecimal() for one in versions) and int(versions[0]) < int(versions[1]):
        return in_progress("the server still shows it as it was before this run")
    return None


def for_wait(readiness: Readiness, *, fail_fast: bool) -> Readiness:
    """Return the readiness that a wait acts on: with ``fail_fast``, what is stuck has failed."""
    if fail_fast and readiness.stuck:
        return replace(readiness, status=Status.FAILED, stuck=False)
    return readiness


def masked_readiness(readiness: Readiness, masked: Callable[[str], str]) -> Readiness:
    """Return the readiness with ``masked`` texts: controllers and nodes may quote anything."""
    return replace(
        readiness,
        message=masked(readiness.message),
        warning=masked(readiness.warning),
        lasting_message=masked(readiness.lasting_message),
    )


# Whether a Job has completed.


def has_completed(live: LiveObject) -> bool:
    """Return whether a Job has completed, as far as was read: only then it has this time."""
    if live.body is not None:
        return is_complete(live.body)
    path = ("status", "completionTime")
    return any(one.subresource == "status" and one.fields.names(path) for one in live.writers)


def is_complete(body: Mapping[str, Any]) -> bool:
    """Return whether a Job has completed, by its condition; a failed one has not."""
    return any(
        text(item, "type") == "Complete" and text(item, "status") == "True"
        for item in items(body, "status", "conditions")
    )
