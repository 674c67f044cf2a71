"""The seconds of a wait for what others create, and for a kind that is not served yet, exactly."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from applyprune.engine.context import WorkerPool
from applyprune.engine.ports import Cancellation
from applyprune.engine.waiting import CrdWaiter, ExistenceWaiter
from applyprune.errors import NotFound, Unavailable
from applyprune.model.events import Event, Waiting
from applyprune.model.identity import Ref
from applyprune.model.live import CONFIG_MAPS, DEFINITIONS, Absent, LiveObject
from applyprune.model.problem import Origin
from tests.support.clocks import ManualClock
from tests.support.objects import crd

CONFIG = Ref("", "ConfigMap", "n", "a")
DEFINITION = Ref("apiextensions.k8s.io", "CustomResourceDefinition", "", "foos.x.example.com")


def run(waiter_type: Any, clock: ManualClock, *, there_at: float, timeout: float) -> list[Event]:
    """Return the events of a wait for an object that is there at a second; then what is missing."""

    def is_there(*_: object) -> bool:
        return clock.passed >= there_at

    def read(*_: object) -> LiveObject | Absent:
        return LiveObject.of(CONFIG, "u", "1", {}) if is_there() else Absent()

    def get(*_: object, **__: object) -> LiveObject:
        raise NotFound("it cannot be read", code=404)

    stop = Cancellation(clock=clock)
    with WorkerPool(1, stop) as workers:
        context: Any = SimpleNamespace(
            cluster=SimpleNamespace(read=read, serves=is_there, get=get),
            cancellation=stop,
            workers=workers,
            options=SimpleNamespace(wait=SimpleNamespace(timeout=timeout, turn=600.0)),
        )
        is_crd = waiter_type is CrdWaiter
        wanted: Any = SimpleNamespace(
            ref=DEFINITION if is_crd else CONFIG,
            resource=DEFINITIONS if is_crd else CONFIG_MAPS,
            origin=Origin("a.yaml", 1, 1),
            timeout=None,
            body=crd("Foo"),
            apply_mark="the annotation",
        )
        waiter = waiter_type(context)
        events = list(waiter.run([wanted]))
        assert bool(waiter.failed if is_crd else waiter.missing) == (there_at > timeout)
    return events


def test_wait_for_a_kind_names_the_error_of_its_endpoint() -> None:
    """While it waits, and in its end."""

    def serves(_: object) -> bool:
        raise Unavailable("its conversion webhook does not answer", code=503)

    def get(*_: object, **__: object) -> LiveObject:
        raise NotFound("it cannot be read", code=404)

    stop = Cancellation(clock=ManualClock())
    with WorkerPool(1, stop) as workers:
        context: Any = SimpleNamespace(
            cluster=SimpleNamespace(serves=serves, get=get),
            cancellation=stop,
            workers=workers,
            options=SimpleNamespace(wait=SimpleNamespace(timeout=10.0, turn=600.0)),
        )
        wanted: Any = SimpleNamespace(
            ref=DEFINITION, origin=Origin("a.yaml", 1, 1), timeout=None, body=crd("Foo")
        )
        waiter = CrdWaiter(context)
        events = list(waiter.run([wanted]))
    named = "its conversion webhook does not answer"
    assert {one.reason for one in events if isinstance(one, Waiting)} == {named}
    assert waiter.failed[DEFINITION].reason.endswith(f"before the timeout; {named}")


@pytest.mark.parametrize(
    ("waiter_type", "there_at", "looks", "said"),
    [
        (ExistenceWaiter, 0.0, [], []),
        (ExistenceWaiter, 1.0, [0.1, 0.15, 0.225, 0.3375, 0.50625], []),
        (ExistenceWaiter, 99.0, [2.0] * 3, [1.3, 3.2, 4.9, 6.9, 8.9]),
        (CrdWaiter, 0.0, [], []),
        (CrdWaiter, 0.1, [0.02, 0.03, 0.045, 0.0675], []),
        (CrdWaiter, 99.0, [1.0] * 4, [2.3, 5.3, 8.3]),
    ],
)
def test_looks_become_rarer_and_end_after_the_timeout(
    waiter_type: Any, there_at: float, looks: list[float], said: list[float]
) -> None:
    """What is waited for is said every few looks."""
    clock = ManualClock()
    events = run(waiter_type, clock, there_at=there_at, timeout=10.0)
    assert clock.waits[-len(looks) :] == pytest.approx(looks) if looks else clock.waits == []
    told = [round(one.elapsed, 1) for one in events if isinstance(one, Waiting)]
    assert told == said
    assert (10.0 < clock.passed <= 12.0) == (there_at > 10.0)
