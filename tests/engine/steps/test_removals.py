"""What stands in the way of a manifest and belongs to nobody: null, and the server's defaults."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.model.events import ObjectDiff, Outcome
from applyprune.model.options import DryRun, OnDrift
from tests.support.kill import Moment, kill_at_first
from tests.support.objects import DEPLOYMENT, config_map, text

if TYPE_CHECKING:
    from pathlib import Path

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
    assert set(stage.run(*NEW).outcomes.values()) == {Outcome.CONFIGURED}
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
def test_run_that_is_killed_after_the_removal_is_finished_by_the_next(
    stage: Stage, api: Api, proxy: FaultProxy, tmp_path: Path, kind: str
) -> None:
    """In between the object is valid: the ConfigMap is cleared, the Deployment as before."""
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
    if kind == "configmaps":
        assert between["data"] == {"key": "v", "ours": "1"}
    else:
        assert between["spec"] == before["spec"]
        assert "f:rollingUpdate" in json.dumps(between["metadata"]["managedFields"])
    assert stage.run(*NEW).exit_code == 0
    _check_end(stage, api)


def test_null_over_a_field_of_another_manager_is_a_conflict(stage: Stage, api: Api) -> None:
    """Nothing is removed until the user forces it; to set back drift is no such word."""
    stage.run(*OLD[:1])
    path = _path(stage, "a", "configmaps")
    _patch(api, path, {"data": {"nobodys": "1", "key": "edited"}})
    assert stage.run(*NEW[:1], on_drift=OnDrift.REVERT).exit_code == 4
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
    assert stage.run({**NEW[0], "binaryData": None}, force_conflicts=True).exit_code == 0
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
