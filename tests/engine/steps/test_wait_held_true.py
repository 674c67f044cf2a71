"""What a wait has seen must hold at its end, be of this run, and be readable."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from applyprune.model.events import (
    InventoryWritten,
    ObjectDone,
    ObjectStatus,
    Phase,
    ReadinessReported,
    Status,
)
from applyprune.model.fate import Outcome
from tests.support.api import Api
from tests.support.clocks import AGES
from tests.support.fault_proxy import Exchange, Fault, FaultProxy, always, faults
from tests.support.objects import config_map
from tests.support.stage import Stage
from tests.support.workloads import (
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


def _forbidden(verb: str) -> Fault:
    message = f'no: User "ci" cannot {verb} resource "pods" in API group "" in the namespace "n"'
    return faults.status(403, reason="Forbidden", message=message)


def _is_list(seen: Exchange, plural: str) -> bool:
    return seen.method == "GET" and seen.path.endswith(f"/{plural}")


@pytest.mark.parametrize("what", ["pods", "deployments"])
def test_wait_without_the_right_to_list_reads_each_object(
    spoiled: Stage, puppets: Puppets, proxy: FaultProxy, what: str
) -> None:
    """As status does, until it is ready."""
    proxy.rule = always(_forbidden("list"), where=lambda seen: _is_list(seen, what))
    if what == "pods":
        when_waiting(spoiled, lambda: puppets.pod("p", ready()))
        story = spoiled.run(pod("p"), wait=True, timeout=AGES)
        assert (story.exit_code, became_ready(story)) == (0, {"pod/p"})
    else:
        run_ahead(spoiled)
        story = spoiled.run(workload("Deployment"), wait=True, timeout=AGES)
        assert (story.exit_code, became_ready(story)) == (0, {"deployment.apps/web"})
    followed = spoiled.status(wait=True, timeout=AGES)
    assert followed.exit_code == 0


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


@pytest.mark.holds("gone-at-the-end")
def test_object_that_is_gone_before_the_others_are_ready_fails(
    stage: Stage, puppets: Puppets
) -> None:
    """It was ready, and is not there when the wait ends."""

    def see(event: object) -> None:
        if isinstance(event, ReadinessReported) and event.ref.name == "first" and not event.problem:
            puppets.remove(puppets.path("pods", "first"))
            puppets.pod("second", ready())

    run_ahead(stage, see)
    with meanwhile(lambda: puppets.pod("first", ready())):
        story = stage.run(pod("first"), pod("second"), wait=True, timeout=AGES)
    assert story.exit_code == 5
    assert "somebody has deleted it" in complaints(story)["pod/first"]


@pytest.mark.parametrize("kind", ["Pod", "ConfigMap"])
def test_object_of_an_earlier_wave_that_is_gone_by_the_end_fails(
    stage: Stage, puppets: Puppets, kind: str
) -> None:
    """Nothing is pruned then; a kind that is ready at once is looked at too."""
    first = pod("first") if kind == "Pod" else config_map("first")
    later = pod("second", wave="1")
    plural = f"{kind.lower()}s"
    stage.run(config_map("old"))

    def see(event: object) -> None:
        if isinstance(event, ObjectDone) and event.ref.name == "second":
            puppets.remove(puppets.path(plural, "first"))
            puppets.pod("second", ready())

    run_ahead(stage, see)
    with meanwhile(lambda: puppets.pod("first", ready()) if kind == "Pod" else None):
        story = stage.run(first, later, wait=True, timeout=AGES)
    assert story.exit_code == 5
    assert "it is gone" in complaints(story)[f"{kind.lower()}/first"]
    assert "configmap/old" in stage.listed()


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
