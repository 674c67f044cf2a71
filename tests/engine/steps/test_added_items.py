"""Items that an admission policy adds to a list are no remains: nobody owns them either."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from applyprune.model.options import DryRun
from tests.support.api import Api
from tests.support.stage import Stage
from tests.support.waiting import eventually
from tests.support.workloads import workload

Body = dict[str, Any]
ADMISSION = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolic"
ADDS = """[JSONPatch{op: "add", path: "/spec/template/spec/volumes/-", value:
    Object.spec.template.spec.volumes{name: "added", emptyDir:
    Object.spec.template.spec.volumes.emptyDir{}}}]"""
HAS = "object.spec.template.spec.volumes.exists(volume, volume.name == 'added')"


@pytest.fixture
def adds_a_volume(api: Api, namespace: str) -> Iterator[str]:
    """A policy that adds a volume to each Deployment of the namespace."""
    rule = {
        "apiGroups": ["apps"],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["deployments"],
    }
    policy = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "resourceRules": [rule],
        },
        "matchConditions": [{"name": "lacks", "expression": f"!{HAS}"}],
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": ADDS}}],
    }
    kinds = {"ies": ("", policy), "ybindings": ("Binding", {"policyName": namespace})}
    for plural, (kind, spec) in kinds.items():
        body = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": f"MutatingAdmissionPolicy{kind}",
            "metadata": {"name": namespace},
            "spec": spec,
        }
        api.create(f"{ADMISSION}{plural}", body)
    deployments = f"/apis/apps/v1/namespaces/{namespace}/deployments"

    def works() -> bool:
        tried = api("POST", f"{deployments}?dryRun=All", _with_volume("tried"))[1]
        return len(tried["spec"]["template"]["spec"]["volumes"]) > 1

    eventually(works, lambda: "the policy")
    yield f"{deployments}/web"
    for plural in reversed(kinds):
        api("DELETE", f"{ADMISSION}{plural}/{namespace}")


def _with_volume(name: str) -> Body:
    """Return a Deployment with a list of each kind that the server fills in."""
    container = {
        "name": "main",
        "image": "main:1",
        "ports": [{"containerPort": 80}],
        "env": [{"name": "A", "value": "1"}],
    }
    spec = {"containers": [container], "volumes": [{"name": "work", "emptyDir": {}}]}
    return workload("Deployment", name, pods=spec)


def _told(stage: Stage, *given: Body) -> list[str]:
    """Return what a comparison of every value names that nobody owns."""
    story = stage.run(*given, dry_run=DryRun.SERVER, diff=True, reapply_all=True)
    assert story.exit_code == 0, story.events
    told = "no manifest and no field manager has these items: "
    return [one.removeprefix(told).partition(": ")[0] for one in story.warnings if told in one]


@pytest.mark.since_kubernetes("v1.36", "the server has MutatingAdmissionPolicy in v1")
def test_item_that_a_policy_adds_belongs_to_its_list(
    stage: Stage, api: Api, adds_a_volume: str
) -> None:
    """Nobody owns it either; but what somebody has left behind is named."""
    ports = [{"port": 80}]
    spec = {"type": "NodePort", "selector": {"app": "web"}, "ports": ports}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec}
    given, path = (_with_volume("web"), service), adds_a_volume
    assert stage.run(*given).exit_code == 0
    volumes = api.get(path)["spec"]["template"]["spec"]["volumes"]
    assert [one["name"] for one in volumes] == ["work", "added"]
    assert _told(stage, *given) == []
    # Somebody adds a variable, and takes the record of that away.
    add = [{"op": "add", "path": "/spec/template/spec/containers/0/env/-", "value": {"name": "B"}}]
    api.patch(path, add)
    managers = api.get(path)["metadata"]["managedFields"]
    kept = [one for one in managers if one["manager"] == stage.target.manager]
    cleared = {"metadata": {"managedFields": kept}}
    api.patch(path, cleared)
    where = 'deployment.apps/web at spec.template.spec.containers[name="main"].env[name="B"]'
    assert _told(stage, *given) == [where]
