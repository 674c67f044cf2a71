"""Runs whose deletions, or whose whole plan, must be approved first; and sets of a Bundle."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.errors import OwnedByBundle
from applyprune.model.events import InventoryWritten
from applyprune.model.fate import Outcome
from applyprune.model.options import Approval, DryRun, Mode
from applyprune.values import replace
from tests.support.api import Api, AuditTrail, writes
from tests.support.command import applyprune
from tests.support.objects import config_map
from tests.support.stage import Stage

OWNER = "Bundle shop/web"


@pytest.mark.holds("one-approval")
def test_approval_covers_one_prune_only(stage: Stage) -> None:
    """The digest of what was refused lets exactly that go; one object more is another prune."""
    names = [f"a{number}" for number in range(8)]
    stage.run(*map(config_map, names))
    refused = stage.run(config_map("a0"))
    assert refused.exit_code == 6
    assert refused.deletions
    assert stage.run(config_map("a0")).deletions == refused.deletions
    other = stage.run(config_map("a0"), config_map("a1"), approved=refused.deletions)
    assert other.exit_code == 6
    assert other.deletions not in {"", refused.deletions}
    done = stage.run(config_map("a0"), approved=refused.deletions)
    assert (done.exit_code, done.refusal) == (0, "")
    assert sum(one is Outcome.PRUNED for one in done.outcomes.values()) == 7


def test_approval_expires_with_its_objects(stage: Stage, api: Api) -> None:
    """An object of the same name and another UID was not approved."""
    stage.run(*(config_map(f"a{number}") for number in range(8)))
    refused = stage.run(config_map("a0"))
    path = stage.path()
    assert api("DELETE", f"{path}/a7")[0] == 200
    again = stage.run(config_map("a0"), approved=refused.deletions)
    assert again.exit_code == 6
    assert all(api.exists(f"{path}/a{number}") for number in range(7))


@pytest.mark.holds("set-owner")
def test_set_belongs_to_its_bundle(stage: Stage) -> None:
    """The Bundle takes it over without touching an object; nobody else may change it then."""
    stage.run(config_map("a"), config_map("b"))
    with pytest.raises(OwnedByBundle, match="inventoryName: web"):
        replace(stage, owner=OWNER).run(config_map("a"), config_map("b"))
    bundle = replace(stage, owner=OWNER, takes_over=True)
    taken = bundle.run(config_map("a"), config_map("b"))
    assert set(taken.outcomes.values()) == {Outcome.UNCHANGED}
    assert stage.inventory().owner == OWNER
    assert not bundle.run(config_map("a"), config_map("b")).of(InventoryWritten)
    for mode in (Mode.APPLY, Mode.PRUNE, Mode.DELETE, Mode.ORPHAN):
        with pytest.raises(OwnedByBundle, match=OWNER):
            stage.run(config_map("a"), mode=mode)
    with pytest.raises(OwnedByBundle):
        replace(bundle, owner="Bundle shop/other").run(config_map("a"))
    looked = stage.run(config_map("a"), dry_run=DryRun.SERVER)
    assert looked.outcomes["configmap/b"] is Outcome.PRUNED
    assert stage.inventory().owner == OWNER
    assert stage.listed() == {"configmap/a", "configmap/b"}


def test_bundle_removes_only_its_own_set(stage: Stage) -> None:
    """A set that was released meanwhile stays, whatever becomes of the Bundle."""
    stage.run(config_map("a"))
    bundle = replace(stage, owner=OWNER, takes_over=True)
    for mode in (Mode.DELETE, Mode.ORPHAN):
        with pytest.raises(OwnedByBundle, match="does not belong to Bundle shop/web"):
            bundle.run(mode=mode)
    assert stage.listed() == {"configmap/a"}


def test_set_can_be_taken_back_from_a_deleted_bundle(stage: Stage) -> None:
    """The command line says whose it was, and may apply it again."""
    replace(stage, owner=OWNER).run(config_map("a"))
    call = ("web", "-n", stage.namespace)
    refused = applyprune("delete", *call, "--yes", kubeconfig=stage.kubeconfig)
    assert refused.code == 2
    assert OWNER in refused.err
    assert "inventory release web" in refused.err
    released = applyprune("inventory", "release", *call, kubeconfig=stage.kubeconfig)
    assert released.code == 0, released.err
    assert OWNER in released.out
    again = applyprune("inventory", "release", *call, kubeconfig=stage.kubeconfig)
    assert "belongs to no Bundle" in again.out
    assert stage.run(config_map("a")).outcomes == {"configmap/a": Outcome.UNCHANGED}


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


@pytest.mark.holds("unplanned-recreation")
def test_object_is_not_recreated_if_the_plan_does_not_say_so(stage: Stage, api: Api) -> None:
    """Without a check the plan cannot know it, so nobody has approved it."""
    path = stage.path("fixed")
    stage.run(fixed("old"))
    uid = api.get(path)["metadata"]["uid"]
    ask = {"approval": Approval.PRUNE, "recreate": True}
    digest = stage.run(fixed("new"), **ask).plan.digest
    story = stage.run(fixed("new"), **ask, approved_plan=digest)
    assert (story.exit_code, story.outcomes) == (3, {"configmap/fixed": Outcome.FAILED})
    assert api.get(path)["metadata"]["uid"] == uid


def test_check_that_finds_no_change_needs_no_approval(stage: Stage) -> None:
    """The plan cannot tell, for example after a write of the same value; the server can."""
    stage.run(A)
    story = stage.run(A, approval=Approval.ALWAYS, check=True, reapply_all=True)
    assert (story.exit_code, story.outcomes) == (0, {"configmap/a": Outcome.UNCHANGED})
