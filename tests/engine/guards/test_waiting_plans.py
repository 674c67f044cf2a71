"""Runs whose deletions, or whose whole plan, must be approved first."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.fate import Outcome
from applyprune.model.options import Approval, DryRun, Mode, PruneLimit
from applyprune.values import replace
from tests.support.api import Api, AuditTrail, writes
from tests.support.fault_proxy import FaultProxy, always, faults
from tests.support.objects import config_map
from tests.support.stage import Stage

A, B, C = (config_map(name) for name in "abc")


@pytest.mark.holds("unapproved-deletions")
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
    digest = waiting.plan.needs_approval
    assert digest == waiting.plan.deletions
    # One more object would go: another plan.
    more = stage.run(C, approval=Approval.PRUNE, approved=digest)
    assert (more.exit_code, more.outcomes["configmap/a"]) == (6, Outcome.NOT_PRUNED)
    done = stage.run(C, B, approval=Approval.PRUNE, approved=digest)
    assert (done.exit_code, done.outcomes["configmap/a"]) == (0, Outcome.PRUNED)


@pytest.mark.holds("unapproved-plan")
def test_unapproved_plan_writes_nothing(stage: Stage, audit: AuditTrail) -> None:
    """Not even an inventory; and the same plan runs when it is approved, once."""
    audit.restart()
    waiting = stage.run(A, B, approval=Approval.ALWAYS)
    assert (waiting.exit_code, waiting.outcomes) == (6, {})
    assert [one for one in writes(audit) if stage.namespace in one] == []
    digest = waiting.plan.needs_approval
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
    digest = waiting.plan.needs_approval
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
    approved = waiting.plan.needs_approval
    assert bundle.run(A, approval=Approval.ALWAYS, approved_plan=approved).exit_code == 0
    assert stage.inventory().owner == "Bundle shop/web"


@pytest.mark.parametrize("approval", [Approval.PRUNE, Approval.ALWAYS])
def test_approval_of_another_set_approves_nothing(
    stage: Stage, audit: AuditTrail, approval: Approval
) -> None:
    """The digests name the set, and each object to delete by its UID."""
    other = replace(stage, name="other")
    names = {"web": ("a", "b"), "other": ("c", "d")}
    digests = []
    for one in (stage, other):
        first, second = map(config_map, names[one.name])
        one.run(first, second)
        digests.append(one.run(first, approval=approval).plan.needs_approval)
    assert len(set(digests)) == 2
    audit.restart()
    wrong = other.run(
        config_map("c"), approval=approval, approved=digests[0], approved_plan=digests[0]
    )
    assert (wrong.exit_code, writes(audit)) == (6, [])
    assert "configmap/d" in other.listed()


def fixed(value: str) -> dict[str, Any]:
    return {**config_map("fixed", value), "immutable": True}


def test_unapproved_recreation_waits(stage: Stage, api: Api) -> None:
    """The object stays as it is, and what needs it is applied; then exactly this one goes."""
    path = stage.path("fixed")
    first = f"/namespaces/{stage.namespace}/ConfigMap/fixed"
    needs = config_map("needs", annotations={"config.kubernetes.io/depends-on": first})
    stage.run(fixed("old"), needs, A)
    uid = api.get(path)["metadata"]["uid"]
    ask = {"approval": Approval.PRUNE, "recreate": True, "check": True}
    needs = {**needs, "data": {"key": "new"}}
    waiting = stage.run(fixed("new"), needs, **ask)
    assert waiting.exit_code == 6
    assert waiting.outcomes == {
        "configmap/fixed": Outcome.SKIPPED,
        "configmap/needs": Outcome.UPDATED,
        "configmap/a": Outcome.NOT_PRUNED,
    }
    assert api.get(path)["metadata"]["uid"] == uid
    digest = waiting.plan.needs_approval
    # Only one of the two deletions: another digest.
    fewer = stage.run(fixed("new"), needs, A, **ask, approved=digest)
    assert (fewer.exit_code, fewer.outcomes["configmap/fixed"]) == (6, Outcome.SKIPPED)
    done = stage.run(fixed("new"), needs, **ask, approved=digest)
    assert done.exit_code == 0
    assert done.outcomes["configmap/fixed"] is Outcome.RECREATED
    assert done.outcomes["configmap/a"] is Outcome.PRUNED
    assert api.get(path)["metadata"]["uid"] != uid
    assert stage.run(fixed("new"), needs, **ask).exit_code == 0


@pytest.mark.parametrize("approval", [Approval.AUTOMATIC, Approval.PRUNE])
def test_refused_prune_and_recreation_are_approved_together(
    stage: Stage, api: Api, approval: Approval
) -> None:
    """As a Bundle runs them: a guard refuses the prune, and the approval covers both."""
    path = stage.path("fixed")
    stage.run(fixed("old"), A, B, C)
    uid = api.get(path)["metadata"]["uid"]
    ask = {"approval": approval, "recreate": True, "check": True}
    if approval is Approval.PRUNE:
        ask["apply_anyway"] = True
    refused = stage.run(fixed("new"), **ask)
    assert refused.exit_code == 6
    assert "more than half" in refused.refusal
    assert refused.plan.needs_approval == refused.deletions
    # What the server does not check has no recreation: the digest of the prunes alone.
    prunes = stage.run(fixed("new"), dry_run=DryRun.CLIENT).deletions
    alone = stage.run(fixed("new"), **ask, approved=prunes)
    assert (alone.exit_code, alone.deletions) == (6, refused.deletions)
    assert f"the approval is for {prunes}" in alone.refusal
    assert stage.listed() == {"configmap/fixed", "configmap/a", "configmap/b", "configmap/c"}
    assert api.get(path)["metadata"]["uid"] == uid
    done = stage.run(fixed("new"), **ask, approved=refused.deletions)
    assert (done.exit_code, done.refusal) == (0, "")
    assert done.outcomes["configmap/fixed"] is Outcome.RECREATED
    assert stage.listed() == {"configmap/fixed"}


def test_deletion_that_the_server_denies_is_not_foreseen(
    stage: Stage, spoiled: Stage, proxy: FaultProxy
) -> None:
    """No dry run deletes: the others go, and the next plan asks for this one alone."""
    stage.run(A, B, C)
    ask = {"approval": Approval.PRUNE, "check": True, "apply_anyway": True}
    digest = stage.run(A, **ask).deletions
    denied = faults.status(403, reason="Forbidden", message="denied by a policy")
    proxy.rule = always(
        denied, where=lambda seen: seen.method == "DELETE" and seen.path.endswith("/b")
    )
    story = spoiled.run(A, **ask, approved=digest)
    assert (story.deletions, story.plan.needs_approval) == (digest, "")
    assert "denied by a policy" in story.problem("configmap/b")
    assert stage.listed() == {"configmap/a", "configmap/b"}
    left = stage.run(A, **ask).deletions
    assert left != digest
    assert stage.run(A, **ask, approved=left).exit_code == 0
    assert stage.listed() == {"configmap/a"}


@pytest.mark.parametrize("prune", [True, False])
def test_lone_recreation_waits(stage: Stage, prune: bool) -> None:
    """Nothing has left the set, and the run says nevertheless that something waits."""
    stage.run(fixed("old"))
    ask = {"approval": Approval.PRUNE, "recreate": True, "check": True, "prune": prune}
    waiting = stage.run(fixed("new"), **ask)
    assert (waiting.exit_code, waiting.outcomes) == (6, {"configmap/fixed": Outcome.SKIPPED})
    assert "the deletions are not approved" in waiting.refusal
    digest = waiting.plan.needs_approval
    done = stage.run(fixed("new"), **ask, approved=digest)
    assert done.outcomes == {"configmap/fixed": Outcome.RECREATED}


@pytest.mark.parametrize(
    "approval",
    [
        pytest.param(Approval.PRUNE, marks=pytest.mark.holds("unplanned-recreation")),
        Approval.ALWAYS,
    ],
)
def test_object_is_not_recreated_if_the_plan_does_not_say_so(
    stage: Stage, api: Api, approval: Approval
) -> None:
    """Without a check the plan cannot know it, so nobody has approved it."""
    path = stage.path("fixed")
    stage.run(fixed("old"))
    uid = api.get(path)["metadata"]["uid"]
    ask = {"approval": approval, "recreate": True}
    digest = stage.run(fixed("new"), **ask).plan.digest
    story = stage.run(fixed("new"), **ask, approved_plan=digest)
    assert (story.exit_code, story.outcomes) == (3, {"configmap/fixed": Outcome.FAILED})
    assert api.get(path)["metadata"]["uid"] == uid


def test_plan_that_has_run_must_be_approved_again(stage: Stage, api: Api) -> None:
    """Somebody deletes what was created: the same manifests, and another plan."""
    first = stage.run(A, approval=Approval.ALWAYS).plan.needs_approval
    assert stage.run(A, approval=Approval.ALWAYS, approved_plan=first).exit_code == 0
    path = stage.path("a")
    assert api("DELETE", path)[0] == 200
    again = stage.run(A, approval=Approval.ALWAYS, approved_plan=first)
    assert (again.exit_code, api.exists(path)) == (6, False)
    assert again.plan.needs_approval not in {"", first}


def test_check_that_finds_no_change_needs_no_approval(stage: Stage) -> None:
    """The plan cannot tell, for example after a write of the same value; the server can."""
    stage.run(A)
    story = stage.run(A, approval=Approval.ALWAYS, check=True, reapply_all=True)
    assert (story.exit_code, story.outcomes) == (0, {"configmap/a": Outcome.UNCHANGED})
