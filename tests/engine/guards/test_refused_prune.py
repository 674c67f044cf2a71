"""Stories of a refused prune: nothing is written, unless the user applies anyway."""

from __future__ import annotations

from pathlib import Path

import pytest

from applyprune.model.events import Finished, InventoryWritten, ObjectDone
from applyprune.model.fate import Outcome
from applyprune.model.options import DryRun, Mode
from applyprune.values import replace
from tests.support.api import Api, AuditTrail, writes
from tests.support.command import applyprune
from tests.support.input_files import write_input
from tests.support.objects import config_map
from tests.support.stage import Stage, Story

MANY = [config_map(f"c-{number}") for number in range(8)]
LEFT = {f"configmap/c-{number}": Outcome.NOT_PRUNED for number in range(1, 8)}


def _value(api: Api, stage: Stage, name: str) -> str:
    return str(api.get(stage.path(name))["data"]["key"])


def _verdict(story: Story) -> str:
    (end,) = story.of(Finished)
    return str(end.problem)


@pytest.mark.parametrize(
    "mode", [pytest.param(Mode.APPLY, marks=pytest.mark.holds("apply-anyway")), Mode.PRUNE]
)
def test_refused_prune_writes_nothing(
    stage: Stage, api: Api, audit: AuditTrail, mode: Mode
) -> None:
    """Neither the change, nor the new object, nor the inventory: the audit log is the witness."""
    stage.run(*MANY)
    audit.restart()
    story = stage.run(config_map("c-0", "new"), config_map("more"), mode=mode)
    assert writes(audit) == []
    assert (story.exit_code, story.outcomes) == (6, LEFT)
    assert {one.reason for one in story.of(ObjectDone)} == {"prune refused"}
    assert _value(api, stage, "c-0") == "v"
    applied = "nothing was applied, and nothing was deleted" in _verdict(story)
    assert applied is (mode is Mode.APPLY)
    assert ("--no-prune" in _verdict(story)) is (mode is Mode.APPLY)


def test_refused_prune_applies_if_asked_to(stage: Stage, api: Api) -> None:
    """As for a Bundle: it prunes nothing, keeps the entries, and still exits with 6."""
    stage.run(*MANY)
    bodies = (config_map("c-0", "new"), config_map("more"))
    story = stage.run(*bodies, apply_anyway=True)
    updated = {"configmap/c-0": Outcome.UPDATED, "configmap/more": Outcome.CREATED}
    assert (story.exit_code, story.outcomes) == (6, {**LEFT, **updated})
    assert "the prune was refused: nothing was deleted" in _verdict(story)
    assert _value(api, stage, "c-0") == "new"
    assert stage.listed() == {"configmap/more", *(f"configmap/c-{n}" for n in range(8))}
    again = stage.run(*bodies, apply_anyway=True)
    assert (again.exit_code, again.outcomes["configmap/c-0"]) == (6, Outcome.UNCHANGED)
    assert not again.of(InventoryWritten)


def test_refused_prune_is_reported_with_the_refused_objects(stage: Stage) -> None:
    """All that is wrong is said at once; nothing but the failures and the prune is reported."""
    stage.run(*MANY)
    replace(stage, name="other").run(config_map("theirs"))
    story = stage.run(config_map("c-0", "new"), config_map("theirs"))
    assert (story.exit_code, story.outcomes) == (3, {**LEFT, "configmap/theirs": Outcome.FAILED})
    assert "belongs to another set" in story.problem("configmap/theirs")
    assert story.refusal


def test_dry_run_shows_what_a_refused_prune_holds_back(stage: Stage) -> None:
    """A reader needs both: what would be applied, and what may not be deleted."""
    stage.run(*MANY)
    story = stage.run(config_map("c-0", "new"), dry_run=DryRun.SERVER)
    assert (story.exit_code, story.outcomes) == (6, {**LEFT, "configmap/c-0": Outcome.UPDATED})


def test_folder_that_became_empty_blocks_the_prune(stage: Stage, tmp_path: Path) -> None:
    """As it is typed: apply refuses, and --allow-empty is meant."""
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        write_input(tmp_path / name / "set.json", [config_map(name)])
    where = ("-f", tmp_path / "here", "-f", tmp_path / "there")
    call = ("apply", "web", "-n", stage.namespace, *where)
    assert applyprune(*call, kubeconfig=stage.kubeconfig).code == 0
    (tmp_path / "there/set.json").unlink()
    refused = applyprune(*call, kubeconfig=stage.kubeconfig)
    assert refused.code == 6
    assert f"no object in {tmp_path / 'there'}" in refused.err
    meant = applyprune(*call, "--allow-empty", kubeconfig=stage.kubeconfig)
    assert (meant.code, meant.lines["configmap/there"]) == (0, "pruned")
