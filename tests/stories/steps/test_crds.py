"""CRDs with their custom resources: in numbers, when they are served, and what goes with them.

What a Namespace may take with it is decided in ``tests/decisions/test_namespaces.py``.
"""

from __future__ import annotations

import json

import pytest

from applyprune.localplane import Plane
from applyprune.model.events import Planned
from applyprune.model.fate import Outcome
from applyprune.model.options import Mode
from tests.support.api import DISCOVERY, Api, AuditTrail
from tests.support.objects import config_map, crd, crd_name, custom_resource, of_kind
from tests.support.stage import Stage, on
from tests.support.waiting import eventually

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ALLOWED = frozenset({"namespace", "customresourcedefinition"})


def _one(kind: str, name: str) -> str:
    return f"{kind.lower()}.x.example.com/{name}"


def _path(kind: str, name: str = "") -> str:
    path = f"/apis/x.example.com/v1/namespaces/default/{kind.lower()}s"
    return f"{path}/{name}" if name else path


def _lives(api: Api, path: str) -> bool:
    """Return whether an object is there and not on its way out."""
    return "deletionTimestamp" not in api.get(path)["metadata"]


def _stage(plane: Plane, name: str) -> Stage:
    return Stage(plane.kubeconfig, "default", name=name)


@pytest.mark.parametrize("number", [10, pytest.param(100, marks=pytest.mark.sweep)])
def test_crds_with_their_custom_resources_apply_in_one_run(
    running: Plane, crds: Api, number: int
) -> None:
    """From empty, in any order, without an error; again, nothing to do; and away again."""
    stage = _stage(running, "many")
    kinds = [f"Many{one}" for one in range(number)]
    # The custom resources come first in the input: the run orders them.
    bodies = [custom_resource(name, kind) for kind in kinds for name in ("a", "b")]
    bodies += [*map(crd, kinds), custom_resource("c", "Wide"), crd("Wide", scope="Cluster")]
    story = stage.run(*bodies)
    assert (story.exit_code, story.warnings) == (0, [])
    assert list(story.outcomes.values()) == [Outcome.CREATED] * len(bodies)

    def served() -> str:
        return json.dumps(crds("GET", "/apis", headers={"Accept": DISCOVERY})[1])

    # On a busy machine, the list of kinds may lag by more than a run waits for.
    eventually(lambda: all(f'"{kind}"' in served() for kind in kinds), served)
    assert set(stage.run(*bodies).outcomes.values()) == {Outcome.UNCHANGED}
    gone = stage.run(mode=Mode.DELETE)
    assert gone.exit_code == 0
    assert list(gone.outcomes.values()) == [Outcome.DELETED] * len(bodies)
    order = [name.partition("/")[0] for name in gone.outcomes]
    last = len(order) - order[::-1].index("many0.x.example.com")
    assert last <= order.index(crd_name("Many0").partition("/")[0])


def test_scope_change_is_refused_and_deletes_nothing(running: Plane, crds: Api) -> None:
    """Re-creating a CRD would cascade-delete its custom resources: never, whatever is allowed."""
    kind, stage = "Rescoped", _stage(running, "rescoped")
    stage.run(crd(kind), custom_resource("a", kind))
    audit = AuditTrail(running, crds)
    allowed = crd(kind, scope="Cluster")
    allowed["metadata"]["annotations"] = {"applyprune.dev/recreate": "allowed"}
    for recreate, cluster in ((False, crd(kind, scope="Cluster")), (True, allowed)):
        story = stage.run(cluster, custom_resource("a", kind), recreate=recreate)
        assert story.exit_code == 3
        name = crd_name(kind)
        assert story.outcomes == {name: Outcome.FAILED, _one(kind, "a"): Outcome.UNCHANGED}
        assert "spec.scope" in story.problem(name)
        assert "cannot be changed in place" in story.problem(name)
    assert [one for one in audit.events() if one["verb"].startswith("delete")] == []
    assert stage.run(crd(kind), custom_resource("a", kind)).exit_code == 0


# What would be deleted with a CRD or a Namespace.


