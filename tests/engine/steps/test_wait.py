"""Waiting until objects are ready, on a real API server whose nodes and kubelets kwok plays.

The test itself plays each Pod that names a missing scheduler: nobody else writes its status.
"""

from __future__ import annotations

import secrets
from types import SimpleNamespace
from typing import Any

import pytest

from applyprune.engine.ports import Cancellation
from applyprune.engine.waiting import Listed, ReadinessWaiter, Upserted, WatchScope
from applyprune.errors import InputError
from applyprune.model.events import InventoryWritten, Phase, Status, Waiting
from applyprune.model.fate import Outcome
from applyprune.model.identity import Ref
from applyprune.model.live import LiveObject, Resource
from applyprune.model.options import DryRun
from applyprune.planning.applyset import PART_OF, applyset_identity
from applyprune.planning.readiness import STATUS_GRACE, Applied, Awaited
from tests.support.api import Api, AuditTrail
from tests.support.clocks import AGES, MOMENT, QuickClock
from tests.support.objects import config_map, of_kind
from tests.support.stage import Stage
from tests.support.told_cluster import ToldCluster
from tests.support.waiting import eventually
from tests.support.workloads import (
    NOWHERE,
    PLAYED,
    READY_WHEN,
    UNREAD,
    WAIT,
    WRITES,
    Body,
    Puppets,
    became_ready,
    complaints,
    definition,
    meanwhile,
    out_of_time,
    pod,
    run_ahead,
    verdicts,
    when_waiting,
    widget,
    workload,
)

# What kwok makes ready, as a cluster would.


READY = {
    "Deployment": ("deployment.apps", "availableReplicas", 2),
    "StatefulSet": ("statefulset.apps", "readyReplicas", 2),
    "DaemonSet": ("daemonset.apps", "numberReady", 1),
    "Job": ("job.batch", "succeeded", 1),
    "ReplicationController": ("replicationcontroller", "readyReplicas", 2),
}
"""How each kind is called, and the number that a server has of it when it is ready."""


