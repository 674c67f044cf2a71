"""What stands in the way of a manifest and belongs to nobody: the server's defaults; and null."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from applyprune.localplane import Plane
from applyprune.model.events import ObjectDiff
from applyprune.model.fate import Outcome
from applyprune.model.options import Conflicts, DryRun
from tests.support.api import Api
from tests.support.command import applyprune
from tests.support.fault_proxy import Exchange, FaultProxy
from tests.support.kill import Moment, kill_at_first
from tests.support.objects import DEPLOYMENT, config_map, text
from tests.support.stage import Stage


def _path(stage: Stage, name: str, kind: str = "deployments") -> str:
    group = "/api/v1" if kind == "configmaps" else "/apis/apps/v1"
    return f"{group}/namespaces/{stage.namespace}/{kind}/{name}"


def _disown(api: Api, path: str, manager: str) -> None:
    """Remove the entry of a manager; its fields stay, and belong to nobody."""
    managers = api.get(path)["metadata"]["managedFields"]
    left = [entry for entry in managers if entry["manager"] != manager]
    operation = {"op": "replace", "path": "/metadata/managedFields", "value": left}
    api.patch(path, [operation], by="alice")


def _deployment(*, volume: dict[str, Any], **spec: Any) -> dict[str, Any]:
    body = copy.deepcopy(DEPLOYMENT)
    body["spec"].update(spec)
    body["spec"]["template"]["spec"]["volumes"] = [{"name": "v", **volume}]
    return body


def _stateful_set(**spec: Any) -> dict[str, Any]:
    body = copy.deepcopy(DEPLOYMENT)
    del body["spec"]["replicas"]
    return {**body, "kind": "StatefulSet", "spec": {**body["spec"], "serviceName": "web", **spec}}


OLD = (_deployment(volume={}), _stateful_set())
NEW = (
    _deployment(
        volume={"hostPath": {"path": "/x"}}, strategy={"type": "Recreate", "rollingUpdate": None}
    ),
    _stateful_set(updateStrategy={"type": "OnDelete"}),
)


def _check_end(stage: Stage, api: Api) -> None:
    spec = api.get(_path(stage, "web"))["spec"]
    assert spec["strategy"] == {"type": "Recreate"}
    assert spec["template"]["spec"]["volumes"] == [
        {"name": "v", "hostPath": {"path": "/x", "type": ""}}
    ]
    update = api.get(_path(stage, "web", "statefulsets"))["spec"]["updateStrategy"]
    assert update == {"type": "OnDelete"}


def test_excluded_defaults_are_removed(stage: Stage, api: Api) -> None:
    """The diff shows it, one run does it, and later runs write nothing and show nothing."""
    assert stage.run(*OLD).exit_code == 0
    story = stage.run(*NEW, dry_run=DryRun.SERVER, diff=True)
    assert story.exit_code == 0
    after = {one.ref.kind: one.after or {} for one in story.of(ObjectDiff)}
    assert after["Deployment"]["spec"]["strategy"] == {"type": "Recreate"}
    (volume,) = after["Deployment"]["spec"]["template"]["spec"]["volumes"]
    assert volume.keys() == {"name", "hostPath"}
    assert after["StatefulSet"]["spec"]["updateStrategy"] == {"type": "OnDelete"}
    assert set(stage.run(*NEW).outcomes.values()) == {Outcome.UPDATED}
    _check_end(stage, api)
    generation = api.get(_path(stage, "web"))["metadata"]["generation"]
    for options in ({}, {"reapply_all": True}, {"dry_run": DryRun.SERVER, "reapply_all": True}):
        assert set(stage.run(*NEW, **options).outcomes.values()) == {Outcome.UNCHANGED}
    assert api.get(_path(stage, "web"))["metadata"]["generation"] == generation


def test_run_that_is_killed_before_the_removal_is_finished_by_the_next(
    stage: Stage, api: Api, proxy: FaultProxy, tmp_path: Path
) -> None:
    """In between every value is as before, and only managedFields differ."""
    assert stage.run(*OLD).exit_code == 0
    file = tmp_path / "set.json"
    file.write_text(text(NEW[0]))
    path = _path(stage, "web")
    before = api.get(path)

    def is_meant(exchange: Exchange) -> bool:
        return "json-patch" in exchange.header("content-type") and exchange.target.startswith(path)

    command: list[str | Path] = ["apply", "web", "-n", stage.namespace, "-f", file]
    options = ["--no-wait", "--no-prune"]
    kill_at_first(proxy, is_meant, Moment.AFTER, [*command, *options], proxy.kubeconfig(tmp_path))
    between = api.get(path)
    assert between["spec"] == before["spec"]
    assert "f:rollingUpdate" in json.dumps(between["metadata"]["managedFields"])
    assert stage.run(*NEW).exit_code == 0
    _check_end(stage, api)


@pytest.mark.holds("removes-only-unowned")
def test_default_that_somebody_else_has_set_stays(stage: Stage, api: Api) -> None:
    """The server refuses the manifest then, and nothing is removed."""
    stage.run(*OLD[:1])
    path = _path(stage, "web")
    api.patch(path, {"spec": {"strategy": {"rollingUpdate": {"maxSurge": 2}}}}, by="alice")
    assert stage.run(*NEW[:1]).exit_code != 0
    assert api.get(path)["spec"]["strategy"]["rollingUpdate"]["maxSurge"] == 2


def test_null_of_a_field_removes_as_little_as_no_field(stage: Stage, api: Api) -> None:
    """Neither what nobody owns nor what somebody else has set, also by force."""
    old = ({**config_map("a"), "data": {"key": "v", "ours": "1"}}, copy.deepcopy(DEPLOYMENT))
    assert stage.run(*old).exit_code == 0
    paths = [_path(stage, "a", "configmaps"), _path(stage, "web")]
    api.patch(paths[0], {"data": {"nobodys": "1"}}, by="alice")
    _disown(api, paths[0], "alice")
    api.patch(paths[1], {"spec": {"revisionHistoryLimit": 3}}, by="alice")
    new = copy.deepcopy(old)
    new[0]["data"] |= {"ours": None, "nobodys": None}
    new[1]["spec"]["revisionHistoryLimit"] = None
    api.patch(paths[0], {"metadata": {"labels": {"theirs": "1"}}}, by="alice")
    new[0]["metadata"]["labels"] = {"theirs": None}
    for conflicts in (Conflicts.FAIL, Conflicts.FORCE):
        assert stage.run(*new, conflicts=conflicts).exit_code == 0
        assert api.get(paths[0])["data"] == {"key": "v", "nobodys": "1"}
        assert api.get(paths[0])["metadata"]["labels"]["theirs"] == "1"
        assert api.get(paths[1])["spec"]["revisionHistoryLimit"] == 3


WITH_NULL = """\
apiVersion: v1
kind: Service
metadata:
  name: web
  labels: {team: null}
