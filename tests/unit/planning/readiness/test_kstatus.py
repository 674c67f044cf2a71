"""Readiness as a table: the cases that kstatus publishes, then those in which we go further.

The cases of ``KSTATUS`` are those of sigs.k8s.io/cli-utils, pkg/kstatus/status,
status_compute_test.go and core_test.go, under their names there, written anew. ``theirs`` stands
where our answer is another on purpose.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from applyprune.model.events import Status
from applyprune.planning.pods import is_refusal, last_warnings, pods_problem, refused_creation
from applyprune.planning.readiness import Related, assess, current_pods

Body = dict[str, Any]
WAITING, DONE, FAILED = Status.IN_PROGRESS, Status.CURRENT, Status.FAILED
LONG = 16.0
"""Longer than the grace of 15 seconds."""


@dataclass(frozen=True)
class Case:
    """An object, what ``assess`` is told of it, and what it must answer."""

    body: Body
    status: Status
    says: str = ""
    theirs: Status | None = None
    told: dict[str, Any] = field(default_factory=dict)
    stuck: bool = False
    warning: str = ""


def obj(what: str, status: Body | None = None, spec: Body | None = None, **metadata: Any) -> Body:
    """Return a live object of ``apiVersion Kind``, of generation 1 unless told otherwise."""
    api_version, kind = what.split()
    body: Body = {"apiVersion": api_version, "kind": kind}
    body["metadata"] = {"name": "test", "namespace": "qual", "generation": 1, **metadata}
    return body | {key: one for key, one in (("spec", spec), ("status", status)) if one is not None}


def cond(
    type_: str, status: str = "True", reason: str = "", message: str = "", **more: Any
) -> Body:
    return {"type": type_, "status": status, "reason": reason, "message": message, **more}


POD, PVC, CR = "v1 Pod", "v1 PersistentVolumeClaim", "something/v1 MyCR"
RC = "v1 ReplicationController"
STS, DS, DEP, RS = (
    f"apps/v1 {kind}" for kind in ("StatefulSet", "DaemonSet", "Deployment", "ReplicaSet")
)
JOB, PDB, SERVICE = "batch/v1 Job", "policy/v1beta1 PodDisruptionBudget", "v1 Service"
CRD = "apiextensions.k8s.io/v1 CustomResourceDefinition"
HPA, NS = "autoscaling/v2 HorizontalPodAutoscaler", "v1 Namespace"
APIS = "apiregistration.k8s.io/v1 APIService"
UNSCHEDULABLE = cond("PodScheduled", "False", "Unschedulable")
NEW = cond("Progressing", reason="NewReplicaSetAvailable")
SCHEDULED = {
    "desiredNumberScheduled": 4,
    "currentNumberScheduled": 4,
    "updatedNumberScheduled": 4,
    "numberAvailable": 4,
    "numberReady": 4,
    "observedGeneration": 1,
}
LABELLED = {
    "observedGeneration": 1,
    "replicas": 4,
    "readyReplicas": 4,
    "availableReplicas": 4,
    "fullyLabeledReplicas": 4,
}


def sts(**status: int) -> Body:
    """Return a StatefulSet of four whose Pods are all ready but for what is given."""
    full = {"observedGeneration": 1, "currentReplicas": 4, "readyReplicas": 4, "replicas": 4}
    return obj(STS, full | status, {"replicas": 4})


def dep(*conditions: Body, spec: Body | None = None, **status: Any) -> Body:
    """Return a Deployment of one whose Pod is available but for what is given."""
    full: Body = {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1}
    full |= {"readyReplicas": 1, "availableReplicas": 1}
    return obj(DEP, full | status | {"conditions": list(conditions)}, spec)


def rs(*conditions: Body, **status: int) -> Body:
    """Return a ReplicaSet of four whose Pods are all available but for what is given."""
    return obj(RS, LABELLED | status | {"conditions": list(conditions)}, {"replicas": 4})


def pod(
    phase: str,
    *conditions: Body,
    containers: list[Body] | None = None,
    init: list[Body] | None = None,
    **more: Any,
) -> Body:
    status: Body = {"phase": phase, "conditions": list(conditions), **more}
    status["containerStatuses"] = containers or []
    return obj(POD, status | {"initContainerStatuses": init or []})


def waits(reason: str, message: str = "", *, name: str = "nginx", **more: Any) -> Body:
    return {"name": name, "state": {"waiting": {"reason": reason, "message": message}}, **more}


def job(*conditions: Body, spec: Body | None = None, **status: Any) -> Body:
    return obj(JOB, status | {"conditions": list(conditions)}, spec)


def crd(*conditions: Body) -> Body:
    return obj(CRD, {"conditions": list(conditions)})


def suspended(status: str, spec: Body | None) -> Body:
    return job(cond("Suspended", status, "JobSuspended"), spec=spec)


STARTED = job(
    cond("Failed", "False"),
    cond("Complete", "False"),
    spec={"completions": 10, "parallelism": 2},
    startTime="2019-06-04T01:17:13Z",
    succeeded=3,
    failed=1,
    active=2,
)
KSTATUS = {
    "podNoStatus": Case(obj(POD), WAITING),
    "podReady": Case(pod("Running", cond("Ready")), DONE),
    "podCompletedSuccessfully": Case(
        pod("Succeeded", cond("Ready", "False", "PodCompleted")), DONE
    ),
    "podCompletedFailed": Case(
        pod("Failed", cond("Ready", "False", "PodCompleted")), FAILED, theirs=DONE
    ),
    "podBeingScheduled": Case(pod("Pending", UNSCHEDULABLE), WAITING, told={"waited": 0}),
    "podUnschedulable": Case(
        pod("Pending", UNSCHEDULABLE), WAITING, told={"waited": LONG}, theirs=FAILED, stuck=True
    ),
    "podCrashLooping": Case(
        pod("Running", UNSCHEDULABLE, containers=[waits("CrashLoopBackOff")]),
        WAITING,
        theirs=FAILED,
        stuck=True,
    ),
    "pvcNoStatus": Case(obj(PVC), WAITING),
    "pvcBound": Case(obj(PVC, {"phase": "Bound"}), DONE),
    "stsNoStatus": Case(obj(STS), WAITING, "replicas: 0 of 1"),
    "stsBadStatus": Case(
        obj(STS, {"observedGeneration": 1, "currentReplicas": 1}), WAITING, "replicas: 0 of 1"
    ),
    "stsOK": Case(sts(), DONE),
    "stsLessReady": Case(sts(readyReplicas=2), WAITING, "ready: 2 of 4"),
    "stsLessCurrent": Case(sts(currentReplicas=2), WAITING, "current: 2 of 4"),
    "stsExtraPods": Case(sts(replicas=8), WAITING, "Pods to remove: 4"),
    "dsNoStatus": Case(obj(DS), WAITING, "status.observedGeneration"),
    "dsBadStatus": Case(
        obj(DS, {"observedGeneration": 1, "currentReplicas": 1}), WAITING, "desiredNumberScheduled"
    ),
    "dsOK": Case(obj(DS, SCHEDULED), DONE),
    "dsLessReady": Case(obj(DS, SCHEDULED | {"numberReady": 2}), WAITING, "ready: 2 of 4"),
    "dsDifferentGeneration": Case(obj(DS, SCHEDULED, generation=2), WAITING, "generation 1"),
    "dsLessAvailable": Case(
        obj(DS, SCHEDULED | {"numberAvailable": 2}), WAITING, "available: 2 of 4"
    ),
    "depNoStatus": Case(obj(DEP), WAITING, "replicas: 0 of 1"),
    "depOK": Case(dep(NEW, cond("Available")), DONE),
    "depNotProgressing": Case(
        dep(
            cond("Progressing", "False", "Some reason"),
            cond("Available"),
            spec={"progressDeadlineSeconds": 45},
        ),
        WAITING,
        "ReplicaSet is not available (Some reason)",
    ),
    "depNoProgressDeadlineSeconds": Case(dep(cond("Available")), DONE),
    "depNotAvailable": Case(dep(NEW, cond("Available", "False")), WAITING, "is not available"),
    "rsNoStatus": Case(obj(RS), WAITING, "labelled: 0 of 1"),
    "rsOK1": Case(rs(cond("ReplicaFailure", "False")), DONE),
    "rsOK2": Case(rs(), DONE),
    "rsLessAvailable": Case(rs(availableReplicas=2), WAITING, "available: 2 of 4"),
    "rsLessReady": Case(rs(readyReplicas=2), WAITING, "ready: 2 of 4"),
    "rsReplicaFailure": Case(rs(cond("ReplicaFailure")), WAITING, "Pods are missing"),
    "pdbNotObserved": Case(obj(PDB, {"observedGeneration": 1}, generation=2), WAITING),
    "pdbObserved": Case(obj(PDB, {"observedGeneration": 1}), DONE),
    "crdNoStatus": Case(obj(CR), DONE),
    "crdReady": Case(obj(CR, {"conditions": [cond("Ready", "True", "AllOk")]}), DONE),
    "crdNotReady": Case(
        obj(CR, {"observedGeneration": 1, "conditions": [cond("Ready", "False", "NotReadyYet")]}),
        WAITING,
        "NotReadyYet",
    ),
    "crdNoCondition": Case(obj(CR, {"conditions": [cond("SomeCondition", "False")]}), DONE),
    "crdMismatchStatusGeneration": Case(
        obj(CR, {"observedGeneration": 1}, generation=2), WAITING, "generation 1, not yet 2"
    ),
    "jobNoStatus": Case(obj(JOB), WAITING, "not started"),
    "jobComplete": Case(job(cond("Complete"), succeeded=1, active=0), DONE),
    "jobFailed": Case(
        job(cond("Failed", reason="JobFailed"), spec={"completions": 4}, succeeded=3, failed=1),
        FAILED,
        "JobFailed",
    ),
    "jobInProgress": Case(STARTED, WAITING, "3 of 10 succeeded", theirs=DONE),
    "suspendedJob": Case(suspended("True", {"suspend": True}), DONE, "suspended"),
    "suspendedJob without a spec": Case(suspended("True", None), DONE),
    "previouslySuspendedJob": Case(suspended("False", {"suspend": False}), WAITING),
    "toSuspendedJob": Case(suspended("False", {"suspend": True}), WAITING, "being suspended"),
    "fromSuspendedJob": Case(suspended("True", {"suspend": False}), WAITING),
    "cronjobNoStatus": Case(obj("batch/v1 CronJob"), DONE),
    "cronjobWithStatus": Case(obj("batch/v1 CronJob") | {"status": None}, DONE),
    "serviceDefault": Case(obj(SERVICE), DONE),
    "serviceNodePort": Case(obj(SERVICE, spec={"type": "NodePort"}), DONE),
    "serviceLBnok": Case(obj(SERVICE, spec={"type": "LoadBalancer"}), WAITING, "no cluster IP"),
    "serviceLBok": Case(
        obj(SERVICE, spec={"type": "LoadBalancer", "clusterIP": "1.2.3.4"}),
        WAITING,
        "no address",
        theirs=DONE,
    ),
    "crdNoConditions": Case(obj(CRD), WAITING),
    "crdInstalling": Case(
        crd(cond("NamesAccepted"), cond("Established", "False", "Installing")), WAITING
    ),
    "crdNamesNotAccepted": Case(crd(cond("NamesAccepted", "False", "SomeReason")), FAILED),
    "crdEstablished": Case(crd(cond("NamesAccepted"), cond("Established")), DONE),
}

QUOTA = 'pods "web-7d" is forbidden: exceeded quota: pods, requested: pods=1, used: pods=2'
NO_ACCOUNT = 'pods "web-7d" is forbidden: error looking up service account qual/web: not found'
BASELINE = 'pods "web-7d" is forbidden: violates PodSecurity "baseline:latest": privileged'
WEBHOOK = 'admission webhook "deny.example.com" denied the request: no'
NO_WEBHOOK = 'Internal error occurred: failed calling webhook "x": connection refused'
EXPIRED = cond("Progressing", "False", "ProgressDeadlineExceeded", 'ReplicaSet "w" has timed out.')
EMPTY: Body = {"replicas": 0, "updatedReplicas": 0, "readyReplicas": 0, "availableReplicas": 0}


def refuses(message: str) -> Body:
    """Return the condition of a workload whose Pods cannot be made."""
    return cond("ReplicaFailure", "True", "FailedCreate", message)


LB = {"type": "LoadBalancer", "clusterIP": "1.2.3.4"}
PULL = waits("ImagePullBackOff", 'Back-off pulling image "nope"')
CRASH = waits(
    "CrashLoopBackOff",
    "back-off 40s restarting failed container",
    lastState={"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
)
OURS = {
    "a claim that waits for a volume": Case(
        obj(PVC, {"phase": "Pending"}), WAITING, "the claim is not bound, its phase is Pending"
    ),
    "an object that is being deleted": Case(
        obj(CR, {"conditions": [cond("Ready")]}, deletionTimestamp="2026-01-01T00:00:00Z"),
        Status.TERMINATING,
    ),
    "deletion comes before the generation": Case(
        obj(DEP, {"observedGeneration": 1}, generation=2, deletionTimestamp="2026-01-01T00:00:00Z"),
        Status.TERMINATING,
    ),
    "Reconciling": Case(
        obj(CR, {"conditions": [cond("Ready"), cond("Reconciling", message="step 2")]}),
        WAITING,
        "step 2",
    ),
    "Stalled": Case(
        obj(CR, {"conditions": [cond("Ready"), cond("Stalled", "True", "NoChart", "gone")]}),
        FAILED,
        "NoChart: gone",
    ),
    "Stalled counts for a kind with a rule too": Case(
        dep(NEW, cond("Available"), cond("Stalled", message="no")), FAILED, "no"
    ),
    "Stalled that is False": Case(obj(CR, {"conditions": [cond("Stalled", "False")]}), DONE),
    "Stalled of an older generation": Case(
        obj(
            CR, {"conditions": [cond("Stalled", observedGeneration=1), cond("Ready")]}, generation=2
        ),
        DONE,
        theirs=FAILED,
    ),
    "Ready of an older generation": Case(
        obj(CR, {"conditions": [cond("Ready", observedGeneration=1)]}, generation=2),
        WAITING,
        "older generation",
        theirs=DONE,
    ),
    "Ready of this generation": Case(
        obj(CR, {"conditions": [cond("Ready", observedGeneration=2)]}, generation=2), DONE
    ),
    "Ready Unknown": Case(obj(CR, {"conditions": [cond("Ready", "Unknown")]}), WAITING),
    "Ready of no known status": Case(obj(CR, {"conditions": [cond("Ready", "Maybe")]}), DONE),
    "a custom resource to get a status": Case(
        obj(CR), WAITING, "no status yet", theirs=DONE, told={"has_status": True, "waited": 4.9}
    ),
    "a custom resource with an empty status": Case(
        obj(CR, {}), WAITING, theirs=DONE, told={"has_status": True}
    ),
    "a custom resource that got no status": Case(
        obj(CR), DONE, told={"has_status": True, "waited": 5.0}
    ),
    "a custom resource that got a status": Case(
        obj(CR, {"phase": "Green"}), DONE, told={"has_status": True}
    ),
    "a Job that has to start only": Case(STARTED, DONE, told={"job_started": True}),
    "a Job that has to start and has not": Case(obj(JOB), WAITING, told={"job_started": True}),
    "a Job past its backoff limit": Case(
        job(cond("Failed", "True", "BackoffLimitExceeded", "no more"), startTime="2026"),
        FAILED,
        "BackoffLimitExceeded: no more",
        told={"job_started": True},
    ),
    "a Pod that was evicted": Case(
        pod("Failed", reason="Evicted", message="The node was low on resource: memory."),
        FAILED,
        "Evicted: The node was low",
        theirs=DONE,
    ),
    "a Pod whose container exited": Case(
        pod("Failed", containers=[{"name": "app", "state": {"terminated": {"exitCode": 3}}}]),
        FAILED,
        "container app exited with code 3",
        theirs=DONE,
    ),
    "a Pod whose node is lost": Case(pod("Unknown"), Status.UNKNOWN, "Unknown"),
    "an image that cannot be pulled yet": Case(
        pod("Pending", containers=[PULL]),
        WAITING,
        'nginx: ImagePullBackOff: Back-off pulling image "nope"',
    ),
    "an image that cannot be pulled": Case(
        pod("Pending", containers=[PULL]),
        WAITING,
        "ImagePullBackOff",
        told={"waited": LONG},
        stuck=True,
    ),
    "the first try to pull": Case(
        pod("Pending", containers=[waits("ErrImagePull")]),
        WAITING,
        "ImagePullBackOff",
        told={"waited": LONG},
        stuck=True,
    ),
    "an image that has no name": Case(
        pod("Pending", containers=[waits("InvalidImageName", "couldn't parse")]),
        FAILED,
        "InvalidImageName: couldn't parse",
        theirs=WAITING,
    ),
    "a missing ConfigMap, at first": Case(
        pod("Pending", containers=[waits("CreateContainerConfigError")]), WAITING
    ),
    "a missing ConfigMap": Case(
        pod("Pending", containers=[waits("CreateContainerConfigError", 'configmap "a" not found')]),
        WAITING,
        'configmap "a" not found',
        told={"waited": LONG},
        stuck=True,
    ),
    "a container that is out of memory again and again": Case(
        pod("Running", containers=[CRASH]), WAITING, "(last exit code 137, OOMKilled)", stuck=True
    ),
    "an init container that crashes": Case(
        pod("Pending", init=[waits("CrashLoopBackOff", name="migrate")]),
        WAITING,
        "container migrate: CrashLoopBackOff",
        stuck=True,
    ),
    "a Pod whose containers are being created": Case(
        pod("Pending", containers=[waits("ContainerCreating")]),
        WAITING,
        "pending",
        told={"waited": 600},
    ),
    "a Pod that is gated": Case(
        pod("Pending", cond("PodScheduled", "False", "SchedulingGated")),
        WAITING,
        "SchedulingGated",
        told={"waited": 600},
    ),
    "a Pod that runs unready": Case(
        pod("Running", containers=[{"name": "app", "ready": False, "state": {"running": {}}}]),
        WAITING,
        "not ready: app",
        told={"waited": 600},
    ),
    "a Deployment past its deadline": Case(dep(EXPIRED), FAILED, "has timed out"),
    "a deadline before the generation is seen": Case(
        obj(DEP, {"observedGeneration": 1, "conditions": [EXPIRED]}, generation=2), WAITING
    ),
    "a Deployment being updated": Case(
        dep(NEW, cond("Available"), replicas=2, updatedReplicas=0), WAITING, "updated: 0 of 1"
    ),
    "a Deployment with old Pods": Case(
        dep(NEW, cond("Available"), replicas=2), WAITING, "Pods to remove: 1"
    ),
    "a Deployment of none": Case(dep(NEW, cond("Available"), spec={"replicas": 0}, **EMPTY), DONE),
    "a paused Deployment": Case(
        dep(
            cond("Progressing", "Unknown", "DeploymentPaused"),
            cond("Available"),
            spec={"paused": True, "progressDeadlineSeconds": 600},
        ),
        WAITING,
        "DeploymentPaused",
    ),
    "a paused Deployment with a new template": Case(
        dep(spec={"paused": True}, updatedReplicas=0), WAITING, "updated: 0 of 1, paused"
    ),
    "no deadline": Case(dep(cond("Available"), spec={"progressDeadlineSeconds": 2**31 - 1}), DONE),
    "a Deployment that Pod Security refuses": Case(
        dep(refuses(BASELINE), **EMPTY), WAITING, "violates PodSecurity"
    ),
    "a Deployment that a webhook refuses": Case(
        dep(refuses(WEBHOOK), **EMPTY), WAITING, "denied the request: no"
    ),
    "a Deployment over quota, at first": Case(
        dep(refuses(QUOTA), **EMPTY), WAITING, "exceeded quota"
    ),
    "a Deployment over quota": Case(
        dep(refuses(QUOTA), **EMPTY), WAITING, "exceeded quota", told={"waited": LONG}
    ),
    "a webhook that cannot be called": Case(
        dep(refuses(NO_WEBHOOK), **EMPTY), WAITING, told={"waited": LONG}
    ),
    "a refusal that is over": Case(
        dep(NEW, cond("Available"), cond("ReplicaFailure", "False", "", BASELINE)), DONE
    ),
    "a ReplicaSet that is refused": Case(
        rs(refuses(BASELINE)), WAITING, "violates PodSecurity", stuck=True
    ),
    "a ReplicationController": Case(obj(RC, LABELLED, {"replicas": 4}), DONE),
    "a ReplicationController without a status": Case(
        obj(RC), WAITING, "labelled: 0 of 1", theirs=DONE
    ),
    "a ReplicationController whose Pods are not ready": Case(
        obj(RC, LABELLED | {"readyReplicas": 3}, {"replicas": 4}),
        WAITING,
        "ready: 3 of 4",
        theirs=DONE,
    ),
    "a ReplicationController that is refused": Case(
        obj(RC, LABELLED | {"conditions": [refuses(BASELINE)]}, {"replicas": 4}),
        WAITING,
        "violates PodSecurity",
        theirs=DONE,
        stuck=True,
    ),
    "a StatefulSet that is replaced by hand": Case(
        obj(STS, {"replicas": 0}, {"updateStrategy": {"type": "OnDelete"}}), DONE
    ),
    "a DaemonSet that is replaced by hand": Case(
        obj(
            DS, SCHEDULED | {"updatedNumberScheduled": 0}, {"updateStrategy": {"type": "OnDelete"}}
        ),
        DONE,
        theirs=WAITING,
    ),
    "a DaemonSet that is replaced by hand, before the generation is seen": Case(
        obj(DS, SCHEDULED, {"updateStrategy": {"type": "OnDelete"}}, generation=2), WAITING
    ),
    "a StatefulSet above its partition": Case(
        obj(
            STS,
            {"replicas": 4, "readyReplicas": 4, "updatedReplicas": 1},
            {"replicas": 4, "updateStrategy": {"rollingUpdate": {"partition": 2}}},
        ),
        WAITING,
        "above the partition: 1 of 2",
    ),
    "a StatefulSet rolled out to its partition": Case(
        obj(
            STS,
            {"replicas": 4, "readyReplicas": 4, "updatedReplicas": 2, "updateRevision": "b"},
            {"replicas": 4, "updateStrategy": {"rollingUpdate": {"partition": 2}}},
        ),
        DONE,
    ),
    "a StatefulSet between revisions": Case(
        obj(
            STS,
            {
                "replicas": 1,
                "readyReplicas": 1,
                "currentReplicas": 1,
                "currentRevision": "a",
                "updateRevision": "b",
            },
        ),
        WAITING,
        "revision is a, to be b",
    ),
    "a DaemonSet without nodes": Case(
        obj(DS, dict.fromkeys(SCHEDULED, 0) | {"observedGeneration": 1}), DONE
    ),
    "a DaemonSet without a generation": Case(obj(DS, SCHEDULED, generation=None), WAITING),
    "a load balancer with an address": Case(
        obj(SERVICE, {"loadBalancer": {"ingress": [{"ip": "198.51.100.1"}]}}, LB), DONE
    ),
    "a load balancer with an empty status": Case(
        obj(SERVICE, {"loadBalancer": {}}, LB), WAITING, "no address", theirs=DONE
    ),
    "a claim that has lost its volume": Case(obj(PVC, {"phase": "Lost"}), WAITING, "Lost"),
    "a CRD that fails to be established": Case(
        crd(cond("NamesAccepted"), cond("Established", "False", "NotAccepted")), FAILED
    ),
    "an APIService without a backend": Case(
        obj(APIS, {"conditions": [cond("Available", "False", "ServiceNotFound", "no service")]}),
        WAITING,
        "ServiceNotFound: no service",
        theirs=DONE,
    ),
    "an APIService that nothing has looked at": Case(obj(APIS), WAITING, theirs=DONE),
    "an APIService with a backend": Case(obj(APIS, {"conditions": [cond("Available")]}), DONE),
    "a Namespace": Case(obj(NS, {"phase": "Active"}), DONE),
    "a Namespace that is not there yet": Case(obj(NS), WAITING, theirs=DONE),
    "an autoscaler without metrics": Case(
        obj(HPA, {"conditions": [cond("ScalingActive", "False", "FailedGetResourceMetric", "no")]}),
        DONE,
        warning="it does not scale now: FailedGetResourceMetric: no",
    ),
    "an autoscaler without a target": Case(
        obj(HPA, {"conditions": [cond("AbleToScale", "False", "FailedGetScale", "no")]}),
        WAITING,
        "AbleToScale is False: FailedGetScale: no",
        theirs=DONE,
    ),
    "an autoscaler of a target with no replicas": Case(
        obj(HPA, {"conditions": [cond("ScalingActive", "False", "ScalingDisabled")]}), DONE
    ),
    "an autoscaler at its limit": Case(
        obj(HPA, {"conditions": [cond("AbleToScale"), cond("ScalingLimited")]}), DONE
    ),
    "a volume": Case(obj("v1 PersistentVolume", {"phase": "Available"}), DONE),
    "an Ingress": Case(obj("networking.k8s.io/v1 Ingress", {"loadBalancer": {}}), DONE),
    "a policy": Case(obj("admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy"), DONE),
    "a Secret": Case(obj("v1 Secret"), DONE),
    "a ConfigMap": Case(obj("v1 ConfigMap"), DONE),
    "another group's Deployment": Case(obj("example.com/v1 Deployment"), DONE),
    "extensions": Case(obj("extensions/v1beta1 Deployment"), WAITING, "replicas: 0 of 1"),
    "a status that is no mapping": Case(obj(CR) | {"status": "green"}, DONE),
    "conditions that are no list": Case(obj(CR, {"conditions": {"Ready": "False"}}), DONE),
    "numbers that are text": Case(dep(NEW, cond("Available")) | {"spec": {"replicas": "3"}}, DONE),
}


@pytest.mark.parametrize("name", KSTATUS)
def test_kstatus_cases_have_the_same_status(name: str) -> None:
    """As kstatus has it, or else on purpose."""
    holds(KSTATUS[name])


@pytest.mark.parametrize("name", OURS)
def test_further_cases_have_our_status(name: str) -> None:
    """What kstatus publishes no case for, and the holes that are closed."""
    holds(OURS[name])


def holds(case: Case) -> None:
    """Assert that a case is answered as it says; ``theirs`` must be another answer."""
    found = assess(case.body, **case.told)
    assert (found.status, found.status == case.theirs) == (case.status, False), found
    assert (found.stuck, found.warning) == (case.stuck, case.warning)
    assert case.says in found.message
    assert found.message


def test_body_is_unchanged() -> None:
    """A decision is pure."""
    body = dep(NEW, cond("Available"))
    before = repr(body)
    assess(body)
    assert repr(body) == before


# The Pods of a workload.


def named(name: str, body: Body, **metadata: Any) -> Body:
    return body | {"metadata": body["metadata"] | {"name": name} | metadata}


def owned(uid: str, kind: str = "ReplicaSet", **labels: str) -> Body:
    """Return the metadata of what a controller has made."""
    owner = {"uid": uid, "kind": kind, "controller": True}
    return {"ownerReferences": [owner], "labels": labels}


READY = named("web-1", pod("Running", cond("Ready")))
PULLING = named("web-2", pod("Pending", containers=[PULL]))
CRASHING = named("web-3", pod("Running", containers=[CRASH]))
NAMELESS = named("web-4", pod("Pending", containers=[waits("InvalidImageName", "no parse")]))


@pytest.mark.parametrize(
    ("pods", "waited", "status", "stuck", "says"),
    [
        pytest.param(
            [PULLING], 0, WAITING, False, "pod/web-2: container nginx: ImagePull", id="pulling"
        ),
        pytest.param([READY, PULLING], LONG, WAITING, True, "pod/web-2", id="cannot be pulled"),
        pytest.param(
            [PULLING, CRASHING], 0, WAITING, True, "pod/web-3", id="what is stuck comes first"
        ),
        pytest.param(
            [PULLING, CRASHING, NAMELESS], 0, FAILED, False, "pod/web-4", id="Failed comes before"
        ),
        pytest.param(
            [named("a", pod("Pending", UNSCHEDULABLE))],
            0,
            WAITING,
            False,
            "Unschedulable",
            id="no node",
        ),
        pytest.param(
            [named("a", pod("Pending", UNSCHEDULABLE))],
            LONG,
            WAITING,
            True,
            "Unschedul",
            id="no node yet",
        ),
        pytest.param(
            [named("a", CRASHING, **owned("u", "Job"))],
            LONG,
            WAITING,
            False,
            "CrashLoopBackOff",
            id="a Job counts its crashes itself",
        ),
    ],
)
def test_pod_problems_are_reported(
    pods: list[Body], waited: float, status: Status, stuck: bool, says: str
) -> None:
    """The first reason that will not pass, with the Pod's and the container's name."""
    found = pods_problem(pods, waited=waited)
    assert found is not None
    assert (found.status, found.stuck) == (status, stuck)
    assert says in found.message


@pytest.mark.parametrize(
    "one",
    [
        pytest.param(READY, id="ready"),
        pytest.param(pod("Pending"), id="pending"),
        pytest.param(pod("Failed", reason="Evicted"), id="replaced by its controller"),
        pytest.param(named("a", CRASHING, deletionTimestamp="2026"), id="being deleted"),
    ],
)
def test_healthy_pods_report_nothing(one: Body) -> None:
    """They are on their way, or on their way out."""
    assert pods_problem([one], waited=600) is None


def test_pods_of_a_deployment_template_are_selected() -> None:
    """Those of the ReplicaSet of its revision: the old ones may be what the new ones repair."""
    revision = "deployment.kubernetes.io/revision"
    web = obj(DEP, {"observedGeneration": 1}, uid="d", annotations={revision: "2"})
    sets = [
        obj(RS, uid=uid, annotations={revision: number}, **owned("d", "Deployment"))
        for uid, number in (("old", "1"), ("new", "2"))
    ]
    pods = [named(uid, pod("Running"), **owned(uid)) for uid in ("old", "new", "other")]
    assert [one["metadata"]["name"] for one in current_pods(web, Related(pods, sets))] == ["new"]
    behind = web | {"status": {"observedGeneration": 0}}
    assert current_pods(behind, Related(pods, sets)) == ()


@pytest.mark.parametrize(
    ("workload", "label"),
    [
        (obj(STS, {"updateRevision": "2"}, uid="u"), "controller-revision-hash"),
        (
            obj(DS, uid="u", annotations={"deprecated.daemonset.template.generation": "2"}),
            "pod-template-generation",
        ),
    ],
    ids=["StatefulSet", "DaemonSet"],
)
def test_pods_of_a_template_are_selected_by_label(workload: Body, label: str) -> None:
    """StatefulSet and DaemonSet mark their Pods."""
    pods = [named(f"p{one}", pod("Running"), **owned("u", **{label: one})) for one in "12"]
    assert [one["metadata"]["name"] for one in current_pods(workload, Related(pods))] == ["p2"]


def test_pods_of_a_job_are_all_of_its_pods() -> None:
    """A Job's template never changes."""
    pods = [named("mine", pod("Running"), **owned("j", "Job")), named("other", pod("Running"))]
    (mine,) = current_pods(obj(JOB, uid="j"), Related(pods))
    assert mine["metadata"]["name"] == "mine"


