"""What stands in the way of a manifest and belongs to nobody: null, and the server's defaults."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.model.events import ObjectDiff
from applyprune.model.fate import Outcome
from applyprune.model.options import Conflicts, DryRun
from tests.support.command import applyprune
from tests.support.kill import Moment, kill_at_first
from tests.support.objects import DEPLOYMENT, SERVICE, config_map, text

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import Api
    from tests.support.fault_proxy import Exchange, FaultProxy
    from tests.support.stage import Stage


def _path(stage: Stage, name: str, kind: str = "deployments") -> str:
    group = "/api/v1" if kind == "configmaps" else "/apis/apps/v1"
    return f"{group}/namespaces/{stage.namespace}/{kind}/{name}"


def _patch(api: Api, path: str, patch: Any, kind: str = "merge-patch") -> None:
    status, reply = api(
        "PATCH", f"{path}?fieldManager=alice", patch, content_type=f"application/{kind}+json"
    )
    assert status == 200, reply


def _disown(api: Api, path: str, manager: str) -> None:
    """Remove the entry of a manager; its fields stay, and belong to nobody."""
    managers = api.get(path)["metadata"]["managedFields"]
    left = [entry for entry in managers if entry["manager"] != manager]
    operation = {"op": "replace", "path": "/metadata/managedFields", "value": left}
    _patch(api, path, [operation], "json-patch")


def _deployment(*, volume: dict[str, Any], **spec: Any) -> dict[str, Any]:
    body = copy.deepcopy(DEPLOYMENT)
    body["spec"].update(spec)
    body["spec"]["template"]["spec"]["volumes"] = [{"name": "v", **volume}]
    return body


def _stateful_set(**spec: Any) -> dict[str, Any]:
    body = copy.deepcopy(DEPLOYMENT)
    del body["spec"]["replicas"]
    return {**body, "kind": "StatefulSet", "spec": {**body["spec"], "serviceName": "web", **spec}}


OLD = (
    {**config_map("a"), "data": {"key": "v", "ours": "1"}},
    _deployment(volume={}, revisionHistoryLimit=3),
    _stateful_set(),
)
NEW = (
    {**config_map("a", annotations=None), "data": {"key": "v", "ours": None, "nobodys": None}},
    _deployment(
        volume={"hostPath": {"path": "/x"}},
        revisionHistoryLimit=None,
        progressDeadlineSeconds=None,
        strategy={"type": "Recreate", "rollingUpdate": None},
    ),
    _stateful_set(updateStrategy={"type": "OnDelete"}),
)


def _start(stage: Stage, api: Api) -> str:
    """Apply the old manifests, and add a key that belongs to nobody."""
    assert stage.run(*OLD).exit_code == 0
    path = _path(stage, "a", "configmaps")
    _patch(api, path, {"data": {"nobodys": "1"}})
    _disown(api, path, "alice")
    return path


def _check_end(stage: Stage, api: Api) -> None:
    assert api.get(_path(stage, "a", "configmaps"))["data"] == {"key": "v"}
    spec = api.get(_path(stage, "web"))["spec"]
    assert spec["strategy"] == {"type": "Recreate"}
    assert spec["template"]["spec"]["volumes"] == [
        {"name": "v", "hostPath": {"path": "/x", "type": ""}}
    ]
    # The server has set its default again.
    assert spec["revisionHistoryLimit"] == 10
    update = api.get(_path(stage, "web", "statefulsets"))["spec"]["updateStrategy"]
    assert update == {"type": "OnDelete"}


def test_null_and_excluded_defaults_are_removed(stage: Stage, api: Api) -> None:
    """The diff shows it, one run does it, and later runs write nothing and show nothing."""
    _start(stage, api)
    story = stage.run(*NEW, dry_run=DryRun.SERVER, diff=True)
    assert story.exit_code == 0
    after = {one.ref.kind: one.after or {} for one in story.events if isinstance(one, ObjectDiff)}
    assert after["ConfigMap"]["data"] == {"key": "v"}
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
    claimed = "data" if kind == "configmaps" else "spec"
    assert between[claimed] == before[claimed]
    names = {"configmaps": "f:nobodys", "deployments": "f:rollingUpdate"}
    assert names[kind] in json.dumps(between["metadata"]["managedFields"])
    assert stage.run(*NEW).exit_code == 0
    _check_end(stage, api)


def test_null_over_a_field_of_another_manager_is_a_conflict(stage: Stage, api: Api) -> None:
    """Nothing is removed until the user forces it; to revert drift is no such word."""
    stage.run(*OLD[:1])
    path = _path(stage, "a", "configmaps")
    _patch(api, path, {"data": {"nobodys": "1", "key": "edited"}})
    assert stage.run(*NEW[:1], conflicts=Conflicts.REVERT).exit_code == 4
    assert api.get(path)["data"]["nobodys"] == "1"
    _patch(api, path, {"data": {"key": "v"}})
    story = stage.run(*NEW[:1])
    assert story.exit_code == 4
    assert ".data.nobodys" in story.problem("configmap/a")
    assert api.get(path)["data"]["nobodys"] == "1"
    whole = {**config_map("a"), "binaryData": None}
    _patch(api, path, {"binaryData": {"blob": "MQ=="}})
    story = stage.run(whole)
    assert story.exit_code == 4
    assert ".binaryData.blob" in story.problem("configmap/a")
    assert stage.run({**NEW[0], "binaryData": None}, conflicts=Conflicts.FORCE).exit_code == 0
    found = api.get(path)
    assert (found["data"], "binaryData" in found) == ({"key": "v"}, False)


def test_nothing_is_removed_before_an_apply_that_conflicts(stage: Stage, api: Api) -> None:
    """About another field, as only the server can tell: 1 and 2 may be quantities."""
    old = {**config_map("a"), "data": {"key": "1"}}
    stage.run(old)
    path = _path(stage, "a", "configmaps")
    _patch(api, path, {"data": {"nobodys": "1"}})
    _disown(api, path, "alice")
    _patch(api, path, {"data": {"key": "2"}})
    before = api.get(path)
    new = {**old, "data": {"key": "1", "nobodys": None}}
    assert stage.run(new).outcomes["configmap/a"] is Outcome.FAILED
    assert api.get(path) == before


def test_default_that_somebody_else_has_set_stays(stage: Stage, api: Api) -> None:
    """The server refuses the manifest then, and nothing is removed."""
    stage.run(*OLD[1:2])
    path = _path(stage, "web")
    _patch(api, path, {"spec": {"strategy": {"rollingUpdate": {"maxSurge": 2}}}})
    assert stage.run(*NEW[1:2]).exit_code != 0
    assert api.get(path)["spec"]["strategy"]["rollingUpdate"]["maxSurge"] == 2


def _managers(body: dict[str, Any]) -> set[tuple[str, str]]:
    return {(one["manager"], one["operation"]) for one in body["metadata"]["managedFields"]}


def test_null_that_is_added_alone_removes_what_nobody_owns(stage: Stage, api: Api) -> None:
    """Whatever names the items of the list; no field manager stays behind to conflict with."""
    service = copy.deepcopy(SERVICE)
    service["spec"]["ports"][0]["name"] = "http"
    old = ({**config_map("a"), "data": {"key": "v"}}, copy.deepcopy(DEPLOYMENT), service)
    assert stage.run(*old).exit_code == 0
    paths = [
        _path(stage, "a", "configmaps"),
        _path(stage, "web"),
        f"/api/v1/namespaces/{stage.namespace}/services/web",
    ]
    before = [_managers(api.get(path)) for path in paths]
    _patch(api, paths[0], {"data": {"nobodys": "1"}})
    _patch(api, paths[1], {"spec": {"revisionHistoryLimit": 3}})
    port = [{"op": "add", "path": "/spec/ports/0/appProtocol", "value": "http"}]
    _patch(api, paths[2], port, "json-patch")
    for path in paths:
        _disown(api, path, "alice")
    new = copy.deepcopy(old)
    new[0]["data"] = None
    new[1]["spec"]["revisionHistoryLimit"] = None
    new[2]["spec"]["ports"][0]["appProtocol"] = None
    assert set(stage.run(*new).outcomes.values()) == {Outcome.UPDATED}
    assert stage.status(values=True, fail_on_drift=True).exit_code == 0
    data, deployment, found = map(api.get, paths)
    assert "data" not in data
    assert deployment["spec"]["revisionHistoryLimit"] == 10
    assert "appProtocol" not in found["spec"]["ports"][0]
    # The Deployment's controller writes its status in the meantime.
    status = {("kube-controller-manager", "Update")}
    left = [_managers(api.get(path)) - status for path in paths]
    assert left == [names - status for names in before]
    for options in ({}, {"reapply_all": True}):
        assert set(stage.run(*new, **options).outcomes.values()) == {Outcome.UNCHANGED}
    again = copy.deepcopy(new)
    again[1]["metadata"]["labels"] = {"x": "y"}
    assert stage.run(*again).exit_code == 0


def test_null_that_is_added_alone_conflicts_with_an_owner(stage: Stage, api: Api) -> None:
    """Also with one who sets the field again after it was removed."""
    old = {**config_map("a"), "data": {"key": "v"}}
    stage.run(old)
    path = _path(stage, "a", "configmaps")
    new = {**old, "data": {"key": "v", "theirs": None}}
    for _ in range(2):
        _patch(api, path, {"data": {"theirs": "1"}})
        story = stage.run(new)
        assert (story.exit_code, api.get(path)["data"]["theirs"]) == (4, "1")
        assert ".data.theirs" in story.problem("configmap/a")
        assert stage.run(new, conflicts=Conflicts.FORCE).outcomes["configmap/a"] is Outcome.UPDATED
        assert api.get(path)["data"] == {"key": "v"}
        assert stage.run(new).outcomes["configmap/a"] is Outcome.UNCHANGED
    # About the status, null says nothing.
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "p"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        "status": None,
    }
    stage.run(new, claim)
    stage.run(new, claim, reapply_all=True)
    assert set(stage.run(new, claim).outcomes.values()) == {Outcome.UNCHANGED}


def test_null_in_an_item_with_other_keys_conflicts_with_an_owner(stage: Stage, api: Api) -> None:
    """The server names a port of a Service by its number; a later run is not unchanged."""
    service = copy.deepcopy(SERVICE)
    service["spec"]["ports"][0].update(name="http", appProtocol=None)
    assert stage.run(service).exit_code == 0
    assert set(stage.run(service).outcomes.values()) == {Outcome.UNCHANGED}
    path = f"/api/v1/namespaces/{stage.namespace}/services/web"
    port = [{"op": "add", "path": "/spec/ports/0/appProtocol", "value": "https"}]
    status, reply = api(
        "PATCH",
        f"{path}?fieldManager=kubectl-edit",
        port,
        content_type="application/json-patch+json",
    )
    assert status == 200, reply
    for options in ({"dry_run": DryRun.SERVER}, {"check": True}, {}):
        story = stage.run(service, **options)
        assert story.exit_code == 4, options
        assert "appProtocol" in story.problem("service/web")
    assert api.get(path)["spec"]["ports"][0]["appProtocol"] == "https"
    assert stage.run(service, conflicts=Conflicts.FORCE).exit_code == 0
    (found,) = api.get(path)["spec"]["ports"]
    assert "appProtocol" not in found
    assert set(stage.run(service).outcomes.values()) == {Outcome.UNCHANGED}


UNNAMED = """\
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
    """In an item of a list without a name."""
    file = tmp_path / "set.yaml"
    file.write_text(UNNAMED)
    ended = applyprune("apply", "web", "-n", namespace, "-f", file, kubeconfig=plane.kubeconfig)
    assert ended.code == 0, ended.err
    assert "null is left out, and removes nothing, in spec.ports[0].appProtocol" in ended.err
    assert f"{file}:9:" in ended.err


