"""When an approval of deletions lifts the refusal of a prune, and what it leaves refused."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.fate import Fate
from applyprune.model.options import Approval, Mode
from applyprune.model.plan import Guard, GuardVerdict, Plan
from applyprune.model.problem import Problem, ProblemKind
from applyprune.planning.approval import is_blocked, with_approval
from applyprune.planning.digests import deletions_digest
from applyprune.planning.guards import APPROVAL
from applyprune.planning.plan import make_plan
from applyprune.planning.world import CascadeContents
from applyprune.values import replace
from tests.support.options import options_of
from tests.support.planning import (
    NAMESPACES,
    TARGET,
    body,
    cluster,
    desired,
    inventory,
    live,
    recorded,
    world,
)

OTHER = "sha256:" + "0" * 64
ALL = [desired(body(name=name, data={"k": "v"})) for name in "abcd"]
THERE = {one.ref: live(one.ref, uid=f"uid-{one.ref.name}") for one in ALL}
LISTED = inventory(*(recorded(one, THERE[one.ref]) for one in ALL))


def made(*names: str, **options: Any) -> Plan:
    """Return the plan of a set of four objects whose input has these; no approval is judged."""
    snapshot = cluster(THERE)
    wanted = [one for one in ALL if one.ref.name in names]
    return make_plan(world(wanted, LISTED, snapshot, options_of(**options)))


def recreating(plan: Plan) -> Plan:
    """Return the plan as the server's check leaves it: everything must be recreated."""
    steps = (replace(step, fate=Fate.RECREATE, is_checked=True) for step in plan.applies)
    return replace(plan, applies=tuple(steps))


def judged(plan: Plan, approved: str = "", **options: Any) -> Plan:
    """Return the plan after the approval is judged."""
    return with_approval(plan, TARGET, options_of(approved=approved, **options))


REFUSED = made("a")
PRUNES = judged(REFUSED).deletions
BOTH = judged(recreating(REFUSED)).deletions
FEW = made("a", "b", "c")
FEW_DIGEST = judged(FEW).deletions
# The plan, whether the check finds a recreation, the approval, and whether that lets it prune.
CASES: dict[str, tuple[bool, str, bool]] = {
    "no approval": (False, "", False),
    "of these prunes": (False, PRUNES, True),
    "of the recreation too, which was not found": (False, BOTH, False),
    "of prunes and recreation": (True, BOTH, True),
    "of the prunes alone": (True, PRUNES, False),
    "of something else": (True, OTHER, False),
}


@pytest.mark.parametrize("name", CASES)
def test_approval_is_of_prunes_and_recreations(name: str) -> None:
    """What the check has found counts: exactly the digest that the plan shows lifts its guards."""
    finds, approved, prunes = CASES[name]
    plan = judged(recreating(REFUSED) if finds else REFUSED, approved)
    assert plan.deletions == (BOTH if finds else PRUNES)
    assert (plan.refusal is None, plan.no_prune == "") == (prunes, prunes)
    lifted = {one.verdict for one in plan.guards if one.lifted_by == APPROVAL}
    assert lifted == ({GuardVerdict.LIFTED} if prunes else set())
    assert with_approval(plan, TARGET, options_of(approved=approved)).deletions == plan.deletions


def test_refusal_names_both_digests() -> None:
    """The first way out is the digest of exactly this prune; a wrong approval is named too."""
    refused = judged(REFUSED)
    assert refused.refusal is not None
    assert "sha256:" not in refused.refusal.reason
    first, second = refused.refusal.hint.splitlines()
    assert first == f"To allow exactly these deletions: --approve {PRUNES}"
    assert second.startswith("  To allow this: --")
    other = judged(recreating(REFUSED), PRUNES)
    assert other.refusal is not None
    assert (
        f"the approval is for {PRUNES}, and the digest of these deletions is {BOTH}"
        in other.refusal.reason
    )


def test_plan_that_nothing_refuses_stays_as_it_is() -> None:
    """It only gets its digests."""
    plan = made("a", "b", "c")
    assert plan.refusal is None
    for approved in ("", FEW_DIGEST):
        found = judged(plan, approved)
        assert found.deletions
        assert replace(found, deletions="", digest="") == plan


@pytest.mark.holds("only-approved")
def test_approval_binds_where_no_guard_refuses() -> None:
    """Whoever has approved two deletions has not approved a third one, however few they are."""
    assert (FEW.refusal, judged(FEW, FEW_DIGEST).refusal) == (None, None)
    refused = judged(FEW, OTHER)
    assert refused.refusal is not None
    assert refused.refusal.kind is ProblemKind.PRUNE_REFUSED
    assert (
        f"the approval is for {OTHER}, and the digest of these deletions is {FEW_DIGEST}"
        in refused.refusal.reason
    )
    assert refused.refusal.hint.endswith(f"--approve {FEW_DIGEST}")
    assert refused.no_prune
    assert refused.guards[-1].guard is Guard.APPROVED_DELETIONS
    assert is_blocked(refused, options_of(approved=OTHER))
    # Nothing to delete is nothing to approve, and a policy has its own approval.
    nothing = made("a", "b", "c", "d")
    assert replace(judged(nothing, OTHER), digest="") == nothing
    for free in ({"only_approved": False}, {"approval": Approval.PRUNE}):
        assert judged(FEW, OTHER, **free).refusal is None


