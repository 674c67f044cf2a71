"""CRDs and their custom resources in one run, and the namespaces that hold them."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.model.events import Finished
from applyprune.model.fate import Outcome
from applyprune.model.options import Adopt, Mode
from tests.support.clocks import AGES
from tests.support.objects import DEPLOYMENT, config_map, crd, crd_name, custom_resource, of_kind
from tests.support.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.api import Api


@pytest.fixture
def shop(stage: Stage, api: Api) -> Iterator[str]:
    """The name of a Namespace that the set creates on the run's plane; it goes with the test."""
    name = f"{stage.namespace}-shop"
    yield name
    api("DELETE", f"/api/v1/namespaces/{name}")


def test_crd_and_custom_resources_apply_in_one_run_in_any_order(crd_stage: Stage) -> None:
    """The custom resource comes before its CRD; both are applied in one run and pruned in one."""
    bodies = (
        custom_resource("f", "Mixed"),
        crd("Mixed"),
        custom_resource("c", "Wide"),
        crd("Wide", scope="Cluster"),
    )
    assert set(crd_stage.run(*bodies).outcomes.values()) == {Outcome.CREATED}
    assert set(crd_stage.run(*bodies).outcomes.values()) == {Outcome.UNCHANGED}
    story = crd_stage.run(mode=Mode.DELETE, timeout=AGES)
    assert set(story.outcomes.values()) == {Outcome.DELETED}
    order = [name.partition("/")[0] for name in story.outcomes]
    assert order.index("mixed.x.example.com") < order.index(
        "customresourcedefinition.apiextensions.k8s.io"
    )


def test_crd_with_foreign_custom_resources_is_not_deleted(crd_stage: Stage) -> None:
    """Both are counted, named, and neither is touched; the option printed allows exactly that."""
    other = Stage(crd_stage.kubeconfig, crd_stage.namespace, name="other")
    name = crd_name("Shared")
    bodies = (config_map("a"), config_map("b"))
    crd_stage.run(crd("Shared"), custom_resource("ours", "Shared"), *bodies)
    other.run(custom_resource("theirs", "Shared"))
    story = crd_stage.run(*bodies, apply_anyway=True)
    assert story.exit_code == 6
    assert story.outcomes == {
        "configmap/a": Outcome.UNCHANGED,
        "configmap/b": Outcome.UNCHANGED,
        "shared.x.example.com/ours": Outcome.NOT_PRUNED,
        name: Outcome.FAILED,
    }
    problem = story.problem(name)
    assert (
        "it would cascade-delete 1 object that must stay\n"
        f"    {crd_stage.namespace}/shared.x.example.com/theirs: it is not in this set" in problem
    )
    assert f"To allow this: --allow-cascade {name}." in problem
    allowed = crd_stage.run(*bodies, allow_cascade=frozenset({name}))
    assert (allowed.exit_code, allowed.outcomes[name]) == (0, Outcome.PRUNED)


def test_namespace_with_foreign_contents_is_not_deleted(stage: Stage, shop: str) -> None:
    """The whole delete is refused, in its own words; --orphan leaves the namespace."""
    home: dict[str, Any] = of_kind("Namespace", shop)
    other = Stage(stage.kubeconfig, stage.namespace, name="other")
    stage.run(home, config_map("ours", namespace=shop))
    other.run(config_map("theirs", namespace=shop))
    marked = config_map("marked", namespace=shop)
    marked["metadata"]["annotations"] = {"applyprune.dev/prune": "disabled"}
    stage.run(home, config_map("ours", namespace=shop), marked)
    refused = stage.run(mode=Mode.DELETE)
    assert refused.exit_code == 6
    assert (
        "it would cascade-delete 2 objects that must stay\n"
        f"    {shop}/configmap/marked: marked applyprune.dev/prune: disabled\n"
        f"    {shop}/configmap/theirs: it is not in this set\n"
    ) in refused.problem(f"namespace/{shop}")
    assert refused.refusal.startswith("the delete was refused: namespace/")
    ended = refused.events[-1]
    assert isinstance(ended, Finished)
    assert str(ended.problem) == "the delete was refused: nothing was deleted"
    assert refused.outcomes["configmap/ours"] is Outcome.NOT_PRUNED
    stage.run(home, config_map("ours", namespace=shop))
    kept = stage.run(mode=Mode.DELETE, orphan=frozenset({f"namespace/{shop}"}))
    assert kept.outcomes == {
        "configmap/ours": Outcome.DELETED,
        f"namespace/{shop}": Outcome.ORPHANED,
    }
    assert set(other.run(config_map("theirs", namespace=shop)).outcomes.values()) == {
        Outcome.UNCHANGED
    }


def test_children_of_the_sets_own_objects_are_not_foreign(stage: Stage, shop: str) -> None:
    """ReplicaSet and Pods of our Deployment, the namespace's default account, Events."""
    home: dict[str, Any] = of_kind("Namespace", shop)
    deployment = copy.deepcopy(DEPLOYMENT)
    deployment["metadata"]["namespace"] = shop
    stage.run(home, deployment)
    story = stage.run(mode=Mode.DELETE, timeout=AGES)
    assert set(story.outcomes.values()) == {Outcome.DELETED}, story.events


@pytest.mark.parametrize("how", ["annotated", "adopted", "--orphan", "still wanted"])
def test_orphaned_object_survives_its_namespaces_prune(stage: Stage, shop: str, how: str) -> None:
    """Kept, adopted or still in the input: the Namespace around it is refused."""
    home: dict[str, Any] = of_kind("Namespace", shop)
    marks = {"applyprune.dev/prune": "disabled"} if how == "annotated" else {}
    precious = config_map("precious", namespace=shop, annotations=marks)
    if how == "adopted":
        other = Stage(stage.kubeconfig, stage.namespace, name="other")
        other.run(home)
        other.run(home, precious, prune=False)
        stage.run(home, precious, adopt=Adopt.ALL)
        other.run(mode=Mode.DELETE)
    stage.run(home, precious, config_map("plain", namespace=shop))
    orphan = frozenset({"configmap/precious"} if how == "--orphan" else ())
    if how == "still wanted":
        story = stage.run(precious, orphan=orphan)
    else:
        story = stage.run(mode=Mode.DELETE, orphan=orphan)
    if how == "adopted":
        # Its Namespace was adopted with it, and an adopted Namespace is not deleted at all.
        assert story.outcomes[f"namespace/{shop}"] is Outcome.ORPHANED
    else:
        assert story.exit_code == 6, story.events
        assert f"{shop}/configmap/precious" in story.problem(f"namespace/{shop}")
    lives = stage.run(precious, adopt=Adopt.ALL, prune=False)
    assert lives.outcomes["configmap/precious"] is not Outcome.CREATED
