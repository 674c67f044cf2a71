"""A volume or a probe that fails stands in no status: only the events of a kubelet tell it."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.events import in_progress
from applyprune.model.identity import Ref
from applyprune.model.live import LiveObject
from applyprune.planning.readiness import Related, with_pods_explained

REF = Ref("apps", "StatefulSet", "shop", "web")
MOUNT = 'MountVolume.SetUp failed for volume "config" : configmap "missing" not found'
PROBE = "Readiness probe failed: HTTP probe failed with statuscode: 503"
BEFORE = in_progress("Available: 0 of 1")


def event(reason: str, message: str, second: int = 0, uid: str = "p") -> dict[str, Any]:
    """Return an event about a Pod."""
    return {
        "type": "Warning",
        "reason": reason,
        "message": message,
        "lastTimestamp": f"2026-11-29T12:00:{second:02}Z",
        "involvedObject": {"uid": uid},
    }


def pod(phase: str, *, ready: bool = False, **metadata: Any) -> dict[str, Any]:
    """Return the Pod of a StatefulSet."""
    owner = {"kind": "StatefulSet", "uid": "u", "controller": True}
    conditions = [{"type": "Ready", "status": str(ready)}]
    return {
        "metadata": {"name": "web-0", "uid": "p", "ownerReferences": [owner], **metadata},
        "status": {"phase": phase, "conditions": conditions},
    }


CASES: dict[str, tuple[dict[str, Any], list[dict[str, Any]], float, str, bool]] = {
    "a missing ConfigMap": (
        pod("Pending"),
        [event("FailedMount", MOUNT)],
        5.0,
        f"pod/web-0: FailedMount: {MOUNT}",
        False,
    ),
    "one that stays missing": (
        pod("Pending"),
        [event("FailedMount", MOUNT)],
        60.0,
        f"pod/web-0: FailedMount: {MOUNT}",
        True,
    ),
    "a probe": (
        pod("Running"),
        [event("FailedMount", MOUNT), event("Unhealthy", PROBE, 5)],
        60.0,
        f"pod/web-0: Unhealthy: {PROBE}",
        False,
    ),
    "a probe that succeeds now": (
        pod("Running", ready=True),
        [event("Unhealthy", PROBE)],
        60.0,
        BEFORE.message,
        False,
    ),
    "a Pod that goes": (
        pod("Running", deletionTimestamp="2026-11-29T12:00:00Z"),
        [event("Unhealthy", PROBE)],
        60.0,
        BEFORE.message,
        False,
    ),
    "an event of another Pod": (
        pod("Running"),
        [event("Unhealthy", PROBE, uid="q")],
        60.0,
        BEFORE.message,
        False,
    ),
    "the newest of two": (
        pod("Running"),
        [event("Unhealthy", "old", 1), event("Unhealthy", "new", 2)],
        5.0,
        "pod/web-0: Unhealthy: new",
        False,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_event_explains_why_a_workload_is_not_ready(name: str) -> None:
    body, events, waited, message, stuck = CASES[name]
    metadata = {"name": "web", "namespace": "shop", "uid": "u"}
    workload = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata}
    live = LiveObject.of(REF, "u", "1", metadata, workload)
    by_uid: dict[str, list[dict[str, Any]]] = {}
    for one in events:
        by_uid.setdefault(one["involvedObject"]["uid"], []).append(one)
    related = Related(pods=[body], events=by_uid)
    found = with_pods_explained(BEFORE, live, related, manager="m", waited=waited)
    assert (found.message, found.stuck) == (message, stuck)
