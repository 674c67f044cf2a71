"""The wait for deleted objects: what counts as gone, and when it ends."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence

import pytest

from applyprune.engine.context import WorkerPool
from applyprune.engine.ports import Cancellation
from applyprune.engine.waiting import DeletedObject, DeletionWait, Gone
from applyprune.errors import Forbidden
from applyprune.model.events import Waiting
from applyprune.model.identity import Ref
from applyprune.model.live import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    PODS,
    Absent,
    LiveObject,
    Resource,
    State,
    Unknown,
)
from tests.support.clocks import ManualClock

REF = Ref("", "ConfigMap", "default", "a")
OTHER = Ref("", "ConfigMap", "default", "b")
UNREAD = Unknown(Forbidden("no", code=403).problem)


def _live(uid: str, *finalizers: str) -> LiveObject:
    return LiveObject.of(REF, uid, "1", {"finalizers": list(finalizers)})


def _wait(read: Callable[[Ref], State], *refs: Ref, timeout: float = 30.0) -> DeletionWait:
    deleted = [DeletedObject(CONFIG_MAPS, ref, "uid") for ref in refs or [REF]]
    stop = Cancellation(clock=ManualClock())
    return DeletionWait(deleted, timeout, stop, lambda _, ref: read(ref))


@pytest.mark.parametrize(
    ("states", "replaced"),
    [
        ([Absent()], False),
        ([_live("uid"), Absent()], False),
        ([UNREAD, _live("uid"), _live("new")], True),
    ],
)
def test_object_is_gone_when_its_uid_is(states: Sequence[State], replaced: bool) -> None:
    """A state that could not be read proves nothing."""
    left = iter(states)
    wait = _wait(lambda _: next(left))
    assert list(wait.run()) == [Gone(REF, replaced)]
    assert not wait.pending


def test_timeout_leaves_what_is_not_gone_as_it_was_last_read() -> None:
    """The object that is gone is reported anyway."""
    states: dict[Ref, State] = {REF: _live("uid", "hold"), OTHER: Absent()}
    wait = _wait(lambda ref: states[ref], REF, OTHER, timeout=0.0)
    assert list(wait.run()) == [Gone(OTHER, replaced=False)]
    assert [one.ref for one in wait.pending] == [REF]
    assert wait.last[REF].finalizers == ("hold",)


def test_looks_become_rarer_and_end_at_the_timeout() -> None:
    """What is waited for is said about every second."""
    clock, wait = ManualClock(), _wait(lambda _: _live("uid", "hold"), timeout=12.0)
    wait.cancellation.clock = clock
    events = list(wait.run())
    assert clock.waits[:4] == pytest.approx([0.05, 0.075, 0.1125, 0.16875])
    assert clock.waits[-3:] == [2.0] * 3
    assert clock.passed - 2.0 <= 12.0 < clock.passed
    said = [one for one in events if isinstance(one, Waiting)]
    assert [round(one.elapsed, 1) for one in said] == [1.0, 2.5, 3.7, 5.7, 7.7, 9.7, 11.7]
    assert {one.reason for one in said} == {"held by hold"}


def test_pod_in_its_grace_period_says_until_when() -> None:
    """A Pod that ignores the signal to end is deleted no sooner."""
    ref, until = Ref("", "Pod", "default", "a"), "2026-11-29T12:10:00Z"
    metadata = {"deletionTimestamp": until, "deletionGracePeriodSeconds": 600}
    pod = LiveObject.of(ref, "uid", "1", metadata)
    deleted = [DeletedObject(PODS, ref, "uid")]
    wait = DeletionWait(deleted, 30.0, Cancellation(clock=ManualClock()), lambda *_: pod)
    reasons = {one.reason for one in wait.run() if isinstance(one, Waiting)}
    assert reasons == {f"its containers may run until {until}, 600 s in all"}


@pytest.mark.parametrize(
    ("resource", "most"),
    [
        pytest.param(CONFIG_MAPS, 0.0, marks=pytest.mark.holds("unmarked-is-not-deleted")),
        (DEPLOYMENTS, 7.0),
    ],
)
def test_unmarked_object_is_not_waited_for(resource: Resource, most: float) -> None:
    """The core group marks what it deletes before it answers; an aggregated API gets 5 seconds."""
    clock = ManualClock()
    deleted = [DeletedObject(resource, REF, "uid")]
    wait = DeletionWait(deleted, 300.0, Cancellation(clock), lambda *_: _live("uid"), is_own=True)
    list(wait.run())
    assert clock.passed <= most
    assert wait.is_unmarked(deleted[0])


def test_marked_object_is_waited_for_beside_an_unmarked_one() -> None:
    """And of what this run has not deleted, nothing is known."""
    marked = LiveObject.of(OTHER, "uid", "1", {"deletionTimestamp": "2026-11-21T10:00:00Z"})
    states: dict[Ref, State] = {REF: _live("uid"), OTHER: marked}
    for refs, is_own in (([REF, OTHER], True), ([REF], False)):
        clock = ManualClock()
        deleted = [DeletedObject(CONFIG_MAPS, ref, "uid") for ref in refs]
        wait = DeletionWait(
            deleted, 12.0, Cancellation(clock), lambda _, ref: states[ref], is_own=is_own
        )
        list(wait.run())
        assert clock.passed > 12.0


def test_end_of_the_run_leaves_what_was_not_looked_at() -> None:
    """Its state is unknown, so it does not count as gone."""
    wait = _wait(lambda _: Absent())
    wait.cancellation.request(signal.SIGINT)
    with WorkerPool(1, wait.cancellation) as wait.workers:
        assert list(wait.run()) == []
    assert [one.ref for one in wait.pending] == [REF]