def test_workload_is_waited_for_until_its_pods_are_ready(
    stage: Stage, api: Api, puppets: Puppets
) -> None:
    """By the API server's own numbers it is, when the run ends; again, it is so at once."""
    bodies = [
        workload(kind, kind.lower(), spec={"replicas": 2} if count == 2 else {})
        for kind, (_, _, count) in READY.items()
    ]
    names = {f"{called}/{kind.lower()}" for kind, (called, _, _) in READY.items()}
    story = stage.run(*bodies, wait=True, timeout=AGES)
    assert (story.exit_code, became_ready(story)) == (0, names)
    for body, (kind, (_, field, count)) in zip(bodies, READY.items(), strict=True):
        version = body["apiVersion"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        status = api.get(f"{puppets.path(f'{kind.lower()}s', kind.lower(), root)}/status")["status"]
        assert status[field] == count
    run_ahead(stage, last=0.0)
    again = stage.run(*bodies, wait=True, timeout=AGES)
    assert set(again.outcomes.values()) == {Outcome.UNCHANGED}
    assert became_ready(again) == names, "while no time has passed"


def test_deployment_that_exceeds_its_progress_deadline_fails(
    stage: Stage, puppets: Puppets
) -> None:
    """Exit code 5, whatever the timeout, with the Pod's own trouble."""
    path = puppets.path("deployments", "web", "/apis/apps/v1")

    def expire() -> None:
        soon = {"spec": {"progressDeadlineSeconds": 1}}
        puppets.api.patch(path, soon)

    when_waiting(stage, expire, "0/1 nodes are available")
    story = stage.run(workload("Deployment", pods=NOWHERE), wait=True, timeout=AGES)
    assert story.exit_code == 5
    told = complaints(story)["deployment.apps/web"]
    assert "set.yaml:1" in told
    assert " will not become ready: the progress deadline is exceeded" in told
    assert "0/1 nodes are available" in told


@pytest.mark.parametrize("fails", [False, True])
def test_job_that_removes_itself_when_finished_is_ready(
    stage: Stage, puppets: Puppets, fails: bool
) -> None:
    """Gone is done, unless it was seen to have failed before; so the wait needs to have looked."""
    status: Body = {"phase": "Failed" if fails else "Succeeded"}
    spec = {"backoffLimit": 0, "ttlSecondsAfterFinished": 3600 if fails else 0}
    path = puppets.path("jobs", "once", "/apis/batch/v1")
    with meanwhile(lambda: puppets.pods_of("once", status)):
        story = stage.run(workload("Job", "once", pods=PLAYED, spec=spec), wait=True, timeout=AGES)
    assert story.exit_code == (5 if fails else 0)
    if fails:
        assert "the Job has failed: " in complaints(story)["job.batch/once"]
    else:
        eventually(lambda: not puppets.api.exists(path), lambda: "the Job to be gone")


def test_job_that_failed_and_was_removed_at_once_fails() -> None:
    """Both may be in the news of one moment; what was seen last decides."""
    ref = Ref("batch", "Job", "n", "once")
    resource = Resource("batch", "v1", "Job", "jobs", namespaced=True)
    target = applyset_identity("web", "n")
    body: Body = of_kind(
        "Job",
        "once",
        {"uid": "u", "labels": {PART_OF: target.id}},
        status={"conditions": [{"type": "Failed", "status": "True", "message": "too often"}]},
    )
    live = LiveObject.of(
        ref=ref, uid="u", resource_version="2", metadata=body["metadata"], body=body
    )
    source = WatchScope(resource, "n", f"{PART_OF}={target.id}")
    cluster: Any = ToldCluster()
    context: Any = SimpleNamespace(cluster=cluster, cancellation=Cancellation(), applyset=target)
    waiter = ReadinessWaiter(context)
    for news in (Listed(source, {}), Upserted(source, ref, live), Upserted(source, ref, None)):
        waiter._update(news)
    desired: Any = SimpleNamespace(ref=ref, resource=resource, has_ttl=True)
    state = waiter._state(Awaited(desired, Applied(0.0)))
    assert (state.status, state.message) == (Status.FAILED, "the Job has failed: too often")


def test_job_can_be_ready_when_started(stage: Stage, puppets: Puppets) -> None:
    """Its Pod never runs; the annotation asks for no more than the start."""
    story = stage.run(workload("Job", "once", pods=PLAYED, wait="started"), wait=True, timeout=AGES)
    assert (story.exit_code, became_ready(story)) == (0, {"job.batch/once"})
    live = puppets.api.get(puppets.path("jobs", "once", "/apis/batch/v1"))
    assert live["status"]["active"] == 1


# Kinds of one's own.


def test_crd_and_unobserved_custom_resource_become_ready(stage: Stage, api: Api) -> None:
    """Its CRD has a status: a few seconds are left for one to come, then it counts as ready."""
    group = f"{secrets.token_hex(3)}.example.com"
    crd = f"customresourcedefinition.apiextensions.k8s.io/widgets.{group}"
    clock = QuickClock(moment=AGES)
    stage.stop = Cancellation(clock=clock)

    def see(event: object) -> None:
        if isinstance(event, InventoryWritten) and event.phase is Phase.APPLIED:
            clock.moment = MOMENT

    stage.seen = see
    try:
        story = stage.run(definition(group), widget(group), wait=True, timeout=AGES)
    finally:
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        api("DELETE", f"{path}/widgets.{group}")
    assert story.exit_code == 0
    assert became_ready(story) == {crd, f"widget.{group}/w"}
    assert verdicts(story)[f"widget.{group}/w"].elapsed >= STATUS_GRACE - 0.5


def test_custom_resource_is_ready_by_its_ready_condition(
    stage: Stage, puppets: Puppets, group: str
) -> None:
    """False first, which it stays beyond the grace period; then True."""
    path = puppets.path("widgets", "w", f"/apis/{group}/v1")
    cold = {"type": "Ready", "status": "False", "message": "the pump is cold"}
    stage.run(widget(group))
    puppets.set(path, {"conditions": [cold]})

    def turn() -> None:
        if clock.now() - began > STATUS_GRACE:
            puppets.set(path, {"conditions": [{**cold, "status": "True"}]})

    clock = when_waiting(stage, turn, "the pump is cold")
    began = clock.now()
    story = stage.run(widget(group), wait=True, timeout=AGES)
    assert (story.exit_code, became_ready(story)) == (0, {f"widget.{group}/w"})
    said = [one for one in story.of(Waiting) if one.reason != UNREAD]
    assert {(one.what, one.reason) for one in said} == {("ready", "the pump is cold")}
    assert verdicts(story)[f"widget.{group}/w"].elapsed > STATUS_GRACE
    assert all(one.count == 1 and one.elapsed < one.timeout == AGES for one in said)


@pytest.mark.parametrize("by", ["annotation", "option"])
def test_custom_ready_rule_decides_readiness(
    stage: Stage, puppets: Puppets, group: str, by: str
) -> None:
    """It takes the place of the rule by conditions."""
    rule = "self.status.level > 3"
    path = puppets.path("widgets", "w", f"/apis/{group}/v1")
    body = widget(group, ready_when=rule) if by == "annotation" else widget(group)
    option = ((f"Widget.{group}", rule),) if by == "option" else ()
    stage.run(body)
    puppets.set(path, {"level": 3, "conditions": [{"type": "Ready", "status": "True"}]})
    risen: list[str] = []

    def rise() -> None:
        risen.append(path)
        puppets.set(path, {"level": 4})

    when_waiting(stage, rise, "does not hold yet")
    story = stage.run(body, wait=True, timeout=AGES, ready_when=option)
    assert (story.exit_code, bool(risen)) == (0, True)
    assert verdicts(story)[f"widget.{group}/w"].readiness.message == f"the rule “{rule}” holds"


def test_ready_rule_can_apply_to_kinds_that_are_ready_at_once(
    stage: Stage, puppets: Puppets
) -> None:
    """A ConfigMap that somebody else fills; while the rule does not hold, it is quoted."""
    body = config_map("a", annotations={READY_WHEN: "has(self.data.filled)"})
    out_of_time(stage, "does not hold yet")
    late = stage.run(body, wait=True, timeout=3600.0)
    assert late.exit_code == 5
    assert "the rule “has(self.data.filled)” does not hold yet" in complaints(late)["configmap/a"]

    def fill() -> None:
        path = puppets.path("configmaps", "a")
        data = {"data": {"filled": "yes"}}
        puppets.api.patch(path, data)

    when_waiting(stage, fill, "does not hold yet")
    story = stage.run(body, wait=True, timeout=AGES)
    assert (story.exit_code, became_ready(story)) == (0, {"configmap/a"})


def test_invalid_ready_rule_ends_the_run_before_any_write(stage: Stage, audit: AuditTrail) -> None:
    """A rule that does not compile, a wait annotation that cannot be meant: by file and line."""
    option: Body = {"ready_when": (("cm", "self."),)}
    for marks, options, place in (
        ({READY_WHEN: "self.status.("}, {}, "set.yaml:2"),
        ({WAIT: "sometimes"}, {}, "set.yaml:2"),
        ({}, option, "ready-when configmap"),
    ):
        with pytest.raises(InputError) as caught:
            stage.run(config_map("a"), config_map("b", annotations=marks), wait=True, **options)
        assert (caught.value.exit_code, caught.value.location) == (2, place)
    assert [event for event in audit.ours() if event["verb"] in WRITES] == []


# Objects that are not waited for.


def test_skipped_object_is_not_waited_for(stage: Stage) -> None:
    """The annotation takes one object out; the rest is waited for."""
    bodies = (
        workload("Deployment", pods=NOWHERE, wait="skip"),
        pod("played", wait="skip"),
        workload("Deployment", "other"),
    )
    story = stage.run(*bodies, wait=True, timeout=AGES)
    assert (story.exit_code, became_ready(story)) == (0, {"deployment.apps/other"})


def test_object_that_is_ready_once_stored_is_not_watched(stage: Stage, audit: AuditTrail) -> None:
    """ConfigMaps and Secrets cost a run with --wait no request more, but one write."""
    bodies = [config_map(f"a-{number}") for number in range(5)]
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    stage.run(*bodies, secret)
    audit.restart()
    story = stage.run(*bodies, secret, wait=True)
    assert (story.exit_code, verdicts(story)) == (0, {})
    assert sorted(event["verb"] for event in audit.ours()) == ["get"] * 3 + ["list"] * 2


def test_run_without_wait_or_with_dry_run_watches_nothing(stage: Stage, audit: AuditTrail) -> None:
    """The run ends as soon as everything is sent."""
    for options in ({"wait": True, "dry_run": DryRun.SERVER}, {}):
        story = stage.run(workload("Deployment", pods=NOWHERE), **options)
        assert (story.exit_code, verdicts(story)) == (0, {})
    assert "watch" not in {event["verb"] for event in audit.ours()}
