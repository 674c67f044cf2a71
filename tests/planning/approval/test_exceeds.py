"""No decision that exceeds the shown one is ever sent, in generated worlds that have moved on."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from applyprune.errors import ApplypruneError
from applyprune.model.fate import Fate
from applyprune.model.inventory import AppliedPlan
from applyprune.model.live import LiveObject
from applyprune.model.options import Mode
from applyprune.planning.approval import misfits, plan_file_of, with_approval
from applyprune.planning.desired import resolve
from applyprune.planning.digests import planned_objects, state_mark
from applyprune.planning.managed_fields import own_fields
from applyprune.planning.plan import make_plan
from applyprune.values import replace
from tests.oracle.worlds import SET, later, world

if TYPE_CHECKING:
    from collections.abc import Iterator

    from applyprune.model.identity import Ref
    from applyprune.model.plan import ApplyStep, Plan
    from applyprune.planning.approval import PlanFile
    from tests.oracle.worlds import Generated

WORLDS = 1_000
NOW = datetime(2026, 11, 27, tzinfo=UTC)


def _plan(one: Generated) -> Plan:
    read, options = one.read, one.read.options
    resolved = resolve(
        one.manifests, read.resource_map, SET, namespace=SET.namespace, options=options
    )
    plan = make_plan(one.planned_from(resolved.desired))
    return with_approval(plan, SET, options)


def _file(one: Generated) -> PlanFile:
    plan = _plan(one)
    cluster = {"kube-system": "k1"}
    return plan_file_of(
        plan, SET, one.read.options, cluster=cluster, now=NOW, valid_for=timedelta(hours=1)
    )


def _pairs() -> Iterator[tuple[Generated, PlanFile, Generated, Plan]]:
    """Yield worlds with the plan files of them, and what they have become since."""
    for seed in range(WORLDS):
        one = world(seed)
        options = replace(one.read.options, mode=Mode.APPLY)
        one = replace(one, read=replace(one.read, options=options))
        try:
            file = _file(one)
            now = later(one, seed)
            begun = replace(now.read.inventory, plan=AppliedPlan(file.checksum))
            now = replace(now, read=replace(now.read, inventory=begun))
            yield one, file, now, _plan(now)
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
