"""When a live object is ready: the rules of kstatus, with its known holes closed.

The source is sigs.k8s.io/cli-utils, pkg/kstatus/status (status.go, generic.go, core.go). Where this
differs:

- a custom resource whose CRD has a status, and that has none yet, is in progress for 5 seconds;
- a condition that says itself that it saw an older generation is not believed (``kubectl wait``);
- a Job must complete, unless to have started is enough;
- a Pod in phase Failed is Failed, and what containers wait for in vain is seen and named;
- a Service of type LoadBalancer needs an address of the balancer;
- a Deployment or ReplicaSet whose Pods the API server refuses is Failed;
- an APIService must be Available, a Namespace Active, an autoscaler able to scale;
- a user's rule takes the place of the rule of a kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from applyprune.model.events import Readiness, Status, current, failed, in_progress
from applyprune.model.identity import GVK, GroupKind
from applyprune.model.json_access import condition, conditions, field, items, text, whole_number
from applyprune.planning.readiness.pods import assess_pod
from applyprune.planning.readiness.workloads import (
    assess_daemon_set,
    assess_deployment,
    assess_job,
    assess_replica_set,
    assess_stateful_set,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from applyprune.planning.readiness.cel import Rule

if TYPE_CHECKING:
    Body = Mapping[str, Any]

STATUS_GRACE = 5.0
"""Seconds in which the controller of a custom resource is expected to give it a status."""


def assess(
    body: Body,
    *,
    waited: float = 0.0,
    has_status: bool = False,
    rule: Rule | None = None,
    job_started: bool = False,
) -> Readiness:
    """Return the state of a live object (kstatus Compute).

    ``waited`` is the seconds since our apply, ``has_status`` whether the kind is a custom one whose
    CRD has a status, ``job_started`` whether a Job needs only to start.
    """
    if text(body, "metadata", "deletionTimestamp"):
        return Readiness(Status.TERMINATING, "the object is being deleted")
    stale = _not_observed(body)
    if stale is not None:
        return stale
    if rule is not None:
        judged = rule.judge(body)
        # A rule says true or false: that the controller has given up is known from elsewhere.
        return _stalled(body) or judged if judged.status is Status.IN_PROGRESS else judged
    standard = _standard_conditions(body)
    if standard is not None:
        return standard
    kind = GVK.parse(text(body, "apiVersion"), text(body, "kind")).group_kind
    if kind == _JOB:
        return assess_job(body, job_started=job_started)
    if kind in _WITH_PATIENCE:
        return _WITH_PATIENCE[kind](body, waited=waited)
    if kind in _KINDS:
        return _KINDS[kind](body)
    return _by_ready_condition(body) or _without_conditions(body, has_status, waited)


def _not_observed(body: Body) -> Readiness | None:
    """Return that the controller has not seen the present generation (kstatus checkGeneration)."""
    generation = whole_number(body, "metadata", "generation")
    observed = whole_number(body, "status", "observedGeneration")
    if generation is None or observed is None or generation == observed:
        return None
    return in_progress(f"its controller has seen generation {observed}, not yet {generation}")


def _standard_conditions(body: Body) -> Readiness | None:
    """Return what the conditions of kstatus say, the first of them (checkGenericProperties)."""
    for one in conditions(body):
        if one.type == "Reconciling" and one.status == "True" and not one.outdated:
            return in_progress(one.told or "Reconciling")
        if one.type == "Stalled" and one.status == "True" and not one.outdated:
            return failed(one.told or "Stalled")
    return None


def _stalled(body: Body) -> Readiness | None:
    standard = _standard_conditions(body)
    return standard if standard and standard.status is Status.FAILED else None


def _by_ready_condition(body: Body) -> Readiness | None:
    """Return what the Ready condition says, if there is one (kstatus checkReadyCondition)."""
    ready = condition(body, "Ready")
    if ready is None or ready.status not in {"True", "False", "Unknown"}:
        return None
    if ready.outdated:
        return in_progress("its Ready condition is that of an older generation")
    if ready.status == "True":
        return current("it is ready")
    return in_progress(ready.told or f"Ready is {ready.status}")


def _without_conditions(body: Body, has_status: bool, waited: float) -> Readiness:
    if has_status and not field(body, "status") and waited < STATUS_GRACE:
        return in_progress("it has no status yet")
    return current("nothing says that it is not ready")


def _always(_body: Body) -> Readiness:
    return current("there is nothing to wait for")


def _service(body: Body) -> Readiness:
    """kstatus serviceConditions, which is content with a cluster IP."""
    if text(body, "spec", "type") != "LoadBalancer":
        return current("the Service is ready")
    if not text(body, "spec", "clusterIP"):
        return in_progress("the Service has no cluster IP yet")
    if not items(body, "status", "loadBalancer", "ingress"):
        return in_progress("its load balancer has no address yet")
    return current("its load balancer has an address")


def _volume_claim(body: Body) -> Readiness:
    """kstatus pvcConditions."""
    phase = text(body, "status", "phase", default="unknown")
    if phase == "Bound":
        return current("the claim is bound")
    return in_progress(f"the claim is not bound, its phase is {phase}")


def _definition(body: Body) -> Readiness:
    """kstatus crdConditions."""
    for one in conditions(body):
        told = one.told or one.type
        if one.type == "NamesAccepted" and one.status == "False":
            return failed(f"its names are not accepted: {told}")
        if one.type == "Established":
            if one.status == "True":
                return current("the CRD is established")
            if one.status == "False" and one.reason != "Installing":
                return failed(f"it is not established: {told}")
    return in_progress("the CRD is being installed")


def _api_service(body: Body) -> Readiness:
    available = condition(body, "Available")
    if available is None:
        return in_progress("nothing says yet that its backend is available")
    if available.status == "True":
        return current("its backend is available")
    return in_progress(f"its backend is not available: {available.told or available.status}")


def _namespace(body: Body) -> Readiness:
    phase = text(body, "status", "phase")
    if phase == "Active":
        return current("the Namespace is active")
    return in_progress(f"the Namespace is {phase or 'not active yet'}")


def _autoscaler(body: Body) -> Readiness:
    for one in conditions(body):
        # No replicas wanted of its target is how an autoscaler is turned off.
        if one.reason == "ScalingDisabled":
            continue
        if one.type in {"AbleToScale", "ScalingActive"} and one.status == "False":
            return in_progress(f"{one.type} is False: {one.told}")
    return current("the autoscaler can scale")


_JOB = GroupKind("batch", "Job")
# Those whose Failed takes time to be sure of. `extensions` is as kstatus has it.
_WITH_PATIENCE: Mapping[GroupKind, Callable[..., Readiness]] = {
    GroupKind("", "Pod"): assess_pod,
    GroupKind("apps", "Deployment"): assess_deployment,
    GroupKind("extensions", "Deployment"): assess_deployment,
    GroupKind("apps", "ReplicaSet"): assess_replica_set,
    GroupKind("extensions", "ReplicaSet"): assess_replica_set,
}
_KINDS: Mapping[GroupKind, Callable[[Body], Readiness]] = {
    GroupKind("apps", "StatefulSet"): assess_stateful_set,
    GroupKind("apps", "DaemonSet"): assess_daemon_set,
    GroupKind("extensions", "DaemonSet"): assess_daemon_set,
    GroupKind("", "Service"): _service,
    GroupKind("", "PersistentVolumeClaim"): _volume_claim,
    # kstatus: once the controller has seen the generation, it has done all that it does.
    GroupKind("policy", "PodDisruptionBudget"): _always,
    GroupKind("", "Secret"): _always,
    GroupKind("", "ConfigMap"): _always,
    GroupKind("batch", "CronJob"): _always,
    GroupKind("apiextensions.k8s.io", "CustomResourceDefinition"): _definition,
    # Not in kstatus.
    GroupKind("", "Namespace"): _namespace,
    GroupKind("apiregistration.k8s.io", "APIService"): _api_service,
    GroupKind("autoscaling", "HorizontalPodAutoscaler"): _autoscaler,
}