# Events.


def event(reason: str, message: str, when: str, **more: Any) -> Body:
    stamp = f"2026-01-01T{when}Z"
    return {"type": "Warning", "reason": reason, "message": message, "lastTimestamp": stamp, **more}


def test_newest_warnings_are_chosen() -> None:
    """At most three, the newest first, each on one line and how often it came; alike ones once."""
    events = [
        event("Old", "long ago", "08:00:00"),
        event("BackOff", "back-off\n  restarting", "09:00:02", count=7),
        event("Pulled", "fine", "09:00:09", type="Normal"),
        event("Failed", "no image", "09:00:01"),
        event("Failed", "no image", "09:00:00"),
        {
            "type": "Warning",
            "reason": "FailedScheduling",
            "note": "0/3 nodes",
            "eventTime": "2026-01-01T09:00:03.123456Z",
            "series": {"count": 2, "lastObservedTime": "2026-01-01T09:00:03.123456Z"},
        },
    ]
    assert [one.text for one in last_warnings(events)] == [
        "FailedScheduling: 0/3 nodes (×2)",
        "BackOff: back-off restarting (×7)",
        "Failed: no image (×2)",
    ]
    assert last_warnings([]) == ()


def test_long_message_is_made_printable() -> None:
    """No control sequences, and not longer than can be read."""
    (warning,) = last_warnings([event("A", f"\x1b[2J{'x' * 900}", "09:00:00")])
    line = warning.text
    assert "\x1b" not in line
    assert len(line) < 450


