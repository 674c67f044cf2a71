"""CRDs in numbers, and CRDs that change under their custom resources."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from applyprune.errors import InputError
from applyprune.localplane import Plane
from applyprune.model.fate import Outcome
from applyprune.model.options import Mode
from tests.support.actors import ARGO
from tests.support.api import DISCOVERY, Api, AuditTrail
from tests.support.objects import crd, crd_name, custom_resource
from tests.support.stage import Stage
from tests.support.waiting import eventually

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def _stage(plane: Plane, name: str) -> Stage:
    return Stage(plane.kubeconfig, "default", name=name)


def _kinds(api: Api) -> str:
    return json.dumps(api("GET", "/apis", headers={"Accept": DISCOVERY})[1])


def _one(kind: str, name: str = "a") -> str:
    return f"{kind.lower()}.x.example.com/{name}"


def _path(kind: str, name: str = "a", version: str = "v1") -> str:
    return f"/apis/x.example.com/{version}/namespaces/default/{kind.lower()}s/{name}"


def _versions(kind: str, **served: bool) -> dict[str, Any]:
    """Return a CRD with these versions, the last of which is stored."""
    made = crd(kind)
    (only,) = made["spec"]["versions"]
    made["spec"]["versions"] = [
        {**copy.deepcopy(only), "name": name, "served": is_served, "storage": False}
        for name, is_served in served.items()
    ]
    made["spec"]["versions"][-1]["storage"] = True
    return made


def _in(version: str, body: dict[str, Any]) -> dict[str, Any]:
    return {**body, "apiVersion": f"x.example.com/{version}"}


def test_hundred_crds_with_two_custom_resources_each_apply(running: Plane, crds: Api) -> None:
    """From empty in one command, without an error; again, nothing to do; and away again.

    The server itself takes ten seconds to serve so many kinds.
    """
    stage = _stage(running, "many")
    kinds = [f"Many{number}" for number in range(100)]
    # The custom resources come first in the input: the run orders them.
    bodies = [custom_resource(name, kind) for kind in kinds for name in ("a", "b")]
    bodies += [crd(kind) for kind in kinds]
    story = stage.run(*bodies)
    assert story.exit_code == 0
    assert story.warnings == []
    assert list(story.outcomes.values()) == [Outcome.CREATED] * 300
    # On a busy machine, the list of kinds may lag by more than a run waits for.
    eventually(lambda: all(f'"{kind}"' in _kinds(crds) for kind in kinds), lambda: _kinds(crds))
    assert list(stage.run(*bodies).outcomes.values()) == [Outcome.UNCHANGED] * 300
    gone = stage.run(mode=Mode.DELETE)
    assert gone.exit_code == 0
    assert list(gone.outcomes.values()) == [Outcome.DELETED] * 300


def test_existing_crd_is_adopted(running: Plane, crds: Api) -> None:
    """And left when the set is deleted, for the custom resources of others; ours go."""
    stage, path = _stage(running, "adopts"), f"{CRDS}/adopteds.x.example.com"
    crds.create(CRDS, crd("Adopted"))
    eventually(lambda: '"Adopted"' in _kinds(crds), lambda: "the kind is served")
    bodies = (crd("Adopted"), custom_resource("a", "Adopted"))
    assert stage.run(*bodies).outcomes == {
        crd_name("Adopted"): Outcome.UPDATED,
        _one("Adopted"): Outcome.CREATED,
    }
    assert set(stage.run(*bodies).outcomes.values()) == {Outcome.UNCHANGED}
    assert stage.run(mode=Mode.DELETE).outcomes == {
        _one("Adopted"): Outcome.DELETED,
        crd_name("Adopted"): Outcome.ORPHANED,
    }
    assert crds.exists(path)


def test_new_version_is_used_in_the_same_run(running: Plane, crds: Api) -> None:
    """By a new custom resource and by one that was there in the old version."""
    stage = _stage(running, "grows")
    stage.run(
        _versions("Grows", v1=True), custom_resource("a", "Grows"), custom_resource("b", "Grows")
    )
    bodies = (
        _in("v2", custom_resource("c", "Grows")),
        _in("v2", {**custom_resource("a", "Grows"), "spec": {"a": 2}}),
        custom_resource("b", "Grows"),
        _versions("Grows", v1=True, v2=True),
    )
    story = stage.run(*bodies)
    assert story.exit_code == 0, story.events
    assert story.outcomes == {
        crd_name("Grows"): Outcome.UPDATED,
        _one("Grows", "a"): Outcome.UPDATED,
        _one("Grows", "b"): Outcome.UNCHANGED,
        _one("Grows", "c"): Outcome.CREATED,
    }
    assert crds.get(_path("Grows", "a"))["spec"] == {"a": 2}
    assert set(stage.run(*bodies).outcomes.values()) == {Outcome.UNCHANGED}


def test_served_version_can_be_turned_off_while_another_is_served(
    running: Plane, crds: Api
) -> None:
    """The same objects in the other version: none is re-created, none pruned."""
    stage = _stage(running, "turns")
    stage.run(
        _versions("Turns", v1=True, v2=True),
        custom_resource("a", "Turns"),
        custom_resource("b", "Turns"),
    )
    before = crds.get(_path("Turns", "a", "v2"))["metadata"]["uid"]
    bodies = (
        _versions("Turns", v1=False, v2=True),
        *(_in("v2", custom_resource(name, "Turns")) for name in ("a", "b")),
    )
    story = stage.run(*bodies)
    assert story.exit_code == 0, story.events
    assert story.outcomes[crd_name("Turns")] is Outcome.UPDATED
    assert crds.get(_path("Turns", "a", "v2"))["metadata"]["uid"] == before
    assert set(stage.run(*bodies).outcomes.values()) == {Outcome.UNCHANGED}
    fewer = stage.run(*bodies[:2])
    assert fewer.outcomes == {
        crd_name("Turns"): Outcome.UNCHANGED,
        _one("Turns", "a"): Outcome.UNCHANGED,
        _one("Turns", "b"): Outcome.PRUNED,
    }


def test_manifest_in_an_unserved_version_is_refused(running: Plane, crds: Api) -> None:
    """By the run that would turn it off, and after it; the object stays, and stays listed."""
    stage = _stage(running, "stays")
    stage.run(
        _versions("Stays", v1=True, v2=True),
        custom_resource("a", "Stays"),
        custom_resource("b", "Stays"),
    )
    off = _versions("Stays", v1=False, v2=True)
    for _ in range(2):
        with pytest.raises(
            InputError, match=r"no matches for kind Stays in x\.example\.com/v1"
        ) as caught:
            stage.run(off, custom_resource("a", "Stays"))
        assert "serves x.example.com/v2" in caught.value.hint
        versions = {"spec": {"versions": off["spec"]["versions"]}}
        crds.patch(f"{CRDS}/stayss.x.example.com", versions, by=stage.target.manager)
    assert stage.listed() == {crd_name("Stays"), _one("Stays", "a"), _one("Stays", "b")}
    assert crds.exists(_path("Stays", "b", "v2"))


def test_scope_change_is_refused_and_deletes_nothing(running: Plane, crds: Api) -> None:
    """Re-creating a CRD would cascade-delete its custom resources: never, whatever is allowed."""
    kind, stage = "Moves", _stage(running, "moves")
    stage.run(crd(kind), custom_resource("a", kind))
    before = crds.get(_path(kind))["metadata"]["uid"]
    audit = AuditTrail(running, crds)
    allowed = crd(kind, scope="Cluster")
    allowed["metadata"]["annotations"] = {"applyprune.dev/recreate": "allowed"}
    for recreate, cluster in ((False, crd(kind, scope="Cluster")), (True, allowed)):
        story = stage.run(cluster, custom_resource("a", kind), recreate=recreate)
        assert story.exit_code == 3
        assert story.outcomes == {crd_name(kind): Outcome.FAILED, _one(kind): Outcome.UNCHANGED}
        assert "spec.scope" in story.problem(crd_name(kind))
        assert "cannot be changed in place" in story.problem(crd_name(kind))
    assert [one for one in audit.events() if one["verb"].startswith("delete")] == []
    assert crds.get(_path(kind))["metadata"]["uid"] == before
    assert stage.run(crd(kind), custom_resource("a", kind)).exit_code == 0


def test_removed_version_in_managed_fields_is_rewritten(running: Plane, crds: Api) -> None:
    """The server would fail every apply with a 500: it cannot convert what that manager owns."""
    stage, kinds = _stage(running, "rewritten"), {"Both": "v1alpha1", "Theirs": "v1"}
    old = [_versions(kind, v1alpha1=True, v1=True) for kind in kinds]
    applied = [_in(version, custom_resource("a", kind)) for kind, version in kinds.items()]
    assert stage.run(*old, *applied).exit_code == 0
    for kind in kinds:
        theirs = {**_in("v1alpha1", custom_resource("a", kind)), "spec": {"theirs": 1}}
        reply = crds.apply(_path(kind, version="v1alpha1"), theirs, by=ARGO)
        named = {one["apiVersion"] for one in reply["metadata"]["managedFields"]}
        assert "x.example.com/v1alpha1" in named
    changed = [{**custom_resource("a", kind), "spec": {"a": 2}} for kind in kinds]
    story = stage.run(*(_versions(kind, v1=True) for kind in kinds), *changed)
    names = {name for kind in kinds for name in (crd_name(kind), _one(kind))}
    assert story.outcomes == dict.fromkeys(names, Outcome.UPDATED)
    for kind in kinds:
        found = crds.get(_path(kind))
        assert found["spec"] == {"theirs": 1, "a": 2}
        entries = {one["manager"]: one for one in found["metadata"]["managedFields"]}
        assert {one["apiVersion"] for one in entries.values()} == {"x.example.com/v1"}
        assert entries[ARGO]["fieldsV1"] == {"f:spec": {"f:theirs": {}}}
