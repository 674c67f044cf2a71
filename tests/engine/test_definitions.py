"""CRDs and their custom resources in one run, and the namespaces that hold them."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.localplane import PlaneSpec
from applyprune.model.events import Outcome
from applyprune.model.options import Adopt, Mode
from tests.engine.test_set import DEPLOYMENT
from tests.support.stage import Stage, config_map

if TYPE_CHECKING:
    from tests.conftest import FreshPlane

GC = PlaneSpec(scheduler=False, kwok=False, nodes=0, audit=True)


def definition(kind: str = "Foo", *, scope: str = "Namespaced", **spec: Any) -> dict[str, Any]:
    """Return a CRD of the group ``x.example.com`` that takes anything as its spec."""
    plural = f"{kind.lower()}s"
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "note": {"type": "string"},
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.x.example.com"},
        "spec": {
            "group": "x.example.com",
            "scope": scope,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
            **spec,
        },
    }


def custom(name: str, kind: str = "Foo", **metadata: Any) -> dict[str, Any]:
    """Return a custom resource."""
    return {
        "apiVersion": "x.example.com/v1",
        "kind": kind,
        "metadata": {"name": name, **metadata},
        "spec": {"a": 1},
    }


def crd_name(kind: str) -> str:
    """Return how the CRD of a kind is called in a story."""
    return f"customresourcedefinition.apiextensions.k8s.io/{kind.lower()}s.x.example.com"


@pytest.fixture
def stage(fresh_plane: FreshPlane) -> Stage:
    """A set on a plane of its own: kinds belong to a whole cluster."""
    return Stage(fresh_plane(GC).kubeconfig, "default")


def test_crd_and_custom_resources_in_one_run_in_any_order(stage: Stage) -> None:
    """The custom resource stands before its CRD; everything goes in at once, and out again."""
    bodies = (
        custom("f"),
        definition(),
        custom("c", "Bar"),
        definition("Bar", scope="Cluster"),
    )
    assert set(stage.run(*bodies).outcomes.values()) == {Outcome.CREATED}
    assert set(stage.run(*bodies).outcomes.values()) == {Outcome.UNCHANGED}
    story = stage.run(mode=Mode.DELETE, timeout=60.0)
    assert set(story.outcomes.values()) == {Outcome.DELETED}
    order = [name.partition("/")[0] for name in story.outcomes]
    assert order.index("foo.x.example.com") < order.index(
        "customresourcedefinition.apiextensions.k8s.io"
    )


def test_a_changed_schema_sends_the_custom_resources_again(stage: Stage) -> None:
    """It alters what is read without touching the object."""
    stage.run(definition(), custom("f"))
    changed = definition()
    changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["more"] = {
        "type": "string"
    }
    story = stage.run(changed, custom("f"))
    (step,) = [
        step
        for event in story.events
        if hasattr(event, "plan")
        for step in event.plan.applies
        if step.desired.ref.kind == "Foo"
    ]
    assert step.action == "update"
    assert stage.run(changed, custom("f")).outcomes["foo.x.example.com/f"] is Outcome.UNCHANGED


def test_a_kind_that_is_gone_altogether_is_forgotten(stage: Stage) -> None:
    """Fresh discovery lacks it, and its CRD is a Status NotFound: its objects are gone too."""
    mine = Stage(stage.kubeconfig, "default", name="mine")
    stage.run(definition())
    mine.run(custom("f"), config_map("a"))
    stage.run(
        mode=Mode.DELETE, allow_cascade=frozenset({"customresourcedefinition/foos.x.example.com"})
    )
    story = mine.run(config_map("a"))
    assert story.outcomes["foo.x.example.com/f"] is Outcome.FORGOTTEN
    assert mine.listed() == {"configmap/a"}


def test_a_crd_with_foreign_custom_resources_is_not_deleted(stage: Stage) -> None:
    """Both are counted, named, and neither is touched; the option printed allows exactly that."""
    other = Stage(stage.kubeconfig, "default", name="other")
    crd = "customresourcedefinition.apiextensions.k8s.io/foos.x.example.com"
    stage.run(definition(), custom("ours"), config_map("a"))
    other.run(custom("theirs"))
    story = stage.run(config_map("a"))
    assert story.exit_code == 6
    assert story.outcomes == {
        "configmap/a": Outcome.UNCHANGED,
        "foo.x.example.com/ours": Outcome.KEPT,
        crd: Outcome.FAILED,
    }
    problem = story.problem(crd)
    assert "2 objects, 1 of which are not of this set: default/foo.x.example.com/theirs" in problem
    assert f"To allow exactly this: --allow-cascade {crd}." in problem
    allowed = stage.run(config_map("a"), allow_cascade=frozenset({crd}))
    assert (allowed.exit_code, allowed.outcomes[crd]) == (0, Outcome.PRUNED)


def test_a_namespace_with_foreign_contents_is_not_deleted(stage: Stage) -> None:
    """The whole delete is refused; --keep leaves the namespace and takes the rest."""
    home: dict[str, Any] = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    other = Stage(stage.kubeconfig, "default", name="other")
    stage.run(home, config_map("ours", namespace="shop"))
    other.run(config_map("theirs", namespace="shop"))
    refused = stage.run(mode=Mode.DELETE)
    assert refused.exit_code == 6
    assert "1 of which are not of this set: shop/configmap/theirs" in refused.problem(
        "namespace/shop"
    )
    assert refused.outcomes["configmap/ours"] is Outcome.KEPT
    kept = stage.run(mode=Mode.DELETE, keep=frozenset({"namespace/shop"}))
    assert kept.outcomes == {
        "configmap/ours": Outcome.DELETED,
        "namespace/shop": Outcome.ABANDONED,
    }
    assert set(other.run(config_map("theirs", namespace="shop")).outcomes.values()) == {
        Outcome.UNCHANGED
    }


def test_what_the_sets_own_objects_made_is_not_foreign(stage: Stage) -> None:
    """ReplicaSet and Pods of our Deployment, the namespace's default account, Events."""
    home: dict[str, Any] = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    deployment = copy.deepcopy(DEPLOYMENT)
    deployment["metadata"]["namespace"] = "shop"
    stage.run(home, deployment)
    story = stage.run(mode=Mode.DELETE, timeout=60.0)
    assert set(story.outcomes.values()) == {Outcome.DELETED}, story.events


