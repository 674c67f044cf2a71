"""The seconds of a wait for what others create, and for a kind that is not served yet, exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from applyprune.engine.context import WorkerPool
from applyprune.engine.ports import Cancellation
from applyprune.engine.waiting import await_crds, await_existing
from applyprune.errors import NotFound, Unavailable
from applyprune.model.events import Event, Waiting
from applyprune.model.identity import Ref
from applyprune.model.live import CONFIG_MAPS, Absent, LiveObject
from applyprune.model.options import WaitOptions
from applyprune.model.problem import Origin, Problem
from tests.support.clocks import ManualClock
from tests.support.objects import crd

Problems = Mapping[Ref, Problem]
CONFIG = Ref("", "ConfigMap", "n", "a")
DEFINITION = Ref("apiextensions.k8s.io", "CustomResourceDefinition", "", "foos.x.example.com")


def wait(waits: Any, clock: ManualClock, there: Callable[[], bool]) -> tuple[list[Event], Problems]:
    """Return the events of a wait of ten seconds for one object, and why it is not there."""

    def read(*_: object) -> LiveObject | Absent:
        return LiveObject.of(CONFIG, "u", "1", {}) if there() else Absent()

    def get(*_: object, **__: object) -> LiveObject:
        raise NotFound("it cannot be read", code=404)

    stop = Cancellation(clock=clock)
    failed: dict[Ref, Problem] = {}
    with WorkerPool(1, stop) as workers:
        context: Any = SimpleNamespace(
            cluster=SimpleNamespace(read=read, serves=lambda _: there(), get=get),
            cancellation=stop,
            workers=workers,
            options=SimpleNamespace(wait=WaitOptions(timeout=10.0, turn=600.0)),
        )
        wanted: Any = SimpleNamespace(
            ref=DEFINITION if waits is await_crds else CONFIG,
            resource=CONFIG_MAPS,
            origin=Origin("a.yaml", 1, 1),
            timeout=None,
            body=crd("Foo"),
            apply_mark="the annotation",
        )

        def said() -> Iterator[Event]:
            failed.update((yield from waits(context, [wanted])))

        return list(said()), failed


def test_wait_for_a_kind_names_the_error_of_its_endpoint() -> None:
    """While it waits, and in its end."""

    def serves() -> bool:
        raise Unavailable("its conversion webhook does not answer", code=503)

    events, failed = wait(await_crds, ManualClock(), serves)
    named = "its conversion webhook does not answer"
    assert {one.reason for one in events if isinstance(one, Waiting)} == {named}
    assert failed[DEFINITION].reason.endswith(f"before the timeout; {named}")


@pytest.mark.parametrize(
    ("waits", "there_at", "looks", "said"),
    [
        (await_existing, 0.0, [], []),
        (await_existing, 1.0, [0.1, 0.15, 0.225, 0.3375, 0.50625], []),
        (await_existing, 99.0, [2.0] * 3, [1.3, 3.2, 4.9, 6.9, 8.9]),
        (await_crds, 0.0, [], []),
        (await_crds, 0.1, [0.02, 0.03, 0.045, 0.0675], []),
        (await_crds, 99.0, [1.0] * 4, [2.3, 5.3, 8.3]),
    ],
)
def test_looks_become_rarer_and_end_after_the_timeout(
    waits: Any, there_at: float, looks: list[float], said: list[float]
) -> None:
    """What is waited for is said every few looks."""
    clock = ManualClock()
    events, failed = wait(waits, clock, lambda: clock.passed >= there_at)
    assert bool(failed) == (there_at > 10.0)
    assert clock.waits[-len(looks) :] == pytest.approx(looks) if looks else clock.waits == []
    told = [round(one.elapsed, 1) for one in events if isinstance(one, Waiting)]
    assert told == said
    assert (10.0 < clock.passed <= 12.0) == (there_at > 10.0)
