"""``status``: the status of every object of a set, by one LIST for each kind."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from applyprune.cluster.client import KubernetesClient
from applyprune.cluster.inventory_store import ConfigMapStore
from applyprune.engine.ports import Cancellation
from applyprune.engine.status import status
from applyprune.model.events import (
    ApplySetListed,
    Event,
    Finished,
    ObjectStatus,
    Status,
    WarningRaised,
)
from applyprune.model.fate import Outcome
from applyprune.model.inventory import Ownership
from applyprune.model.options import Adopt, Conflicts, DryRun, StatusOptions
from applyprune.planning.applyset import PART_OF
from applyprune.values import replace
from tests.support.api import Api, AuditTrail
from tests.support.clocks import AGES, QuickClock
from tests.support.objects import SECRET, SERVICE, config_map, of_kind
from tests.support.plane import Kubectl
from tests.support.stage import Stage
from tests.support.waiting import eventually
from tests.support.workloads import meanwhile


def deployment(replicas: int = 1, annotations: dict[str, str] | None = None) -> dict[str, Any]:
    """Return a Deployment that kwok makes ready in a second."""
    pod = {"containers": [{"name": "c", "image": "nginx"}]}
    return of_kind(
        "Deployment",
        "d",
        {"annotations": annotations or {}},
        spec={
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "d"}},
            "template": {"metadata": {"labels": {"app": "d"}}, "spec": pod},
        },
    )


def look(
    stage: Stage, seen: Callable[[Event], None] = lambda _: None, **asked: Any
) -> tuple[Event, ...]:
    """Return what `status` reports about the set."""
    transport = stage.transport()
    said = []
    try:
        cluster = KubernetesClient(transport, "test")
        store = ConfigMapStore(cluster, stage.target)
        for event in status(stage.target, StatusOptions(**asked), cluster, store, stage.stop):
            said.append(event)
            seen(event)
    finally:
        transport.close()
    return tuple(said)


def standings(events: tuple[Event, ...]) -> dict[str, ObjectStatus]:
    return {one.ref.short: one for one in events if isinstance(one, ObjectStatus)}


def ended(events: tuple[Event, ...]) -> Finished:
    assert isinstance(events[-1], Finished)
    return events[-1]


def test_status_costs_one_list_per_kind(stage: Stage, audit: AuditTrail) -> None:
    """Whatever the number of objects; the objects first, then the set with its last run."""
    stage.run(*(config_map(f"c{number}") for number in range(9)), SECRET, SERVICE)
    audit.restart()
    events = look(stage)
    requests = sorted(
        (event["verb"], event["objectRef"]["resource"])
        for event in audit.ours()
        if event.get("objectRef", {}).get("resource")
    )
    assert requests == [
        ("get", "configmaps"),
        ("get", "namespaces"),  # whether it is being deleted
        ("list", "configmaps"),
        ("list", "secrets"),
        ("list", "services"),
    ]
    told = standings(events)
    assert len(told) == 11
    assert {one.readiness.status for one in told.values()} == {Status.CURRENT}
    assert {one.drifted for one in told.values()} == {False}
    assert {one.ownership for one in told.values()} == {Ownership.OWNED}
    assert all(one.age is not None and one.age < 60 for one in told.values())
    (whole,) = (event for event in events if isinstance(event, ApplySetListed))
    assert events.index(whole) == len(events) - 2
    assert (whole.name, whole.namespace, whole.objects, whole.ready) == (
        "web",
        stage.namespace,
        11,
        11,
    )
    assert whole.last is not None
    assert (whole.last.mode, whole.last.exit_code) == ("apply", 0)
    assert ended(events).exit_code == 0


def test_status_shows_changes_by_others(stage: Stage, api: Api) -> None:
    """Which fields, who, and how; no value of a Secret; other fields are not drift."""
    stage.run(config_map("a"), config_map("b"), config_map("c"), SECRET, deployment())
    web = stage.path("d", "deployments", "/apis/apps/v1")
    for path, change in (
        (stage.path("a"), {"data": {"key": "w"}}),
        (stage.path("b"), {"data": {"other": "w"}}),
        (stage.path("c"), {"data": None}),
        (stage.path("s", "secrets"), {"data": {"password": "Zm9v"}}),
        (f"{web}/scale", {"spec": {"replicas": 2}}),
    ):
        api.patch(path, change, by="kubectl-patch")
    events = look(stage, drift=True)
    told = standings(events)
    assert {name for name, one in told.items() if one.drifted} == {
        "configmap/a",
        "configmap/c",
        "deployment.apps/d",
        "secret/s",
    }
    (drift,) = told["configmap/a"].drift
    assert (drift.path, drift.found, drift.wanted) == ("/data/key", '"w"', None)
    assert (drift.manager, drift.operation) == ("kubectl-patch", "Update")
    assert drift.time.endswith("Z")
    assert told["configmap/b"].drift == ()
    (removed,) = told["configmap/c"].drift
    assert (removed.path, removed.found, removed.manager) == ("/data/key", None, "")
    assert [(one.path, one.found) for one in told["secret/s"].drift] == [
        ("/data/password", "(secret)")
    ]
    assert [(one.path, one.found) for one in told["deployment.apps/d"].drift] == [
        ("/spec/replicas", "2")
    ]
    assert [event for event in events if isinstance(event, WarningRaised)] == []
    assert ended(look(stage, wait=True)).exit_code == 0
    assert ended(look(stage, fail_on_drift=True)).exit_code == 1
    known = {name: one.drift for name, one in told.items()}
    assert {name: one.drift for name, one in standings(look(stage)).items()} == known


DEFAULTED = of_kind(
    "NetworkPolicy", "web", spec={"podSelector": {}, "ingress": [{"ports": [{"port": 80}]}]}
)


@pytest.mark.holds("defaults-inside")
def test_defaults_of_the_server_do_not_count_as_drift(
    stage: Stage, kubectl: Kubectl, api: Api
) -> None:
    """Inside of a list that is the set's own; also where kubectl had applied it before."""
    kubectl("apply", "-n", stage.namespace, "-f", "-", stdin=json.dumps(config_map("old")))
    bodies = (DEFAULTED, config_map("old"))
    assert stage.run(*bodies).exit_code == 0
    for _ in range(2):
        found = standings(look(stage, values=True))
        assert {name for name, one in found.items() if one.drifted is not False} == set()
        assert stage.run(*bodies, reapply_all=True).exit_code == 0
    path = stage.path("web", "networkpolicies", "/apis/networking.k8s.io/v1")
    api.patch(path, {"spec": {"ingress": [{"ports": [{"port": 81}]}]}})
    found = standings(look(stage, values=True))
    assert found["networkpolicy.networking.k8s.io/web"].drifted is True


