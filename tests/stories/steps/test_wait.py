"""Waiting until objects are ready, on a real API server whose nodes and kubelets kwok plays.

The test itself plays each Pod that names a missing scheduler: nobody else writes its status.
"""

from __future__ import annotations

import pytest

from applyprune.errors import Interrupted
from applyprune.model.events import (
    InventoryWritten,
    ObjectDone,
    ObjectStuck,
    Phase,
    ReadinessReported,
    Waiting,
)
from applyprune.model.fate import Outcome
from applyprune.model.options import DryRun
from applyprune.planning.pods import GRACE
from tests.support.api import Api, AuditTrail
from tests.support.clocks import AGES
from tests.support.fault_proxy import Exchange, Fault, FaultProxy, faults
from tests.support.fault_proxy.exchange import Wire
from tests.support.objects import SECRET, config_map, of_kind
from tests.support.stage import Stage
from tests.support.waiting import eventually
from tests.support.workloads import (
    NOWHERE,
    PLAYED,
    READY_WHEN,
    UNREAD,
    Puppets,
    became_ready,
    complaints,
    meanwhile,
    on_problem,
    out_of_time,
    pod,
    ready,
    run_ahead,
    stuck,
    verdicts,
    when_waiting,
    widget,
    workload,
)  # fmt: skip

BEFORE_ANY_GRACE = GRACE - 10.0
"""Seconds after which Pods and events are watched."""
KINDS = ("Deployment", "StatefulSet", "DaemonSet", "Job", "ReplicationController")

# What becomes ready.


def test_workload_is_waited_for_until_its_pods_are_ready(stage: Stage) -> None:
    """Of each kind that kwok makes ready; again, it is so at once. One is marked to be skipped."""
    bodies = [workload(kind, kind.lower()) for kind in KINDS]
    bodies += [workload("Deployment", pods=NOWHERE, wait="skip")]
    story = stage.run(*bodies, wait=True, timeout=AGES)
    assert (story.exit_code, len(became_ready(story))) == (0, len(KINDS))
    assert {name.rpartition("/")[2] for name in became_ready(story)} == {*map(str.lower, KINDS)}
    run_ahead(stage, last=0.0)
    again = stage.run(*bodies, wait=True, timeout=AGES)
    assert set(again.outcomes.values()) == {Outcome.UNCHANGED}
    assert became_ready(again) == became_ready(story), "while no time has passed"


def test_ready_rule_decides_readiness(stage: Stage, puppets: Puppets, group: str) -> None:
    """Of a kind by an option, of a ConfigMap by its annotation; one that does not hold is named.

    It takes the place of the rule by conditions.
    """
    rule = "self.status.level > 3"
    bodies = widget(group), config_map("a", annotations={READY_WHEN: "has(self.data.filled)"})
    options = {"wait": True, "ready_when": ((f"Widget.{group}", rule),)}
    stage.run(*bodies)
    path = puppets.path("widgets", "w", f"/apis/{group}/v1")
    puppets.set(path, {"level": 3, "conditions": [{"type": "Ready", "status": "True"}]})
    out_of_time(stage, "does not hold yet")
    late = stage.run(*bodies, timeout=3600.0, **options)
    assert late.exit_code == 5
    assert f"the rule “{rule}” does not hold yet" in complaints(late)[f"widget.{group}/w"]
    assert "the rule “has(self.data.filled)” does not" in complaints(late)["configmap/a"]

    def fulfil() -> None:
        puppets.set(path, {"level": 4})
        puppets.api.patch(puppets.path("configmaps", "a"), {"data": {"filled": "yes"}})

    when_waiting(stage, fulfil, "does not hold yet")
    story = stage.run(*bodies, timeout=AGES, **options)
    assert (story.exit_code, became_ready(story)) == (0, {f"widget.{group}/w", "configmap/a"})
    assert verdicts(story)["configmap/a"].readiness.message.endswith("holds")


def test_run_that_need_not_wait_watches_nothing(stage: Stage, audit: AuditTrail) -> None:
    """ConfigMaps and Secrets cost a run with --wait no request more; so do other runs."""
    bodies = [*(config_map(f"a-{number}") for number in range(5)), SECRET]
    broken = workload("Deployment", pods=NOWHERE)
    stage.run(*bodies)
    audit.restart()
    story = stage.run(*bodies, wait=True)
    assert (story.exit_code, verdicts(story)) == (0, {})
    assert sorted(event["verb"] for event in audit.ours()) == ["get"] * 3 + ["list"] * 2
    for options in ({"wait": True, "dry_run": DryRun.SERVER}, {}):
        story = stage.run(*bodies, broken, **options)
        assert (story.exit_code, verdicts(story)) == (0, {})
    assert "watch" not in {event["verb"] for event in audit.ours()}