@pytest.mark.parametrize("how", ["annotated", "adopted", "--keep", "still wanted"])
def test_what_is_to_stay_does_not_die_with_its_namespace(stage: Stage, how: str) -> None:
    """Kept, adopted or still in the input: the Namespace around it is refused."""
    home: dict[str, Any] = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    marks = {"applyprune.dev/prune": "disabled"} if how == "annotated" else {}
    precious = config_map("precious", namespace="shop", annotations=marks)
    if how == "adopted":
        other = Stage(stage.kubeconfig, "default", name="other")
        other.run(home)
        other.run(home, precious, prune=False)
        stage.run(home, precious, adopt=Adopt.ALL)
        other.run(mode=Mode.DELETE)
    stage.run(home, precious, config_map("plain", namespace="shop"))
    keep = frozenset({"configmap/precious"} if how == "--keep" else ())
    if how == "still wanted":
        story = stage.run(precious, keep=keep)
    else:
        story = stage.run(mode=Mode.DELETE, keep=keep)
    if how == "adopted":
        # Its Namespace was adopted with it, and an adopted Namespace is not deleted at all.
        assert story.outcomes["namespace/shop"] is Outcome.ABANDONED
    else:
        assert story.exit_code == 6, story.events
        assert "shop/configmap/precious" in story.problem("namespace/shop")
    lives = stage.run(precious, adopt=Adopt.ALL, prune=False)
    assert lives.outcomes["configmap/precious"] is not Outcome.CREATED
