"""Chart hooks on a real server: nothing runs that Helm would run at another time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from applyprune.errors import EmptyInput, InputError
from applyprune.localplane import Plane
from applyprune.model.fate import Outcome
from applyprune.model.options import DryRun, HelmHooks, Mode
from applyprune.planning.desired import HOOK
from tests.support.api import Api, AuditTrail, writes
from tests.support.command import applyprune
from tests.support.input_files import write_input
from tests.support.objects import config_map, of_kind
from tests.support.stage import Stage


def _hook(name: str, events: str, **annotations: str) -> dict[str, Any]:
    marks = {HOOK: events, "helm.sh/hook-delete-policy": "before-hook-creation", **annotations}
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}
    return of_kind("Job", name, {"annotations": marks}, spec={"template": {"spec": pod}})


def _jobs(api: Api, stage: Stage) -> set[str]:
    items = api.get(f"/apis/batch/v1/namespaces/{stage.namespace}/jobs")["items"]
    return {item["metadata"]["name"] for item in items}


WEB, CLEAN, TEST = config_map("web"), _hook("clean", "pre-delete"), _hook("check", "test")
MIGRATE = _hook("migrate", "pre-install,pre-upgrade")


@pytest.mark.holds("left-out-hook")
def test_delete_hook_of_a_rendered_chart_does_not_run(stage: Stage, api: Api) -> None:
    """Not at the apply, not at the next one, and not at the deletion of the set."""
    for _ in range(2):
        story = stage.run(WEB, CLEAN, TEST)
        assert story.exit_code == 0
        assert set(story.outcomes) == {"configmap/web"}
        told = "2 chart hooks are left out: job.batch/clean (pre-delete), job.batch/check"
        assert [told in warning for warning in story.warnings] == [True]
    assert (_jobs(api, stage), stage.listed()) == (set(), {"configmap/web"})
    assert set(stage.run(mode=Mode.DELETE).outcomes) == {"configmap/web"}
    assert _jobs(api, stage) == set()


def test_install_hook_is_refused_and_nothing_is_written(stage: Stage, audit: AuditTrail) -> None:
    """Not even the inventory; a dry run and a prune refuse it too."""
    for options in ({}, {"dry_run": DryRun.SERVER}, {"mode": Mode.PRUNE}, {"diff": True}):
        with pytest.raises(InputError, match=r"job\.batch/migrate is an install or upgrade hook"):
            stage.run(WEB, CLEAN, MIGRATE, **options)
    assert writes(audit) == []


def test_install_hook_is_left_out_with_skip(stage: Stage, api: Api) -> None:
    """With the others."""
    story = stage.run(WEB, CLEAN, MIGRATE, helm_hooks=HelmHooks.SKIP)
    assert (story.exit_code, set(story.outcomes)) == (0, {"configmap/web"})
    assert "job.batch/migrate (pre-install, pre-upgrade)" in story.warnings[0]
    assert (_jobs(api, stage), stage.listed()) == (set(), {"configmap/web"})


def test_install_hook_is_an_ordinary_object_with_apply(stage: Stage, api: Api) -> None:
    """It is applied, listed, unchanged at the next run and deleted with the set."""
    created = stage.run(WEB, CLEAN, MIGRATE, helm_hooks=HelmHooks.APPLY)
    assert created.outcomes == {
        "configmap/web": Outcome.CREATED,
        "job.batch/migrate": Outcome.CREATED,
    }
    assert _jobs(api, stage) == {"migrate"}
    same = stage.run(WEB, CLEAN, MIGRATE, helm_hooks=HelmHooks.APPLY)
    assert set(same.outcomes.values()) == {Outcome.UNCHANGED}
    assert stage.run(mode=Mode.DELETE).outcomes["job.batch/migrate"] is Outcome.DELETED


@pytest.mark.holds("kept-hook")
def test_recorded_object_that_becomes_a_hook_is_kept(
    stage: Stage, api: Api, audit: AuditTrail
) -> None:
    """A set of an older version may list it: it is pruned when it leaves the input."""
    before = _hook("clean", "")
    before["metadata"].pop("annotations")
    stage.run(WEB, before)
    audit.restart()
    for mode in (Mode.APPLY, Mode.PRUNE):
        story = stage.run(WEB, CLEAN, mode=mode)
        assert (story.exit_code, story.outcomes["job.batch/clean"]) == (0, Outcome.NOT_PRUNED)
    assert writes(audit) == []
    assert (_jobs(api, stage), stage.listed()) == ({"clean"}, {"configmap/web", "job.batch/clean"})
    assert stage.run(WEB).outcomes["job.batch/clean"] is Outcome.PRUNED


def test_set_of_hooks_alone_is_an_empty_set(stage: Stage, audit: AuditTrail) -> None:
    """Refused without --allow-empty, whether or not the set lists anything."""
    with pytest.raises(EmptyInput):
        stage.run(CLEAN, TEST)
    with pytest.raises(EmptyInput):
        stage.run(MIGRATE, helm_hooks=HelmHooks.SKIP)
    assert writes(audit) == []
    stage.run(WEB)
    audit.restart()
    story = stage.run(CLEAN)
    assert (story.exit_code, story.outcomes) == (6, {"configmap/web": Outcome.NOT_PRUNED})
    assert "no object in the input" in story.refusal
    assert writes(audit) == []


def test_command_line_reports_all_hooks_with_file_and_line(
    plane: Plane, stage: Stage, audit: AuditTrail, tmp_path: Path
) -> None:
    """As the renderer wrote them, in every verb that reads input."""
    source = write_input(tmp_path / "chart.yaml", [WEB, MIGRATE, _hook("seed", "post-install")])
    into = ("-f", source, "-n", stage.namespace)
    column = source.read_text().splitlines()[2].index('"helm.sh/hook"') + 1

    def call(*arguments: str | Path) -> tuple[int, str]:
        ended = applyprune(*arguments, kubeconfig=plane.kubeconfig)
        return ended.code, ended.err

    for verb in (("apply", "web"), ("diff", "web"), ("prune", "web"),
                 ("explain", "web", "job/seed")):  # fmt: skip
        code, err = call(*verb, *into)
        assert code == 2, err
        assert f"{source}:2:" in err
        assert "2 objects are install or upgrade hooks of a chart" in err
        assert f"job.batch/seed (post-install) in {source}:3:{column} (document 3)" in err
    assert writes(audit) == []
    code, err = call("diff", "web", *into, "--helm-hooks=skip")
    assert (code, "2 chart hooks are left out" in err) == (1, True), err
    told = applyprune(
        "explain", "web", "job/seed", *into, "--helm-hooks=skip", kubeconfig=plane.kubeconfig
    )
    assert "it is in the input as a chart hook (post-install): " in told.out
    assert "No run applies it: applyprune runs no hooks." in told.out


def test_configuration_file_decides_about_hooks(
    plane: Plane, stage: Stage, tmp_path: Path, api: Api
) -> None:
    """It belongs to the chart, as the decision does."""
    write_input(tmp_path / "chart.yaml", [WEB, MIGRATE])
    settings = {"apiVersion": "applyprune.dev/v1alpha1", "kind": "Config", "name": "web",
                "namespace": stage.namespace, "filename": "chart.yaml"}  # fmt: skip
    config = tmp_path / "applyprune.yaml"
    config.write_text(json.dumps({**settings, "helm-hooks": "skip"}))
    ended = applyprune("apply", kubeconfig=plane.kubeconfig, cwd=tmp_path)
    assert (ended.code, ended.lines) == (0, {"configmap/web": "created"}), ended.err
    config.write_text(json.dumps({**settings, "helm-hooks": "skipp"}))
    ended = applyprune("apply", kubeconfig=plane.kubeconfig, cwd=tmp_path)
    assert (ended.code, "invalid value for helm-hooks" in ended.err) == (2, True)
    assert _jobs(api, stage) == set()
