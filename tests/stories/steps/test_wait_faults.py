"""What may go wrong between a waiting run and the server: watches, rights, outdated replies."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from applyprune.engine.ports import Cancellation
from applyprune.model.events import Event, InventoryWritten, ObjectDone, ObjectStatus, Phase, Status
from applyprune.model.fate import Outcome
from tests.support.api import Api
from tests.support.clocks import AGES
from tests.support.fault_proxy import Exchange, Fault, FaultProxy, always, faults
from tests.support.objects import config_map, of_kind
from tests.support.stage import Stage
from tests.support.workloads import (
    NOWHERE,
    PLAYED,
    Puppets,
    became_ready,
    complaints,
    is_watch,
    meanwhile,
    out_of_time,
    pod,
    ready,
    run_ahead,
    verdicts,
    when_waiting,
    workload,
)


def an_error_in_a_watch(code: int) -> Fault:
    """Return a watch that the server ends with a Status."""
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}
    line = json.dumps({"type": "ERROR", "object": {**status, "reason": "Expired"}}) + "\n"
    return faults.answer(200, line.encode(), (("Content-Type", "application/json"),))


def test_broken_watch_is_resumed(spoiled: Stage, puppets: Puppets, proxy: FaultProxy) -> None:
    """One after the other; changes in the meantime are seen too."""
    ends_at_once = faults.answer(200, b"", (("Content-Type", "application/json"),))
    ways = [
        ends_at_once,
        an_error_in_a_watch(410),
        faults.status(410, reason="Expired", message="too old resource version"),
        an_error_in_a_watch(500),
        faults.answer(200, b'{"type":"MODI', (("Content-Type", "application/json"),)),
        faults.garbage(),
        faults.web_page(),
        faults.reset(),
    ]
    left = iter(ways)
    met: list[int] = []

    def rule(seen: Exchange) -> Fault | None:
        fault = next(left, None) if is_watch(seen) else None
        if fault is not None:
            met.append(seen.number)
            if len(met) == len(ways):
                puppets.pod("p", ready())
        return fault

    proxy.rule = rule
    run_ahead(spoiled)
    story = spoiled.run(pod("p"), wait=True, timeout=AGES)
    assert (story.exit_code, became_ready(story)) == (0, {"pod/p"})
    assert len(met) == len(ways)


@pytest.mark.parametrize(
    ("fault", "is_quick"),
    [
        (faults.status(403, reason="Forbidden", message="pods is forbidden: no watch"), True),
        # If time ran ahead, a watch would not seem to end at once.
        (faults.answer(200, b"", (("Content-Type", "application/json"),)), False),
    ],
    ids=["403", "ends at once"],
)
def test_wait_without_watches_lists_periodically(
    spoiled: Stage, puppets: Puppets, proxy: FaultProxy, fault: Fault, is_quick: bool
) -> None:
    """The watch becomes a poll if the server does not serve it."""
    proxy.rule = always(fault, where=is_watch)
    when_waiting(spoiled, lambda: puppets.pod("p", ready()), "the Pod is pending")
    if not is_quick:
        spoiled.stop = Cancellation()
    story = spoiled.run(pod("p"), wait=True, timeout=AGES)
    assert (story.exit_code, became_ready(story)) == (0, {"pod/p"})


def test_wait_without_permission_for_pods_still_works(
    spoiled: Stage, puppets: Puppets, proxy: FaultProxy
) -> None:
    """A Deployment's own conditions are enough, to be ready and to have failed."""
    hidden = ("/pods", "/events", "/replicasets")
    proxy.rule = always(
        faults.status(403, reason="Forbidden", message="that is forbidden"),
        where=lambda seen: seen.method == "GET" and seen.path.endswith(hidden),
    )
    bad = workload("Deployment", "bad", pods=NOWHERE)
    path = puppets.path("deployments", "bad", "/apis/apps/v1")

    asked: set[str] = set()

    def expire() -> None:
        asked.update(seen.path.rpartition("/")[2] for seen in proxy.exchanges if seen.status == 403)
        if asked == {"pods", "events", "replicasets"}:
            soon = {"spec": {"progressDeadlineSeconds": 1}}
            puppets.api.patch(path, soon)

    when_waiting(spoiled, expire)
    story = spoiled.run(workload("Deployment", "good"), bad, wait=True, timeout=AGES)
    assert story.exit_code == 5
    assert became_ready(story) == {"deployment.apps/good"}
    told = complaints(story)["deployment.apps/bad"]
    assert "the progress deadline is exceeded" in told


