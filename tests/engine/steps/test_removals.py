"""What stands in the way of a manifest and belongs to nobody: null, and the server's defaults."""

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
from applyprune.planning.applyset import PART_OF
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


OLD = (config_map("a", labels={"ours": "1"}), _deployment(volume={}), _stateful_set())
NEW = (
    config_map("a", annotations=None, labels={"ours": None, "nobodys": None}),
    _deployment(
        volume={"hostPath": {"path": "/x"}}, strategy={"type": "Recreate", "rollingUpdate": None}
    ),
    _stateful_set(updateStrategy={"type": "OnDelete"}),
)


def _start(stage: Stage, api: Api) -> str:
    """Apply the old manifests, and add a label that belongs to nobody."""
    assert stage.run(*OLD).exit_code == 0
    path = _path(stage, "a", "configmaps")
    api.patch(path, {"metadata": {"labels": {"nobodys": "1"}}}, by="alice")
    _disown(api, path, "alice")
    return path


def _check_end(stage: Stage, api: Api) -> None:
    assert api.get(_path(stage, "a", "configmaps"))["metadata"]["labels"].keys() == {PART_OF}
    spec = api.get(_path(stage, "web"))["spec"]
    assert spec["strategy"] == {"type": "Recreate"}
    assert spec["template"]["spec"]["volumes"] == [
        {"name": "v", "hostPath": {"path": "/x", "type": ""}}
    ]
    update = api.get(_path(stage, "web", "statefulsets"))["spec"]["updateStrategy"]
    assert update == {"type": "OnDelete"}


def test_null_and_excluded_defaults_are_removed(stage: Stage, api: Api) -> None:
    """The diff shows it, one run does it, and later runs write nothing and show nothing."""
    _start(stage, api)
    story = stage.run(*NEW, dry_run=DryRun.SERVER, diff=True)
    assert story.exit_code == 0
    after = {one.ref.kind: one.after or {} for one in story.of(ObjectDiff)}
    assert after["ConfigMap"]["metadata"]["labels"].keys() == {PART_OF}
    assert after["Deployment"]["spec"]["strategy"] == {"type": "Recreate"}
    (volume,) = after["Deployment"]["spec"]["template"]["spec"]["volumes"]
    assert volume.keys() == {"name", "hostPath"}
    assert after["StatefulSet"]["spec"]["updateStrategy"] == {"type": "OnDelete"}
    assert set(stage.run(*NEW).outcomes.values()) == {Outcome.UPDATED}
    _check_end(stage, api)
    versions = [
        api.get(_path(stage, "a", "configmaps"))["metadata"]["resourceVersion"],
        api.get(_path(stage, "web"))["metadata"]["generation"],
    ]
    for options in ({}, {"reapply_all": True}, {"dry_run": DryRun.SERVER, "reapply_all": True}):
        assert set(stage.run(*NEW, **options).outcomes.values()) == {Outcome.UNCHANGED}
    assert versions == [
        api.get(_path(stage, "a", "configmaps"))["metadata"]["resourceVersion"],
        api.get(_path(stage, "web"))["metadata"]["generation"],
    ]


