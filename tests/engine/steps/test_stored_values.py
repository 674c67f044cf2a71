"""A CRD changes the type of a field: no apply changes the stored value, only a recreation does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from applyprune.localplane import Plane
from applyprune.model.fate import Fate, Outcome
from applyprune.model.options import DryRun
from applyprune.values import replace
from tests.support.api import Api
from tests.support.fault_proxy import Exchange, FaultProxy, always, faults
from tests.support.objects import crd, crd_name
from tests.support.stage import Stage

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
STORED = "its stored values do not fit the schema of its CRD"
TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
LIST, MAP = {"type": "array", "items": TEXT}, {"type": "object", "properties": {"b": TEXT}}


def _definition(kind: str, schema: dict[str, Any]) -> dict[str, Any]:
    body = crd(kind)
    (version,) = body["spec"]["versions"]
    spec = {"type": "object", "properties": {"a": schema, "c": TEXT}}
    version["schema"] = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return body


def _resource(kind: str, value: Any, **notes: str) -> dict[str, Any]:
    return {
        "apiVersion": "x.example.com/v1",
        "kind": kind,
        "metadata": {"name": "f", "annotations": notes},
        "spec": {"c": "same"} if value is None else {"a": value},
    }


TYPES: dict[str, tuple[Any, Any, Any, Any]] = {
    "ToNumber": (TEXT, "x", NUMBER, 5),
    "ToText": (NUMBER, 5, TEXT, "x"),
    "ToMap": (LIST, ["x"], MAP, {"b": "x"}),
    "Emptied": (TEXT, "x", NUMBER, None),
    # Nobody owns the default that is stored, and the manifest stays as it is.
    "Default": ({**TEXT, "default": "x"}, None, NUMBER, None),
}
"""Of each kind: a type, a value, the type that comes, and a value for it."""


@pytest.mark.holds("stored-values-first")
def test_stored_values_are_judged_before_their_crd_changes(crd_stage: Stage, crds: Api) -> None:
    """Nothing is written, unless a recreation is allowed: then one run does both."""
    names = {kind: f"{kind.lower()}.x.example.com/f" for kind in TYPES}
    old: list[dict[str, Any]] = []
    new: list[dict[str, Any]] = []
    for kind, (before, was, after, value) in TYPES.items():
        old += [_definition(kind, before), _resource(kind, was)]
        new += [_definition(kind, after), _resource(kind, value)]

    def read() -> dict[str, Any]:
        home = f"/apis/x.example.com/v1/namespaces/{crd_stage.namespace}"
        return {kind: crds.get(f"{home}/{kind.lower()}s/f") for kind in TYPES}

    assert crd_stage.run(*old).exit_code == 0
    first = read()
    refused = crd_stage.run(*new, check=True)
    assert (refused.exit_code, refused.outcomes) == (
        3, dict.fromkeys(names.values(), Outcome.FAILED)
    )  # fmt: skip
    for name in names.values():
        assert f"{STORED}: spec.a: expected " in refused.problem(name)
        assert "--recreate deletes and creates it" in refused.problem(name)
        assert "quotes" not in refused.problem(name)
    assert read() == first
    dry = crd_stage.run(*new, dry_run=DryRun.SERVER, recreate=True)
    assert {dry.outcomes[name] for name in names.values()} == {Outcome.RECREATED}
    story = crd_stage.run(*new, check=True, recreate=True)
    assert story.outcomes == {
        **dict.fromkeys(map(crd_name, TYPES), Outcome.UPDATED),
        **dict.fromkeys(names.values(), Outcome.RECREATED),
    }, story.events
    for kind, found in read().items():
        assert found["spec"] == _resource(kind, TYPES[kind][3])["spec"]
        assert found["metadata"]["uid"] != first[kind]["metadata"]["uid"]
    assert set(crd_stage.run(*new).outcomes.values()) == {Outcome.UNCHANGED}


def test_stored_values_in_a_version_that_the_crd_replaces(crd_stage: Stage, crds: Api) -> None:
    """Nothing but a deletion before that helps; without a webhook, the values stay as they are."""
    kind, name = "Replaces", "replaces.x.example.com/f"

    def definition(*served: str) -> dict[str, Any]:
        versions = [
            {**version, "name": number, "served": number in served, "storage": number == served[-1]}
            for number, schema in (("v1beta1", TEXT), ("v1", NUMBER))
            for version in _definition(kind, schema)["spec"]["versions"]
        ]
        body = crd(kind)
        body["spec"]["versions"] = versions
        return body

    old = {**_resource(kind, "x"), "apiVersion": "x.example.com/v1beta1"}
    assert crd_stage.run(definition("v1beta1"), old).exit_code == 0
    new = (definition("v1"), _resource(kind, 5))
    refused = crd_stage.run(*new, check=True, recreate=True)
    assert (refused.exit_code, refused.outcomes) == (3, {name: Outcome.FAILED})
    assert f"{STORED}: spec.a: expected integer, got string" in refused.problem(name)
    assert f"Delete it before the CRD changes: kubectl delete {name}" in refused.problem(name)
    path = f"/apis/x.example.com/v1beta1/namespaces/{crd_stage.namespace}/replacess/f"
    assert crds("DELETE", path)[0] == 200
    story = crd_stage.run(*new, check=True)
    assert story.outcomes == {crd_name(kind): Outcome.UPDATED, name: Outcome.CREATED}


@pytest.mark.holds("stored-by-others")
def test_stored_values_of_others_are_not_deleted(crd_stage: Stage, crds: Api) -> None:
    """Somebody else has written the value that does not fit, whatever the set is allowed."""
    kind = "Foreign"
    assert crd_stage.run(_definition(kind, TEXT), _resource(kind, None)).exit_code == 0
    path = f"/apis/x.example.com/v1/namespaces/{crd_stage.namespace}/foreigns/f"
    crds.patch(path, {"spec": {"a": "x"}}, by="hand")
    new = _definition(kind, NUMBER)
    story = crd_stage.run(new, _resource(kind, None), check=True, recreate=True)
    name = "foreign.x.example.com/f"
    assert (story.exit_code, story.outcomes) == (3, {name: Outcome.FAILED})
    assert "It cannot be recreated: hand owns the field too." in story.problem(name)


@pytest.mark.holds("recreation-tried-late")
def test_nothing_is_deleted_for_a_crd_that_does_not_change_after_all(
    crd_stage: Stage, crds: Api, running: Plane, tmp_path: Path
) -> None:
    """The run has planned the recreation, and the server refuses the CRD in the end."""
    kind, name = "Unmoved", "unmoved.x.example.com/f"
    assert crd_stage.run(_definition(kind, TEXT), _resource(kind, "x")).exit_code == 0
    path = f"/apis/x.example.com/v1/namespaces/{crd_stage.namespace}/unmoveds/f"
    uid = crds.get(path)["metadata"]["uid"]
    refused = faults.status(422, reason="Invalid", message="no such CRD")

    def is_write(seen: Exchange) -> bool:
        is_patch = seen.method == "PATCH" and seen.path == f"{CRDS}/unmoveds.x.example.com"
        return is_patch and "dryRun" not in seen.query

    with FaultProxy(running) as proxy:
        proxy.rule = always(refused, where=is_write)
        stage = replace(crd_stage, kubeconfig=proxy.kubeconfig(tmp_path))
        story = stage.run(_definition(kind, NUMBER), _resource(kind, 5), check=True, recreate=True)
    (step,) = (one for one in story.plan.applies if one.desired.ref.short == name)
    assert step.fate is Fate.RECREATE
    assert story.outcomes == {crd_name(kind): Outcome.FAILED, name: Outcome.FAILED}
    assert crds.get(path)["metadata"]["uid"] == uid


def test_stored_values_after_the_change_of_the_crd(crd_stage: Stage, crds: Api) -> None:
    """By somebody else, or before a check: the error says what it is about, and what gets out."""
    kind, name = "Changed", "changed.x.example.com/f"
    assert crd_stage.run(_definition(kind, TEXT), _resource(kind, "x")).exit_code == 0
    new = _definition(kind, NUMBER)
    theirs = {"spec": {"versions": new["spec"]["versions"]}}
    crds.patch(f"{CRDS}/changeds.x.example.com", theirs, by=crd_stage.target.manager)
    for check in (True, False):
        story = crd_stage.run(new, _resource(kind, 5), check=check)
        assert story.exit_code == 3
        assert f"{STORED}: .spec.a: expected numeric" in story.problem(name)
        assert "quotes" not in story.problem(name)
    allowed = _resource(kind, 5, **{"applyprune.dev/recreate": "allowed"})
    assert crd_stage.run(new, allowed, check=True).outcomes[name] is Outcome.RECREATED