def test_wait_with_namespaced_permissions_covers_several_namespaces(
    spoiled: Stage, puppets: Puppets, proxy: FaultProxy, api: Api
) -> None:
    """What cannot be listed over all namespaces is listed in each."""
    homes = [f"{spoiled.namespace}-{number}" for number in range(5)]
    for home in homes:
        api.create("/api/v1/namespaces", of_kind("Namespace", home))
    proxy.rule = always(
        faults.status(403, reason="Forbidden", message="pods is forbidden at the cluster scope"),
        where=lambda seen: seen.path == "/api/v1/pods",
    )
    bodies = [{**pod("p"), "metadata": {"name": "p", "namespace": home}} for home in homes]

    def turn() -> None:
        for home in homes:
            Puppets(api, home).pod("p", ready())

    with meanwhile(turn):
        story = spoiled.run(*bodies, wait=True, timeout=AGES)
    for home in homes:
        api("DELETE", f"/api/v1/namespaces/{home}")
    assert (story.exit_code, complaints(story)) == (0, {})


def test_wait_does_not_poll(spoiled: Stage, puppets: Puppets, proxy: FaultProxy) -> None:
    """A minute for a Deployment and a Pod: one list and one watch for each kind, no more."""
    marks: list[int] = []

    def expire() -> None:
        watches = sum(is_watch(seen) for seen in proxy.exchanges[marks[0] :])
        if watches >= 5 and clock.now() > began + 60.0:
            clock.advance(AGES)

    clock = when_waiting(spoiled, expire)
    began, seen_before = clock.now(), spoiled.seen

    def see(event: Event) -> None:
        if isinstance(event, InventoryWritten) and event.phase in {Phase.APPLIED, Phase.FINAL}:
            marks.append(len(proxy.exchanges))
        seen_before(event)

    spoiled.seen = see
    story = spoiled.run(workload("Deployment", pods=PLAYED), pod("p"), wait=True, timeout=3600.0)
    assert story.exit_code == 5
    assert len(marks) == 2
    # Deployments, the set's Pods, then all Pods, ReplicaSets, Events; a PUT is that of the lease.
    asked = [seen for seen in proxy.exchanges[marks[0] : marks[1]] if seen.method != "PUT"]
    assert len(asked) == 10, [f"{seen.method} {seen.target}" for seen in asked]
    assert sum(is_watch(seen) for seen in asked) == 5


def _forbidden(verb: str) -> Fault:
    message = f'no: User "ci" cannot {verb} resource "pods" in API group "" in the namespace "n"'
    return faults.status(403, reason="Forbidden", message=message)


def _is_list(seen: Exchange, plural: str) -> bool:
    return seen.method == "GET" and seen.path.endswith(f"/{plural}")


def test_wait_without_the_right_to_list_reads_each_object(
    spoiled: Stage, puppets: Puppets, proxy: FaultProxy
) -> None:
    """As status does, until it is ready."""
    proxy.rule = always(_forbidden("list"), where=lambda seen: _is_list(seen, "pods"))
    when_waiting(spoiled, lambda: puppets.pod("p", ready()))
    story = spoiled.run(pod("p"), wait=True, timeout=AGES)
    assert (story.exit_code, became_ready(story)) == (0, {"pod/p"})
    assert spoiled.status(wait=True, timeout=AGES).exit_code == 0


