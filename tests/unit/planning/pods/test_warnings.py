"""The last warnings of an object: one for each reason, what repeats first, and each cause once."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.events import WarningEvent
from applyprune.planning.pods import adds_to, last_warnings

Body = dict[str, Any]
IMAGE = "registry.example.com/web:1"
LOOKUP = "lookup registry.example.com: network is unreachable"


def event(reason: str, message: str, at: str, count: int = 1, **more: Any) -> Body:
    """Return a warning about a Pod, at a time of the day."""
    about = {"apiVersion": "v1", "kind": "Pod", "name": "web-1"}
    return {
        "type": "Warning",
        "reason": reason,
        "message": message,
        "count": count,
        "lastTimestamp": f"2026-11-29T{at}Z",
        "involvedObject": about,
        **more,
    }


CASES: dict[str, tuple[list[Body], list[str]]] = {
    "the newest first": (
        [event("A", "a", "12:00:01"), event("B", "b", "12:00:03"), event("C", "c", "12:00:02")],
        ["B: b", "C: c", "A: a"],
    ),
    "one that repeats before the newest": (
        [event("A", "a", "12:00:01", 7), event("B", "b", "12:00:03")],
        ["A: a (×7)", "B: b"],
    ),
    "one that repeated long ago after them": (
        [event("A", "a", "11:00:00", 70), event("B", "b", "12:00:03"), event("C", "c", "12:00:04")],
        ["C: c", "B: b", "A: a (×70)"],
    ),
    "one reason with several messages": (
        [
            event("Unhealthy", "Readiness probe failed: 503", "12:00:01", 4),
            event("Unhealthy", "Readiness probe failed: 500", "12:00:03", 2),
        ],
        ["Unhealthy: Readiness probe failed: 500 (×6)"],
    ),
    "a series": (
        [event("A", "a", "12:00:01", 1, series={"count": 9})],
        ["A: a (×9)"],
    ),
    "a message that only repeats a state": (
        [
            event("Failed", f'Failed to pull image "{IMAGE}": dial tcp: {LOOKUP}', "12:00:01", 3),
            event("Failed", "Error: ErrImagePull", "12:00:02", 3),
            event("Failed", "Error: ImagePullBackOff", "12:00:03", 8),
        ],
        [f"Failed: {IMAGE}: {LOOKUP} (×3)"],
    ),
    "nothing but the state": (
        [event("Failed", "Error: ErrImageNeverPull", "12:00:02", 3)],
        ["Failed: ErrImageNeverPull (×3)"],
    ),
    "the names of a Pod": (
        [
            event(
                "BackOff",
                "Back-off restarting failed container main in pod web-1_shop(5c9f-1)",
                "12:00:01",
            )
        ],
        ["BackOff: Back-off restarting failed container main"],
    ),
    "the port of a try": (
        [
            event(
                "Unhealthy",
                'Readiness probe failed: Get "http://10.0.0.9:80/": read tcp '
                "10.0.0.1:40312->10.0.0.9:80: read: connection reset by peer",
                "12:00:01",
            )
        ],
        [
            (
                'Unhealthy: Readiness probe failed: Get "http://10.0.0.9:80/": read: '
                "connection reset by peer"
            )
        ],
    ),
    "what is no warning": ([event("Pulled", "pulled", "12:00:01") | {"type": "Normal"}], []),
    "a fourth reason": (
        [event(name, "x", f"12:00:0{at}") for at, name in enumerate("ABCD")],
        ["D: x", "C: x", "B: x"],
    ),
    "a time that is none": ([event("A", "a", "soon"), event("B", "b", "later")], ["A: a", "B: b"]),
}


@pytest.mark.parametrize("name", CASES)
def test_warnings_are_grouped_by_reason(name: str) -> None:
    events, wanted = CASES[name]
    assert [one.text for one in last_warnings(events)] == wanted


@pytest.mark.parametrize(
    ("reason", "message", "said", "adds"),
    [
        ("FailedMount", "no a", "pod/p: FailedMount: no a", False),
        ("FailedMount", "no b", "pod/p: FailedMount: no a", True),
        ("BackOff", "Back-off restarting", "container main: CrashLoopBackOff: back-off 5m", False),
        ("BackOff", "Back-off restarting", "available: 0 of 1", True),
    ],
)
def test_warning_that_repeats_the_reason_is_left_out(
    reason: str, message: str, said: str, adds: bool
) -> None:
    warning = WarningEvent("pod/p", reason, message, 1, "")
    assert adds_to(warning, said) is adds