def _scaler() -> dict[str, Any]:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 5},
    }


@pytest.mark.parametrize("left_by", ["annotation", "option", "autoscaler", "cluster"])
def test_null_never_removes_what_is_left_to_others(stage: Stage, api: Api, left_by: str) -> None:
    """The server books a write of the scale of an object to nobody."""
    old = copy.deepcopy(DEPLOYMENT)
    del old["spec"]["replicas"]
    assert stage.run(old).exit_code == 0
    path = _path(stage, "web")
    _patch(api, f"{path}/scale", {"spec": {"replicas": 4}})
    new = copy.deepcopy(old)
    new["spec"]["replicas"] = None
    new["metadata"]["labels"] = {"x": "y"}
    options: dict[str, Any] = {}
    others: list[dict[str, Any]] = []
    if left_by == "annotation":
        new["metadata"]["annotations"] = {"applyprune.dev/ignore-fields": "/spec/replicas"}
    elif left_by == "option":
        options["ignore"] = ("deployment.apps:/spec/replicas",)
    elif left_by == "autoscaler":
        others.append(_scaler())
    else:
        scalers = f"/apis/autoscaling/v2/namespaces/{stage.namespace}/horizontalpodautoscalers"
        assert api("POST", scalers, _scaler())[0] == 201
    for forced in (False, True):
        options["conflicts"] = Conflicts.FORCE if forced else Conflicts.FAIL
        assert stage.run(new, *others, **options).exit_code == 0
        assert api.get(path)["spec"]["replicas"] == 4
    again = stage.run(new, *others, **options)
    assert set(again.outcomes.values()) == {Outcome.UNCHANGED}
    _patch(api, path, {"spec": {"replicas": 3}})
    new["metadata"]["labels"] = {"x": "z"}
    for forced in (False, True):
        options["conflicts"] = Conflicts.FORCE if forced else Conflicts.FAIL
        assert stage.run(new, *others, **options).exit_code == 0
        assert api.get(path)["spec"]["replicas"] == 3