def test_status_shows_missing_and_replaced_objects(stage: Stage, api: Api) -> None:
    """It is warned of, and the set is not ready."""
    stage.run(*map(config_map, "abcd"))
    for name in "ab":
        api("DELETE", stage.path(name))
    api.create(stage.path(), config_map("b"))
    api.patch(stage.path("c"), {"metadata": {"labels": {PART_OF: "applyset-x-v1"}}})
    other = replace(stage, name="other")
    assert other.run(config_map("d"), adopt=Adopt.ALL).exit_code == 0
    events = look(stage)
    told = standings(events)
    assert told["configmap/a"].readiness.status is Status.NOT_FOUND
    assert (told["configmap/b"].readiness.status, told["configmap/b"].drifted) == (
        Status.CURRENT,
        True,
    )
    # A label proves nothing.
    assert told["configmap/c"].readiness.status is Status.CURRENT
    warned = sorted(event.problem.message for event in events if isinstance(event, WarningRaised))
    place = f"in namespace {stage.namespace}"
    assert warned == [
        f"configmap/a {place} does not exist",
        f"configmap/b {place} is not the object that the set has applied",
        f"configmap/c {place} has the label of another set, which is not known to list it",
        f"configmap/d {place} belongs to the set other {place} now",
    ]
    assert told["configmap/d"].readiness.status is Status.OTHER_SET
    named = f"it belongs to the set other {place}"
    assert told["configmap/d"].readiness.message == named
    end = ended(events)
    assert end.exit_code == 5
    assert "2 of the set's 4 objects are not ready: configmap/a" in str(end.problem)


def test_status_shows_objects_that_are_not_ready(stage: Stage, api: Api) -> None:
    """Exit code 5, unless the object's own annotation says not to wait for it."""
    stage.run(deployment(0, {"applyprune.dev/ready-when": "self.metadata.name == 'x'"}))
    events = look(stage)
    (one,) = standings(events).values()
    assert one.readiness.status is Status.IN_PROGRESS
    assert "does not hold yet" in one.readiness.message
    assert ended(events).exit_code == 5
    rules = {"applyprune.dev/ready-when": "self.nothing", "applyprune.dev/wait": "skip"}
    stage.run(deployment(0, rules))
    assert ended(look(stage)).exit_code == 0
    marks = {"applyprune.dev/wait": None, "applyprune.dev/ready-when": "1 +"}
    path = stage.path("d", "deployments", "/apis/apps/v1")
    api.patch(path, {"metadata": {"annotations": marks}})
    spoiled = look(stage)
    assert ended(spoiled).exit_code == 3
    assert standings(spoiled)["deployment.apps/d"].readiness.status is Status.UNKNOWN