def test_wait_without_the_right_to_read_ends_and_names_the_right(
    spoiled: Stage, proxy: FaultProxy
) -> None:
    """Whatever the timeout, and without a claim about the object."""
    clock = run_ahead(spoiled, last=60.0)
    hasten = spoiled.seen

    def see(event: object) -> None:
        hasten(event)  # type: ignore[arg-type]
        if isinstance(event, InventoryWritten) and event.phase is Phase.APPLIED:
            proxy.rule = always(
                _forbidden("get"), where=lambda seen: seen.method == "GET" and "/pods" in seen.path
            )

    spoiled.seen = see
    began = clock.now()
    story = spoiled.run(pod("p"), wait=True, timeout=AGES)
    assert clock.now() < began + AGES
    assert story.exit_code == 5
    told = complaints(story)["pod/p"]
    assert "it is unknown whether pod/p" in told
    assert "Ask for the right to get pods in namespace n" in told
    assert verdicts(story)["pod/p"].readiness.status is Status.UNKNOWN


@pytest.mark.holds("outdated-read")
def test_object_of_an_older_generation_is_not_believed(
    spoiled: Stage, proxy: FaultProxy, api: Api
) -> None:
    """Another API server, or a cache, still shows what was ready before this run.

    Of a kind whose Pods prove nothing: those of others would hold the run up as well.
    """
    spoiled.run(workload("ReplicaSet"), config_map("old"), wait=True, timeout=AGES)
    path = f"/apis/apps/v1/namespaces/{spoiled.namespace}/replicasets"
    listed = json.dumps(api.get(path)).encode()
    before = faults.answer(200, listed, (("Content-Type", "application/json"),))

    def see() -> None:
        proxy.rule = always(
            before, where=lambda seen: _is_list(seen, "replicasets") and not is_watch(seen)
        )

    out_of_time(spoiled, "available")
    _when_applied(spoiled, see, "ReplicaSet")
    changed = workload("ReplicaSet", spec={"minReadySeconds": 1_000_000})
    story = spoiled.run(changed, wait=True, timeout=3600.0)
    assert story.outcomes["replicaset.apps/web"] is Outcome.UPDATED
    assert (story.exit_code, became_ready(story)) == (5, set())
    assert "configmap/old" in spoiled.listed(), "nothing is pruned"


def _when_applied(stage: Stage, act: Callable[[], None], kind: str = "Deployment") -> None:
    hasten = stage.seen

    def see(event: object) -> None:
        if isinstance(event, ObjectDone) and event.ref.kind == kind:
            act()
        hasten(event)  # type: ignore[arg-type]

    stage.seen = see


@pytest.mark.holds("leaving-namespace")
def test_objects_of_a_namespace_that_is_being_deleted_are_not_ready(
    spoiled: Stage, puppets: Puppets, proxy: FaultProxy, api: Api
) -> None:
    """Unchanged, and gone in a moment: the wait fails, and the status is Terminating."""
    run_ahead(spoiled)
    with meanwhile(lambda: puppets.pod("p", ready())):
        assert spoiled.run(pod("p"), config_map("old"), wait=True, timeout=AGES).exit_code == 0
    path = f"/api/v1/namespaces/{spoiled.namespace}"
    leaving = {**api.get(path)["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    body = {"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": leaving}
    answer = faults.answer(200, json.dumps(body).encode(), (("Content-Type", "application/json"),))
    proxy.rule = always(answer, where=lambda seen: (seen.method, seen.path) == ("GET", path))
    story = spoiled.run(pod("p"), wait=True, timeout=AGES)
    assert story.outcomes["pod/p"] is Outcome.UNCHANGED
    assert story.exit_code == 5
    assert "it is being deleted" in complaints(story)[f"namespace/{spoiled.namespace}"]
    assert "configmap/old" in spoiled.listed()
    shown = spoiled.status()
    assert shown.exit_code == 5
    statuses = shown.of(ObjectStatus)
    assert {one.readiness.message for one in statuses} == {"its namespace is being deleted"}
    assert {one.readiness.status for one in statuses} == {Status.TERMINATING}
