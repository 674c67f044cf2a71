"""Stories of other tools that take an object over; the decisions are in tests/decisions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from applyprune.model.fate import Outcome
from applyprune.model.options import Adopt, PruneAlso
from tests.support.api import Api
from tests.support.objects import config_map
from tests.support.plane import Kubectl
from tests.support.stage import Stage

RELEASE = {"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "x"}


def _apply(kubectl: Kubectl, stage: Stage, manager: str, body: dict[str, Any]) -> None:
    """Write like Flux: by a server-side apply that is forced."""
    kubectl(
        "apply", "--server-side", "--force-conflicts", f"--field-manager={manager}",
        "-n", stage.namespace, "-f", "-", stdin=json.dumps(body),
    )  # fmt: skip


@pytest.mark.holds("mark-of-a-later-tool")
def test_apply_after_the_take_over_does_not_hide_it(stage: Stage, api: Api) -> None:
    """The pipeline still applies the object a few times before it leaves the input."""
    stage.run(*map(config_map, "abc"))
    api.patch(stage.path("b"), {"metadata": {"annotations": RELEASE}}, by="helm")
    changed = config_map("b", "new")
    for body in (changed, config_map("b", "newer", annotations={"note": "x"})):
        assert stage.run(config_map("a"), body, config_map("c")).exit_code == 0
    assert stage.run(*map(config_map, "ac")).outcomes["configmap/b"] is Outcome.ORPHANED
    assert api.exists(stage.path("b"))


def test_recreation_of_what_another_team_applies_in_part_is_refused(
    stage: Stage, api: Api, kubectl: Kubectl
) -> None:
    """It would delete what that team has declared."""
    fixed = {**config_map("b"), "immutable": True}
    stage.run(config_map("a"), config_map("b"))
    _apply(kubectl, stage, "other-team", {**config_map("b"), "data": {"theirs": "1"}})
    stage.run(config_map("a"), fixed)
    uid = api.get(stage.path("b"))["metadata"]["uid"]
    changed = {**fixed, "data": {"key": "w"}}
    story = stage.run(config_map("a"), changed, recreate=True)
    assert "other-team applies a part of it" in story.problem("configmap/b")
    assert api.get(stage.path("b"))["metadata"]["uid"] == uid


def test_tool_that_was_left_behind_is_no_owner(stage: Stage, api: Api, kubectl: Kubectl) -> None:
    """Its marks outlive it: they were there at the set's last apply already."""
    body = config_map("b", annotations=RELEASE)
    kubectl(
        "create", "-f", "-", "-n", stage.namespace, "--field-manager=helm2", stdin=json.dumps(body)
    )
    stage.run(*map(config_map, "ab"), adopt=Adopt.ALL)
    story = stage.run(config_map("a"), also=frozenset({PruneAlso.ADOPTED}))
    assert story.outcomes["configmap/b"] is Outcome.PRUNED
    assert not api.exists(stage.path("b"))


@pytest.mark.holds("other-owner-recreate")
def test_recreation_of_what_another_tool_runs_is_refused(stage: Stage, api: Api) -> None:
    """It would delete the other tool's object."""
    fixed = {**config_map("b"), "immutable": True}
    stage.run(config_map("a"), fixed)
    uid = api.get(stage.path("b"))["metadata"]["uid"]
    api.patch(stage.path("b"), {"metadata": {"annotations": RELEASE}}, by="helm")
    changed = {**fixed, "data": {"key": "w"}}
    story = stage.run(config_map("a"), changed, recreate=True)
    assert "it now carries Helm's mark" in story.problem("configmap/b")
    assert api.get(stage.path("b"))["metadata"]["uid"] == uid
