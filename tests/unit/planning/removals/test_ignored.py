"""Which pruned object left the set because an ignore rule leaves out its manifest."""

from __future__ import annotations

import pytest

from applyprune.model.identity import GVK, Ref
from applyprune.model.problem import IgnoredManifest
from applyprune.planning.plan import make_plan
from applyprune.planning.removals import ignored_objects
from tests.support.options import options_of
from tests.support.planning import cluster, desired, inventory, live, recorded, world

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
def test_ignored_manifest_names_its_object(
    manifest: IgnoredManifest, override: str, expected: bool
) -> None:
    """By kind, name and the namespace that it would have."""
    found = ignored_objects([manifest], "home", override)
    assert found.get(Ref("", "ConfigMap", "home", "a")) == (SAID if expected else None)


def test_object_without_a_namespace_is_known_by_its_name() -> None:
    """Whatever namespace its manifest names, and the command line."""
    found = ignored_objects([ignored("Namespace", "a", "x")], "home", "other")
    assert found[Ref("", "Namespace", "", "a")] == SAID


@pytest.mark.parametrize("prune", [True, False])
def test_plan_says_of_an_object_which_rule_leaves_out_its_manifest(prune: bool) -> None:
    """Also of what an approval of a refused prune would delete."""
    one = desired()
    state = live(one.ref)
    read = cluster({one.ref: state})
    listed = inventory(recorded(one, state))
    found = make_plan(world((), listed, read, options_of(prune=prune), ignored={one.ref: SAID}))
    lifted = found.if_approved.steps if found.if_approved is not None else found.removals
    assert {step.ignored for step in (*found.removals, *lifted)} == {SAID}
