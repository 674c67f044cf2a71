"""How a wait ends: what will never be ready and why, time, order, a signal."""

from __future__ import annotations

import pytest

from applyprune.errors import Interrupted
from applyprune.model.events import InventoryWritten, Phase, Waiting
from applyprune.model.fate import Outcome
from applyprune.model.inventory import Ownership
from applyprune.planning.pods import GRACE
from tests.support.api import Api
from tests.support.clocks import AGES
from tests.support.denials import denied
from tests.support.fault_proxy import Exchange, Fault, FaultProxy, faults
from tests.support.fault_proxy.exchange import Wire
from tests.support.objects import config_map
from tests.support.stage import Stage
from tests.support.waiting import eventually
from tests.support.workloads import (
    NOWHERE,
    PLAYED,
    UNREAD,
    Body,
    Puppets,
    complaints,
    meanwhile,
    pod,
    ready,
    run_ahead,
    stuck,
    verdicts,
    when_waiting,
    workload,
)

# What will never be ready, and why.


BEFORE_ANY_GRACE = GRACE - 10.0
"""Seconds after which Pods and events are watched."""


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


@pytest.fixture
def no_pods(api: Api, namespace: str) -> None:
    """A quota that lets no Pod into the namespace of the test."""
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    quota = {"metadata": {"name": "no-pods"}, "spec": {"hard": {"pods": "0"}}}
    api.create(path, quota)
    eventually(lambda: "hard" in api.get(f"{path}/no-pods").get("status", {}), lambda: "the quota")


@pytest.mark.usefixtures("no_pods")
@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_quota_that_lasts_ends_a_wait_with_fail_fast(stage: Stage, kind: str) -> None:
    """After 15 seconds, and not at the timeout; the API server's own words are quoted."""
    _ends_after_its_grace(stage, workload(kind), "exceeded quota: no-pods")


def test_missing_node_ends_a_wait_with_fail_fast(stage: Stage) -> None:
    """As above."""
    _ends_after_its_grace(stage, workload("StatefulSet", pods=NOWHERE), "0/1 nodes are available")


def _ends_after_its_grace(stage: Stage, body: Body, told: str) -> None:
    run_ahead(stage)
    story = stage.run(body, wait=True, timeout=AGES, fail_fast=True)
    ((name, problem),) = complaints(story).items()
    assert story.exit_code == 5
    assert "will not become ready" in problem
    assert told in problem
    assert verdicts(story)[name].elapsed > GRACE - 0.5


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_pods_denied_by_an_admission_policy_fail_their_workload(
    stage: Stage, api: Api, kind: str
) -> None:
    """With --fail-fast no grace is given to a denial, and the policy's own words are quoted."""
    run_ahead(stage, last=BEFORE_ANY_GRACE)
    path = f"{stage.path('', 'pods')}?dryRun=All"
    told = {"expression": "false", "message": "no Pods on a Sunday"}

    def create() -> int:
        return api("POST", path, pod("x"))[0]

    with denied(api, stage.namespace, "pods", "CREATE", create, **told):
        story = stage.run(workload(kind), wait=True, timeout=AGES, fail_fast=True)
    assert story.exit_code == 5
    problem = complaints(story)[f"{kind.lower()}.apps/web"]
    assert "its Pods are rejected: " in problem
    assert "no Pods on a Sunday" in problem


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


# Time, order, and the end of a run.


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
    kept = [one for one in story.events if getattr(one, "outcome", None) is Outcome.NOT_PRUNED]
    assert [getattr(one, "reason", "") for one in kept] == ["not everything is ready"]
    phases = [one.phase for one in story.of(InventoryWritten)]
    assert phases == [Phase.BEFORE_APPLY, Phase.APPLIED, Phase.FINAL]
    assert stage.listed() == {"pod/never", "configmap/new", "configmap/old"}
    entries = stage.inventory().entries.values()
    assert all(one.uid and one.ownership is Ownership.OWNED for one in entries)
    after = stage.run(config_map("new"), max_prune=stage.most(2))
    assert after.outcomes == {
        "configmap/new": Outcome.UNCHANGED,
        "configmap/old": Outcome.PRUNED,
        "pod/never": Outcome.PRUNED,
    }
    assert not api.exists(f"/api/v1/namespaces/{stage.namespace}/pods/never")


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


@pytest.mark.parametrize("how", ["replaced", "unlabelled"])
def test_object_replaced_while_waiting_fails(stage: Stage, puppets: Puppets, how: str) -> None:
    """An object with the same name, even if it is ready, is not the one that this run applied."""
    path = puppets.path("pods", "p")

    def act() -> None:
        live = puppets.api.get(path)
        if how == "unlabelled":
            puppets.api.patch(path, {"metadata": {"labels": None}})
        else:
            puppets.remove(path)
            body = pod("p")
            body["metadata"]["labels"] = live["metadata"]["labels"]
            puppets.api.create(puppets.path("pods"), body)
        puppets.pod("p", ready())

    # The run may say once more that it waits before it has seen what was done.
    acts = iter((act,))

    def act_once() -> None:
        for first in acts:
            first()

    when_waiting(stage, act_once, "the Pod is pending")
    story = stage.run(pod("p"), wait=True, timeout=AGES)
    assert story.exit_code == 5
    assert "will not become ready: " in complaints(story)["pod/p"]
