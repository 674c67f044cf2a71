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


@pytest.mark.parametrize(("by_the_set", "value"), [(True, "3"), (False, "3"), (False, "2")])
def test_change_after_a_version_was_dropped(
    crd_stage: Stage, crds: Api, by_the_set: bool, value: str
) -> None:
    """By the set itself in the same run, or by somebody else before it; also of no value."""
    kind = f"Dropped{int(by_the_set)}{value}"
    definition = _definition(kind)
    path = f"{CRDS}/{kind.lower()}s.x.example.com"
    assert crd_stage.run(definition, _resource(kind, "v1alpha1", "1")).exit_code == 0
    objects = f"namespaces/{crd_stage.namespace}/{kind.lower()}s/f"
    old, new = (f"/apis/x.example.com/{version}/{objects}" for version in ("v1alpha1", "v1"))
    crds.patch(f"{old}/status", {"status": {"phase": "Up"}}, by="ctrl")
    before = _controllers_entry(crds.get(old))
    both = _definition(kind, "v1")
    assert crd_stage.run(both, _resource(kind, "v1", "2")).exit_code == 0
    crds.patch(f"{path}/status", {"status": {"storedVersions": ["v1"]}})
    last = _definition(kind, dropped=True)
    if not by_the_set:
        versions = {"spec": {"versions": last["spec"]["versions"]}}
        crds.patch(path, versions, by=crd_stage.target.manager)
    given = (last, _resource(kind, "v1", value))
    dry = crd_stage.run(*given, dry_run=DryRun.SERVER, diff=True, conflicts=Conflicts.FORCE)
    done = dry.of(ObjectDone)
    assert [str(one.problem) for one in done if one.problem] == []
    (shown,) = (one for one in dry.of(ObjectDiff) if one.ref.kind == kind)
    assert (shown.after or {})["spec"] == {"value": value}
    name = f"{kind.lower()}.x.example.com/f"
    assert dry.outcomes[name] is Outcome.UPDATED
    story = crd_stage.run(*given, conflicts=Conflicts.FORCE)
    assert story.outcomes[name] is Outcome.UPDATED
    found = crds.get(new)
    assert (found["spec"], found["status"]) == ({"value": value}, {"phase": "Up"})
    # Only the version of the other manager's entry has changed.
    assert _controllers_entry(found) == {**before, "apiVersion": "x.example.com/v1"}
    assert crd_stage.run(*given).outcomes[name] is Outcome.UNCHANGED


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


@pytest.mark.parametrize(
    "is_served", [True, pytest.param(False, marks=pytest.mark.holds("version-of-a-refused-crd"))]
)
def test_resource_of_a_refused_crd_is_applied_only_in_a_version_that_is_served(
    crd_stage: Stage, is_served: bool
) -> None:
    """The CRD drops a version in which objects are stored; the run has not been checked."""
    kind = f"Refused{int(is_served)}"
    for served in [(), ("v1",)][: 1 + is_served]:
        before = (_definition(kind, *served), _resource(kind, "v1alpha1", "1"))
        assert crd_stage.run(*before).exit_code == 0
    after = (_definition(kind, dropped=True), _resource(kind, "v1", "2"), config_map("a"))
    story = crd_stage.run(*after, check=False)
    name = f"{kind.lower()}.x.example.com/f"
    assert (story.exit_code, story.outcomes) == (
        3,
        {
            crd_name(kind): Outcome.FAILED,
            name: Outcome.UPDATED if is_served else Outcome.SKIPPED,
            "configmap/a": Outcome.CREATED,
        },
    )
    assert "storedVersions" in story.problem(crd_name(kind))
    if not is_served:
        assert story.problem(name).endswith(
            f"it depends on {crd_name(kind)}, which was not applied"
        )
    both = _definition(kind, "v1")
    assert crd_stage.run(both, *after[1:]).exit_code == 0
