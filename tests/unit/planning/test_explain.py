"""The reasons of an explanation: what the inventory says of an object."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from applyprune.model.events import Explanation
from applyprune.model.fate import Fate
from applyprune.model.inventory import Inventory, InventoryEntry
from applyprune.model.options import Mode, Options
from applyprune.model.plan import Plan
from applyprune.model.problem import Problem, ProblemKind
from applyprune.planning.explain import ExplainInput, explanation_of
from applyprune.planning.plan import make_plan
from applyprune.values import replace
from tests.support.options import options_of
from tests.support.planning import TARGET, body, cluster, desired, inventory, live, recorded, world

ONE = desired(body(data={"k": "v"}))
THERE = live(ONE.ref)
ENTRY = recorded(ONE, THERE)


def _reasons(entry: InventoryEntry | None) -> str:
    entries = (entry,) if entry else ()
    snapshot = cluster({ONE.ref: THERE})
    plan = make_plan(world((ONE,), inventory(*entries), snapshot, Options()))
    case = ExplainInput(ONE.ref, THERE, plan, inventory(*entries), TARGET, by_input=True)
    return "\n".join(explanation_of(case).reasons)


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (None, "the inventory does not list it"),
        (ENTRY, "its manifest is the same as the last applied manifest"),
        (replace(ENTRY, digest="x"), "its manifest is different from the last applied manifest"),
        (replace(ENTRY, digest="", fingerprint=None), "the last applied manifest is unknown"),
        (replace(ENTRY, deleting=True), "an earlier run meant to delete it and did not"),
        (
            replace(ENTRY, orphaning=True),
            "an earlier run meant to orphan it and did not record that it has",
        ),
        (replace(ENTRY), f"the inventory lists it: created by this set, UID {ENTRY.uid}"),
        (
            replace(ENTRY, uid="", uid_before_apply="x"),
            (
                "the inventory lists it: created by this set, no apply was confirmed; "
                "before, it existed"
            ),
        ),
    ],
)
def test_explanation_says_what_the_inventory_records(
    entry: InventoryEntry | None, reason: str
) -> None:
    """Also for an entry of a run that was killed before it got a reply."""
    assert reason in _reasons(entry).splitlines()


@pytest.mark.parametrize("by_input", [True, False])
def test_explanation_has_each_guard_of_a_deletion(by_input: bool) -> None:
    """Those that passed or were lifted, each with what it found; not that no input was given."""
    snapshot = cluster({ONE.ref: THERE})
    options = options_of(mode=Mode.PRUNE, allow_empty=True)
    plan = make_plan(world((), inventory(ENTRY), snapshot, options))
    case = ExplainInput(ONE.ref, THERE, plan, inventory(ENTRY), TARGET, by_input=by_input)
    told = explanation_of(case)
    assert "guard max-prune passed: 1 deletion is not more than 5" in told.passed
    lifted = "guard empty-input lifted by --allow-empty: no object in the input"
    guards = [one for one in told.reasons if one.startswith("guard ")]
    assert guards == ([lifted] if by_input else [])
    assert len(guards) + len(told.passed) == len(plan.guards) - (not by_input)


def _verdict(plan: Plan, listed: Inventory, **more: Any) -> Explanation:
    case = ExplainInput(ONE.ref, THERE, plan, listed, TARGET, by_input=True, **more)
    return explanation_of(case)


def test_explanation_of_a_held_run_names_what_holds_it() -> None:
    """An object that another one, or the prune, keeps from being applied is not told to be."""
    snapshot = cluster({ONE.ref: THERE})
    changed = recorded(ONE, THERE, digest="x")
    plan = make_plan(world((ONE,), inventory(changed), snapshot, Options()))
    free = _verdict(plan, inventory(changed))
    assert free.verdict == "It would be applied: its manifest has changed."
    (step,) = plan.applies
    problem = Problem(ProblemKind.RUN_FAILED, "no")
    other = desired(body(name="b"))
    fault = replace(step, desired=other, fate=Fate.REFUSE, request=None, problem=problem)
    faulty = replace(plan, applies=(step, fault))
    held = _verdict(faulty, inventory(changed), is_blocked=True)
    prevented = "It would be applied: its manifest has changed, but the reasons below prevent it."
    assert held.verdict == prevented
    assert held.reasons[0] == "nothing is applied in this run, because of configmap/b"
    refusal = Problem(ProblemKind.PRUNE_REFUSED, "too much")
    refused = _verdict(replace(plan, refusal=refusal), inventory(changed), is_blocked=True)
    assert (refused.verdict, refused.reasons[0]) == (prevented, "too much")
    same = make_plan(world((ONE,), inventory(ENTRY), snapshot, Options()))
    assert _verdict(same, inventory(ENTRY), is_blocked=True).verdict.startswith("Nothing would be")


@pytest.mark.parametrize(
    ("orphan", "verdict"),
    [
        (frozenset(), "It would be deleted, but the reasons below prevent it."),
        ({"configmap/a"}, "It would be orphaned, but the reasons below prevent it."),
    ],
)
def test_explanation_of_a_removal_names_what_prevents_it(
    orphan: Collection[str], verdict: str
) -> None:
    """Whatever would happen to the object, nothing happens in a run that may not prune."""
    snapshot = cluster({ONE.ref: THERE})
    plan = make_plan(world((), inventory(ENTRY), snapshot, options_of(prune=False, orphan=orphan)))
    told = _verdict(plan, inventory(ENTRY))
    assert told.verdict == verdict
    assert told.reasons[-1] == "nothing is pruned in this run: --no-prune"


def test_explanation_of_a_refused_deletion_ends_with_what_allows_it() -> None:
    """The problem of the object says why and how to keep it; the refusal of the prune the rest."""
    snapshot = cluster({ONE.ref: THERE})
    plan = make_plan(world((), inventory(ENTRY), snapshot, options_of()))
    refusal = Problem(ProblemKind.PRUNE_REFUSED, "it would cascade-delete")
    assert plan.refusal is not None
    (step,) = plan.removals
    doomed = replace(plan, removals=(replace(step, fate=Fate.REFUSE, problem=refusal),))
    told = _verdict(doomed, inventory(ENTRY))
    assert (told.reasons[0], told.reasons[-1]) == (str(refusal), str(plan.refusal))


def test_explanation_of_a_silent_kind_says_why_it_is_unknown() -> None:
    """It is in the input, and fails alone; nobody knows what it is."""
    silent = Problem(ProblemKind.RUN_FAILED, "its server does not answer", location="set.yaml:7")
    told = _verdict(Plan((), ()), inventory(), silent=silent)
    assert told.reasons[1] == "it is in the input: set.yaml:7"
    assert told.reasons[0] == str(silent)
    assert told.verdict == "It would not be applied. The reasons below say why."
