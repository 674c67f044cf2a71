"""The seconds of a wait, exactly: on a clock that the test gives, and a server that it plays."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from applyprune.engine.context import RunSummary
from applyprune.engine.ports import Cancellation
from applyprune.engine.waiting import ReadinessWaiter
from applyprune.model.events import Event, ObjectStuck, ReadinessReported, Waiting
from applyprune.model.identity import Ref
from applyprune.model.live import PODS, LiveObject, Resource
from applyprune.model.options import WaitOptions
from applyprune.model.problem import Origin
from applyprune.planning.applyset import PART_OF, applyset_identity
from applyprune.planning.readiness import Applied, Awaited
from tests.support.clocks import ManualClock, QuickClock
from tests.support.told_cluster import ToldCluster
from tests.support.workloads import Body, ready, stuck

TARGET = applyset_identity("web", "n")
POD = Ref("", "Pod", "n", "p")
WIDGET = Ref("example.com", "Widget", "n", "w")
WIDGETS = Resource("example.com", "v1", "Widget", "widgets", namespaced=True)
CRASHES = stuck("CrashLoopBackOff", "Running")
NOT_PULLED = stuck("ImagePullBackOff")
NOT_READY = ready(value="False")


def live(ref: Ref, status: Body) -> LiveObject:
    """Return an object of the set with a status."""
    metadata = {"name": ref.name, "uid": "u", "labels": {PART_OF: TARGET.id}}
    body = {"apiVersion": "v1", "kind": ref.kind, "metadata": metadata, "status": status}
    return LiveObject.of(ref, "u", "2", metadata, body=body)


def waiting_by(cluster: Any, stop: Cancellation, timeout: float, **options: Any) -> ReadinessWaiter:
    """Return a wait of a run with these options."""
    wait = WaitOptions(timeout=timeout, **options)
    context: Any = SimpleNamespace(
        cluster=cluster,
        cancellation=stop,
        applyset=TARGET,
        options=SimpleNamespace(wait=wait),
        workers=SimpleNamespace(each=map),
        summary=RunSummary("r1"),
    )
    return ReadinessWaiter(context)


def awaited(
    ref: Ref, resource: Resource, at: float, *, timeout: float | None = None, **more: Any
) -> Awaited:
    """Return an object that was applied at a second."""
    desired: Any = SimpleNamespace(
        ref=ref,
        resource=resource,
        origin=Origin("a.yaml", 1, 1),
        has_ttl=False,
        wait="",
        timeout=timeout,
    )
    return Awaited(desired, Applied(at), **more)


def wait_for(
    states: Mapping[float, Body], timeout: float, *, own: float | None = None, **options: Any
) -> list[Event]:
    """Return the events of a wait for a Pod that gets each status at its second."""
    cluster: Any = ToldCluster([live(POD, states[0.0])])
    left = {second: status for second, status in states.items() if second}

    def meanwhile(passed: float) -> None:
        cluster.await_watch("pods")
        if (status := left.pop(passed, None)) is not None:
            cluster.tell("pods", live(POD, status))

    clock = ManualClock(meanwhile)
    waiter = waiting_by(cluster, Cancellation(clock=clock), timeout, **options)
    return list(waiter.run([awaited(POD, PODS, clock.now(), timeout=own)]))


def times(events: list[Event]) -> list[tuple[str, float]]:
    """Return when a problem was shown, and when the wait ended, and how."""
    said: list[tuple[str, float]] = []
    for event in events:
        if isinstance(event, ObjectStuck):
            said.append(("stuck", event.elapsed))
        elif isinstance(event, ReadinessReported):
            said.append((event.problem.message if event.problem else "ready", event.elapsed))
    return said


LATE = "timed out waiting for pod/p in namespace n"
NEVER = "pod/p in namespace n will not become ready"
SHORT = "pod/p in namespace n is not ready yet"


@pytest.mark.parametrize(
    ("states", "timeout", "options", "expected"),
    [
        # It looks every half a second, and at once when something changes.
        ({0.0: ready()}, 60.0, {}, [("ready", 0.0)]),
        ({0.0: NOT_READY, 3.0: ready()}, 60.0, {}, [("ready", 3.0)]),
        ({0.0: NOT_READY}, 1.0, {}, [(LATE, 1.5)]),
        ({0.0: NOT_READY}, 60.0, {"own": 4.0}, [(LATE, 4.5)]),
        ({0.0: NOT_READY}, 2.0, {"own": 9.0}, [(LATE, 9.5)]),
        ({0.0: NOT_READY}, 60.0, {"turn": 2.0}, [(SHORT, 2.5)]),
        # A crash is shown at once, an image that is not pulled after more than 15 seconds.
        ({0.0: CRASHES}, 20.0, {}, [("stuck", 0.0), (LATE, 20.5)]),
        ({0.0: CRASHES}, 60.0, {"fail_fast": True}, [(NEVER, 0.0)]),
        ({0.0: NOT_PULLED}, 20.0, {}, [("stuck", 15.5), (LATE, 20.5)]),
        ({0.0: NOT_PULLED}, 60.0, {"fail_fast": True}, [(NEVER, 15.5)]),
        ({0.0: NOT_PULLED, 17.0: ready()}, 60.0, {}, [("stuck", 15.5), ("ready", 17.0)]),
        ({0.0: NOT_PULLED, 15.0: ready()}, 60.0, {"fail_fast": True}, [("ready", 15.0)]),
        # The same problem once more is not shown again; another one is.
        (
            {0.0: CRASHES, 2.0: NOT_READY, 4.0: CRASHES, 6.0: NOT_PULLED},
            16.0,
            {},
            [("stuck", 0.0), ("stuck", 15.5), (LATE, 16.5)],
        ),
    ],
)
def test_wait_takes_its_time_and_no_more(
    states: Mapping[float, Body],
    timeout: float,
    options: dict[str, Any],
    expected: list[tuple[str, float]],
) -> None:
    assert times(wait_for(states, timeout, **options)) == expected


def test_timeout_names_the_last_problem_after_it_has_passed() -> None:
    """Between two crashes a container runs: what it died of is still the reason."""
    runs = NOT_READY | {"containerStatuses": []}
    events = wait_for({0.0: CRASHES, 2.0: runs}, 3.0)
    (problem,) = [one.problem for one in events if isinstance(one, ReadinessReported)]
    assert "the Pod runs but is not ready" in str(problem)
    assert "before that: container main: CrashLoopBackOff: so says the kubelet" in str(problem)


def test_wait_says_what_it_waits_for_after_more_than_each_second() -> None:
    """With half a second between two looks, that is every third one."""
    said = [one for one in wait_for({0.0: NOT_READY}, 6.0) if isinstance(one, Waiting)]
    assert [one.elapsed for one in said] == [1.5, 3.0, 4.5, 6.0]
    assert {(one.what, one.timeout, one.count) for one in said} == {("ready", 6.0, 1)}


@pytest.mark.parametrize(("turn", "after"), [(60.0, 2.5), (2.0, 1.5)])
def test_warnings_are_watched_only_if_the_wait_takes_long(turn: float, after: float) -> None:
    """More than two seconds, or half of the turn: most objects are ready before."""
    cluster: Any = ToldCluster([live(POD, NOT_READY)])
    seen: list[float] = []

    def meanwhile(passed: float) -> None:
        cluster.await_watch("pods")
        if passed == after:
            cluster.await_watch("events")
        if cluster.is_watched("events"):
            seen.append(passed)

    clock = ManualClock(meanwhile)
    waiter = waiting_by(cluster, Cancellation(clock=clock), 60.0, turn=turn)
    list(waiter.run([awaited(POD, PODS, clock.now(), timeout=3.0)]))
    assert seen[0] == after


def test_timeout_names_the_last_warnings() -> None:
    """Those about the object itself, or about its Pods."""
    about = {"involvedObject": {"kind": "Pod", "uid": "u"}, "type": "Warning", "reason": "Failed"}
    ref = Ref("", "Event", "n", "e")
    body: Body = {"metadata": {"name": "e"}, "message": "no such volume", **about}
    warning = LiveObject.of(ref, "v", "1", body["metadata"], body=body)
    cluster: Any = ToldCluster([live(POD, NOT_READY), warning])

    def meanwhile(passed: float) -> None:
        cluster.await_watch("events" if passed > 2.0 else "pods")

    waiter = waiting_by(cluster, Cancellation(clock=ManualClock(meanwhile)), 3.0)
    list(waiter.run([awaited(POD, PODS, 0.0)]))
    assert "Failed: no such volume" in waiter.problems[POD].reason


def test_custom_resource_without_a_status_is_ready_after_five_seconds_from_its_apply() -> None:
    """Two had passed when the wait began."""
    cluster: Any = ToldCluster([live(WIDGET, {})])
    clock = ManualClock(lambda _: cluster.await_watch("widgets"))
    since = clock.now()
    clock.advance(2.0)
    waiter = waiting_by(cluster, Cancellation(clock=clock), 60.0)
    one = awaited(WIDGET, WIDGETS, since, has_status=True)
    assert times(list(waiter.run([one]))) == [("ready", 3.0)]


@pytest.mark.holds("clock-of-readiness")
def test_changes_are_waited_for_by_the_clock_of_the_run() -> None:
    cluster: Any = ToldCluster([live(POD, NOT_READY)])
    stop = Cancellation(clock=QuickClock(asks=40))
    waiter = waiting_by(cluster, stop, 5.0)
    (problem,) = [
        one.problem
        for one in waiter.run([awaited(POD, PODS, 1000.0)])
        if isinstance(one, ReadinessReported)
    ]
    assert problem is not None
    assert problem.message == LATE
