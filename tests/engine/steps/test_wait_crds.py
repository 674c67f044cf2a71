"""CRDs and their custom resources in one run, and the namespaces that hold them.

What a Namespace may take with it is decided in ``tests/decisions/test_namespaces.py``.
"""

from __future__ import annotations

import copy

from applyprune.model.events import Finished
from applyprune.model.fate import Outcome
from applyprune.model.options import Mode
from tests.support.clocks import AGES
from tests.support.objects import DEPLOYMENT, config_map, crd, crd_name, custom_resource, of_kind
from tests.support.stage import Stage


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
    name = crd_name("Joint")
    bodies = (config_map("a"), config_map("b"))
    crd_stage.run(crd("Joint"), custom_resource("ours", "Joint"), *bodies)
    other.run(custom_resource("theirs", "Joint"))
    story = crd_stage.run(*bodies, apply_anyway=True)
    assert story.exit_code == 6
    assert story.outcomes == {
        "configmap/a": Outcome.UNCHANGED,
        "configmap/b": Outcome.UNCHANGED,
        "joint.x.example.com/ours": Outcome.NOT_PRUNED,
        name: Outcome.FAILED,
    }
    problem = story.problem(name)
    assert (
        "it would cascade-delete 1 object that must stay\n"
        f"    {crd_stage.namespace}/joint.x.example.com/theirs: it is not in this set" in problem
    )
    assert problem.endswith(f"To orphan it: --orphan {name}")
    assert story.refusal.endswith(f"To allow this: --allow-cascade {name}")
    allowed = crd_stage.run(*bodies, allow_cascade=frozenset({name}))
    assert (allowed.exit_code, allowed.outcomes[name]) == (0, Outcome.PRUNED)


def test_namespace_with_foreign_contents_is_not_deleted(stage: Stage, home: str) -> None:
    """The whole delete is refused, in its own words; --orphan leaves the namespace."""
    body, ours = of_kind("Namespace", home), config_map("ours", namespace=home)
    theirs = config_map("theirs", namespace=home)
    other = Stage(stage.kubeconfig, stage.namespace, name="other")
    stage.run(body, ours)
    other.run(theirs)
    refused = stage.run(mode=Mode.DELETE)
    assert refused.exit_code == 6
    assert f"    {home}/configmap/theirs: it is not in this set\n" in refused.problem(
        f"namespace/{home}"
    )
    assert refused.refusal.startswith("the delete was refused: namespace/")
    ended = refused.events[-1]
    assert isinstance(ended, Finished)
    assert str(ended.problem) == "the delete was refused: nothing was deleted"
    assert refused.outcomes["configmap/ours"] is Outcome.NOT_PRUNED
    kept = stage.run(mode=Mode.DELETE, orphan=frozenset({f"namespace/{home}"}))
    assert kept.outcomes == {
        "configmap/ours": Outcome.DELETED,
        f"namespace/{home}": Outcome.ORPHANED,
    }
    assert set(other.run(theirs).outcomes.values()) == {Outcome.UNCHANGED}


def test_children_of_the_sets_own_objects_are_not_foreign(stage: Stage, home: str) -> None:
    """ReplicaSet and Pods of our Deployment, the namespace's default account, Events."""
    body = of_kind("Namespace", home)
    deployment = copy.deepcopy(DEPLOYMENT)
    deployment["metadata"]["namespace"] = home
    stage.run(body, deployment)
    story = stage.run(mode=Mode.DELETE, timeout=AGES)
    assert set(story.outcomes.values()) == {Outcome.DELETED}, story.events
