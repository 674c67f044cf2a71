"""What is around an object explains why it is not ready."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.events import Readiness, Status, current, in_progress, stuck
from applyprune.model.identity import Ref
from applyprune.model.live import LiveObject
from applyprune.planning.readiness import Related, for_wait, with_pods_explained
from tests.support.planning import live

Body = dict[str, Any]
MANAGER = "applyprune/home/web"
BASELINE = 'pods "web-0" is forbidden: violates PodSecurity "baseline:latest": hostNetwork'


def event(second: int) -> Body:
    stamp = f"2026-01-01T00:00:{second:02}Z"
    return {
        "type": "Warning",
        "reason": "FailedCreate",
        "message": BASELINE,
        "lastTimestamp": stamp,
    }


@pytest.mark.parametrize(
    ("happened", "rejected"), [(9, False), (10, True), (11, True)], ids=["before", "at", "after"]
)
def test_refusal_from_before_the_last_apply_does_not_count(happened: int, rejected: bool) -> None:
    """The template that was refused may be what the apply has repaired."""
    applied = {"manager": MANAGER, "operation": "Apply", "time": "2026-01-01T00:00:10Z"}
    body: Body = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"uid": "u1"}}
    found = live(Ref("apps", "StatefulSet", "home", "web"), full=body, entries=[applied])
    related = Related(events={found.uid: [event(happened)]})
    readiness = with_pods_explained(
        in_progress("replicas: 0 of 1"), found, related, manager=MANAGER, waited=0.0
    )
    assert readiness.stuck is rejected
    assert ("its Pods are rejected" in readiness.message) is rejected


@pytest.mark.parametrize("observed", [1, 2])
def test_only_the_newest_replica_set_counts_once_its_generation_is_seen(observed: int) -> None:
    """Until then, the annotation still names the revision that was refused."""
    revision = "deployment.kubernetes.io/revision"
    body: Body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"uid": "u1", "generation": 2, "annotations": {revision: "1"}},
        "status": {"observedGeneration": observed},
    }
    failure = {"type": "ReplicaFailure", "status": "True", "message": BASELINE}

    def replica_set(number: str) -> Body:
        owner = {"uid": "u1", "controller": True}
        metadata = {"annotations": {revision: number}, "ownerReferences": [owner]}
        return {"metadata": metadata, "status": {"conditions": [failure]}}

    found = live(Ref("apps", "Deployment", "home", "web"), full=body)
    related = Related(replica_sets=[replica_set("1")])
    told = in_progress("replicas: 0 of 1")
    readiness = with_pods_explained(told, found, related, manager=MANAGER, waited=60.0)
    assert readiness.stuck is (observed == 2)
    older = Related(replica_sets=[replica_set("0")])
    assert with_pods_explained(told, found, older, manager=MANAGER, waited=60.0) == told


def _claim(phase: str) -> dict[Ref, LiveObject]:
    ref = Ref("", "PersistentVolumeClaim", "home", "data")
    return {ref: live(ref, full={"status": {"phase": phase}})}


@pytest.mark.parametrize(
    ("claims", "told"),
    [
        (None, "the Pod is pending"),
        ({}, "the Pod is pending; persistentvolumeclaim/data does not exist"),
        (_claim("Lost"), "the Pod is pending; persistentvolumeclaim/data is Lost"),
        (_claim("Bound"), "the Pod is pending"),
    ],
    ids=["not read", "missing", "lost", "bound"],
)
def test_claim_that_a_pending_pod_mounts_is_named(claims: Any, told: str) -> None:
    """Unless the claims could not be read."""
    volume = {"name": "d", "persistentVolumeClaim": {"claimName": "data"}}
    body: Body = {
        "kind": "Pod",
        "spec": {"volumes": [volume, {"name": "e", "emptyDir": {}}]},
        "status": {"phase": "Pending"},
    }
    found = live(Ref("", "Pod", "home", "p"), full=body)
    readiness = with_pods_explained(
        in_progress("the Pod is pending"),
        found,
        Related(claims=claims),
        manager=MANAGER,
        waited=0.0,
    )
    assert readiness.message == told


def test_fail_fast_turns_what_is_stuck_into_a_failure() -> None:
    """And nothing else."""
    assert for_wait(stuck("a"), fail_fast=True) == Readiness(Status.FAILED, "a")
    assert for_wait(stuck("a"), fail_fast=False) == stuck("a")
    for other in (in_progress("a"), current("a", warning="b")):
        assert for_wait(other, fail_fast=True) == other
