"""What comes into a Namespace or of a CRD that is leaving: it does not go along unasked."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from applyprune.localplane import Plane
from applyprune.model.events import Event, Planned
from applyprune.model.fate import Outcome
from applyprune.model.options import Mode
from tests.support.api import Api
from tests.support.objects import config_map, crd, crd_name, custom_resource, of_kind
from tests.support.plane import Kubectl
from tests.support.stage import Stage

ALLOWED = frozenset({"namespace", "customresourcedefinition"})
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def _path(kind: str, name: str = "") -> str:
    path = f"/apis/x.example.com/v1/namespaces/default/{kind.lower()}s"
    return f"{path}/{name}" if name else path


def _lives(api: Api, path: str) -> bool:
    """Return whether an object is there and not on its way out."""
    return "deletionTimestamp" not in api.get(path)["metadata"]


def _at_plan(then: Callable[[], object]) -> Callable[[Event], None]:
    """Return a hook that does something when the plan is made and nothing is written yet."""

    def seen(event: Event) -> None:
        if isinstance(event, Planned):
            then()

    return seen


@pytest.mark.parametrize("mode", [Mode.APPLY, Mode.PRUNE])
def test_namespace_prune_with_a_new_object_in_it_is_refused(
    stage: Stage, api: Api, home: str, mode: Mode
) -> None:
    """The object is in the input and not yet there when the contents are counted."""
    stage.run(of_kind("Namespace", home), config_map("a"), config_map("b"))
    new = config_map("new", namespace=home)
    story = stage.run(config_map("a"), new, mode=mode, allow_kinds=ALLOWED, apply_anyway=True)
    assert story.exit_code == 6, story.events
    assert Outcome.PRUNED not in story.outcomes.values()
    assert f"namespace/{home} contains objects of the input" in story.refusal
    problem = story.problem(f"namespace/{home}")
    assert f"objects of the input: {home}/configmap/new" in problem
    assert _lives(api, f"/api/v1/namespaces/{home}")
    assert api.exists(stage.path("b"))
    there = api.exists(f"/api/v1/namespaces/{home}/configmaps/new")
    assert there is (mode is Mode.APPLY)
    assert f"namespace/{home}" in stage.listed()


def test_crd_prune_with_a_new_custom_resource_is_refused(running: Plane, crds: Api) -> None:
    """The custom resource is in the input and not yet there when the kind is counted."""
    stage = Stage(running.kubeconfig, "default", name="coming")
    stage.run(crd("Comer"), config_map("coming"))
    bodies = (custom_resource("new", "Comer"), config_map("coming"))
    story = stage.run(*bodies, allow_kinds=ALLOWED, apply_anyway=True)
    assert story.exit_code == 6, story.events
    assert f"{crd_name('Comer')} contains objects of the input" in story.refusal
    problem = story.problem(crd_name("Comer"))
    assert "objects of the input: default/comer.x.example.com/new" in problem
    assert _lives(crds, f"{CRDS}/comers.x.example.com")
    assert crds.exists(_path("Comer", "new"))


def test_foreign_object_created_after_the_plan_saves_its_namespace(
    stage: Stage, api: Api, home: str
) -> None:
    """The contents are counted once more right before the delete."""
    bodies = (config_map("a"), config_map("b"))
    stage.run(of_kind("Namespace", home), *bodies, config_map("ours", namespace=home))
    path = f"/api/v1/namespaces/{home}/configmaps"
    stage.seen = _at_plan(lambda: api("POST", path, config_map("foreign")))
    story = stage.run(*bodies, allow_kinds=ALLOWED)
    assert story.exit_code != 0
    assert story.outcomes[f"namespace/{home}"] is Outcome.FAILED, story.events
    problem = story.problem(f"namespace/{home}")
    assert f"configmap/foreign in namespace {home}" in problem
    assert _lives(api, f"/api/v1/namespaces/{home}")
    assert _lives(api, f"{path}/foreign")
    assert f"namespace/{home}" in stage.listed()


def test_foreign_object_created_after_the_plan_saves_its_crd(running: Plane, crds: Api) -> None:
    """The same for a CRD; the option that names it takes the foreign along."""
    stage = Stage(running.kubeconfig, "default", name="late")
    bodies = (config_map("late-1"), config_map("late-2"))
    stage.run(crd("Late"), *bodies, custom_resource("ours", "Late"))
    stage.seen = _at_plan(lambda: crds("POST", _path("Late"), custom_resource("foreign", "Late")))
    story = stage.run(*bodies, allow_kinds=ALLOWED)
    assert story.exit_code != 0
    assert story.outcomes[crd_name("Late")] is Outcome.FAILED, story.events
    assert "late.x.example.com/foreign" in story.problem(crd_name("Late"))
    assert _lives(crds, _path("Late", "foreign"))
    allowed = frozenset({crd_name("Late")})
    story = stage.run(*bodies, allow_cascade=allowed)
    assert (story.exit_code, story.outcomes[crd_name("Late")]) == (0, Outcome.PRUNED), story.events


def test_unserved_kind_is_not_taken_for_empty(running: Plane, crds: Api, kubectl: Kubectl) -> None:
    """Its custom resources are still stored; only the option that names it allows the delete."""
    stage = Stage(running.kubeconfig, "default", name="hidden")
    stage.run(crd("Hidden"), config_map("hidden"))
    crds.create(_path("Hidden"), custom_resource("theirs", "Hidden"))
    patch = [{"op": "replace", "path": "/spec/versions/0/served", "value": False}]
    kubectl(
        "patch", "crd/hiddens.x.example.com", "--type=json", "-p", json.dumps(patch), plane=running
    )
    for kinds in (frozenset[str](), ALLOWED):
        story = stage.run(config_map("hidden"), allow_kinds=kinds)
        assert story.exit_code == 6, story.events
        problem = story.problem(crd_name("Hidden"))
        assert "its cascaded deletions cannot be counted: its kind is not served" in problem
        assert f"--allow-cascade {crd_name('Hidden')}" in story.refusal
        assert _lives(crds, f"{CRDS}/hiddens.x.example.com")
    allowed = frozenset({crd_name("Hidden")})
    story = stage.run(config_map("hidden"), allow_cascade=allowed)
    assert (story.exit_code, story.outcomes[crd_name("Hidden")]) == (0, Outcome.PRUNED), (
        story.events
    )
