"""Which pruned object left the set because an ignore rule leaves out its manifest."""

from __future__ import annotations

import pytest

from applyprune.model.fate import Fate
from applyprune.model.identity import GVK, Ref
from applyprune.model.inventory import InventoryEntry
from applyprune.model.plan import Plan, Removals, RemoveStep
from applyprune.model.problem import IgnoredManifest
from applyprune.planning.leave import with_ignored

SAID = "its manifest in web/b.yaml is ignored, by the rule b.yaml in .sourceignore"


def ignored(kind: str, name: str, namespace: str = "") -> IgnoredManifest:
    """Return an object in a file that is left out."""
    rule = "the rule b.yaml in .sourceignore"
    return IgnoredManifest(GVK("", "v1", kind), namespace, name, "web/b.yaml", rule)


@pytest.mark.parametrize(
    ("manifest", "override", "expected"),
    [
        (ignored("ConfigMap", "a"), "", True),
        (ignored("ConfigMap", "a", "home"), "", True),
        (ignored("ConfigMap", "a", "other"), "", False),
        (ignored("ConfigMap", "a", "other"), "home", True),
        (ignored("ConfigMap", "a", "home"), "other", False),
        (ignored("ConfigMap", "b"), "", False),
        (ignored("Secret", "a"), "", False),
    ],
)
def test_plan_says_of_an_object_which_rule_leaves_out_its_manifest(
    manifest: IgnoredManifest, override: str, expected: bool
) -> None:
    """By kind, name and the namespace that it would have; also of what an approval would prune."""
    entry = InventoryEntry(Ref("", "ConfigMap", "home", "a"), "configmaps", "v1", "u")
    step = RemoveStep(entry, None, Fate.PRUNE)
    plan = Plan(applies=(), removals=(step,), if_approved=Removals((step,)))
    found = with_ignored(plan, [manifest], "home", override)
    assert found.if_approved is not None
    for (one,) in (found.removals, found.if_approved.steps):
        assert one.ignored == (SAID if expected else "")
    assert with_ignored(plan, [], "home", override) is plan


def test_object_without_a_namespace_is_known_by_its_name() -> None:
    """Whatever namespace its manifest names, and the command line."""
    entry = InventoryEntry(Ref("", "Namespace", "", "a"), "namespaces", "v1", "u")
    plan = Plan(applies=(), removals=(RemoveStep(entry, None, Fate.PRUNE),))
    (step,) = with_ignored(plan, [ignored("Namespace", "a", "x")], "home", "other").removals
    assert step.ignored == SAID