def test_crd_with_custom_resources_of_others_is_not_deleted(running: Plane, crds: Api) -> None:
    """Nor with new ones of the input, nor with one that comes after the plan.

    The option that is printed allows exactly that.
    """
    kind, stage = "Joint", _stage(running, "joint")
    name, theirs = crd_name(kind), custom_resource("theirs", kind)
    bodies = (config_map("joint-1"), config_map("joint-2"))
    stage.run(crd(kind), custom_resource("ours", kind), *bodies)
    new = custom_resource("new", kind)
    story = stage.run(*bodies, new, allow_kinds=ALLOWED, apply_anyway=True)
    assert story.exit_code == 6, story.events
    assert f"{name} contains objects of the input" in story.refusal
    assert "objects of the input: default/joint.x.example.com/new" in story.problem(name)
    assert _lives(crds, f"{CRDS}/joints.x.example.com")
    assert crds("DELETE", _path(kind, "new"))[0] == 200
    stage.seen = on(Planned, lambda: crds("POST", _path(kind), theirs))
    story = stage.run(*bodies, allow_kinds=ALLOWED, max_prune=stage.most(9))
    assert story.exit_code != 0
    assert story.outcomes[name] is Outcome.FAILED, story.events
    assert _one(kind, "theirs") in story.problem(name)
    assert _lives(crds, _path(kind, "theirs"))
    stage.seen = lambda _: None
    story = stage.run(*bodies, allow_kinds=ALLOWED)
    assert (story.exit_code, story.outcomes[name]) == (6, Outcome.FAILED)
    told = "it would cascade-delete 1 object that must stay\n    default/joint.x.example.com/theirs"
    assert f"{told}: it is not in this set" in story.problem(name)
    assert story.problem(name).endswith(f"To orphan it: --orphan {name}")
    assert story.refusal.endswith(f"To allow this: --allow-cascade {name}")
    story = stage.run(*bodies, allow_cascade=frozenset({name}))
    assert (story.exit_code, story.outcomes[name]) == (0, Outcome.PRUNED), story.events


def test_unserved_kind_is_not_taken_for_empty(running: Plane, crds: Api) -> None:
    """Its custom resources are still stored; only the option that names it allows the delete."""
    stage, path = _stage(running, "hidden"), f"{CRDS}/hiddens.x.example.com"
    stage.run(crd("Hidden"), config_map("hidden"))
    crds.create(_path("Hidden"), custom_resource("theirs", "Hidden"))
    crds.patch(path, [{"op": "replace", "path": "/spec/versions/0/served", "value": False}])
    story = stage.run(config_map("hidden"), allow_kinds=ALLOWED)
    assert story.exit_code == 6, story.events
    told = "its cascaded deletions cannot be counted: its kind is not served"
    assert told in story.problem(crd_name("Hidden"))
    assert f"--allow-cascade {crd_name('Hidden')}" in story.refusal
    assert _lives(crds, path)
    story = stage.run(config_map("hidden"), allow_cascade=frozenset({crd_name("Hidden")}))
    assert (story.exit_code, story.outcomes[crd_name("Hidden")]) == (0, Outcome.PRUNED)


def test_namespace_with_what_comes_into_it_is_not_deleted(
    stage: Stage, api: Api, home: str
) -> None:
    """A new object of the input, and one of somebody else that is created after the plan."""
    bodies, name = (config_map("a"), config_map("b")), f"namespace/{home}"
    path = f"/api/v1/namespaces/{home}/configmaps"
    stage.run(of_kind("Namespace", home), *bodies)
    new = config_map("new", namespace=home)
    story = stage.run(bodies[0], new, allow_kinds=ALLOWED, apply_anyway=True)
    assert story.exit_code == 6, story.events
    assert Outcome.PRUNED not in story.outcomes.values()
    assert f"{name} contains objects of the input" in story.refusal
    assert f"objects of the input: {home}/configmap/new" in story.problem(name)
    assert api.exists(f"{path}/new")
    stage.seen = on(Planned, lambda: api("POST", path, config_map("foreign")))
    story = stage.run(*bodies, allow_kinds=ALLOWED, max_prune=stage.most(9))
    assert story.exit_code != 0
    assert story.outcomes[name] is Outcome.FAILED, story.events
    assert f"configmap/foreign in namespace {home}" in story.problem(name)
    assert _lives(api, f"/api/v1/namespaces/{home}")
    assert _lives(api, f"{path}/foreign")
    assert name in stage.listed()
