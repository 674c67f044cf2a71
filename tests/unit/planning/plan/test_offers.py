"""What a plan offers in place of a prune, and when it offers nothing."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.fate import Fate
from applyprune.model.options import Approval, PruneLimit
from applyprune.model.plan import Cause, Plan
from applyprune.planning.plan import make_plan, with_offers
from applyprune.planning.world import Siblings, World
from applyprune.values import replace
from tests.support.options import options_of
from tests.support.planning import body, cluster, desired, inventory, live, recorded, world

LEFT, STAYS = desired(body(name="left")), desired(body(name="stays"))
LIVES = {LEFT.ref: live(LEFT.ref, uid="u1"), STAYS.ref: live(STAYS.ref, uid="u2")}
REFUSED = {"max_prune": PruneLimit(count=0, percent=0.0)}


def planned(undecided: tuple[str, ...] = ("b",), **options: Any) -> tuple[Plan, World]:
    """Return the plan of a set that one of two objects has left, and what it was made from."""
    entries = [recorded(one, LIVES[one.ref]) for one in (LEFT, STAYS)]
    read = cluster(LIVES, siblings=Siblings("key", undecided))
    made = world((STAYS,), inventory(*entries), read, options_of(**options))
    plan = make_plan(made)
    assert [step.entry.ref for step in plan.removals] == [LEFT.ref]
    return plan, made


@pytest.mark.parametrize("options", [{}, REFUSED], ids=["allowed", "refused"])
def test_prune_becomes_an_offer(options: dict[str, Any]) -> None:
    """A guard has nothing to refuse then."""
    plan, made = planned(**options)
    after = with_offers(plan, made, missing="", stays="")
    (step,) = after.removals
    assert (step.fate, step.cause, step.entry.offered) == (Fate.LEAVE, Cause.OFFERED, "key")
    assert (after.refusal, after.no_prune) == (None, "")


@pytest.mark.parametrize("options", [{}, REFUSED], ids=["allowed", "refused"])
@pytest.mark.parametrize(
    ("changes", "stays"),
    [
        pytest.param({}, "some objects", marks=pytest.mark.holds("offer-of-whole-input")),
        ({"lacks_rights": True}, ""),
        ({"restored": True}, ""),
    ],
    ids=["unknown kinds", "no rights", "restored"],
)
def test_plan_that_prunes_nothing_anyway_offers_nothing(
    options: dict[str, Any], changes: dict[str, Any], stays: str
) -> None:
    """Its input may be half of what was meant; and what else has left must not go then."""
    plan, made = planned(**options)
    plan = replace(plan, **changes)
    assert with_offers(plan, made, missing="", stays=stays) == plan


@pytest.mark.parametrize(
    ("undecided", "options"), [((), {}), (("b",), {"prune": False})], ids=["decided", "no prune"]
)
def test_plan_without_a_reason_to_offer_stays(
    undecided: tuple[str, ...], options: dict[str, Any]
) -> None:
    plan, made = planned(undecided, **options)
    assert with_offers(plan, made, missing="", stays="") == plan


def test_missing_approval_comes_before_an_offer() -> None:
    plan, made = planned(approval=Approval.PRUNE)
    assert with_offers(plan, made, missing="sha256:1", stays="") == plan