# What will never be ready, and what may still be.


def test_container_that_cannot_start_fails_its_workload_at_once(
    stage: Stage, puppets: Puppets
) -> None:
    """The Pod is named, whatever the Deployment's own conditions say; no grace has passed."""
    run_ahead(stage, last=BEFORE_ANY_GRACE)
    with meanwhile(lambda: puppets.pods_of("web", stuck("CrashLoopBackOff", "Running"))):
        story = stage.run(
            workload("Deployment", pods=PLAYED), wait=True, timeout=AGES, fail_fast=True
        )
    assert story.exit_code == 5
    problem = complaints(story)["deployment.apps/web"]
    assert "pod/web-" in problem
    assert "container main: CrashLoopBackOff: so says" in problem


@pytest.mark.parametrize("kind", ["quota", "node"])
def test_wait_outlasts_a_problem_that_passes(
    stage: Stage, api: Api, puppets: Puppets, kind: str
) -> None:
    """It is reported with its reason, and the object is ready once somebody has repaired it."""
    quotas, label = puppets.path("resourcequotas"), {"only": stage.namespace}
    body, told = workload("Deployment", pods={"nodeSelector": label}), "Unschedulable: 0/"
    path = f"{quotas}/no-pods"
    if kind == "quota":
        body, told = workload("StatefulSet"), "its Pods are rejected: "
        api.create(quotas, {"metadata": {"name": "no-pods"}, "spec": {"hard": {"pods": "0"}}})
        eventually(lambda: "hard" in api.get(path).get("status", {}), lambda: "the quota")

    def repair() -> None:
        if kind == "quota":
            api.patch(path, {"spec": {"hard": {"pods": "5"}}})
        else:
            played = {"kwok.x-k8s.io/node": "fake"}
            metadata = {"labels": {"type": "kwok", **label}, "annotations": played}
            api.create("/api/v1/nodes", of_kind("Node", stage.namespace, metadata))

    on_problem(stage, repair)
    story = stage.run(body, wait=True, timeout=AGES)
    if kind == "node":
        api("DELETE", f"/api/v1/nodes/{stage.namespace}")
    name = f"{body['kind'].lower()}.apps/web"
    assert (story.exit_code, became_ready(story)) == (0, {name})
    first = story.of(ObjectStuck)[0]
    assert first.ref.short == name
    assert told in first.readiness.message
    assert verdicts(story)[name].elapsed > GRACE - 0.5


def test_refusal_of_the_old_template_is_no_failure_of_the_new_one(stage: Stage, api: Api) -> None:
    """Even with --fail-fast: a repair replaces the Pods that Pod Security refuses."""
    enforce = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}}
    api.patch(f"/api/v1/namespaces/{stage.namespace}", enforce)
    name, options = "deployment.apps/web", {"wait": True, "timeout": AGES, "fail_fast": True}
    refused = stage.run(workload("Deployment", pods={"hostNetwork": True}), **options)
    assert "violates PodSecurity" in complaints(refused)[name]
    assert "will not become ready" in complaints(refused)[name]
    repaired = stage.run(workload("Deployment"), **options)
    assert (repaired.exit_code, became_ready(repaired)) == (0, {name})


def test_first_failure_ends_the_wait_and_names_the_others(stage: Stage, puppets: Puppets) -> None:
    """Though two others are on their way, and whatever the timeout."""
    bodies = (pod("lost"), pod("slow"), workload("Deployment", "later", pods=PLAYED))
    with meanwhile(lambda: puppets.pod("lost", {"phase": "Failed", "reason": "Evicted"})):
        story = stage.run(*bodies, wait=True, timeout=AGES)
    assert story.exit_code == 5
    assert complaints(story).keys() == {"pod/lost"}
    told = complaints(story)["pod/lost"]
    assert "the Pod has failed: Evicted" in told
    for other in ("pod/slow", "deployment.apps/later"):
        assert other in told.partition("Not ready yet either: ")[2]


# Time, and the end of a run.