@pytest.mark.parametrize("kind", ["configmaps", "deployments"])
def test_run_that_is_killed_before_the_removal_is_finished_by_the_next(
    stage: Stage, api: Api, proxy: FaultProxy, tmp_path: Path, kind: str
) -> None:
    """In between every value is as before, and only managedFields differ."""
    _start(stage, api)
    # Without null, the only patch of the Deployment makes the defaults ours.
    strategy = _deployment(volume={"hostPath": {"path": "/x"}}, strategy={"type": "Recreate"})
    manifests = NEW[:1] if kind == "configmaps" else (strategy,)
    file = tmp_path / "set.json"
    file.write_text(text(*manifests))
    path = _path(stage, "a" if kind == "configmaps" else "web", kind)
    before = api.get(path)

    def is_meant(exchange: Exchange) -> bool:
        return "json-patch" in exchange.header("content-type") and exchange.target.startswith(path)

    command: list[str | Path] = ["apply", "web", "-n", stage.namespace, "-f", file]
    options = ["--no-wait", "--no-prune"]
    kill_at_first(proxy, is_meant, Moment.AFTER, [*command, *options], proxy.kubeconfig(tmp_path))
    between = api.get(path)
    assert between["metadata"]["labels"] == before["metadata"]["labels"]
    assert between.get("spec") == before.get("spec")
    names = {"configmaps": "f:nobodys", "deployments": "f:rollingUpdate"}
    assert names[kind] in json.dumps(between["metadata"]["managedFields"])
    assert stage.run(*NEW).exit_code == 0
    _check_end(stage, api)


@pytest.mark.holds("drift-beside-null", "removes-only-unowned")
def test_null_over_a_label_of_another_manager_is_a_conflict(stage: Stage, api: Api) -> None:
    """Nothing is removed until the user forces it; to revert drift is no such word."""
    stage.run(*OLD[:1])
    path = _path(stage, "a", "configmaps")
    api.patch(
        path, {"metadata": {"labels": {"nobodys": "1"}}, "data": {"key": "edited"}}, by="alice"
    )
    assert stage.run(*NEW[:1], conflicts=Conflicts.REVERT).exit_code == 4
    assert api.get(path)["metadata"]["labels"]["nobodys"] == "1"
    api.patch(path, {"data": {"key": "v"}}, by="alice")
    story = stage.run(*NEW[:1])
    assert story.exit_code == 4
    assert ".metadata.labels.nobodys" in story.problem("configmap/a")
    assert api.get(path)["metadata"]["labels"]["nobodys"] == "1"
    assert stage.run(*NEW[:1], conflicts=Conflicts.FORCE).exit_code == 0
    assert api.get(path)["metadata"]["labels"].keys() == {PART_OF}


@pytest.mark.holds("dry-run-before-removal")
def test_nothing_is_removed_before_an_apply_that_conflicts(stage: Stage, api: Api) -> None:
    """About another field, as only the server can tell: 1 and 2 may be quantities."""
    old = {**config_map("a"), "data": {"key": "1"}}
    stage.run(old)
    path = _path(stage, "a", "configmaps")
    api.patch(path, {"metadata": {"labels": {"nobodys": "1"}}}, by="alice")
    _disown(api, path, "alice")
    api.patch(path, {"data": {"key": "2"}}, by="alice")
    before = api.get(path)
    new = {**config_map("a", labels={"nobodys": None}), "data": {"key": "1"}}
    assert stage.run(new).outcomes["configmap/a"] is Outcome.FAILED
    assert api.get(path) == before


def test_default_that_somebody_else_has_set_stays(stage: Stage, api: Api) -> None:
    """The server refuses the manifest then, and nothing is removed."""
    stage.run(*OLD[1:2])
    path = _path(stage, "web")
    api.patch(path, {"spec": {"strategy": {"rollingUpdate": {"maxSurge": 2}}}}, by="alice")
    assert stage.run(*NEW[1:2]).exit_code != 0
    assert api.get(path)["spec"]["strategy"]["rollingUpdate"]["maxSurge"] == 2


def _managers(body: dict[str, Any]) -> set[tuple[str, str]]:
    return {(one["manager"], one["operation"]) for one in body["metadata"]["managedFields"]}


