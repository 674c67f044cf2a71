"""What may go wrong between a waiting run and the server: broken watches, missing permissions."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from applyprune.model.events import (
    InventoryWritten,
    Phase,
)
from tests.support.fault_proxy import always, faults
from tests.support.stage import Stage
from tests.support.workloads import (
    NOWHERE,
    PLAYED,
    Puppets,
    became_ready,
    complaints,
    flag_of,
    is_watch,
    meanwhile,
    pod,
    ready,
    workload,
)

if TYPE_CHECKING:
    from tests.support.api import Api
    from tests.support.fault_proxy import Exchange, Fault, FaultProxy


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
    story = spoiled.run(pod("p"), wait=True, timeout=60.0)
    assert (story.exit_code, became_ready(story)) == (0, {"pod/p"})
    assert len(met) == len(ways)
    requests = [seen for seen in proxy.exchanges if seen.path.endswith("/pods")]
    assert len(requests) < 4 * len(ways), "no storm"


@pytest.mark.parametrize(
    "fault",
    [
        faults.status(403, reason="Forbidden", message="pods is forbidden: no right to watch"),
        faults.status(410, reason="Expired", message="too old resource version"),
        faults.answer(200, b"", (("Content-Type", "application/json"),)),
    ],
    ids=["403", "410", "ends at once"],
)
def test_wait_without_watches_lists_periodically(
    spoiled: Stage, puppets: Puppets, proxy: FaultProxy, fault: Fault
) -> None:
    """Never many at once: the watch becomes a poll if the server does not serve it."""
    proxy.rule = always(fault, where=is_watch)
    waits = flag_of(spoiled)

    def turn() -> None:
        assert waits.wait(20)
        time.sleep(1.5)
        puppets.pod("p", ready())

    with meanwhile(turn):
        story = spoiled.run(pod("p"), wait=True, timeout=60.0)
    assert (story.exit_code, became_ready(story)) == (0, {"pod/p"})
    assert len([seen for seen in proxy.exchanges if seen.path.endswith("/pods")]) < 20


def test_wait_without_permission_for_pods_still_works(spoiled: Stage, proxy: FaultProxy) -> None:
    """A Deployment's own conditions are enough, to be ready and to have failed."""
    hidden = ("/pods", "/events", "/replicasets")
    proxy.rule = always(
        faults.status(403, reason="Forbidden", message="that is forbidden"),
        where=lambda seen: seen.method == "GET" and seen.path.endswith(hidden),
    )
    bad = workload("Deployment", "bad", pods=NOWHERE, spec={"progressDeadlineSeconds": 4})
    story = spoiled.run(workload("Deployment", "good"), bad, wait=True, timeout=60.0)
    assert story.exit_code == 5
    assert became_ready(story) == {"deployment.apps/good"}
    told = complaints(story)["deployment.apps/bad"]
    assert "the progress deadline is exceeded" in told
    asked = [seen.path.rpartition("/")[2] for seen in proxy.exchanges if seen.status == 403]
    assert set(asked) == {"pods", "events", "replicasets"}, "they were asked for"
    assert len(asked) < 15, "and not again and again"


def test_wait_with_namespaced_permissions_covers_several_namespaces(
    spoiled: Stage, puppets: Puppets, proxy: FaultProxy, api: Api
) -> None:
    """What cannot be listed over all namespaces is listed in each."""
    homes = [f"{spoiled.namespace}-{number}" for number in range(5)]
    for home in homes:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": home}}
        assert api("POST", "/api/v1/namespaces", body)[0] == 201
    proxy.rule = always(
        faults.status(403, reason="Forbidden", message="pods is forbidden at the cluster scope"),
        where=lambda seen: seen.path == "/api/v1/pods",
    )
    bodies = [{**pod("p"), "metadata": {"name": "p", "namespace": home}} for home in homes]

    def turn() -> None:
        for home in homes:
            Puppets(api, home).pod("p", ready())

    with meanwhile(turn):
        story = spoiled.run(*bodies, wait=True, timeout=10.0)
    for home in homes:
        api("DELETE", f"/api/v1/namespaces/{home}")
    assert (story.exit_code, complaints(story)) == (0, {})


def test_wait_does_not_poll(spoiled: Stage, puppets: Puppets, proxy: FaultProxy) -> None:
    """Five seconds for a Deployment and a Pod: one list and one watch for each kind, no more."""
    marks: list[int] = []

    def see(event: object) -> None:
        if isinstance(event, InventoryWritten) and event.phase in {Phase.APPLIED, Phase.FINAL}:
            marks.append(len(proxy.exchanges))

    spoiled.seen = see
    story = spoiled.run(workload("Deployment", pods=PLAYED), pod("p"), wait=True, timeout=5.0)
    assert story.exit_code == 5
    assert len(marks) == 2
    asked = proxy.exchanges[marks[0] : marks[1]]
    # Deployments, the set's Pods, then all Pods, ReplicaSets, Events; the lease; the last write.
    assert len(asked) <= 12, [f"{seen.method} {seen.target}" for seen in asked]
    assert sum(is_watch(seen) for seen in asked) == 5