def test_timeout_is_exit_code_5_and_prunes_nothing(stage: Stage, api: Api) -> None:
    """What was applied is recorded with its UIDs; the next run with less prunes."""
    stage.run(config_map("old"))
    seen: list[set[str]] = []
    recorded = Stage(stage.kubeconfig, stage.namespace)

    def see(event: object) -> None:
        if isinstance(event, InventoryWritten) and event.phase is Phase.APPLIED:
            seen.append({ref.short for ref, one in recorded.inventory().entries.items() if one.uid})
        if isinstance(event, Waiting) and event.reason != UNREAD:
            clock.advance(AGES)

    clock = run_ahead(stage, see)
    story = stage.run(pod("never"), config_map("new"), wait=True, timeout=3600.0)
    assert story.exit_code == 5
    assert seen == [{"pod/never", "configmap/new", "configmap/old"}], "before the wait"
    assert "the Pod is pending" in complaints(story)["pod/never"]
    assert story.outcomes["configmap/old"] is Outcome.NOT_PRUNED
    assert story.reasons["configmap/old"] == "not everything is ready"
    phases = [one.phase for one in story.of(InventoryWritten)]
    assert phases == [Phase.BEFORE_APPLY, Phase.APPLIED, Phase.FINAL]
    assert stage.listed() == {"pod/never", "configmap/new", "configmap/old"}
    after = stage.run(config_map("new"), max_prune=stage.most(2))
    pruned = dict.fromkeys(("configmap/old", "pod/never"), Outcome.PRUNED)
    assert after.outcomes == {"configmap/new": Outcome.UNCHANGED, **pruned}
    assert not api.exists(stage.path("never", "pods"))


def test_signal_ends_the_wait_and_records_everything(stage: Stage) -> None:
    """Whatever the timeout, as soon as the inventory holds what was applied."""
    bodies = (workload("Deployment", pods=PLAYED), pod("never"), config_map("a"))
    when_waiting(stage, lambda: stage.stop.request(2))
    with pytest.raises(Interrupted) as caught:
        stage.run(*bodies, wait=True, timeout=AGES)
    assert caught.value.exit_code == 130
    inventory = stage.inventory()
    assert inventory.holder is None
    assert {ref.short: bool(one.uid) for ref, one in inventory.entries.items()} == {
        "deployment.apps/web": True,
        "pod/never": True,
        "configmap/a": True,
    }


def test_signal_ends_the_wait_during_a_hanging_list(spoiled: Stage, proxy: FaultProxy) -> None:
    """The lock is released while the list still hangs: nothing waits for its end."""
    ended: list[bool] = []
    at_release: list[bool] = []

    def hang(wire: Wire) -> None:
        spoiled.stop.request(15)
        faults.hang()(wire)
        ended.append(True)

    def rule(seen: Exchange) -> Fault | None:
        if spoiled.stop.requested and seen.method == "PUT":
            at_release.append(bool(ended))
        return hang if seen.path.endswith("/events") else None

    proxy.rule = rule
    run_ahead(spoiled)
    with pytest.raises(Interrupted):
        spoiled.run(workload("Deployment", pods=PLAYED), wait=True, timeout=AGES)
    assert at_release
    assert not any(at_release)


# What a wait has seen must hold at its end.


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


def test_object_of_an_earlier_wave_that_is_gone_by_the_end_fails(
    stage: Stage, puppets: Puppets
) -> None:
    """Nothing is pruned then; a kind that is ready at once is looked at too."""
    stage.run(config_map("old"))

    def see(event: object) -> None:
        if isinstance(event, ObjectDone) and event.ref.name == "second":
            puppets.remove(puppets.path("configmaps", "first"))
            puppets.pod("second", ready())

    run_ahead(stage, see)
    story = stage.run(config_map("first"), pod("second", wave="1"), wait=True, timeout=AGES)
    assert story.exit_code == 5
    assert "it is gone" in complaints(story)["configmap/first"]
    assert "configmap/old" in stage.listed()


def test_object_replaced_while_waiting_fails(stage: Stage, puppets: Puppets) -> None:
    """One with the same name, even if it is ready, is not the one that this run applied."""
    path = puppets.path("pods", "p")

    def replace() -> None:
        body = pod("p")
        body["metadata"]["labels"] = puppets.api.get(path)["metadata"]["labels"]
        puppets.remove(path)
        puppets.api.create(puppets.path("pods"), body)
        puppets.pod("p", ready())

    # The run may say once more that it waits before it has seen what was done.
    left = [replace]
    when_waiting(stage, lambda: left and left.pop()(), "the Pod is pending")
    story = stage.run(pod("p"), wait=True, timeout=AGES)
    assert story.exit_code == 5
    assert "will not become ready: " in complaints(story)["pod/p"]
