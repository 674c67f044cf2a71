"""The seconds of each wait of a run, exactly: on a clock and a server that the test gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from applyprune.engine.context import RunSummary, WorkerPool
from applyprune.engine.ports import Cancellation
from applyprune.engine.send import send_apply
from applyprune.engine.waiting import (
    Listed,
    ReadinessWaiter,
    Upserted,
    WatchScope,
    await_crds,
    await_existing,
)
from applyprune.errors import (
    ApplypruneError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    NotServed,
    Unavailable,
)
from applyprune.model.events import Event, ObjectStuck, ReadinessReported, Status, Waiting
from applyprune.model.identity import Ref
from applyprune.model.live import CONFIG_MAPS, PODS, Absent, LiveObject, Resource
from applyprune.model.options import WaitOptions
from applyprune.model.problem import Origin, Problem
from applyprune.planning.applyset import PART_OF, applyset_identity
from applyprune.planning.readiness import Applied, Awaited
from tests.support.clocks import ManualClock, QuickClock
from tests.support.objects import crd
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
    version = f"{ref.group}/v1".removeprefix("/")
    body = {"apiVersion": version, "kind": ref.kind, "metadata": metadata, "status": status}
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


def test_job_that_failed_and_was_removed_at_once_fails() -> None:
    """Both may be in the news of one moment; what was seen last decides."""
    ref = Ref("batch", "Job", "n", "once")
    resource = Resource("batch", "v1", "Job", "jobs", namespaced=True)
    failed = {"type": "Failed", "status": "True", "message": "too often"}
    source = WatchScope(resource, "n", f"{PART_OF}={TARGET.id}")
    waiter = waiting_by(ToldCluster(), Cancellation(), 60.0)
    job = live(ref, {"conditions": [failed]})
    for news in (Listed(source, {}), Upserted(source, ref, job), Upserted(source, ref, None)):
        waiter._update(news)
    desired: Any = SimpleNamespace(ref=ref, resource=resource, has_ttl=True)
    state = waiter._state(Awaited(desired, Applied(0.0)))
    assert (state.status, state.message) == (Status.FAILED, "the Job has failed: too often")


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


# For what others create, and for a kind that is not served yet.

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


# How long an apply is sent again.

SERVED, SETTLED = 60.0, 2.0


@pytest.mark.parametrize(
    ("error", "is_new_kind", "is_settling", "seconds"),
    [
        # The kind of a CRD that was just applied, and any other.
        (NotServed("no such kind", code=404), True, False, SERVED),
        (NotServed("no such kind", code=404), False, True, 0.0),
        (NotServed('namespaces "home" not found', code=404), True, False, 0.0),
        # What this run has just written, and anything else.
        (Forbidden("no", code=403), False, True, SETTLED),
        (Invalid("no", code=422), False, True, SETTLED),
        (NotFound("no", code=404), False, True, SETTLED),
        (Forbidden("no", code=403), True, False, 0.0),
        (Conflict("no", code=409), True, True, 0.0),
    ],
)
def test_apply_is_sent_again_for_a_moment_only(
    error: ApplypruneError, is_new_kind: bool, is_settling: bool, seconds: float
) -> None:
    """Every tenth of a second, or ever more rarely, until more than that time has passed."""

    def apply(_: object) -> Any:
        raise error

    clock = ManualClock()
    context: Any = SimpleNamespace(
        cluster=SimpleNamespace(apply=apply),
        cancellation=Cancellation(clock=clock),
        options=SimpleNamespace(wait=WaitOptions(timeout=SERVED)),
    )
    desired = SimpleNamespace(ref=Ref("", "ConfigMap", "home", "a"))
    step: Any = SimpleNamespace(request=SimpleNamespace(force=False), desired=desired, live=None)
    with pytest.raises(type(error)):
        send_apply(context, step, lambda _: is_settling, lambda: is_new_kind)
    assert clock.waits == sorted(clock.waits)
    assert is_new_kind or set(clock.waits) <= {0.1}
    assert seconds <= clock.passed <= seconds + (2.0 if is_new_kind else 0.2)
