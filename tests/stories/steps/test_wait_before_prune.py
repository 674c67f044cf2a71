"""A prune waits for what may need what goes, deletes nothing that a live Pod uses, and says why."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from applyprune.engine.prune import AGAIN_WHEN_UNUSED
from applyprune.localplane import Plane
from applyprune.model.events import InventoryWritten, ObjectDone, Planned
from applyprune.model.fate import Outcome
from applyprune.model.options import Mode
from tests.support.accounts import WRITE, kubeconfig_as, rule
from tests.support.api import Api, AuditTrail
from tests.support.clocks import AGES
from tests.support.fault_proxy import FaultProxy
from tests.support.input_files import write_input
from tests.support.kill import Moment, kill_at_first
from tests.support.objects import config_map
from tests.support.stage import Stage, Story, on
from tests.support.workloads import (
    NOWHERE,
    PLAYED,
    PROBE,
    Body,
    Puppets,
    became_ready,
    complaints,
    meanwhile,
    out_of_time,
    pod,
    verdicts,
    when_waiting,
    workload,
)


def _reads(name: str, **pods: Any) -> Body:
    """Return the Deployment ``web`` whose container reads a ConfigMap."""
    container = {"name": "main", "image": "main:1", "envFrom": [{"configMapRef": {"name": name}}]}
    return workload("Deployment", pods={"containers": [container | PROBE], **pods})


def _deleted(audit: AuditTrail) -> list[str]:
    """Return what applyprune has deleted, by the server's log."""
    return [
        f"{event['objectRef']['resource']}/{event['objectRef']['name']}"
        for event in audit.ours()
        if event["verb"] in {"delete", "deletecollection"} and _succeeded(event)
    ]


def _succeeded(event: dict[str, Any]) -> bool:
    """Return whether the server did it: it refuses a delete of a version that has just changed."""
    return int(event["responseStatus"]["code"]) < 300


def _reasons(story: Story) -> dict[str, str]:
    return {
        one.ref.short: one.reason
        for one in story.of(ObjectDone)
        if one.outcome is Outcome.NOT_PRUNED
    }


def _position(audit: AuditTrail, verb: str, path: str) -> int:
    """Return the place of the first such request in the server's log."""
    found = [
        number
        for number, event in enumerate(audit.events())
        if event["verb"] == verb and path in event["requestURI"]
    ]
    assert found, f"{verb} {path}"
    return found[0]


@pytest.mark.holds("ready-before-prune", "unready-holds")
def test_renamed_deployment_stays_until_the_new_one_is_ready(
    stage: Stage, audit: AuditTrail
) -> None:
    """Neither the run that renames it nor the next one deletes it; the mended one does, then.

    What is confirmed is recorded before the wait; the order is that of the server's log.
    """
    old, new = "deployment.apps/old", "deployment.apps/new"
    assert stage.run(workload("Deployment", "old"), wait=True, timeout=AGES).exit_code == 0
    audit.restart()
    broken = workload("Deployment", "new", pods=NOWHERE)
    out_of_time(stage)
    for outcome, since in (
        (Outcome.CREATED, "new"),
        (Outcome.UNCHANGED, "changed since last ready"),
    ):
        story = stage.run(broken, timeout=3600.0)
        assert story.exit_code == 5
        assert story.outcomes == {new: outcome, old: Outcome.NOT_PRUNED}
        assert _reasons(story) == {old: f"{new} is not ready ({since})"}
        assert f"timed out waiting for {new}" in complaints(story)[new]
    assert _deleted(audit) == []
    assert stage.listed() == {new, old}
    recorded: list[set[str]] = []

    def see() -> None:
        entries = stage.inventory().entries.items()
        recorded.append({ref.name for ref, entry in entries if entry.uid})

    stage.seen = on(InventoryWritten, see)
    story = stage.run(workload("Deployment", "new"), timeout=AGES)
    assert (story.exit_code, became_ready(story)) == (0, {new})
    assert (story.outcomes[old], recorded[1]) == (Outcome.PRUNED, {"new", "old"})
    assert stage.listed() == {new}
    home = f"/namespaces/{stage.namespace}"
    turned = _position(audit, "patch", f"{home}/pods/new-")
    assert turned < _position(audit, "delete", f"{home}/deployments/old")


def test_configmap_of_the_previous_hash_stays_until_the_rollout_is_complete(
    stage: Stage, audit: AuditTrail
) -> None:
    """The Pods of the old template still use it, though no manifest names it any more."""
    assert stage.run(config_map("conf-1"), _reads("conf-1"), wait=True, timeout=AGES).exit_code == 0
    changed = config_map("conf-2", "w")
    out_of_time(stage)
    late = stage.run(changed, _reads("conf-2", **NOWHERE), timeout=3600.0)
    assert (late.exit_code, _deleted(audit)) == (5, [])
    assert _reasons(late) == {
        "configmap/conf-1": "deployment.apps/web is not ready (old Pods use it)"
    }
    stage.seen = lambda _: None
    story = stage.run(changed, _reads("conf-2"), timeout=AGES)
    assert (story.exit_code, became_ready(story)) == (0, {"deployment.apps/web"})
    assert story.outcomes["configmap/conf-1"] is Outcome.PRUNED
    old_pod = _position(audit, "delete", f"/namespaces/{stage.namespace}/pods/web-")
    gone = _position(audit, "delete", f"/namespaces/{stage.namespace}/configmaps/conf-1")
    assert old_pod < gone


