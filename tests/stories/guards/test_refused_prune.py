"""A refused prune writes nothing, unless the user applies anyway; and what needs no guard.

What somebody has deleted already is deleted by no run. Names in options are kubectl's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from applyprune.errors import UsageError
from applyprune.model.events import Finished, InventoryWritten, ObjectDone
from applyprune.model.fate import Outcome
from applyprune.model.options import DryRun, Mode
from applyprune.values import replace
from tests.support.api import Api, AuditTrail, writes
from tests.support.command import applyprune
from tests.support.input_files import write_input
from tests.support.objects import CLAIM, DEPLOYMENT, SERVICE, config_map, of_kind
from tests.support.stage import Stage, Story
from tests.support.workloads import out_of_time

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


MERGE = "application/merge-patch+json"
HOLD = "example.com/hold"
HELD: dict[str, Any] = {"finalizers": [HOLD]}
AB = (config_map("a"), config_map("b"))
NEW = (config_map("a", "new"), config_map("b"))


def _maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


def _delete(api: Api, path: str) -> None:
    assert api("DELETE", path)[0] in {200, 202}
    assert "deletionTimestamp" in api.get(path)["metadata"]


def _free(api: Api, path: str) -> None:
    api("PATCH", path, {"metadata": {"finalizers": None}}, content_type=MERGE)


@pytest.fixture
def home(stage: Stage, api: Api) -> Iterator[str]:
    """The name of a Namespace of the set, in which an object holds it."""
    name = f"{stage.namespace}-home"
    yield name
    _free(api, f"{_maps(name)}/held")


def _applied(stage: Stage, api: Api) -> dict[str, Any]:
    return dict(api.get(f"{_maps(stage.namespace)}/a")["data"])


def test_deleted_claim_holds_no_apply(stage: Stage, api: Api) -> None:
    """A guarded kind, and its finalizer: the apply goes on, and waits for nothing else."""
    claim = {**CLAIM, "metadata": {"name": "data", **HELD}}
    assert stage.run(claim, *AB).exit_code == 0
    path = f"/api/v1/namespaces/{stage.namespace}/persistentvolumeclaims/data"
    _delete(api, path)
    out_of_time(stage, "held by")
    try:
        planned = stage.run(*NEW, dry_run=DryRun.SERVER)
        assert planned.exit_code == 0, planned.events
        assert planned.deletions == ""
        story = stage.run(*NEW)
        assert not story.refusal
        assert _applied(stage, api) == {"key": "new"}
        assert "is deleted but not gone yet" in story.problem("persistentvolumeclaim/data")
    finally:
        _free(api, path)


def test_deleted_namespace_holds_no_apply(stage: Stage, api: Api, home: str) -> None:
    """Neither its kind nor its contents are left to guard, of the set and of others."""
    namespace = of_kind("Namespace", home)
    held = config_map("held", namespace=home, **HELD)
    assert stage.run(namespace, held, *AB).exit_code == 0
    api.create(_maps(home), config_map("theirs", **HELD))
    _delete(api, f"/api/v1/namespaces/{home}")
    out_of_time(stage)
    try:
        story = stage.run(*NEW)
        assert not story.refusal
        told = story.problem(f"namespace/{home}") + story.problem("configmap/held")
        assert "is deleted but not gone yet" in told
        assert stage.listed() >= {f"namespace/{home}", "configmap/held"}
    finally:
        _free(api, f"{_maps(home)}/theirs")
    assert _applied(stage, api) == {"key": "new"}


def test_short_names_and_plurals_name_objects(stage: Stage, api: Api) -> None:
    """In --orphan, `inventory orphan` and `explain`."""
    stage.run(*map(config_map, "abcde"), SERVICE, DEPLOYMENT)
    story = stage.run(*map(config_map, "abcde"), orphan=frozenset({"svc/web", "deploy.apps/web"}))
    assert story.outcomes["service/web"] == "orphaned"
    assert story.outcomes["deployment.apps/web"] == "orphaned"
    names = ("cm/a", "configmaps/b", "ConfigMap/c", f"{stage.namespace}/CM/d")
    assert stage.orphan(*names).exit_code == 0
    assert stage.listed() == {"configmap/e"}
    assert "deleted" in stage.explain("cm/e", given=False).explanation.verdict
    assert stage.explain("deploy.v1.apps/web", DEPLOYMENT).explanation.ref.kind == "Deployment"
    assert api.exists(stage.path("a"))


def test_short_name_allows_a_guarded_kind(stage: Stage, audit: AuditTrail) -> None:
    """A typing error allows nothing, and nothing is written."""
    claim = of_kind(
        "PersistentVolumeClaim",
        "data",
        spec={"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
    )
    bodies = [config_map(name) for name in "abc"]
    stage.run(*bodies, claim)
    audit.restart()
    for wrong in ("pvcs", "data"):
        with pytest.raises(UsageError, match="unknown kind"):
            stage.run(*bodies, allow_kinds=frozenset({wrong}))
    with pytest.raises(UsageError, match="needs no permission"):
        stage.run(*bodies, allow_kinds=frozenset({"cm"}))
    assert writes(audit) == []
    assert stage.run(*bodies).exit_code == 6
    assert stage.run(*bodies, allow_kinds=frozenset({"pvc"})).exit_code == 0