spec:
  selector: {app: web}
  ports:
  - port: 80
    appProtocol: null
"""


def test_null_that_removes_nothing_is_a_warning_with_its_line(
    plane: Plane, namespace: str, tmp_path: Path
) -> None:
    """Server-side apply has no word for a removal."""
    file = tmp_path / "set.yaml"
    file.write_text(WITH_NULL)
    ended = applyprune("apply", "web", "-n", namespace, "-f", file, kubeconfig=plane.kubeconfig)
    assert ended.code == 0, ended.err
    said = " ".join(ended.err.split())
    assert "null is left out, and removes nothing, in metadata.labels.team" in said
    assert "spec.ports[0].appProtocol" in said
    assert f"{file}:5:" in ended.err


@pytest.mark.parametrize(
    "conflicts",
    [
        pytest.param(Conflicts.FORCE, marks=pytest.mark.holds("transfer-of-the-changed")),
        pytest.param(Conflicts.FAIL, marks=pytest.mark.holds("relied-on-version")),
    ],
)
def test_field_that_others_leave_before_the_apply_stays_if_it_is_left_to_them(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api, conflicts: Conflicts
) -> None:
    """Its last owner would remove it by leaving it out, so it gets another one first."""
    path = _path(stage, "a", "configmaps")
    stage.run(config_map("a", labels={"theirs": "1"}))

    def apply(**metadata: Any) -> None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", **metadata}}
        query = f"{path}?fieldManager=alice"
        assert api("PATCH", query, body, content_type="application/apply-patch+yaml")[0] == 200

    apply(labels={"theirs": "1"})
    changed: list[int] = []

    def leave(seen: Exchange) -> None:
        if "apply-patch" in seen.header("content-type") and not changed:
            changed.append(seen.number)
            apply(annotations={"hers": "1"})

    proxy.before_forward = leave
    marks = {"applyprune.dev/ignore-fields": "/metadata/labels/theirs"}
    new = config_map("a", "new", labels={"theirs": "1"}, annotations=marks)
    assert spoiled.run(new, conflicts=conflicts).exit_code == 0
    assert changed
    assert api.get(path)["metadata"]["labels"].get("theirs") == "1"
