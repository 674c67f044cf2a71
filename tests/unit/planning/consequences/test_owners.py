"""What is deleted with an object, as it was counted for the guards."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from applyprune.model.fate import Fate
from applyprune.model.identity import Ref
from applyprune.model.live import LiveObject
from applyprune.model.plan import Plan, RemoveStep
from applyprune.planning.consequences import Change, changes_of, consequences
from applyprune.planning.world import CascadeContents
from applyprune.values import replace
from tests.support.consequences import found, live, told
from tests.support.planning import cluster, desired, inventory, recorded, world

CONTENTS: dict[str, tuple[CascadeContents, str]] = {
    "contents": (
        CascadeContents(
            (
                live("ConfigMap", "kube-root-ca.crt"),
                live("ConfigMap", "a"),
                live("Secret", "b"),
                live("Secret", "c"),
                live("Pod", "mine"),
            )
        ),
        "deleted with it: 2 Secrets, 1 ConfigMap",
    ),
    "none": (CascadeContents(()), ""),
    "not counted": (CascadeContents((), "secrets: forbidden"), "not counted: secrets: forbidden"),
    "partly counted": (
        CascadeContents((live("Pod", "a"),), "secrets: forbidden"),
        "deleted with it: 1 Pod; not counted: secrets: forbidden",
    ),
}


def _pruned(fate: Fate, contents: CascadeContents, no_prune: str = "") -> Sequence[Change]:

    def step(there: LiveObject, fate: Fate) -> RemoveStep:
        entry = replace(recorded(desired(), there), ref=there.ref)
        return RemoveStep(entry, None, fate, there)

    place = live("Namespace", "old")
    removals = (step(place, fate), step(live("Pod", "mine"), Fate.PRUNE))
    one = world((), inventory(), cluster({}, contents={place.ref: contents}))
    return changes_of(Plan((), removals, no_prune), one, {})


@pytest.mark.parametrize(("contents", "expected"), CONTENTS.values(), ids=CONTENTS)
def test_contents_are_counted_without_what_the_plan_deletes_itself(
    contents: CascadeContents, expected: str
) -> None:
    """Nor what Kubernetes makes itself."""
    caused = found(*_pruned(Fate.PRUNE, contents))
    assert told(caused) == ([f"cascade: {expected}"] if expected else [])
    for each in caused:
        assert each.certain is (not contents.uncounted)
        assert each.count == (len(each.refs) if each.certain else None)
    kept = [change.ref.name for change in _pruned(Fate.ORPHAN, contents)]
    assert kept == ["mine"]
    assert _pruned(Fate.PRUNE, contents, "not everything was applied") == []


KUSTOMIZATION = Ref("kustomize.toolkit.fluxcd.io", "Kustomization", "flux-system", "apps")
APPLICATION = Ref("argoproj.io", "Application", "argocd", "shop")
CLUSTER = Ref("cluster.x-k8s.io", "Cluster", "home", "prod")
COMPOSITE = Ref("platform.example.com", "XDatabase", "", "db")


@pytest.mark.parametrize(
    ("ref", "finalizer", "said"),
    [
        (KUSTOMIZATION, "finalizers.fluxcd.io", "Flux deletes what it has applied"),
        (Ref("source.toolkit.fluxcd.io", "GitRepository", "a", "b"), "finalizers.fluxcd.io", ""),
        (APPLICATION, "resources-finalizer.argocd.argoproj.io", "Argo CD deletes"),
        (APPLICATION, "resources-finalizer.argocd.argoproj.io/background", "Argo CD deletes"),
        (APPLICATION, "", ""),
        (CLUSTER, "cluster.cluster.x-k8s.io", "Cluster API deletes its machines"),
        (COMPOSITE, "composite.apiextensions.crossplane.io", "Crossplane deletes"),
        (COMPOSITE, "example.com/other", ""),
    ],
)
@pytest.mark.parametrize("fate", [Fate.PRUNE, Fate.ORPHAN])
def test_object_of_another_tool_says_what_that_deletes(
    ref: Ref, finalizer: str, said: str, fate: Fate
) -> None:
    """By the finalizer with which it holds the object; it is not counted."""
    metadata = {"name": ref.name, "finalizers": [finalizer] if finalizer else []}
    state = LiveObject.of(ref, "u1", "5", metadata)
    caused = list(consequences([Change(ref, fate, live=state)], ()))
    expected = [said] if said and fate is Fate.PRUNE else []
    assert [one.message.startswith(said) for one in caused] == [True] * len(expected)
    assert [(one.count, one.certain) for one in caused] == [(None, False)] * len(expected)
