"""What may still be in use is pruned only when everything is ready; --no-wait turns that off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from applyprune.model.events import InventoryWritten, ObjectDone, Outcome
from applyprune.model.options import Mode
from tests.support.clocks import AGES
from tests.support.objects import config_map
from tests.support.workloads import (
    NOWHERE,
    PLAYED,
    Body,
    Puppets,
    became_ready,
    complaints,
    meanwhile,
    ours,
    out_of_time,
    ready,
    verdicts,
    workload,
)

if TYPE_CHECKING:
    from tests.support.api import Api, AuditTrail
    from tests.support.stage import Stage, Story


def _reads(name: str, **pods: Any) -> Body:
    """Return the Deployment ``web`` whose container reads a ConfigMap."""
    container = {
        "name": "main",
        "image": "main:1",
        "envFrom": [{"configMapRef": {"name": name}}],
    }
    return workload("Deployment", pods={"containers": [container], **pods})


def _path(stage: Stage, name: str) -> str:
    return f"/apis/apps/v1/namespaces/{stage.namespace}/deployments/{name}"


def _identity(api: Api, path: str) -> tuple[str, str]:
    metadata = api.get(path)["metadata"]
    return metadata["uid"], metadata["resourceVersion"]


def _deleted(audit: AuditTrail) -> list[str]:
    """Return what applyprune has deleted, by the server's log."""
    return [
        f"{event['objectRef']['resource']}/{event['objectRef']['name']}"
        for event in ours(audit)
        if event["verb"] in {"delete", "deletecollection"} and _succeeded(event)
    ]


def _succeeded(event: dict[str, Any]) -> bool:
    """Return whether the server did it: it refuses a delete of a version that has just changed."""
    return int(event["responseStatus"]["code"]) < 300


def _reasons(story: Story) -> dict[str, str]:
    return {
        one.ref.short: one.reason
        for one in story.events
        if isinstance(one, ObjectDone) and one.outcome is Outcome.NOT_PRUNED
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


def test_renamed_deployment_stays_until_the_new_one_is_ready(
    stage: Stage, api: Api, audit: AuditTrail
) -> None:
    """Neither the run that renames it nor the next one deletes it; the mended one does."""
    assert stage.run(workload("Deployment", "old"), wait=True, timeout=AGES).exit_code == 0
    before = _identity(api, _path(stage, "old"))
    audit.restart()
    broken = workload("Deployment", "new", pods=NOWHERE)
    out_of_time(stage)
    for outcome in (Outcome.CREATED, Outcome.UNCHANGED):
        story = stage.run(broken, timeout=3600.0)
        assert story.exit_code == 5
        assert story.outcomes == {
            "deployment.apps/new": outcome,
            "deployment.apps/old": Outcome.NOT_PRUNED,
        }
        assert _reasons(story) == {"deployment.apps/old": "not everything is ready"}
        assert (
            "timed out waiting for deployment.apps/new" in complaints(story)["deployment.apps/new"]
        )
    assert _deleted(audit) == []
    assert _identity(api, _path(stage, "old")) == before
    assert stage.listed() == {"deployment.apps/new", "deployment.apps/old"}
    stage.seen = lambda _: None
    story = stage.run(workload("Deployment", "new"), timeout=AGES)
    assert (story.exit_code, became_ready(story)) == (0, {"deployment.apps/new"})
    assert story.outcomes["deployment.apps/old"] is Outcome.PRUNED
    assert stage.listed() == {"deployment.apps/new"}


def test_renamed_deployment_is_deleted_after_the_new_one_is_ready(
    stage: Stage, puppets: Puppets, audit: AuditTrail
) -> None:
    """By the server's log; what is confirmed is recorded before the wait."""
    stage.run(workload("Deployment", "old", pods=NOWHERE))
    recorded: list[dict[str, bool]] = []

    def see(event: object) -> None:
        if isinstance(event, InventoryWritten):
            entries = stage.inventory().entries.items()
            recorded.append({ref.name: bool(entry.uid) for ref, entry in entries})

    stage.seen = see

    with meanwhile(lambda: puppets.pods_of("new", ready())):
        story = stage.run(workload("Deployment", "new", pods=PLAYED), timeout=AGES)
    assert (story.exit_code, became_ready(story)) == (0, {"deployment.apps/new"})
    assert recorded[1] == {"new": True, "old": True}
    home = f"/namespaces/{stage.namespace}"
    turned = _position(audit, "patch", f"{home}/pods/new-")
    assert turned < _position(audit, "delete", f"{home}/deployments/old")


def test_configmap_of_the_previous_hash_stays_until_the_rollout_is_complete(
    stage: Stage, puppets: Puppets, audit: AuditTrail
) -> None:
    """The Pods of the old template still use it, though no manifest names it any more."""
    assert stage.run(config_map("conf-1"), _reads("conf-1"), wait=True, timeout=AGES).exit_code == 0
    changed = config_map("conf-2", "w")
    out_of_time(stage)
    late = stage.run(changed, _reads("conf-2", **NOWHERE), timeout=3600.0)
    assert (late.exit_code, _deleted(audit)) == (5, [])
    assert late.outcomes["configmap/conf-1"] is Outcome.NOT_PRUNED
    # Nothing is changed, and the rollout has not ended.
    again = stage.run(changed, _reads("conf-2", **NOWHERE), timeout=3600.0)
    assert (again.exit_code, _deleted(audit)) == (5, [])
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
        "--no-wait: this run prunes without waiting until everything is ready: "
        "deployment.apps/old is a workload"
    )
    assert verdicts(story) == {}
    assert _deleted(audit) == ["deployments/old"]
    assert "watch" not in {event["verb"] for event in ours(audit)}


def test_object_with_the_skip_annotation_does_not_hold_up_the_prune(stage: Stage) -> None:
    """The way out for a single object that is never ready."""
    stage.run(workload("Deployment", "old", pods=NOWHERE))
    story = stage.run(workload("Deployment", "new", pods=NOWHERE, wait="skip"), timeout=300.0)
    assert (story.exit_code, story.outcomes["deployment.apps/old"]) == (0, Outcome.PRUNED)


@pytest.mark.parametrize("mode", [Mode.PRUNE, Mode.DELETE])
def test_run_that_applies_nothing_does_not_wait(
    stage: Stage, audit: AuditTrail, mode: Mode
) -> None:
    """``prune`` and ``delete`` have changed nothing that could take over."""
    bodies = (workload("Deployment", "new", pods=NOWHERE), config_map("old"))
    stage.run(*bodies)
    given = bodies[:1] if mode is Mode.PRUNE else ()
    story = stage.run(*given, mode=mode)
    assert story.exit_code == 0
    assert "configmap/old" in story.outcomes
    assert stage.listed() == ({"deployment.apps/new"} if given else set())
    assert "watch" not in {event["verb"] for event in ours(audit)}