@pytest.mark.parametrize(
    ("events", "waited", "refused"),
    [
        pytest.param([event("FailedCreate", BASELINE, "09:00:00")], 0, True, id="Pod Security"),
        pytest.param([event("FailedCreate", WEBHOOK, "09:00:00")], 0, True, id="a webhook"),
        pytest.param([event("FailedCreate", QUOTA, "09:00:00")], 0, False, id="quota, at first"),
        pytest.param([event("FailedCreate", QUOTA, "09:00:00")], LONG, True, id="quota"),
        pytest.param([event("FailedCreate", NO_ACCOUNT, "09:00:00")], 0, False, id="a new account"),
        pytest.param([event("FailedCreate", NO_ACCOUNT, "09:00:00")], LONG, True, id="no account"),
        pytest.param([event("FailedCreate", NO_WEBHOOK, "09:00:00")], LONG, False, id="no webhook"),
        pytest.param([event("BackOff", BASELINE, "09:00:00")], LONG, False, id="another reason"),
        pytest.param(
            [
                event("SuccessfulCreate", "Created pod", "09:00:05", type="Normal"),
                event("FailedCreate", BASELINE, "09:00:00"),
            ],
            LONG,
            False,
            id="over",
        ),
        pytest.param([], LONG, False, id="no events"),
    ],
)
def test_rejected_pods_are_reported(events: list[Body], waited: float, refused: bool) -> None:
    """The server's words, once they will not change by themselves."""
    expected = events[0]["message"] if refused else ""
    assert refused_creation(events, waited=waited) == expected


def test_denying_policy_is_a_rejection() -> None:
    """CEL policies in the cluster deny in words of their own."""
    denied = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"
    assert is_refusal(denied, waited=0)
    assert not is_refusal("access denied by the registry")
