"""The tree of what an object owns, in the columns of ``kubectl get``."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from applyprune.planning.object_status import by_owner, pod_status, tree_of

Body = dict[str, Any]
NOW = datetime(2026, 1, 1, 1, tzinfo=UTC)


def waits(reason: str) -> Body:
    return {"state": {"waiting": {"reason": reason}}}


def ended(**how: Any) -> Body:
    return {"state": {"terminated": how}}


RUNS: Body = {"ready": True, "state": {"running": {}}}


@pytest.mark.parametrize(
    ("status", "metadata", "shown"),
    [
        ({"phase": "Pending"}, {}, "Pending"),
        ({"phase": "Running", "containerStatuses": [RUNS]}, {}, "Running"),
        ({"phase": "Failed", "reason": "Evicted"}, {}, "Evicted"),
        ({"phase": "Running", "containerStatuses": [waits("CrashLoopBackOff")]}, {},
         "CrashLoopBackOff"),
        ({"phase": "Running", "containerStatuses": [RUNS, waits("ImagePullBackOff")]}, {},
         "ImagePullBackOff"),
        ({"phase": "Failed", "containerStatuses": [ended(exitCode=1, reason="Error")]}, {},
         "Error"),
        ({"phase": "Failed", "containerStatuses": [ended(exitCode=3)]}, {}, "ExitCode:3"),
        ({"phase": "Failed", "containerStatuses": [ended(exitCode=137, signal=9)]}, {},
         "Signal:9"),
        ({"phase": "Succeeded", "containerStatuses": [ended(exitCode=0, reason="Completed")]}, {},
         "Completed"),
        ({"phase": "Running", "containerStatuses": [ended(reason="Completed"), RUNS]}, {},
         "NotReady"),
        ({"phase": "Pending", "initContainerStatuses": [waits("PodInitializing")]}, {},
         "Init:0/1"),
        ({"phase": "Pending", "initContainerStatuses": [ended(exitCode=0), waits("CrashLoop")]},
         {}, "Init:CrashLoop"),
        ({"phase": "Pending", "initContainerStatuses": [ended(exitCode=2)]}, {},
         "Init:ExitCode:2"),
        ({"phase": "Running", "containerStatuses": [RUNS]},
         {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "Terminating"),
        ({"phase": "Running", "reason": "NodeLost"},
         {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "Unknown"),
        ({"phase": "Running", "reason": "\x1b[2J"}, {}, "\\x1b[2J"),
        ({}, {}, "Unknown"),
    ],
)  # fmt: skip
def test_pod_status_is_that_of_kubectl(status: Body, metadata: Body, shown: str) -> None:
    """The cases of kubectl's printers."""
    assert pod_status({"metadata": metadata, "status": status}) == shown


def made(kind: str, name: str, owner: str = "", **parts: Any) -> Body:
    """Return an object of a kind, owned by another one; its UID is its name."""
    group = "apps/v1" if kind != "Pod" else "v1"
    owners = [{"uid": owner}] if owner else []
    stamp = "2026-01-01T00:00:00Z"
    metadata = {"name": name, "namespace": "home", "uid": name, "creationTimestamp": stamp}
    metadata["ownerReferences"] = owners  # type: ignore[assignment]
    return {"apiVersion": group, "kind": kind, "metadata": metadata, **parts}


def test_tree_goes_down_to_pods() -> None:
    """Sorted by name; a ReplicaSet of an earlier rollout is left out."""
    web = made("Deployment", "web", spec={"replicas": 2}, status={"readyReplicas": 1})
    pod: Body = {
        "spec": {"containers": [{}, {}]},
        "status": {
            "phase": "Running",
            "containerStatuses": [RUNS | {"restartCount": 4}, waits("CrashLoopBackOff")],
        },
    }
    others = [
        made("ReplicaSet", "old", "web", spec={"replicas": 0}),
        made("ReplicaSet", "new", "web", spec={"replicas": 2}, status={"replicas": 2}),
        made("Pod", "new-2", "new", **pod),
        made("Pod", "new-1", "new", **pod),
        made("Pod", "stranger", "somebody", **pod),
    ]
    tree = tree_of(web, by_owner(iter(others)), NOW)
    assert (tree.ready, tree.restarts, tree.age) == ("1/2", None, 3600.0)
    (new,) = tree.owned
    assert (new.ref.name, new.ready) == ("new", "0/2")
    assert [(one.ref.name, one.ready, one.state, one.restarts) for one in new.owned] == [
        ("new-1", "1/2", "CrashLoopBackOff", 4),
        ("new-2", "1/2", "CrashLoopBackOff", 4),
    ]


def test_circle_of_owners_ends() -> None:
    """The server does not check ownerReferences."""
    first, second = made("Deployment", "a", "b"), made("Deployment", "b", "a")
    tree = tree_of(first, by_owner(iter([first, second])), NOW)
    depth = 0
    while tree.owned:
        (tree,) = tree.owned
        depth += 1
    assert depth == 6
