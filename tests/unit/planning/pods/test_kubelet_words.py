"""What a kubelet says of a container that waits: its cause, once, without the wrappers."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.planning.pods import pods_problem
from applyprune.planning.readiness import assess

IMAGE = "registry.example.com/web:1"
REQUEST = f'failed to do request: Head "https://{IMAGE.replace(":", "/manifests/")}": '
LOOKUP = "lookup registry.example.com: network is unreachable"
UNPACK = f'failed to pull and unpack image "{IMAGE}": '
WORDS = {
    "a lookup": (
        "ErrImagePull",
        f"{UNPACK}failed to resolve image: {REQUEST}dial tcp: {LOOKUP}",
        f"ImagePullBackOff: {IMAGE}: {LOOKUP}",
    ),
    "the same, told again": (
        "ImagePullBackOff",
        (
            f'Back-off pulling image "{IMAGE}": ErrImagePull: {UNPACK}failed to resolve image: '
            f"{REQUEST}dial tcp: {LOOKUP}"
        ),
        f"ImagePullBackOff: {IMAGE}: {LOOKUP}",
    ),
    "a refused connection": (
        "ErrImagePull",
        (
            f'{UNPACK}failed to resolve reference "{IMAGE}": {REQUEST}'
            "dial tcp 10.0.0.1:443: connect: connection refused"
        ),
        f"ImagePullBackOff: {IMAGE}: dial tcp 10.0.0.1:443: connect: connection refused",
    ),
    "an image that the registry lacks": (
        "ErrImagePull",
        (
            f"rpc error: code = NotFound desc = {UNPACK}failed to resolve reference "
            f'"{IMAGE}": {IMAGE}: not found'
        ),
        f"ImagePullBackOff: {IMAGE}: not found",
    ),
    "more words around the cause than a line has": (
        "ImagePullBackOff",
        (
            f'Back-off pulling image "{IMAGE}": ErrImagePull: '
            f"{UNPACK * 6}failed to resolve image: {REQUEST}dial tcp: {LOOKUP}"
        ),
        f"ImagePullBackOff: {IMAGE}: {LOOKUP}",
    ),
    "no cause": (
        "ImagePullBackOff",
        f'Back-off pulling image "{IMAGE}"',
        f'ImagePullBackOff: Back-off pulling image "{IMAGE}"',
    ),
    "other words": ("ErrImagePull", "signature is wrong", "ImagePullBackOff: signature is wrong"),
    "a crash": (
        "CrashLoopBackOff",
        "back-off 5m0s restarting failed container=main pod=web-1_shop(5c9f)",
        "CrashLoopBackOff: back-off 5m0s",
    ),
}


def pod(reason: str, message: str) -> dict[str, Any]:
    """Return a Pod whose container waits."""
    state = {"waiting": {"reason": reason, "message": message}}
    return {
        "metadata": {"name": "web-1"},
        "status": {"phase": "Pending", "containerStatuses": [{"name": "main", "state": state}]},
    }


@pytest.mark.parametrize("name", WORDS)
def test_cause_of_a_waiting_container_is_said_once(name: str) -> None:
    reason, message, wanted = WORDS[name]
    found = pods_problem([pod(reason, message)], waited=60.0)
    assert found is not None
    assert found.message == f"pod/web-1: container main: {wanted}"


NO_PROGRAM = 'exec: "/none": stat /none: no such file or directory'
START = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
    f"runc create failed: unable to start container process: {NO_PROGRAM}: unknown"
)


def test_program_that_cannot_be_started_is_one_reason() -> None:
    """The kubelet alternates between the last try and the back-off before the next one."""
    tried, waits = pod("RunContainerError", START), pod("CrashLoopBackOff", "back-off 10s")
    for one in (tried, waits):
        (status,) = one["status"]["containerStatuses"]
        ended = {"exitCode": 128, "reason": "StartError", "message": START}
        status["lastState"] = {"terminated": ended}
    found = [pods_problem([one], waited=60.0) for one in (tried, waits)]
    said = f"pod/web-1: container main: RunContainerError: {NO_PROGRAM}"
    assert [one and one.message for one in found] == [said, said]
    assert len({one and one.fact for one in found}) == 1


GOING: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "an object": ({}, {}, "the object is being deleted"),
    "one with a finalizer": (
        {"finalizers": ["example.com/a", "example.com/b"]},
        {},
        "the object is being deleted; held by example.com/a, example.com/b",
    ),
    "a Pod in its grace period": (
        {},
        {"containerStatuses": [{"name": "main", "state": {"running": {}}}, {"name": "done"}]},
        "the object is being deleted; container main may run until 2026-11-29T12:00:30Z",
    ),
    "how long that is": (
        {"deletionGracePeriodSeconds": 600},
        {"containerStatuses": [{"name": "main", "state": {"running": {}}}]},
        (
            "the object is being deleted; container main may run until 2026-11-29T12:00:30Z, "
            "600 s in all"
        ),
    ),
    "a Pod whose containers have ended": (
        {"deletionGracePeriodSeconds": 30},
        {"containerStatuses": [{"name": "main", "state": {"terminated": {}}}]},
        "the object is being deleted",
    ),
    "one that is deleted at once": (
        {"deletionGracePeriodSeconds": 0},
        {"containerStatuses": [{"name": "main", "state": {"running": {}}}]},
        "the object is being deleted",
    ),
}


@pytest.mark.parametrize("name", GOING)
def test_object_that_is_being_deleted_says_what_it_waits_for(name: str) -> None:
    metadata, status, wanted = GOING[name]
    metadata = {"name": "web-1", "deletionTimestamp": "2026-11-29T12:00:30Z", **metadata}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": status}
    assert assess(body).message == wanted
