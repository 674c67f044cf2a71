"""Chart hooks on a real server: nothing runs that Helm would run at another time.

Which hooks are left out, refused or kept is decided in ``tests/decisions/test_chart_hooks.py``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from applyprune.localplane import Plane
from applyprune.model.fate import Outcome
from applyprune.model.options import HelmHooks, Mode
from applyprune.planning.desired import HOOK
from tests.support.api import Api, AuditTrail, writes
from tests.support.command import applyprune
from tests.support.input_files import write_input
from tests.support.objects import config_map, of_kind
from tests.support.settings import settings
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


def test_delete_hook_of_a_rendered_chart_does_not_run(stage: Stage, api: Api) -> None:
    """Not at the apply, not at the next one, and not at the deletion of the set."""
    for _ in range(2):
        story = stage.run(WEB, CLEAN, TEST)
        assert (story.exit_code, set(story.outcomes)) == (0, {"configmap/web"})
    assert (_jobs(api, stage), stage.listed()) == (set(), {"configmap/web"})
    assert set(stage.run(mode=Mode.DELETE).outcomes) == {"configmap/web"}
    assert _jobs(api, stage) == set()


def test_install_hook_is_an_ordinary_object_with_apply(stage: Stage, api: Api) -> None:
    """It is applied, listed, unchanged at the next run and deleted with the set."""
    names = {"configmap/web", "job.batch/migrate"}
    for outcome in (Outcome.CREATED, Outcome.UNCHANGED):
        story = stage.run(WEB, CLEAN, MIGRATE, helm_hooks=HelmHooks.APPLY)
        assert story.outcomes == dict.fromkeys(names, outcome)
    assert (_jobs(api, stage), stage.listed()) == ({"migrate"}, names)
    assert stage.run(mode=Mode.DELETE).outcomes["job.batch/migrate"] is Outcome.DELETED


def test_recorded_object_that_becomes_a_hook_is_kept(
    stage: Stage, api: Api, audit: AuditTrail
) -> None:
    """A set of an older version may list it: it is pruned when it leaves the input."""
    before = _hook("clean", "")
    before["metadata"].pop("annotations")
    stage.run(WEB, before)
    audit.restart()
    assert stage.run(WEB, CLEAN).outcomes["job.batch/clean"] is Outcome.NOT_PRUNED
    assert writes(audit) == []
    assert (_jobs(api, stage), stage.listed()) == ({"clean"}, {"configmap/web", "job.batch/clean"})
    assert stage.run(WEB).outcomes["job.batch/clean"] is Outcome.PRUNED


def test_command_line_reports_all_hooks_with_file_and_line(
    plane: Plane, stage: Stage, audit: AuditTrail, tmp_path: Path
) -> None:
    """As the renderer wrote them."""
    source = write_input(tmp_path / "chart.yaml", [WEB, MIGRATE, _hook("seed", "post-install")])
    into = ("-f", source, "-n", stage.namespace)
    column = source.read_text().splitlines()[2].index('"helm.sh/hook"') + 1

    ended = applyprune("apply", "web", *into, kubeconfig=plane.kubeconfig)
    assert (ended.code, writes(audit)) == (2, []), ended.err
    assert f"{source}:2:" in ended.err
    assert "2 objects are install or upgrade hooks of a chart" in ended.err
    assert f"job.batch/seed (post-install) in {source}:3:{column} (document 3)" in ended.err
    skip = settings(tmp_path, helm_hooks="skip")
    told = applyprune("explain", "web", "job/seed", *into, *skip, kubeconfig=plane.kubeconfig)
    assert "it is in the input as a chart hook (post-install): " in told.out
    assert "No run applies it: applyprune runs no hooks." in told.out


def test_configuration_file_decides_about_hooks(
    plane: Plane, stage: Stage, tmp_path: Path, api: Api
) -> None:
    """It belongs to the chart, as the decision does."""
    write_input(tmp_path / "chart.yaml", [WEB, MIGRATE])
    settings = {"apiVersion": "applyprune.dev/v1alpha1", "kind": "Config", "name": "web",
                "namespace": stage.namespace, "filename": "chart.yaml"}  # fmt: skip
    text = json.dumps({**settings, "helm-hooks": "skip"})
    (tmp_path / "applyprune.yaml").write_text(text)
    ended = applyprune("apply", kubeconfig=plane.kubeconfig, cwd=tmp_path)
    assert (ended.code, ended.lines) == (0, {"configmap/web": "created"}), ended.err
    assert _jobs(api, stage) == set()
