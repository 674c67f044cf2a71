"""Drift that a run leaves: until the manifest changes, or because it is contended."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.fate import Outcome
from applyprune.model.fieldset import ObjectWriter
from applyprune.model.options import Conflicts
from applyprune.model.plan import ApplyStep
from tests.support.api import Api, AuditTrail, writes
from tests.support.objects import DEPLOYMENT, config_map
from tests.support.stage import Stage, Story


def step(story: Story, name: str) -> ApplyStep:
    (found,) = (one for one in story.plan.applies if one.desired.ref.short == name)
    return found


@pytest.mark.holds("kept-drift", "kept-deletion")
def test_kept_drift_is_left_until_the_manifest_changes(
    stage: Stage, api: Api, audit: AuditTrail
) -> None:
    """Nothing is sent, not even for a deleted object; its entry stays, and nothing is pruned."""
    first = [config_map("a", "1", labels={"team": "x"}), config_map("b"), config_map("c")]
    stage.run(*first)
    api.patch(
        stage.path("a"),
        {"data": {"key": "2"}, "metadata": {"labels": {"team": None}}},
        by="opponent",
    )
    assert api("DELETE", stage.path("b"))[0] == 200
    before = stage.inventory().entries
    audit.restart()
    for _ in range(2):
        story = stage.run(*first, keep_drift=True)
        assert (story.exit_code, stage.inventory().entries) == (0, before)
    assert writes(audit) == []
    drift = step(story, "configmap/a").drift
    assert [(one.path, one.wanted, one.found, one.manager) for one in drift] == [
        ("/data/key", '"1"', '"2"', "opponent"),
        ("/metadata/labels/team", '"x"', "none", ""),
    ]
    assert [one.path for one in step(story, "configmap/b").drift] == [""]
    assert step(story, "configmap/c").drift == ()
    # What has changed is applied as a whole, and created again.
    later = [config_map("a", "3", labels={"team": "x"}), config_map("b", "new"), config_map("c")]
    story = stage.run(*later, keep_drift=True)
    assert story.outcomes == {
        "configmap/a": Outcome.UPDATED,
        "configmap/b": Outcome.CREATED,
        "configmap/c": Outcome.UNCHANGED,
    }
    live = api.get(stage.path("a"))
    assert (live["data"], live["metadata"]["labels"]["team"]) == ({"key": "3"}, "x")


def test_left_object_is_waited_for_only_if_it_exists(stage: Stage, api: Api) -> None:
    """A wait for what somebody has deleted would never end."""
    stage.run(config_map("a"), config_map("b"))
    assert api("DELETE", stage.path("a"))[0] == 200
    story = stage.run(config_map("a"), config_map("b"), keep_drift=True, wait=True)
    assert (story.exit_code, story.outcomes["configmap/a"]) == (0, Outcome.SKIPPED)


@pytest.mark.holds("changed-secret")
def test_secret_with_other_values_is_applied_although_drift_is_kept(stage: Stage, api: Api) -> None:
    """No digest shows that its values have changed: the fields that are still the set's do."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    stage.run({**secret, "data": {"a": "YQ==", "b": "Yg=="}})
    api.patch(stage.path("s", "secrets"), {"data": {"a": "dGhlaXJz"}}, by="opponent")
    story = stage.run({**secret, "data": {"a": "YQ==", "b": "Yg=="}}, keep_drift=True)
    assert api.get(stage.path("s", "secrets"))["data"]["a"] == "dGhlaXJz"
    (drift,) = step(story, "secret/s").drift
    assert (drift.path, drift.wanted, drift.found) == ("/data/a", "(secret)", "(secret)")
    stage.run({**secret, "data": {"a": "YQ==", "b": "Yw=="}}, keep_drift=True)
    assert api.get(stage.path("s", "secrets"))["data"] == {"a": "YQ==", "b": "Yw=="}


