"""A CRD that lets parts of a field be owned one by one: what leaves the manifest then goes.

The server knew the field as a whole as the set's. After the change it knows only the parts of the
newest manifest, and the others would stay without an owner.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from applyprune.cli.run import with_exit_code
from applyprune.model.events import Finished, ObjectDiff
from applyprune.model.fate import Outcome
from applyprune.model.options import DryRun
from tests.support.api import Api
from tests.support.objects import crd
from tests.support.stage import Stage
from tests.support.waiting import eventually
from tests.support.workloads import workload

Body = dict[str, Any]
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
LIST = "x-kubernetes-list-type"
ITEM = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string"}, "value": {"type": "string"}},
}
TYPES: dict[str, tuple[Body, Body, Any, Any]] = {
    "map": (
        {"type": "array", LIST: "atomic", "items": ITEM},
        {"type": "array", LIST: "map", "x-kubernetes-list-map-keys": ["name"], "items": ITEM},
        [{"name": "one", "value": "1"}, {"name": "two", "value": "2"}],
        [{"name": "one", "value": "1"}],
    ),
    "set": (
        {"type": "array", LIST: "atomic", "items": {"type": "string"}},
        {"type": "array", LIST: "set", "items": {"type": "string"}},
        ["one", "two"],
        ["one"],
    ),
    "keys": (
        {
            "type": "object",
            "x-kubernetes-map-type": "atomic",
            "additionalProperties": {"type": "string"},
        },
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"one": "1", "two": "2"},
        {"one": "1"},
    ),
}
"""The type of a field before and after, and its values: one part of it goes."""


def _definition(kind: str, field: Body) -> Body:
    body = crd(kind)
    (version,) = body["spec"]["versions"]
    spec = {"type": "object", "properties": {"parts": field}}
    version["schema"]["openAPIV3Schema"]["properties"]["spec"] = copy.deepcopy(spec)
    return body


def _resource(kind: str, parts: Any) -> Body:
    return {
        "apiVersion": "x.example.com/v1",
        "kind": kind,
        "metadata": {"name": "f"},
        "spec": {"parts": parts},
    }


def _change_type(api: Api, kind: str, field: Body, stage: Stage) -> None:
    """Change the CRD as somebody else does, who leaves it to its set."""
    versions = _definition(kind, field)["spec"]["versions"]
    path = f"{CRDS}/{kind.lower()}s.x.example.com"
    api.patch(path, {"spec": {"versions": versions}}, by=stage.target.manager)


@pytest.mark.parametrize("by_the_set", [True, False])
@pytest.mark.parametrize("name", TYPES)
def test_part_that_leaves_with_the_new_type_goes(
    crd_stage: Stage, crds: Api, name: str, by_the_set: bool
) -> None:
    """As a dry run shows it; the run after that changes nothing."""
    old, new, before, after = TYPES[name]
    kind = f"Parts{name}{int(by_the_set)}"
    assert crd_stage.run(_definition(kind, old), _resource(kind, before)).exit_code == 0
    if not by_the_set:
        _change_type(crds, kind, new, crd_stage)
    given = (_definition(kind, new), _resource(kind, after))
    ref, path = f"{kind.lower()}.x.example.com/f", f"{kind.lower()}s/f"
    path = f"/apis/x.example.com/v1/namespaces/{crd_stage.namespace}/{path}"
    story = crd_stage.run(*given, dry_run=DryRun.SERVER, diff=True)
    (shown,) = (one for one in story.of(ObjectDiff) if one.ref.kind == kind)
    assert (shown.after or {})["spec"]["parts"] == after
    assert crds.get(path)["spec"]["parts"] == before
    story = crd_stage.run(*given)
    assert (story.exit_code, story.outcomes[ref]) == (0, Outcome.UPDATED), story.events
    live = crds.get(path)
    assert live["spec"]["parts"] == after
    assert crd_stage.run(*given).outcomes[ref] is Outcome.UNCHANGED
    assert crds.get(path)["metadata"]["resourceVersion"] == live["metadata"]["resourceVersion"]


@pytest.mark.holds("strangers-in-a-new-type", row="map")
@pytest.mark.parametrize("name", TYPES)
def test_part_of_others_stays_with_the_new_type(crd_stage: Stage, crds: Api, name: str) -> None:
    """Nor is anything else removed beside it."""
    old, new, before, after = TYPES[name]
    kind = f"Shared{name}"
    assert crd_stage.run(_definition(kind, old), _resource(kind, before)).exit_code == 0
    _change_type(crds, kind, new, crd_stage)
    path = f"/apis/x.example.com/v1/namespaces/{crd_stage.namespace}/{kind.lower()}s/f"
    theirs = {"map": {"name": "three"}, "set": "three", "keys": "3"}[name]
    place = "/spec/parts/three" if name == "keys" else "/spec/parts/-"
    patch = [{"op": "add", "path": place, "value": theirs}]
    how = "application/json-patch+json"

    def owns_a_part() -> bool:
        """The server uses the new type a moment after the CRD has it."""
        tried = crds("PATCH", f"{path}?fieldManager=other&dryRun=All", patch, content_type=how)[1]
        (entry,) = [one for one in tried["metadata"]["managedFields"] if one["manager"] == "other"]
        return bool(entry["fieldsV1"]["f:spec"]["f:parts"])

    eventually(owns_a_part)
    crds.patch(path, patch, by="other")
    story = crd_stage.run(_definition(kind, new), _resource(kind, after))
    assert story.exit_code == 0, story.events
    parts = crds.get(path)["spec"]["parts"]
    assert len(parts) == 3
    assert (parts["three"] if name == "keys" else parts[-1]) == theirs
    if name == "keys":
        return  # nothing tells a key that nobody owns from a default
    where = {"map": 'spec.parts[name="two"]', "set": 'spec.parts[="two"]'}[name]
    given = (_definition(kind, new), _resource(kind, after))
    assert crd_stage.run(*given, dry_run=DryRun.SERVER, diff=True).warnings == []
    story = crd_stage.run(*given, dry_run=DryRun.SERVER, diff=True, reapply_all=True)
    (warning,) = story.warnings
    told = f"no manifest and no field manager has these items: {kind.lower()}.x.example.com/f at"
    assert warning.startswith(f"{told} {where}: ")
    assert set(story.outcomes.values()) == {Outcome.UNCHANGED}
    for drift_only in (True, False):
        (*_, end) = with_exit_code(story.events, drift_only=drift_only)
        assert isinstance(end, Finished)
        assert end.exit_code == 1
    ignored = f"{kind}:/spec/parts"
    story = crd_stage.run(
        *given, dry_run=DryRun.SERVER, diff=True, reapply_all=True, ignore=(ignored,)
    )
    assert story.warnings == []


def test_default_of_the_server_is_no_part_that_has_left(crd_stage: Stage, crds: Api) -> None:
    """A map that the set had left empty: the server's default in it belongs to nobody."""
    mode = {"type": "string", "default": "small"}
    field = {"type": "object", "properties": {"mode": mode, "size": {"type": "string"}}}
    definition = _definition("Filled", field)
    assert crd_stage.run(definition, _resource("Filled", {})).exit_code == 0
    path = f"/apis/x.example.com/v1/namespaces/{crd_stage.namespace}/filleds/f"
    assert crds.get(path)["spec"]["parts"] == {"mode": "small"}
    story = crd_stage.run(definition, _resource("Filled", {"size": "1"}))
    assert story.exit_code == 0, story.events
    assert crds.get(path)["spec"]["parts"] == {"mode": "small", "size": "1"}


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