def test_prune_without_a_wait_warns_and_deletes(stage: Stage, audit: AuditTrail) -> None:
    """The warning names what may still be in use; nothing is watched."""
    stage.run(workload("Deployment", "old", pods=NOWHERE))
    story = stage.run(workload("Deployment", "new", pods=NOWHERE), wait=False)
    assert (story.exit_code, story.outcomes["deployment.apps/old"]) == (0, Outcome.PRUNED)
    (warning,) = story.warnings
    assert warning == (
        "--no-wait: this run prunes at once what may still be in use: "
        "deployment.apps/old before deployment.apps/new (new)"
    )
    assert verdicts(story) == {}
    assert _deleted(audit) == ["deployments/old"]
    assert "watch" not in {event["verb"] for event in audit.ours()}


def test_run_that_applies_nothing_does_not_wait(stage: Stage, audit: AuditTrail) -> None:
    """``prune`` and ``delete`` have changed nothing that could take over."""
    new = workload("Deployment", "new", pods=NOWHERE)
    stage.run(new, config_map("old"))
    pruned = stage.run(new, mode=Mode.PRUNE)
    assert (pruned.exit_code, pruned.outcomes["configmap/old"]) == (0, Outcome.PRUNED)
    assert stage.run(mode=Mode.DELETE).exit_code == 0
    assert not stage.inventory().exists
    assert "watch" not in {event["verb"] for event in audit.ours()}


# What has nothing to do with what goes.


@pytest.mark.holds("used-when-deleted")
def test_object_that_a_pod_of_somebody_else_uses_is_kept(stage: Stage, puppets: Puppets) -> None:
    """Of no set, and made since the plan; when it has ended, the object goes."""
    theirs = pod("theirs")
    theirs["spec"]["containers"][0]["envFrom"] = [{"configMapRef": {"name": "b"}}]
    assert stage.run(config_map("a"), config_map("b")).exit_code == 0
    path = puppets.path("pods")
    stage.seen = on(Planned, lambda: puppets.api.create(path, theirs))
    story = stage.run(config_map("a"))
    stage.seen = lambda _: None
    told = {"configmap/b": f"pod/theirs still uses it; {AGAIN_WHEN_UNUSED}"}
    assert (story.exit_code, _reasons(story)) == (0, told)
    # No DELETE was sent, so nothing is recorded of it, and with its manifest it is as it was.
    assert not any(entry.deleting for entry in stage.inventory().entries.values())
    story = stage.run(config_map("a"), config_map("b"))
    assert story.outcomes["configmap/b"] is Outcome.UNCHANGED
    assert _reasons(stage.run(config_map("a"))) == told
    puppets.pod("theirs", {"phase": "Succeeded"})
    story = stage.run(config_map("a"))
    assert (story.exit_code, story.outcomes["configmap/b"]) == (0, Outcome.PRUNED)


# What has changed since a run last saw it ready.


def test_change_without_a_wait_holds_a_later_prune(stage: Stage) -> None:
    """The inventory keeps it over a run with --no-wait, until a run has seen it ready."""
    old, broken = workload("Deployment", "old"), workload("Deployment", pods=NOWHERE)
    assert stage.run(workload("Deployment"), old, wait=True, timeout=AGES).exit_code == 0
    assert not any(entry.changed for entry in stage.inventory().entries.values())
    assert stage.run(broken, old, wait=False).exit_code == 0
    assert [ref.name for ref, one in stage.inventory().entries.items() if one.changed] == ["web"]
    out_of_time(stage)
    late = stage.run(broken, timeout=3600.0)
    assert (late.exit_code, [*_reasons(late)]) == (5, ["deployment.apps/old"])
    stage.seen = lambda _: None
    mended = stage.run(workload("Deployment"), timeout=AGES)
    assert mended.outcomes["deployment.apps/old"] is Outcome.PRUNED
    assert not any(entry.changed for entry in stage.inventory().entries.values())


def test_change_of_a_killed_run_holds_a_later_prune(
    stage: Stage, plane: Plane, tmp_path: Path
) -> None:
    """It was sent, and nothing but the write before the apply was recorded."""
    old, broken = workload("Deployment", "old"), workload("Deployment", pods=NOWHERE)
    assert stage.run(workload("Deployment"), old, wait=True, timeout=AGES).exit_code == 0
    source = write_input(tmp_path / "set.json", [broken, old])
    with FaultProxy(plane) as proxy:
        kill_at_first(
            proxy,
            lambda seen: seen.method == "PATCH" and seen.path.endswith("/deployments/web"),
            Moment.AFTER,
            ["apply", stage.name, "-n", stage.namespace, "-f", source, "--no-check"],
            proxy.kubeconfig(tmp_path),
        )
    out_of_time(stage)
    late = stage.run(broken, timeout=3600.0)
    assert late.outcomes["deployment.apps/web"] is Outcome.UNCHANGED
    assert (late.exit_code, [*_reasons(late)]) == (5, ["deployment.apps/old"])


