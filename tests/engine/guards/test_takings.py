"""What of others would be lost stands in the plan, and the question asks for it."""

from __future__ import annotations

import json
from typing import Any

from applyprune.model.fate import Outcome
from applyprune.model.options import DryRun, Mode
from applyprune.model.plan import ConsequenceKind
from applyprune.planning.approval import needed_consent
from tests.support.api import Api
from tests.support.objects import config_map
from tests.support.plane import Kubectl
from tests.support.stage import Stage, Story


def _lost(story: Story) -> list[str]:
    found = [one for one in story.plan.consequences if one.kind is ConsequenceKind.FIELDS_LOST]
    assert set(found) <= needed_consent(story.plan, Mode.APPLY)
    return [one.message for one in found]


def test_adoption_names_what_kubectl_apply_had_declared(
    stage: Stage, api: Api, kubectl: Kubectl
) -> None:
    """Whatever its field manager is called: otherwise nobody would ever remove these fields."""
    manager = "ci-pipeline"
    theirs: dict[str, Any] = {**config_map("a"), "data": {"key": "v", "stale": "1"}}
    kubectl(
        "apply", f"--field-manager={manager}", "-n", stage.namespace, "-f", "-",
        stdin=json.dumps(theirs),
    )  # fmt: skip
    for dry_run in (DryRun.SERVER, DryRun.OFF):
        story = stage.run(config_map("a"), dry_run=dry_run, check=True)
        assert _lost(story) == [
            f"1 field of {manager} is removed, because the manifest lacks it: .data.stale"
        ]
    assert story.exit_code == 0
    assert api.get(stage.path("a"))["data"] == {"key": "v"}


def test_recreation_names_what_others_lose(stage: Stage, api: Api) -> None:
    """Labels and annotations of others go with the object, and the question asks."""
    fixed = {**config_map("a"), "immutable": True}
    stage.run(fixed)
    labels = {"metadata": {"labels": {"team": "x"}}}
    api.patch(stage.path("a"), labels, by="labeller")
    changed = {**fixed, "data": {"key": "w"}}
    story = stage.run(changed, recreate=True, dry_run=DryRun.SERVER)
    assert _lost(story) == ["1 field of labeller is lost with the object: .metadata.labels.team"]
    assert stage.run(changed, recreate=True).outcomes["configmap/a"] is Outcome.RECREATED
    assert "team" not in api.get(stage.path("a"))["metadata"]["labels"]
