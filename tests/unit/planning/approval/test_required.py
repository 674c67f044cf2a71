"""Which plans wait for an approval, and what of them runs until then."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

import pytest

from applyprune.model.fate import Fate
from applyprune.model.identity import Ref
from applyprune.model.inventory import InventoryEntry
from applyprune.model.options import Approval, PruneLimit
from applyprune.model.plan import ApplyStep, Plan, RemoveStep
from applyprune.model.problem import Problem, ProblemKind
from applyprune.planning.approval import (
    is_blocked,
    missing_approval,
    with_approval,
    without_unapproved,
)
from applyprune.planning.plan import make_plan
from applyprune.values import replace
from tests.support.options import options_of
from tests.support.planning import TARGET, body, cluster, desired, inventory, live, recorded, world

DELETIONS, WHOLE = "sha256:" + "d" * 64, "sha256:" + "f" * 64
OTHER = "sha256:" + "0" * 64
REF = Ref("", "ConfigMap", "home", "gone")
ONE = desired(body(name="one"))
REFUSAL = Problem(ProblemKind.PRUNE_REFUSED, "the prune was refused")
TO_PRUNE = RemoveStep(InventoryEntry(REF, "configmaps", "v1", "u"), None, Fate.PRUNE)
PRUNES = Plan((), (TO_PRUNE,), deletions=DELETIONS, digest=WHOLE)
CREATES = Plan((ApplyStep(ONE, Fate.CREATE, TO_PRUNE.entry),), (), digest=WHOLE)
LEAVES = Plan((ApplyStep(ONE, Fate.LEAVE, TO_PRUNE.entry),), (), digest=WHOLE)
FAULTY = replace(PRUNES, applies=(ApplyStep(ONE, Fate.REFUSE, TO_PRUNE.entry, problem=REFUSAL),))
REFUSED = replace(PRUNES, refusal=REFUSAL, no_prune="prune refused")
# A copied inventory: nothing may be deleted, and no approval lifts that.
COPIED = replace(REFUSED, deletions="", restored=True)

CASES: dict[str, tuple[Plan, dict[str, Any], str]] = {
    "Automatic": (PRUNES, {}, ""),
    "Automatic, refused": (REFUSED, {}, DELETIONS),
    "Automatic, refused, approved": (REFUSED, {"approved": DELETIONS}, ""),
    "Automatic, refused, another approved": (REFUSED, {"approved": OTHER}, DELETIONS),
    "Automatic, not approvable": (COPIED, {}, ""),
    "Prune": (PRUNES, {"approval": "Prune"}, DELETIONS),
    "Prune, approved": (PRUNES, {"approval": "Prune", "approved": DELETIONS}, ""),
    "Prune, another approved": (PRUNES, {"approval": "Prune", "approved": OTHER}, DELETIONS),
    "Prune, the whole plan approved": (
        PRUNES,
        {"approval": "Prune", "approved": WHOLE, "approved_plan": WHOLE},
        DELETIONS,
    ),
    "Prune without deletions": (CREATES, {"approval": "Prune"}, ""),
    "Always": (PRUNES, {"approval": "Always"}, WHOLE),
    "Always, approved": (PRUNES, {"approval": "Always", "approved_plan": WHOLE}, ""),
    "Always, another approved": (PRUNES, {"approval": "Always", "approved_plan": OTHER}, WHOLE),
    "Always, only the deletions approved": (
        PRUNES,
        {"approval": "Always", "approved": DELETIONS, "approved_plan": DELETIONS},
        WHOLE,
    ),
    "Always without deletions": (CREATES, {"approval": "Always"}, WHOLE),
    "Always without changes": (LEAVES, {"approval": "Always"}, ""),
    "Always, only the owner changes": (LEAVES, {"approval": "Always", "takes_set": True}, WHOLE),
    "Always, the rest is refused": (REFUSED, {"approval": "Always"}, ""),
    "Always, with a fault": (FAULTY, {"approval": "Always"}, ""),
    "Prune, with a fault": (FAULTY, {"approval": "Prune"}, ""),
}


@pytest.mark.parametrize("name", CASES)
def test_plan_needs_its_approval(name: str) -> None:
    """The digest that is missing; empty if the whole plan may run."""
    plan, given, missing = CASES[name]
    given = dict(given)
    takes_set = given.pop("takes_set", False)
    if "approval" in given:
        given["approval"] = Approval(given["approval"])
    assert missing_approval(plan, options_of(**given), takes_set=takes_set) == missing


A, B = (desired(body(name=name, data={"k": "v"})) for name in "ab")
THERE = {one.ref: live(one.ref, uid=f"uid-{one.ref.name}") for one in (A, B)}
LISTED = inventory(*(recorded(one, THERE[one.ref]) for one in (A, B)))


@cache
def plan_of(*names: str, **options: Any) -> Plan:
    """Return the plan of a set of two objects whose input has these."""
    options = {"max_prune": PruneLimit(9), "allow_empty": True, **options}
    snapshot = cluster(THERE)
    wanted = [one for one in (A, B) if one.ref.name in names]
    chosen = options_of(**options)
    plan = with_approval(make_plan(world(wanted, LISTED, snapshot, chosen)), TARGET, chosen)
    return without_unapproved(plan, chosen, takes_set=False)


def test_deletions_wait_without_the_rest() -> None:
    """The objects of the input are applied, and nothing is pruned until that is approved."""
    plan = plan_of("a", approval=Approval.PRUNE)
    assert plan.needs_approval == plan.deletions
    assert plan.no_prune == "the deletions are not approved"
    assert plan.refusal is not None
    assert plan.refusal.kind is ProblemKind.NOT_APPROVED
    assert not is_blocked(plan, options_of(approval=Approval.PRUNE))
    approved = plan_of("a", approval=Approval.PRUNE, approved=plan.deletions)
    assert (approved.no_prune, approved.refusal, approved.needs_approval) == ("", None, "")


def test_recreation_waits_like_a_prune() -> None:
    """It deletes an object, so without an approval the object is left as it is."""
    plan = replace(plan_of("a", "b"), deletions=DELETIONS)
    steps = tuple(replace(step, fate=Fate.RECREATE) for step in plan.applies)
    plan = replace(plan, applies=steps)
    found = without_unapproved(plan, options_of(approval=Approval.PRUNE), takes_set=False)
    assert {(step.fate, step.request, step.is_skipped) for step in found.applies} == {
        (Fate.LEAVE, None, True)
    }
    assert found.applies[0].reason == "it must be recreated, and that is not approved"
    assert (found.faults, found.no_prune) == ((), "")
    approved = options_of(approval=Approval.PRUNE, approved=DELETIONS)
    assert without_unapproved(plan, approved, takes_set=False).applies == steps


def test_whole_plan_waits() -> None:
    """With Always, whatever it would change."""
    options = options_of(approval=Approval.ALWAYS)
    plan = plan_of("a", approval=Approval.ALWAYS)
    assert (plan.needs_approval, is_blocked(plan, options)) == (plan.digest, True)
    approved = plan_of("a", approval=Approval.ALWAYS, approved_plan=plan.digest)
    assert (approved.needs_approval, is_blocked(approved, options)) == ("", False)
    assert (approved.no_prune, approved.refusal) == ("", None)


def test_approval_of_the_whole_plan_lifts_its_guards() -> None:
    """There is one annotation, and its digest covers the deletions too."""
    refused = plan_of(max_prune=PruneLimit(0, 0))
    assert refused.refusal is not None
    waiting = plan_of(approval=Approval.ALWAYS, max_prune=PruneLimit(0, 0))
    approved = plan_of(
        approval=Approval.ALWAYS, max_prune=PruneLimit(0, 0), approved_plan=waiting.digest
    )
    assert (approved.refusal, approved.no_prune) == (None, "")


REVISIONS = ("ab", "a", "b", "")


@cache
def shown(source: str, approval: Approval) -> tuple[str, str]:
    """Return the digest that a Bundle with this source shows, and the source."""
    return plan_of(*source, approval=approval).needs_approval, source


def deleted(plan: Plan, approval: Approval) -> set[str]:
    """Return the objects that a run of this plan would delete."""
    if plan.no_prune or is_blocked(plan, options_of(approval=approval)):
        return set()
    return {step.entry.ref.name for step in plan.removals if step.fate is Fate.PRUNE}


@pytest.mark.parametrize(
    "approval",
    [
        pytest.param(Approval.PRUNE, marks=pytest.mark.holds("deletions-approved")),
        pytest.param(Approval.ALWAYS, marks=pytest.mark.holds("whole-plan-approved")),
    ],
)
def test_approval_never_lets_a_newer_revision_run(approval: Approval) -> None:
    """1,000 times: one changes the source and another approves what was shown, in any order."""
    random, done = Random(13), 0  # noqa: S311
    for _ in range(1000):
        source, annotation = "ab", ("", "ab")
        seen = read = annotation
        steps = [*(["change", "look", "approve"] * 2), "read"]
        random.shuffle(steps)
        for step in steps:
            if step == "change":
                source = random.choice(REVISIONS)
            elif step == "look":
                seen = shown(source, approval)
            elif step == "approve":
                annotation = seen
            else:
                # The controller reads the Bundle; the source may change before it reads that.
                read = annotation
        digest, approved = read
        plan = plan_of(*source, approval=approval, approved=digest, approved_plan=digest)
        if gone := deleted(plan, approval):
            done += 1
            assert gone == set("ab") - set(approved)
            assert source == approved
    assert 50 < done < 950
