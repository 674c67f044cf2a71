"""A CRD that no longer serves the version in which another controller has written the status."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from applyprune.model.events import ObjectDiff, ObjectDone
from applyprune.model.fate import Outcome
from applyprune.model.options import Conflicts, DryRun
from tests.support.api import Api
from tests.support.objects import config_map, crd, crd_name
from tests.support.stage import Stage

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def _definition(kind: str, *served: str, dropped: bool = False) -> dict[str, Any]:
    """Return a CRD with the version v1alpha1, which is stored unless v1 is there, or without it."""
    body = crd(kind)
    (version,) = body["spec"]["versions"]
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version["schema"] = {"openAPIV3Schema": schema}
    version["subresources"] = {"status": {}}
    names = ["v1"] if dropped else ["v1alpha1", *served]
    body["spec"]["versions"] = [
        {**copy.deepcopy(version), "name": name, "storage": name == names[-1]} for name in names
    ]
    return body


def _resource(kind: str, version: str, value: str) -> dict[str, Any]:
    return {
        "apiVersion": f"x.example.com/{version}",
        "kind": kind,
        "metadata": {"name": "f"},
        "spec": {"value": value},
    }


def _controllers_entry(found: dict[str, Any]) -> dict[str, Any]:
    (entry,) = (one for one in found["metadata"]["managedFields"] if one["manager"] == "ctrl")
    return {key: entry[key] for key in ("apiVersion", "operation", "subresource", "fieldsV1")}


def test_change_after_a_version_was_dropped(crd_stage: Stage, crds: Api) -> None:
    """By the set itself in the same run, or by somebody else before it; also of no value."""
    values = {"DroppedHere": "3", "DroppedThere": "3", "DroppedSame": "2"}
    paths = {
        (kind, version): f"/apis/x.example.com/{version}/namespaces/{crd_stage.namespace}"
        f"/{kind.lower()}s/f"
        for kind in values
        for version in ("v1alpha1", "v1")
    }
    old = [_resource(kind, "v1alpha1", "1") for kind in values]
    assert crd_stage.run(*map(_definition, values), *old).exit_code == 0
    before = {}
    for kind in values:
        path = paths[kind, "v1alpha1"]
        crds.patch(f"{path}/status", {"status": {"phase": "Up"}}, by="ctrl")
        before[kind] = _controllers_entry(crds.get(path))
    moved = [_resource(kind, "v1", "2") for kind in values]
    both = [_definition(kind, "v1") for kind in values]
    assert crd_stage.run(*both, *moved).exit_code == 0
    given: list[dict[str, Any]] = []
    for kind, value in values.items():
        path, last = f"{CRDS}/{kind.lower()}s.x.example.com", _definition(kind, dropped=True)
        crds.patch(f"{path}/status", {"status": {"storedVersions": ["v1"]}})
        if kind != "DroppedHere":
            versions = {"spec": {"versions": last["spec"]["versions"]}}
            crds.patch(path, versions, by=crd_stage.target.manager)
        given += [last, _resource(kind, "v1", value)]
    dry = crd_stage.run(*given, dry_run=DryRun.SERVER, diff=True, conflicts=Conflicts.FORCE)
    assert [str(one.problem) for one in dry.of(ObjectDone) if one.problem] == []
    shown = {one.ref.kind: one.after or {} for one in dry.of(ObjectDiff)}
    story = crd_stage.run(*given, conflicts=Conflicts.FORCE)
    again = crd_stage.run(*given)
    for kind, value in values.items():
        name = f"{kind.lower()}.x.example.com/f"
        assert shown[kind]["spec"] == {"value": value}
        assert dry.outcomes[name] is story.outcomes[name] is Outcome.UPDATED
        found = crds.get(paths[kind, "v1"])
        assert (found["spec"], found["status"]) == ({"value": value}, {"phase": "Up"})
        # Only the version of the other manager's entry has changed.
        assert _controllers_entry(found) == {**before[kind], "apiVersion": "x.example.com/v1"}
        assert again.outcomes[name] is Outcome.UNCHANGED


@pytest.mark.holds("two-entries-of-a-manager")
def test_both_entries_of_a_manager_keep_their_fields(crd_stage: Stage, crds: Api) -> None:
    """It has written in the dead version and in a served one: the server keeps one entry."""
    kind = "Twice"
    both = _definition(kind, "v1")
    assert crd_stage.run(both, _resource(kind, "v1", "1")).exit_code == 0
    objects = f"namespaces/{crd_stage.namespace}/{kind.lower()}s/f"
    for version in ("v1alpha1", "v1"):
        path = f"/apis/x.example.com/{version}/{objects}"
        crds.patch(path, {"spec": {f"by-{version}": "theirs"}}, by="ctrl")
    definition = f"{CRDS}/{kind.lower()}s.x.example.com"
    crds.patch(f"{definition}/status", {"status": {"storedVersions": ["v1"]}})
    last = _definition(kind, dropped=True)
    assert crd_stage.run(last, _resource(kind, "v1", "2")).exit_code == 0
    entries = crds.get(path)["metadata"]["managedFields"]
    (entry,) = (one for one in entries if one["manager"] == "ctrl")
    assert entry["fieldsV1"]["f:spec"].keys() - {"."} == {"f:by-v1alpha1", "f:by-v1"}


def _grown(kind: str, *names: str) -> dict[str, Any]:
    """Return a CRD with a strict schema, in which v1 has one more field, with a default."""
    body = _definition(kind, *names)
    for version in body["spec"]["versions"]:
        spec: dict[str, Any] = {"value": {"type": "string"}, "more": {"type": "string"}}
        if version["name"] == "v1":
            spec["mode"] = {"type": "string", "default": "fast"}
        phase = {"type": "object", "properties": {"phase": {"type": "string"}}}
        parts = {"spec": {"type": "object", "properties": spec}, "status": phase}
        version["schema"] = {"openAPIV3Schema": {"type": "object", "properties": parts}}
    return body


@pytest.mark.parametrize(
    "checked", [pytest.param(False, marks=pytest.mark.holds("entries-of-other-versions")), True]
)
def test_change_beside_an_entry_of_a_version_that_lacks_a_default(
    crd_stage: Stage, crds: Api, checked: bool
) -> None:
    """The older version is still served; the server can convert the object to it no more."""
    kind = f"Grown{int(checked)}"
    assert crd_stage.run(_grown(kind), _resource(kind, "v1alpha1", "1")).exit_code == 0
    objects = f"namespaces/{crd_stage.namespace}/{kind.lower()}s/f"
    old, new = (f"/apis/x.example.com/{version}/{objects}" for version in ("v1alpha1", "v1"))
    crds.patch(f"{old}/status", {"status": {"phase": "Up"}}, by="ctrl")
    before = _controllers_entry(crds.get(old))
    name = f"{kind.lower()}.x.example.com/f"
    grown = _grown(kind, "v1")
    assert crd_stage.run(grown, _resource(kind, "v1", "2")).exit_code == 0
    for value in ("3", "4"):
        given = (grown, _resource(kind, "v1", value))
        dry = crd_stage.run(*given, dry_run=DryRun.SERVER, diff=True)
        assert dry.exit_code == 0, dry.events
        (shown,) = dry.of(ObjectDiff)
        assert (shown.after or {})["spec"] == {"value": value, "mode": "fast"}
        story = crd_stage.run(*given, check=checked)
        assert story.outcomes[name] is Outcome.UPDATED, story.events
    found = crds.get(new)
    assert (found["spec"], found["status"]) == ({"value": "4", "mode": "fast"}, {"phase": "Up"})
    assert _controllers_entry(found) == {**before, "apiVersion": "x.example.com/v1"}
    # What the manifest itself has wrong is said as such, and nothing is rewritten for it.
    wrong = _resource(kind, "v1", "5")
    wrong["spec"]["unknown"] = "x"
    story = crd_stage.run(grown, wrong)
    assert "unknown" in story.problem(name)


@pytest.mark.holds("version-of-a-refused-crd")
def test_resource_of_a_refused_crd_is_applied_only_in_a_version_that_is_served(
    crd_stage: Stage,
) -> None:
    """The CRD drops a version in which objects are stored; the run has not been checked."""
    kinds = ("RefusedServed", "Refused")
    old = [_resource(kind, "v1alpha1", "1") for kind in kinds]
    new = [*(_resource(kind, "v1", "2") for kind in kinds), config_map("a")]
    assert crd_stage.run(*map(_definition, kinds), *old).exit_code == 0
    # The first one is stored as before, and served in both versions.
    assert crd_stage.run(_definition(kinds[0], "v1"), _definition(kinds[1]), *old).exit_code == 0
    dropped = [_definition(kind, dropped=True) for kind in kinds]
    story = crd_stage.run(*dropped, *new, check=False)
    served, refused = (f"{kind.lower()}.x.example.com/f" for kind in kinds)
    assert (story.exit_code, story.outcomes) == (3, {
        **dict.fromkeys(map(crd_name, kinds), Outcome.FAILED),
        served: Outcome.UPDATED,
        refused: Outcome.SKIPPED,
        "configmap/a": Outcome.CREATED,
    })  # fmt: skip
    for kind in kinds:
        assert "storedVersions" in story.problem(crd_name(kind))
    told = f"it depends on {crd_name(kinds[1])}, which was not applied"
    assert story.problem(refused).endswith(told)
    both = [_definition(kind, "v1") for kind in kinds]
    assert crd_stage.run(*both, *new).exit_code == 0
