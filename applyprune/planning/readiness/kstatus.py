"""Assess whether a live object is ready: the rules of kstatus, with its known gaps closed.

The source is sigs.k8s.io/cli-utils, pkg/kstatus/status (status.go, generic.go, core.go). The
differences:

- a custom resource without a status, whose CRD has a status, is in progress for 5 seconds;
- a condition with an older observedGeneration is ignored (as in ``kubectl wait``);
- a Job must complete, unless the user only wants it to start;
- a Pod in phase Failed is Failed, and the reason why containers wait in vain is reported;
- a Service of type LoadBalancer needs an address of the load balancer;
- a DaemonSet with the update strategy OnDelete is Current, like a StatefulSet;
- an APIService must be Available, a Namespace Active, an autoscaler able to scale; without metrics
  it is Current, with a warning;
- what is Failed cannot recover; what needs a change but may still recover is InProgress and stuck;
- a user's rule replaces the rule of a kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from applyprune.model.events import Readiness, Status, current, failed, in_progress
from applyprune.model.identity import GVK, GroupKind
from applyprune.model.live import condition, conditions, field, items, text, whole_number
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
        return Readiness(Status.TERMINATING, "the object is being deleted")
    stale = _not_observed(body)
    if stale is not None:
        return stale
    if rule is not None:
        judged = rule.judge(body)
        # A rule is only true or false; the conditions show whether the controller has given up.
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
    """Return InProgress if the controller lags behind the generation (kstatus checkGeneration)."""
    generation = whole_number(body, "metadata", "generation")
    observed = whole_number(body, "status", "observedGeneration")
    if generation is None or observed is None or generation == observed:
        return None
    return in_progress(f"its controller has seen generation {observed}, not yet {generation}")


def _standard_conditions(body: Body) -> Readiness | None:
    """Return the readiness by the first condition of kstatus (checkGenericProperties)."""
    for item in conditions(body):
        if item.type == "Reconciling" and item.status == "True" and not item.outdated:
            return in_progress(item.told or "Reconciling")
        if item.type == "Stalled" and item.status == "True" and not item.outdated:
            return failed(item.told or "Stalled")
    return None


def _stalled(body: Body) -> Readiness | None:
    standard = _standard_conditions(body)
    return standard if standard and standard.status is Status.FAILED else None


def _by_ready_condition(body: Body) -> Readiness | None:
    """Return the readiness by the Ready condition, if any (kstatus checkReadyCondition)."""
    ready = condition(body, "Ready")
    if ready is None or ready.status not in {"True", "False", "Unknown"}:
        return None
    if ready.outdated:
        return in_progress("its Ready condition is of an older generation")
    if ready.status == "True":
        return current("it is ready")
    return in_progress(ready.told or f"Ready is {ready.status}")


def _without_conditions(body: Body, has_status: bool, waited: float) -> Readiness:
    if has_status and not field(body, "status") and waited < STATUS_GRACE:
        return in_progress("it has no status yet")
    return current("no sign that it is not ready")


def _always(_body: Body) -> Readiness:
    return current("there is nothing to wait for")


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


_DISABLED = "ScalingDisabled"


def _autoscaler(body: Body) -> Readiness:
    for item in conditions(body):
        # An autoscaler is disabled by setting the replicas of its target to 0.
        if item.reason == _DISABLED:
            continue
        if item.type == "AbleToScale" and item.status == "False":
            return in_progress(f"{item.type} is False: {item.told}")
    # Without metrics, it leaves its target alone: nothing that an apply should wait for.
    blind = condition(body, "ScalingActive")
    if blind is not None and blind.status == "False" and blind.reason != _DISABLED:
        return current("the autoscaler can scale", warning=f"it does not scale now: {blind.told}")
    return current("the autoscaler can scale")


_JOB = GroupKind("batch", "Job")
# Kinds whose failure is certain only after some time. `extensions` is as in kstatus.
_WITH_PATIENCE: Mapping[GroupKind, Callable[..., Readiness]] = {
    GroupKind("", "Pod"): assess_pod,
    GroupKind("apps", "ReplicaSet"): assess_replica_set,
    GroupKind("extensions", "ReplicaSet"): assess_replica_set,
}
_KINDS: Mapping[GroupKind, Callable[[Body], Readiness]] = {
    GroupKind("apps", "Deployment"): assess_deployment,
    GroupKind("extensions", "Deployment"): assess_deployment,
    GroupKind("apps", "StatefulSet"): assess_stateful_set,
    GroupKind("apps", "DaemonSet"): assess_daemon_set,
    GroupKind("extensions", "DaemonSet"): assess_daemon_set,
    GroupKind("", "Service"): _service,
    GroupKind("", "PersistentVolumeClaim"): _volume_claim,
    # kstatus: after the controller has seen the generation, nothing else happens.
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
