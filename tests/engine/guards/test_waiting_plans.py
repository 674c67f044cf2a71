"""Runs whose deletions, or whose whole plan, must be approved first."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from applyprune.model.events import Outcome, Planned
from applyprune.model.options import Approval, Mode, PruneLimit
from tests.support.api import writes
from tests.support.objects import config_map

if TYPE_CHECKING:
    from applyprune.model.plan import Plan
    from tests.support.api import AuditTrail
    from tests.support.stage import Stage, Story

A, B, C = (config_map(name) for name in "abc")


def planned(story: Story) -> Plan:
    """Return the plan of a run."""
    (event,) = (one for one in story.events if isinstance(one, Planned))
    return event.plan


def test_unapproved_deletions_wait(stage: Stage) -> None:
    """The rest is applied; the digest lets exactly these deletions run."""
    stage.run(A, B)
    waiting = stage.run(C, B, approval=Approval.PRUNE)
    assert waiting.exit_code == 6
    assert waiting.outcomes == {
        "configmap/a": Outcome.NOT_PRUNED,
        "configmap/b": Outcome.UNCHANGED,
        "configmap/c": Outcome.CREATED,
    }
    assert "the deletions are not approved" in waiting.refusal
    digest = planned(waiting).needs_approval
    assert digest == planned(waiting).deletions
    # One more object would go: another plan.
    more = stage.run(C, approval=Approval.PRUNE, approved=digest)
    assert (more.exit_code, more.outcomes["configmap/a"]) == (6, Outcome.NOT_PRUNED)
    done = stage.run(C, B, approval=Approval.PRUNE, approved=digest)
    assert (done.exit_code, done.outcomes["configmap/a"]) == (0, Outcome.PRUNED)


def test_unapproved_plan_writes_nothing(stage: Stage, audit: AuditTrail) -> None:
    """Not even an inventory; and the same plan runs when it is approved, once."""
    audit.restart()
    waiting = stage.run(A, B, approval=Approval.ALWAYS)
    assert (waiting.exit_code, waiting.outcomes) == (6, {})
    assert [one for one in writes(audit) if stage.namespace in one] == []
    digest = planned(waiting).needs_approval
    done = stage.run(A, B, approval=Approval.ALWAYS, approved_plan=digest)
    assert done.exit_code == 0
    # Nothing would change, so nothing must be approved.
    assert stage.run(A, B, approval=Approval.ALWAYS).exit_code == 0
    # The same manifests, but the cluster has moved on: that is another plan.
    stage.run(mode=Mode.DELETE)
    again = stage.run(config_map("a", "new"), B, approval=Approval.ALWAYS, approved_plan=digest)
    assert again.exit_code == 6


def test_whole_plan_of_a_refused_prune_can_be_approved(stage: Stage) -> None:
    """Its digest covers the deletions, so it lifts the guards too."""
    stage.run(A, B, C)
    few = {"approval": Approval.ALWAYS, "max_prune": PruneLimit(0, 0)}
    waiting = stage.run(config_map("a", "new"), **few)
    assert waiting.exit_code == 6
    digest = planned(waiting).needs_approval
    done = stage.run(config_map("a", "new"), **few, approved_plan=digest)
    assert (done.exit_code, done.outcomes["configmap/b"]) == (0, Outcome.PRUNED)


def test_taking_over_a_set_waits_too(stage: Stage, audit: AuditTrail) -> None:
    """No object would change, but the inventory would: the Bundle becomes its owner."""
    stage.run(A)
    audit.restart()
    bundle = replace(stage, owner="Bundle shop/web", takes_over=True)
    waiting = bundle.run(A, approval=Approval.ALWAYS)
    assert waiting.exit_code == 6
    assert writes(audit) == []
    approved = planned(waiting).needs_approval
    assert bundle.run(A, approval=Approval.ALWAYS, approved_plan=approved).exit_code == 0
    assert stage.inventory().owner == "Bundle shop/web"


@pytest.mark.parametrize("approval", [Approval.PRUNE, Approval.ALWAYS])
def test_approval_of_another_set_approves_nothing(stage: Stage, approval: Approval) -> None:
    """The digests name the set, and each object to delete by its UID."""
    other = replace(stage, name="other")
    names = {"web": ("a", "b"), "other": ("c", "d")}
    digests = []
    for one in (stage, other):
        first, second = map(config_map, names[one.name])
        one.run(first, second)
        digests.append(planned(one.run(first, approval=approval)).needs_approval)
    assert len(set(digests)) == 2
    wrong = other.run(
        config_map("c"), approval=approval, approved=digests[0], approved_plan=digests[0]
    )
    assert (wrong.exit_code, "configmap/d" in other.listed()) == (6, True)
