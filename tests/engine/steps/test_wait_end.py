"""How a wait ends: what will never be ready and why, time, order, a signal."""

from __future__ import annotations

import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event as Flag
from typing import TYPE_CHECKING

import pytest

from applyprune.errors import Interrupted
from applyprune.model.events import (
    InventoryWritten,
    Outcome,
    Phase,
)
from applyprune.model.inventory import Ownership
from tests.support.fault_proxy import always, faults
from tests.support.objects import config_map
from tests.support.stage import Stage, Story
from tests.support.waiting import eventually
from tests.support.workloads import (
    MERGE,
    NOWHERE,
    PLAYED,
    Body,
    Puppets,
    complaints,
    meanwhile,
    pod,
    ready,
    stuck,
    verdicts,
    workload,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from applyprune.localplane import Plane
    from tests.support.api import Api
    from tests.support.fault_proxy import FaultProxy


# What will never be ready, and why.


@pytest.mark.parametrize(
    ("status", "told", "fail_fast"),
    [
        (stuck("CrashLoopBackOff", "Running"), "container main: CrashLoopBackOff: so says", True),
        (stuck("InvalidImageName"), "container main: InvalidImageName: so says the", False),
    ],
    ids=["CrashLoopBackOff", "InvalidImageName"],
)
def test_container_that_cannot_start_fails_its_workload_at_once(
    stage: Stage, puppets: Puppets, status: Body, told: str, fail_fast: bool
) -> None:
    """The Pod is named, whatever the Deployment's own conditions say."""
    with meanwhile(lambda: puppets.pods_of("web", status)):
        story = stage.run(
            workload("Deployment", pods=PLAYED), wait=True, timeout=60.0, fail_fast=fail_fast
        )
    assert story.exit_code == 5
    problem = complaints(story)["deployment.apps/web"]
    assert "pod/web-" in problem
    assert told in problem
    assert verdicts(story)["deployment.apps/web"].elapsed < 8.0


@pytest.fixture(scope="module")
def slow(plane: Plane, api: Api) -> Iterator[dict[str, Story]]:
    """Stories in parallel: in each, 15 seconds must pass before a failure counts as final."""
    home, tight = (f"test-{secrets.token_hex(4)}" for _ in range(2))
    for name in (home, tight):
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        assert api("POST", "/api/v1/namespaces", body)[0] == 201
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "no-pods"},
        "spec": {"hard": {"pods": "0"}},
    }
    path = f"/api/v1/namespaces/{tight}/resourcequotas"
    assert api("POST", path, quota)[0] == 201
    eventually(lambda: "hard" in api.get(f"{path}/no-pods").get("status", {}), lambda: "the quota")
    nowhere = pod("nowhere")
    nowhere["spec"] = {**workload("Job", pods=NOWHERE)["spec"]["template"]["spec"]}
    sets = {
        "a quota and a Deployment": (tight, workload("Deployment", "deployed")),
        "a quota and a StatefulSet": (tight, workload("StatefulSet", "stateful")),
        "an image": (home, workload("Deployment", "image", pods=PLAYED)),
        "no node for a Pod": (home, nowhere),
        "no node for a StatefulSet": (home, workload("StatefulSet", "none", pods=NOWHERE)),
    }

    def tell(number: int, where: str, body: Body) -> Story:
        return Stage(plane.kubeconfig, where, name=f"set-{number}").run(
            body, wait=True, timeout=60.0, fail_fast=True
        )

    with ThreadPoolExecutor(len(sets)) as pool:
        futures = {
            title: pool.submit(tell, number, *told)
            for number, (title, told) in enumerate(sets.items())
        }
        Puppets(api, home).pods_of("image", stuck("ImagePullBackOff"))
        yield {title: future.result() for title, future in futures.items()}
    for name in (home, tight):
        api("DELETE", f"/api/v1/namespaces/{name}")