@pytest.mark.parametrize(
    "writer", [pytest.param("opponent", marks=pytest.mark.holds("contended-object")), "other"]
)
def test_contended_object_is_left_alone_and_stays_listed(
    writer: str, stage: Stage, api: Api
) -> None:
    """If that very manager has changed it; other objects are reverted."""
    bodies = [config_map("a", "1"), config_map("b", "1")]
    stage.run(*bodies)
    before = stage.inventory().entries
    for name in ("a", "b"):
        api.patch(stage.path(name), {"data": {"key": "2"}}, by="opponent")
    contended = ObjectWriter("configmap/a", stage.namespace, writer)
    story = stage.run(*bodies, conflicts=Conflicts.REVERT, contended=frozenset({contended}))
    is_left = writer == "opponent"
    assert story.exit_code == 0
    assert api.get(stage.path("a"))["data"]["key"] == ("2" if is_left else "1")
    assert api.get(stage.path("b"))["data"]["key"] == "1"
    assert story.outcomes["configmap/b"] is Outcome.UPDATED
    if is_left:
        (ref,) = (ref for ref in before if ref.name == "a")
        assert stage.inventory().entries[ref] == before[ref]
        assert story.outcomes["configmap/a"] is Outcome.SKIPPED
    # It is reverted as soon as nobody is named.
    story = stage.run(*bodies, conflicts=Conflicts.REVERT)
    assert api.get(stage.path("a"))["data"]["key"] == "1"


def test_contended_deletion_is_left(stage: Stage, api: Api) -> None:
    """It is not created again."""
    stage.run(config_map("a"), config_map("b"))
    assert api("DELETE", stage.path("a"))[0] == 200
    gone = ObjectWriter("configmap/a", stage.namespace, "")
    options: dict[str, Any] = {"conflicts": Conflicts.REVERT}
    stage.run(config_map("a"), config_map("b"), contended=frozenset({gone}), **options)
    assert not api.exists(stage.path("a"))
    story = stage.run(config_map("a"), config_map("b"), **options)
    assert [one.path for one in step(story, "configmap/a").drift] == [""]
    assert api.exists(stage.path("a"))


@pytest.mark.holds("drift-deletes-nothing", "own-immutable-field")
def test_drift_alone_recreates_nothing(stage: Stage, api: Api) -> None:
    """Not even if that is allowed; nor may a changed manifest, while others own the field too."""
    stage.run(config_map("a", "1"))
    api.patch(stage.path("a"), {"data": {"key": "2"}, "immutable": True}, by="opponent")
    before = api.get(stage.path("a"))
    for check in (True, False):
        story = stage.run(
            config_map("a", "1"), conflicts=Conflicts.REVERT, recreate=True, check=check
        )
        assert "reverting drift deletes nothing" in story.problem("configmap/a")
    assert api.get(stage.path("a")) == before
    story = stage.run(config_map("a", "3"), conflicts=Conflicts.REVERT, recreate=True)
    assert story.outcomes == {"configmap/a": Outcome.FAILED}
    assert "opponent owns the field too" in story.problem("configmap/a")


def test_order_of_a_list_is_drift_without_a_manager(stage: Stage, api: Api) -> None:
    """It leaves no trace in managedFields."""
    body: dict[str, Any] = {
        **DEPLOYMENT,
        "spec": {
            **DEPLOYMENT["spec"],
            "paused": True,
            "template": {
                **DEPLOYMENT["spec"]["template"],
                "spec": {"containers": [{"name": n, "image": "x:1"} for n in ("c", "d")]},
            },
        },
    }
    stage.run(body)
    where = f"/apis/apps/v1/namespaces/{stage.namespace}/deployments/web"
    order = "/spec/template/spec/containers"
    flipped = list(reversed(api.get(where)["spec"]["template"]["spec"]["containers"]))
    change = [{"op": "replace", "path": order, "value": flipped}]
    api.patch(where, change)
    story = stage.run(body, keep_drift=True)
    assert [(one.path, one.manager) for one in step(story, "deployment.apps/web").drift] == [
        (order, "")
    ]
    names = [one["name"] for one in api.get(where)["spec"]["template"]["spec"]["containers"]]
    assert names == ["d", "c"]