def test_null_that_is_added_alone_removes_what_nobody_owns(stage: Stage, api: Api) -> None:
    """No field manager stays behind to conflict with."""
    assert stage.run(config_map("a")).exit_code == 0
    path = _path(stage, "a", "configmaps")
    before = _managers(api.get(path))
    api.patch(path, {"metadata": {"annotations": {"nobodys": "1"}}}, by="alice")
    _disown(api, path, "alice")
    new = config_map("a", annotations={"nobodys": None})
    assert set(stage.run(new).outcomes.values()) == {Outcome.UPDATED}
    assert stage.status(values=True, fail_on_drift=True).exit_code == 0
    found = api.get(path)
    assert "nobodys" not in found["metadata"].get("annotations", {})
    assert _managers(found) == before
    for options in ({}, {"reapply_all": True}):
        assert set(stage.run(new, **options).outcomes.values()) == {Outcome.UNCHANGED}


@pytest.mark.holds("null-set-again")
def test_null_that_is_added_alone_conflicts_with_an_owner(stage: Stage, api: Api) -> None:
    """Also with one who sets the label again after it was removed."""
    stage.run(config_map("a"))
    path = _path(stage, "a", "configmaps")
    new = config_map("a", labels={"theirs": None})
    for _ in range(2):
        api.patch(path, {"metadata": {"labels": {"theirs": "1"}}}, by="alice")
        story = stage.run(new)
        assert (story.exit_code, api.get(path)["metadata"]["labels"]["theirs"]) == (4, "1")
        assert ".metadata.labels.theirs" in story.problem("configmap/a")
        assert stage.run(new, conflicts=Conflicts.FORCE).outcomes["configmap/a"] is Outcome.UPDATED
        assert "theirs" not in api.get(path)["metadata"]["labels"]
        assert stage.run(new).outcomes["configmap/a"] is Outcome.UNCHANGED


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
    for conflicts in (Conflicts.FAIL, Conflicts.FORCE):
        assert stage.run(*new, conflicts=conflicts).exit_code == 0
        assert api.get(paths[0])["data"] == {"key": "v", "nobodys": "1"}
        assert api.get(paths[1])["spec"]["revisionHistoryLimit"] == 3


WITH_NULL = """\
apiVersion: v1
kind: Service
metadata:
  name: web
spec:
  selector: {app: web}
  ports:
  - port: 80
    appProtocol: null
"""


def test_null_that_removes_nothing_is_a_warning_with_its_line(
    plane: Plane, namespace: str, tmp_path: Path
) -> None:
    """Only that of a label or an annotation does."""
    file = tmp_path / "set.yaml"
    file.write_text(WITH_NULL)
    ended = applyprune("apply", "web", "-n", namespace, "-f", file, kubeconfig=plane.kubeconfig)
    assert ended.code == 0, ended.err
    assert "null is left out, and removes nothing, in spec.ports[0].appProtocol" in ended.err
    assert f"{file}:9:" in ended.err


@pytest.mark.parametrize(
    "left_by",
    [pytest.param("annotation", marks=pytest.mark.holds("null-of-ignored-field")), "option"],
)
def test_null_never_removes_what_is_left_to_others(stage: Stage, api: Api, left_by: str) -> None:
    """Whoever has set it, and if it belongs to nobody."""
    assert stage.run(config_map("a")).exit_code == 0
    path = _path(stage, "a", "configmaps")
    api.patch(path, {"metadata": {"labels": {"theirs": "1"}}}, by="alice")
    _disown(api, path, "alice")
    new = config_map("a", labels={"theirs": None, "x": "y"})
    options: dict[str, Any] = {}
    if left_by == "annotation":
        marks = {"applyprune.dev/ignore-fields": "/metadata/labels/theirs"}
        new["metadata"]["annotations"] = marks
    else:
        options["ignore"] = ("configmap:/metadata/labels/theirs",)
    for value in ("1", "2"):
        api.patch(path, {"metadata": {"labels": {"theirs": value}}}, by="alice")
        for conflicts in (Conflicts.FAIL, Conflicts.FORCE):
            assert stage.run(new, **options, conflicts=conflicts).exit_code == 0
            assert api.get(path)["metadata"]["labels"]["theirs"] == value
        assert set(stage.run(new, **options).outcomes.values()) == {Outcome.UNCHANGED}


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