def test_unapproved_recreation_is_no_way_around() -> None:
    """With ``apply_anyway`` the apply goes on; without it, the plan shows what it would do."""
    plan = recreating(FEW)
    shown = judged(plan, OTHER)
    assert {step.fate for step in shown.applies} == {Fate.RECREATE}
    left = judged(plan, OTHER, apply_anyway=True)
    assert {step.fate for step in left.applies} == {Fate.LEAVE}
    assert not is_blocked(left, options_of(approved=OTHER, apply_anyway=True))


def test_rest_of_an_approved_plan_is_approved() -> None:
    """Some of it is done: the digest of the whole is given, and that one counts."""
    rest = with_approval(REFUSED, TARGET, options_of(approved=OTHER), deletions=OTHER)
    assert (rest.deletions, rest.refusal, rest.no_prune) == (OTHER, None, "")
    assert judged(REFUSED).deletions != OTHER
    wrong = with_approval(REFUSED, TARGET, options_of(approved=PRUNES), deletions=OTHER)
    assert wrong.refusal is not None


@pytest.mark.parametrize(
    ("plan", "options"),
    [
        (replace(REFUSED, restored=True, if_approved=None), {}),
        (made("a", prune=False), {"prune": False}),
    ],
    ids=["restored", "no prune"],
)
def test_digest_covers_no_prune_that_must_not_run(plan: Plan, options: dict[str, Any]) -> None:
    """A copied inventory prunes nothing, and neither does --no-prune."""
    assert judged(plan, **options).deletions == ""
    kept = judged(plan, PRUNES, **options)
    assert (kept.refusal, kept.no_prune) == (plan.refusal, plan.no_prune)
    recreates = recreating(plan)
    assert judged(recreates, **options).deletions == deletions_digest(recreates.applies, ())


def test_empty_approval_lifts_nothing_without_deletions() -> None:
    """No digest is not the digest of nothing."""
    plan = replace(made(), applies=(), removals=())
    found = judged(plan)
    assert (found.deletions, found.refusal is None) == ("", False)


def test_fault_still_forbids_the_approved_prune() -> None:
    """The check has refused an object of the input."""
    problem = Problem(ProblemKind.PRUNE_REFUSED, "the field is unknown")
    steps = (replace(step, fate=Fate.REFUSE, problem=problem) for step in REFUSED.applies)
    plan = judged(replace(REFUSED, applies=tuple(steps)), PRUNES)
    assert (plan.refusal, plan.no_prune) == (None, "some objects in the input cannot be applied")


def test_step_that_was_left_out_stays_out() -> None:
    """An API group that does not answer takes its entries out of the plan."""
    fewer = replace(REFUSED, removals=REFUSED.removals[1:])
    digest = judged(fewer).deletions
    assert digest not in {"", PRUNES}
    refs = [step.entry.ref for step in fewer.removals]
    assert [step.entry.ref for step in judged(fewer, digest).removals] == refs


def test_approval_of_the_whole_plan_needs_no_second_one() -> None:
    """With Always the guards are lifted at once: the whole plan waits for its digest."""
    plan = made("a", approval=Approval.ALWAYS)
    assert (plan.refusal, plan.if_approved) == (None, None)
    assert judged(plan, OTHER, approval=Approval.ALWAYS).refusal is None


@pytest.mark.parametrize("mode", [Mode.APPLY, Mode.DELETE])
def test_approval_lets_a_cascade_happen(mode: Mode) -> None:
    """A Namespace whose contents were counted gets its request and its words back."""
    home = desired(body("Namespace", "gone"), NAMESPACES)
    there = live(home.ref, uid="u")
    inside = live(desired(body(name="x", namespace="gone")).ref, uid="x")
    snapshot = cluster({home.ref: there}, contents={home.ref: CascadeContents((inside,))})
    options = options_of(mode=mode)
    plan = make_plan(world((), inventory(recorded(home, there)), snapshot, options))
    refused = with_approval(plan, TARGET, options)
    (step,) = refused.removals
    assert (step.fate, step.request, refused.no_prune) == (
        Fate.REFUSE,
        None,
        f"{mode.removal} refused",
    )
    (step,) = judged(plan, refused.deletions, mode=mode).removals
    assert (step.fate, step.problem) == (Fate.PRUNE, None)
    assert step.request is not None
    assert "1" in step.reason
