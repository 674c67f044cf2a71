"""Drift that a run leaves: nothing is sent, what is listed stays as it is, nothing is recreated.

Which drift is left is decided in ``tests/decisions/test_conflicts.py``.
"""

from __future__ import annotations

import copy

import pytest

from applyprune.model.fate import Outcome
from applyprune.model.fieldset import ObjectWriter
from applyprune.model.options import Conflicts
from tests.support.api import Api, AuditTrail, writes
from tests.support.objects import DEPLOYMENT, config_map
from tests.support.stage import Stage

REVERT = Conflicts.REVERT


def test_kept_drift_is_left_until_the_manifest_changes(
    stage: Stage, api: Api, audit: AuditTrail
) -> None:
    """Nothing is sent, not even for a deleted object; its entry stays, and nothing is pruned."""
    stage.run(*map(config_map, "abc"))
    api.patch(stage.path("a"), {"data": {"key": "2"}}, by="opponent")
    assert api("DELETE", stage.path("b"))[0] == 200
    before = stage.inventory().entries
    audit.restart()
    for _ in range(2):
        story = stage.run(*map(config_map, "abc"), keep_drift=True, wait=True)
        assert (story.exit_code, stage.inventory().entries) == (0, before)
        assert story.outcomes["configmap/b"] is Outcome.SKIPPED
    assert writes(audit) == []
    later = [config_map("a", "3"), config_map("b", "new"), config_map("c")]
    assert stage.run(*later, keep_drift=True).outcomes == {
        "configmap/a": Outcome.UPDATED,
        "configmap/b": Outcome.CREATED,
        "configmap/c": Outcome.UNCHANGED,
    }
    assert api.get(stage.path("a"))["data"] == {"key": "3"}


def test_contended_object_is_left_alone_and_stays_listed(stage: Stage, api: Api) -> None:
    """Changed or deleted by the manager that is named, and reverted as soon as none is."""
    bodies = [*map(config_map, "abc")]
    stage.run(*bodies)
    before = stage.inventory().entries
    theirs = {"data": {"key": "2"}}
    for name in "ab":
        api.patch(stage.path(name), theirs, by="opponent")
    assert api("DELETE", stage.path("c"))[0] == 200
    named = {"a": "opponent", "c": ""}
    contended = frozenset(
        ObjectWriter(f"configmap/{name}", stage.namespace, writer) for name, writer in named.items()
    )
    story = stage.run(*bodies, conflicts=REVERT, contended=contended)
    assert (story.exit_code, story.outcomes["configmap/b"]) == (0, Outcome.UPDATED)
    assert (api.get(stage.path("a"))["data"], api.exists(stage.path("c"))) == (
        theirs["data"], False,
    )  # fmt: skip
    left = {ref: entry for ref, entry in before.items() if ref.name in named}
    assert {ref: stage.inventory().entries[ref] for ref in left} == left
    stage.run(*bodies, conflicts=REVERT)
    assert [api.get(stage.path(name))["data"] for name in "abc"] == [{"key": "v"}] * 3


@pytest.mark.holds("drift-deletes-nothing", "own-immutable-field")
def test_drift_alone_recreates_nothing(stage: Stage, api: Api) -> None:
    """Not even if that is allowed; nor may a changed manifest, while others own the field too."""
    stage.run(config_map("a", "1"))
    theirs = {"data": {"key": "2"}, "immutable": True}
    before = api.patch(stage.path("a"), theirs, by="opponent")
    for check in (True, False):
        story = stage.run(config_map("a", "1"), conflicts=REVERT, recreate=True, check=check)
        assert "reverting drift deletes nothing" in story.problem("configmap/a")
    assert api.get(stage.path("a")) == before
    story = stage.run(config_map("a", "3"), conflicts=REVERT, recreate=True)
    assert story.outcomes == {"configmap/a": Outcome.FAILED}
    assert "opponent owns the field too" in story.problem("configmap/a")


def test_order_of_a_list_is_drift_without_a_manager(stage: Stage, api: Api) -> None:
    """It leaves no trace in managedFields."""
    body = copy.deepcopy(DEPLOYMENT)
    body["spec"]["paused"] = True
    body["spec"]["template"]["spec"]["containers"] = [{"name": n, "image": "x:1"} for n in "cd"]
    stage.run(body)
    where = stage.path("web", "deployments", "/apis/apps/v1")
    order = "/spec/template/spec/containers"
    flipped = list(reversed(api.get(where)["spec"]["template"]["spec"]["containers"]))
    api.patch(where, [{"op": "replace", "path": order, "value": flipped}])
    (step,) = stage.run(body, keep_drift=True).plan.applies
    assert [(one.path, one.manager) for one in step.drift] == [(order, "")]
    now = api.get(where)["spec"]["template"]["spec"]["containers"]
    assert [one["name"] for one in now] == ["d", "c"]
