"""No decision that exceeds the shown one is ever sent, in generated worlds that have moved on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from applyprune.errors import ApplypruneError, RunFailed
from applyprune.model.fate import Fate
from applyprune.model.identity import Ref
from applyprune.model.inventory import AppliedPlan
from applyprune.model.live import LiveObject
from applyprune.model.options import Mode
from applyprune.model.plan import ApplyStep, Plan
from applyprune.planning.approval import PlanFile, misfits, plan_file_of
from applyprune.planning.digests import planned_objects, state_mark
from applyprune.planning.managed_fields import own_fields
from applyprune.planning.ownership import foreign_label, takes_no_more
from applyprune.planning.plan import removed_again, with_checked_request
from applyprune.values import replace
from tests.unit.planning.generated_worlds import SET, Generated, later, world

WORLDS = 1_000
NOW = datetime(2026, 11, 27, tzinfo=UTC)


def _file(one: Generated) -> PlanFile:
    plan = one.plan()
    cluster = {"kube-system": "k1"}
    return plan_file_of(
        plan, SET, one.read.options, cluster=cluster, now=NOW, valid_for=timedelta(hours=1)
    )


def _worlds() -> Iterator[tuple[Generated, Generated]]:
    """Yield worlds, and what they have become since."""
    for seed in range(WORLDS):
        one = world(seed)
        options = replace(one.read.options, mode=Mode.APPLY)
        one = replace(one, read=replace(one.read, options=options))
        yield one, later(one, seed)


def _pairs() -> Iterator[tuple[Generated, PlanFile, Generated, Plan]]:
    """Yield worlds with the plan files of them, and what they have become since."""
    for one, now in _worlds():
        try:
            file = _file(one)
            begun = replace(now.read.inventory, plan=AppliedPlan(file.checksum))
            ours = replace(now, read=replace(now.read, inventory=begun))
            yield one, file, ours, ours.plan()
        except (ApplypruneError, KeyError):
            continue  # an input that is refused, or a world without a kind that it lists


def _deleted(plan: Plan) -> set[str]:
    """Return the UIDs of everything that a plan would delete, by a cascade too."""
    return {
        uid
        for one in planned_objects(plan)
        if one.fate in {Fate.PRUNE, Fate.RECREATE}
        for uid in (one.uid, *(also.uid for also in one.cascade))
    }


def _loses(step: ApplyStep, before: LiveObject | None) -> bool:
    """Return whether an apply may take a field that somebody has written since."""
    if step.live is None or before is None or step.live.uid != before.uid:
        return False
    if state_mark(step.live) == state_mark(before):
        return False
    wanted = {path for path in own_fields(step.live, SET.manager).leaves() if path[0] != "metadata"}
    new = [one for one in step.live.writers if one not in before.writers]
    others = [one for one in new if one.manager not in {SET.manager, SET.yielded}]
    body = step.desired.body
    return any(
        path not in wanted
        for one in others
        if one.subresource not in {"status", "scale"}
        for path in one.fields.leaves()
        if isinstance(path[0], str)
        and path[0] in body
        and path[0] != "metadata"
        and str(path[1]) in body[path[0]]
    )


def test_no_decision_that_exceeds_the_shown_one_is_sent() -> None:
    """Nothing else is deleted, created, written or taken than the file shows."""
    seen: Counter[str] = Counter()
    for one, file, now, plan in _pairs():
        if any(misfits(file, plan, now.read.inventory)):
            seen["refused"] += 1
            continue
        shown = {each.ref: each for each in file.objects}
        deleted = {
            uid
            for each in file.objects
            if each.fate in {Fate.PRUNE, Fate.RECREATE}
            for uid in (each.uid, *(also.uid for also in each.cascade))
        }
        assert _deleted(plan) <= deleted
        writes: set[Ref] = set()
        for step in plan.applies:
            ref, fate = step.desired.ref, step.fate
            if not fate.is_applied:
                continue
            writes.add(ref)
            assert shown[ref].fate.is_applied
            assert shown[ref].manifest == step.desired.digest
            if fate is Fate.CREATE:
                assert shown[ref].fate in {Fate.CREATE, Fate.RECREATE}
            state = one.read.states.get(ref)
            assert not _loses(step, state if isinstance(state, LiveObject) else None)
        orphaned = {step.entry.ref for step in plan.removals if step.fate is Fate.ORPHAN}
        assert all(shown[ref].fate is Fate.ORPHAN for ref in orphaned)
        moved = now.read.states != one.read.states
        seen["moved and written" if moved and writes else "fits"] += 1
    assert min(seen["refused"], seen["moved and written"], seen["fits"]) > WORLDS // 50, seen


def _applied_again(step: ApplyStep, now: Generated) -> ApplyStep | None:
    """Return what a run makes of an apply whose guard is refused; None for another object."""
    live = now.read.live(step.desired.ref)
    if live is None or step.live is None or live.uid != step.live.uid:
        return None  # the run raises what has happened to the object
    return with_checked_request(step, live, SET, now.read.options)


def _takes_more(shown: ApplyStep, now: ApplyStep) -> bool:
    """Return whether an apply takes more than the plan has shown."""
    if shown.live is None or now.live is None or now.request is None:
        return False
    takes_object = foreign_label(now.live, SET) not in {"", foreign_label(shown.live, SET)}
    takes_fields = not takes_no_more(shown.desired, shown.live, now.live)
    forces = now.request.force and not now.reverts and takes_fields
    return takes_object or forces or not {*now.reverts} <= {*shown.reverts}


@pytest.mark.holds("unplanned-deletion")
def test_no_step_that_is_decided_again_does_more() -> None:
    """In a run whose objects others change between the plan and the requests."""
    seen: Counter[str] = Counter()
    for one, now in _worlds():
        try:
            plan = one.plan()
        except (ApplypruneError, KeyError):
            continue
        doomed = {step.live.uid for step in plan.removals if step.fate is Fate.PRUNE and step.live}
        for step in plan.removals:
            try:
                left = removed_again(step, now.read)
            except RunFailed:
                seen["deletion refused"] += 1
                continue
            if left.fate is Fate.PRUNE:
                seen["deleted"] += 1
                assert left.live is not None
                assert left.live.uid in doomed
        for sent in plan.applies if not plan.faults else ():
            try:
                again = _applied_again(sent, now) if sent.request is not None else None
            except RunFailed:
                seen["apply refused"] += 1
                continue
            if again is not None and again.live != sent.live:
                seen["sent"] += 1
                assert not _takes_more(sent, again)
    assert min(seen.values()) > WORLDS // 200, seen
    assert len(seen) == 4, seen