@pytest.mark.parametrize(
    ("title", "name", "told"),
    [
        ("a quota and a Deployment", "deployment.apps/deployed", "exceeded quota: no-pods"),
        ("a quota and a StatefulSet", "statefulset.apps/stateful", "exceeded quota: no-pods"),
        ("an image", "deployment.apps/image", "container main: ImagePullBackOff: so says"),
        ("no node for a Pod", "pod/nowhere", "0/1 nodes are available"),
        ("no node for a StatefulSet", "statefulset.apps/none", "0/1 nodes are available"),
    ],
)
def test_problem_that_lasts_ends_a_wait_with_fail_fast(
    slow: dict[str, Story], title: str, name: str, told: str
) -> None:
    """After 15 seconds, long before the timeout; the API server's own words are quoted."""
    story = slow[title]
    assert story.exit_code == 5
    assert "will not become ready" in complaints(story)[name]
    assert told in complaints(story)[name]
    assert 13.0 < verdicts(story)[name].elapsed < 30.0


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_pods_denied_by_an_admission_policy_fail_their_workload(
    stage: Stage, api: Api, kind: str
) -> None:
    """With --fail-fast no grace is given to a denial, and the policy's own words are quoted."""
    name = f"deny-{stage.namespace}"
    groups = "/apis/admissionregistration.k8s.io/v1"
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods"],
    }
    home = {"matchLabels": {"kubernetes.io/metadata.name": stage.namespace}}
    policy = {
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [rule], "namespaceSelector": home},
            "validations": [{"expression": "false", "message": "no Pods on a Sunday"}],
        },
    }
    binding = {
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
    policies = f"{groups}/validatingadmissionpolicies"
    bindings = f"{groups}/validatingadmissionpolicybindings"
    try:
        assert api("POST", policies, policy)[0] == 201
        assert api("POST", bindings, binding)[0] == 201
        dry = f"/api/v1/namespaces/{stage.namespace}/pods?dryRun=All"
        eventually(lambda: api("POST", dry, pod("x"))[0] == 422, lambda: "the policy")
        story = stage.run(workload(kind), wait=True, timeout=60.0, fail_fast=True)
    finally:
        api("DELETE", f"{bindings}/{name}")
        api("DELETE", f"{policies}/{name}")
    assert story.exit_code == 5
    told = complaints(story)[f"{kind.lower()}.apps/web"]
    assert "its Pods are rejected: " in told
    assert "no Pods on a Sunday" in told
    assert verdicts(story)[f"{kind.lower()}.apps/web"].elapsed < 10.0


def test_first_failure_ends_the_wait_and_names_the_others(stage: Stage, puppets: Puppets) -> None:
    """Within seconds, though two others are on their way and the timeout is long."""
    began = time.monotonic()
    bodies = (pod("lost"), pod("slow"), workload("Deployment", "later", pods=PLAYED))
    with meanwhile(lambda: puppets.pod("lost", {"phase": "Failed", "reason": "Evicted"})):
        story = stage.run(*bodies, wait=True, timeout=300.0)
    assert time.monotonic() - began < 6.0
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

    stage.seen = see
    story = stage.run(pod("never"), config_map("new"), wait=True, timeout=1.5)
    assert story.exit_code == 5
    assert seen == [{"pod/never", "configmap/new", "configmap/old"}], "before the wait"
    assert "the Pod is pending" in complaints(story)["pod/never"]
    kept = [one for one in story.events if getattr(one, "outcome", None) is Outcome.NOT_PRUNED]
    assert [getattr(one, "reason", "") for one in kept] == ["not everything is ready"]
    phases = [one.phase for one in story.events if isinstance(one, InventoryWritten)]
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


def test_signal_ends_the_wait_and_records_everything(stage: Stage, waits: Flag) -> None:
    """Within two seconds, as soon as the inventory holds what was applied."""
    asked: list[float] = []

    def interrupt() -> None:
        assert waits.wait(20)
        time.sleep(0.5)
        asked.append(time.monotonic())
        stage.stop.request(2)

    bodies = (workload("Deployment", pods=PLAYED), pod("never"), config_map("a"))
    with meanwhile(interrupt), pytest.raises(Interrupted) as caught:
        stage.run(*bodies, wait=True, timeout=300.0)
    assert time.monotonic() - asked[0] < 2.0
    assert caught.value.exit_code == 130
    inventory = stage.inventory()
    assert inventory.holder is None
    assert {ref.short: bool(one.uid) for ref, one in inventory.entries.items()} == {
        "deployment.apps/web": True,
        "pod/never": True,
        "configmap/a": True,
    }


def test_signal_ends_the_wait_during_a_hanging_list(spoiled: Stage, proxy: FaultProxy) -> None:
    """Nor does a list that hangs keep a wait from its end otherwise."""
    proxy.rule = always(faults.hang(), where=lambda seen: seen.path.endswith("/events"))
    asked: list[float] = []

    def interrupt() -> None:
        eventually(
            lambda: any(seen.path.endswith("/events") for seen in [*proxy.exchanges]),
            lambda: "events",
        )
        asked.append(time.monotonic())
        spoiled.stop.request(15)

    with meanwhile(interrupt), pytest.raises(Interrupted):
        spoiled.run(workload("Deployment", pods=PLAYED), wait=True, timeout=300.0)
    assert time.monotonic() - asked[0] < 2.5


@pytest.mark.parametrize("how", ["deleted", "replaced", "replaced with our label", "unlabelled"])
def test_object_replaced_while_waiting_fails(
    stage: Stage, puppets: Puppets, waits: Flag, how: str
) -> None:
    """An object with the same name, even if it is ready, is not the one that this run applied."""
    path = puppets.path("pods", "p")

    def act() -> None:
        assert waits.wait(20)
        live = puppets.api.get(path)
        time.sleep(0.5)
        if how == "unlabelled":
            gone = {"metadata": {"labels": None}}
            assert puppets.api("PATCH", path, gone, content_type=MERGE)[0] == 200
        else:
            puppets.remove(path)
        if how.startswith("replaced"):
            body = pod("p")
            if "label" in how:
                body["metadata"]["labels"] = live["metadata"]["labels"]
            assert puppets.api("POST", puppets.path("pods"), body)[0] == 201
        if how != "deleted":
            puppets.pod("p", ready())

    with meanwhile(act):
        story = stage.run(pod("p"), wait=True, timeout=8.0)
    assert story.exit_code == 5
    assert "will not become ready: " in complaints(story)["pod/p"]
    assert verdicts(story)["pod/p"].elapsed < 5.0
