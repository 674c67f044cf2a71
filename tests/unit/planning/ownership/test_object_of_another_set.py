"""The error about an object of another set: that set, and what taking it over means."""

from __future__ import annotations

import pytest

from applyprune.model.problem import Problem
from applyprune.planning.applyset import ApplySetIdentity
from applyprune.planning.plan import make_plan
from tests.support.options import options_of
from tests.support.planning import body, cluster, desired, inventory, live, managed, world

ONE = desired(body())


def problem_of(other: ApplySetIdentity, manager: str = "") -> Problem:
    """Return why an object with the label of another set is refused."""
    theirs = live(ONE.ref, label=other.id, entries=[managed(manager or other.manager)])
    snapshot = cluster({ONE.ref: theirs})
    plan = make_plan(world((ONE,), inventory(), snapshot, options_of()))
    (step,) = plan.applies
    assert step.problem is not None
    return step.problem


@pytest.mark.parametrize(
    ("other", "question"),
    [
        (ApplySetIdentity("web", "default"), "Did you mean -n default?"),
        (ApplySetIdentity("shop", "home"), "Did you mean the set shop?"),
        (ApplySetIdentity("shop", "default"), "Did you mean the set shop with -n default?"),
    ],
)
def test_set_comes_first_and_adoption_last(other: ApplySetIdentity, question: str) -> None:
    """In this order: which set has it, which may be meant, what adoption does to it."""
    found = problem_of(other)
    assert found.reason == (f"it belongs to the set {other.name} in namespace {other.namespace}")
    lines = [line.strip() for line in found.hint.splitlines()]
    assert lines[0] == question
    assert "applyprune.dev/apply: exists" in lines[1]
    given = other.name if other.namespace == "home" else f"{other.name}.{other.namespace}"
    assert lines[2].startswith(
        f"To take it from that set: --adopt=set/{given}. The other set then drops it"
    )
    assert len(lines) == 3


@pytest.mark.parametrize(
    "name", [pytest.param("web; rm -rf", marks=pytest.mark.holds("named-set")), "WEB", "a b", ""]
)
def test_name_of_a_set_that_cannot_exist_is_in_no_command(name: str) -> None:
    """The name of a field manager is free text, and people copy commands from errors."""
    other = ApplySetIdentity(name, "default")
    found = problem_of(other)
    assert found.reason == f"its label applyset.kubernetes.io/part-of is {other.id}"
    assert "rm -rf" not in str(found)
    assert "adopt=set/" not in found.hint
    assert f"To find that set: kubectl get cm -A -l applyset.kubernetes.io/id={other.id}" in str(
        found
    )
