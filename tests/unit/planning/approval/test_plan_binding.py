"""What a plan file changes in a plan that fits it, and whom it refuses."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from applyprune.errors import PlanOutdated, UsageError
from applyprune.model.fate import Fate
from applyprune.model.options import Adopt, ApplyOptions, Options, PruneOptions
from applyprune.model.plan import ApplyStep, OnConflict, Plan
from applyprune.planning.applyset import applyset_identity
from applyprune.planning.approval import (
    PlanFile,
    as_reviewed,
    plan_file_of,
    refuse_other_cluster,
    refuse_other_inventory,
    refuse_other_options,
    refuse_other_set,
    with_own_approval,
)
from applyprune.planning.requests import apply_request
from applyprune.values import replace
from tests.support.planning import DEPLOYMENTS, TARGET, body, desired, inventory, live, recorded

WEB = desired(body("Deployment", "web"), DEPLOYMENTS)
THERE = live(WEB.ref, uid="u1", generation=3)
REPLACED = live(WEB.ref, uid="u2", generation=1)
NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
CLUSTER = {"kube-system": "k1", TARGET.namespace: "n1"}


def _step(fate: Fate, state: Any = THERE, **changes: Any) -> ApplyStep:
    step = ApplyStep(WEB, fate, recorded(WEB, THERE), state)
    return replace(step, request=apply_request(step, TARGET, Options()), **changes)


def _file(*steps: ApplyStep, **changes: Any) -> PlanFile:
    plan = Plan(steps, (), inventory="i1/3", digest=f"sha256:{'a' * 64}")
    file = plan_file_of(
        plan, TARGET, Options(), cluster=CLUSTER, now=NOW, valid_for=timedelta(hours=1)
    )
    return replace(file, **changes)


def _reviewed(before: ApplyStep, now: ApplyStep) -> ApplyStep:
    (step,) = as_reviewed((now,), _file(before))
    return step


def test_checked_fates_of_the_file_hold() -> None:
    """What the server had found unchanged is left, and nothing else is recreated."""
    change = _step(Fate.CHANGE)
    left = _reviewed(_step(Fate.LEAVE, is_checked=True), change)
    assert (left.fate, left.request, left.is_checked) == (Fate.LEAVE, change.request, True)
    kept = _reviewed(change, change)
    assert (kept.fate, kept.is_checked) == (Fate.CHANGE, True)


def test_recreation_still_needs_its_proof() -> None:
    """The file brings no delete: a run first tries whether the object can be created again."""
    recreated = _reviewed(_step(Fate.RECREATE), _step(Fate.CHANGE))
    assert (recreated.fate, recreated.deletion) == (Fate.RECREATE, None)
    other = _reviewed(_step(Fate.RECREATE), _step(Fate.CHANGE, REPLACED))
    assert other.fate is Fate.CHANGE


def test_object_that_may_be_skipped_is_tried_first() -> None:
    """As in any run: the file does not say that there was no conflict."""
    skipping = _step(Fate.CHANGE, desired=replace(WEB, conflicts=OnConflict.SKIP))
    assert _reviewed(skipping, skipping) is skipping


def test_file_is_refused_elsewhere() -> None:
    """By another set, with other options, and on another cluster."""
    file = _file()
    refuse_other_set(file, TARGET)
    with pytest.raises(UsageError, match="the plan file is for the set"):
        refuse_other_set(file, applyset_identity("other", TARGET.namespace))
    refuse_other_options(file, Options())
    with pytest.raises(UsageError, match="--adopt=unowned then, --adopt=all now"):
        refuse_other_options(file, Options(apply=ApplyOptions(adopt=Adopt.ALL)))


@pytest.mark.parametrize(
    ("here", "inventory_uid", "refusal"),
    [
        (CLUSTER, "", ""),
        ({"kube-system": "k1"}, "", ""),
        # The namespace was replaced, and with it the inventory, whose UID shows that.
        ({"kube-system": "k1", TARGET.namespace: "n2"}, "i1", ""),
        ({TARGET.namespace: "n1"}, "", ""),
        ({"kube-system": "k2", TARGET.namespace: "n1"}, "i1", "for another cluster"),
        ({TARGET.namespace: "n2"}, "", "for another cluster"),
        ({}, "i1", ""),
        ({}, "", "it is unknown whether the plan file is for this cluster"),
    ],
    ids=str,
)
def test_cluster_is_known_by_its_namespaces(
    here: dict[str, str], inventory_uid: str, refusal: str
) -> None:
    """Where none may be read, the inventory's UID is the proof, if there was one."""
    file = _file(inventory_uid=inventory_uid)
    if not refusal:
        refuse_other_cluster(file, here)
        return
    with pytest.raises(UsageError, match=refusal):
        refuse_other_cluster(file, here)


def test_plan_of_an_unknown_cluster_gets_no_file() -> None:
    """Neither a Namespace nor an inventory identifies it."""
    plan = Plan((), (), inventory="/0", digest=f"sha256:{'a' * 64}")
    with pytest.raises(UsageError, match="nothing identifies it"):
        plan_file_of(plan, TARGET, Options(), cluster={}, now=NOW, valid_for=timedelta(hours=1))


@pytest.mark.holds("reviewed-inventory")
def test_inventory_that_was_created_again_is_refused() -> None:
    """It may come from a backup; an inventory that did not exist then is the plan's own."""
    refuse_other_inventory(_file(inventory_uid=inventory().uid), inventory(generation=4))
    refuse_other_inventory(_file(inventory_uid=""), inventory())
    with pytest.raises(PlanOutdated, match="was deleted and created again"):
        refuse_other_inventory(_file(inventory_uid="other"), inventory())


@pytest.mark.holds("own-approval")
def test_plan_of_one_of_many_sets_has_its_own_approval_only() -> None:
    """Its deletions are approved if their digest is one of those that were given."""
    own, other, third = (f"sha256:{digit * 64}" for digit in "abc")
    for given, approved in (
        (f"{other} {own}", own),
        (own, own),
        (other, other),
        (f"{other} {third}", f"{other} {third}"),
        ("", ""),
    ):
        options = Options(prune=PruneOptions(approved=given))
        file = replace(_file(), deletions=own)
        assert with_own_approval(options, file).prune.approved == approved
        assert with_own_approval(options, replace(file, deletions="")) == options
