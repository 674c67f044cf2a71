"""A CRD that lets parts of a field be owned one by one: what leaves the manifest then goes.

The server knew the field as a whole as the set's. After the change it knows only the parts of the
newest manifest, and the others would stay without an owner.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.model.events import ObjectDiff, Outcome
from applyprune.model.options import DryRun
from tests.support.objects import crd
from tests.support.stage import Stage
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.api import Api

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
    path = f"{CRDS}/{kind.lower()}s.x.example.com?fieldManager={stage.target.manager}"
    patch = {"spec": {"versions": versions}}
    status, reply = api("PATCH", path, patch, content_type="application/merge-patch+json")
    assert status == 200, reply


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
    (shown,) = (one for one in story.events if isinstance(one, ObjectDiff) and one.ref.kind == kind)
    assert (shown.after or {})["spec"]["parts"] == after
    assert crds.get(path)["spec"]["parts"] == before
    story = crd_stage.run(*given)
    assert (story.exit_code, story.outcomes[ref]) == (0, Outcome.CONFIGURED), story.events
    live = crds.get(path)
    assert live["spec"]["parts"] == after
    assert crd_stage.run(*given).outcomes[ref] is Outcome.UNCHANGED
    assert crds.get(path)["metadata"]["resourceVersion"] == live["metadata"]["resourceVersion"]


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
    assert crds("PATCH", f"{path}?fieldManager=other", patch, content_type=how)[0] == 200
    story = crd_stage.run(_definition(kind, new), _resource(kind, after))
    assert story.exit_code == 0, story.events
    parts = crds.get(path)["spec"]["parts"]
    assert len(parts) == 3
    assert (parts["three"] if name == "keys" else parts[-1]) == theirs


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