@pytest.mark.holds("clock-of-status")
def test_status_wait_ends_when_all_is_ready(stage: Stage) -> None:
    """And at the timeout; each change is reported once."""
    stage.run(config_map("a"), deployment(replicas=2))
    events = look(stage, wait=True, timeout=AGES)
    states = [one.readiness.status for one in events if isinstance(one, ObjectStatus)]
    assert states.count(Status.CURRENT) == 2
    assert ended(events).exit_code == 0
    stage.run(config_map("a"), deployment(1, {"applyprune.dev/ready-when": "false"}))
    stage.stop = Cancellation(clock=QuickClock(asks=40))
    late = ended(look(stage, wait=True, timeout=3.0))
    assert late.exit_code == 5
    assert late.elapsed > 3.0


def test_status_watch_reports_changes(stage: Stage, api: Api) -> None:
    """Drift, deletion, and what another run adds, until somebody stops it."""
    stage.run(config_map("a"), config_map("b"))
    other = replace(stage)
    told: list[tuple[str, str, bool | None]] = []

    def act() -> None:
        wanted: list[Callable[[], object]] = [
            lambda: api.patch(stage.path("a"), {"data": {"key": "w"}}),
            lambda: api("DELETE", stage.path("b")),
            lambda: other.run(
                config_map("a"), config_map("b"), config_map("new"), conflicts=Conflicts.FORCE
            ),
        ]
        signs = [
            ("configmap/a", Status.CURRENT, True),
            ("configmap/b", Status.NOT_FOUND, True),
            ("configmap/new", Status.CURRENT, False),
        ]
        try:
            for step, sign in zip(wanted, signs, strict=True):
                step()
                eventually(partial(told.__contains__, sign), lambda: str(told))
        finally:
            stage.stop.request(2)

    def see(event: Event) -> None:
        if isinstance(event, ObjectStatus):
            told.append((event.ref.short, event.readiness.status, event.drifted))

    other.stop = Cancellation()
    with meanwhile(act):
        events = look(stage, see, watch=True)
    assert told[-1][1] is Status.CURRENT
    assert ended(events).exit_code == 130


SCALER: dict[str, Any] = {
    "apiVersion": "autoscaling/v1",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "web"},
    "spec": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "maxReplicas": 3,
        "targetCPUUtilizationPercentage": 50,
    },
}
NAME = "horizontalpodautoscaler.autoscaling/web"


def test_values_in_the_version_of_the_manifest(stage: Stage, api: Api) -> None:
    """The server prefers autoscaling/v2, in which the CPU target is one of its metrics."""
    bumped = {**SCALER, "apiVersion": "autoscaling/v2", "spec": {**SCALER["spec"]}}
    del bumped["spec"]["targetCPUUtilizationPercentage"]
    for body in (bumped, SCALER):
        # The version is not identity: nothing is pruned.
        story = stage.run(body, config_map("a"))
        assert (story.exit_code, story.plan.removals) == (0, ())
    path = stage.path("web", "horizontalpodautoscalers", "/apis/autoscaling/v2")
    condition = {"type": "AbleToScale", "status": "True", "lastTransitionTime": None}
    status = {"currentReplicas": 1, "desiredReplicas": 1, "conditions": [condition]}
    api.patch(f"{path}/status", {"status": status}, by="scaler")
    told = stage.status(values=True)
    assert told.warnings == []
    assert [one.drifted for one in told.of(ObjectStatus)] == [False, False]
    # A write of the status is no change, and asks for no apply.
    plan = stage.run(SCALER, config_map("a"), dry_run=DryRun.SERVER).plan
    assert [step.request for step in plan.applies] == [None, None]
    # The server itself writes the conditions as an annotation in this version.
    shown = stage.run(SCALER, config_map("a"), dry_run=DryRun.SERVER, reapply_all=True)
    assert set(shown.outcomes.values()) == {Outcome.UNCHANGED}
    metric = {"type": "Utilization", "averageUtilization": 70}
    cpu = {"type": "Resource", "resource": {"name": "cpu", "target": metric}}
    api.patch(path, {"spec": {"metrics": [cpu]}}, by="hand")
    drifted = {one.ref.short: one for one in stage.status(values=True).of(ObjectStatus)}
    assert drifted["configmap/a"].drifted is False
    (drift,) = drifted[NAME].drift
    assert (drifted[NAME].drifted, drift.path) == (True, "/spec/targetCPUUtilizationPercentage")