def test_prune_waits_for_all_changes_where_pods_may_not_be_listed(
    stage: Stage, plane: Plane, api: Api, tmp_path: Path
) -> None:
    """Then nobody knows who uses the object."""
    broken = workload("Deployment", pods=NOWHERE)
    assert stage.run(broken, config_map("a"), config_map("b")).exit_code == 0
    rules = [
        rule("", ["configmaps"], WRITE),
        rule("apps", ["deployments"], WRITE),
        rule("", ["persistentvolumeclaims"], ["list"]),
        rule("apps", ["statefulsets"], ["list"]),
    ]
    access = kubeconfig_as("no-pods", plane, api, stage.namespace, tmp_path, *rules)
    less = Stage(access, stage.namespace)
    out_of_time(less)
    late = less.run(broken, config_map("a"), timeout=3600.0)
    assert late.exit_code == 5
    assert _reasons(late) == {
        "configmap/b": "deployment.apps/web is not ready (changed since last ready)"
    }


# Pods without a probe, which must stay ready for a while.


UNPROBED = "it has no readiness probe, and was not ready for 10 s yet"


def ago(seconds: float) -> str:
    """Return a time in the past, as a kubelet writes it."""
    return (datetime.now(UTC) - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def unprobed(name: str) -> Body:
    """Return a Deployment without a probe, whose Pods the test plays."""
    containers = [{"name": "main", "image": "main:1"}]
    return workload("Deployment", name, pods={"containers": containers, **PLAYED})


def steady(*, since: float, crashed: bool = False) -> Body:
    """Return the status of a Pod that is ready since so many seconds, or has crashed then."""
    state: Body = {"running": {"startedAt": ago(since)}}
    if crashed:
        state = {"waiting": {"reason": "CrashLoopBackOff"}}
    container: Body = {"name": "main", "image": "main:1", "imageID": "", "ready": not crashed}
    container |= {"restartCount": int(crashed), "state": state}
    if crashed:
        ended = {"exitCode": 1, "startedAt": ago(since + 1), "finishedAt": ago(since)}
        container["lastState"] = {"terminated": ended}
    is_ready = {"type": "Ready", "status": "False" if crashed else "True"}
    return {
        "phase": "Running",
        "conditions": [{**is_ready, "lastTransitionTime": ago(since)}],
        "containerStatuses": [container],
    }


def test_working_deployment_is_not_pruned_for_one_that_crashes(
    stage: Stage, puppets: Puppets, api: Api
) -> None:
    """It counts as available between its start and its crash, in that run and in the next one."""
    with meanwhile(lambda: puppets.pods_of("old", steady(since=60))):
        story = stage.run(unprobed("old"), config_map("stays"), wait=True, timeout=AGES)
    assert story.exit_code == 0, complaints(story)
    given = (unprobed("new"), config_map("stays"))
    out_of_time(stage, UNPROBED)
    with meanwhile(lambda: puppets.pods_of("new", steady(since=-3600))):
        first = stage.run(*given)
    assert first.exit_code == 5
    assert UNPROBED in complaints(first)["deployment.apps/new"]
    crashed = steady(since=0, crashed=True)
    left = [lambda: puppets.pods_of("new", crashed)]
    when_waiting(stage, lambda: left and left.pop()(), UNPROBED)
    second = stage.run(*given, fail_fast=True)
    assert second.exit_code == 5
    assert second.outcomes["deployment.apps/new"] is Outcome.UNCHANGED
    assert "CrashLoopBackOff" in complaints(second)["deployment.apps/new"]
    assert second.outcomes["deployment.apps/old"] is Outcome.NOT_PRUNED
    assert api.exists(puppets.path("deployments", "old", "/apis/apps/v1"))


def test_pods_that_may_not_be_listed_are_a_warning(
    plane: Plane, stage: Stage, puppets: Puppets, api: Api, tmp_path: Path
) -> None:
    """The workload must be ready for a while then, by its own status."""
    rules = [rule("", ["configmaps"], WRITE), rule("apps", ["deployments"], WRITE)]
    kubeconfig = kubeconfig_as("poor", plane, api, stage.namespace, tmp_path, *rules)
    poor = Stage(kubeconfig, stage.namespace, name=stage.name)
    clock = when_waiting(poor, lambda: clock.advance(11.0), "its Pods may not be listed")
    with meanwhile(lambda: puppets.pods_of("web", steady(since=0))):
        story = poor.run(unprobed("web"), wait=True, timeout=AGES)
    assert story.exit_code == 0, complaints(story)
    told = "".join(story.warnings)
    assert "whether its Pods restart was not seen" in told
