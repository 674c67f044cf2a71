"""The planner of today decides as the frozen one did."""

from __future__ import annotations

import copy
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from applyprune.model.fate import Fate
from applyprune.model.options import DryRun
from applyprune.model.plan import ApplyRule, Guard, GuardVerdict
from applyprune.planning.approval import with_approval
from applyprune.planning.desired import resolve
from applyprune.planning.plan import forecast, make_plan
from tests.oracle.frozen import frozen, module, plain
from tests.oracle.worlds import SET, Generated, world

if TYPE_CHECKING:
    from collections.abc import Callable

WORLDS = 500
MANY = 60_000
LATER = {Fate.RECREATE}
"""A reply of the server leads to it."""
ELSEWHERE = {Guard.CONTROLLER_IN_USE}
"""It needs Bundles."""


class Decisions(NamedTuple):
    """What a planner makes of a world."""

    resolved: Any
    plan: Any
    forecast: tuple[Any, ...]


def _planned(one: Generated) -> Decisions:
    """Return what today's planner makes of a world."""
    read, options = one.read, one.read.options
    resolved = resolve(
        one.manifests, read.resource_map, SET, namespace=SET.namespace, options=options
    )
    plan = make_plan(one.planned_from(resolved.desired))
    plan = with_approval(plan, SET, options)
    return Decisions(resolved, plan, tuple(forecast(plan, options)))


def _as_frozen(one: Generated) -> Decisions:
    """Return what the frozen planner makes of it."""
    read, given = one.read, frozen(tuple(one.manifests))
    applyset, options, inventory = frozen(SET), frozen(read.options), frozen(read.inventory)
    resolved = module("planning.desired").resolve(
        given, frozen(read.resource_map), applyset, namespace=SET.namespace, options=options
    )
    planner, snapshot = module("planning.plan"), module("planning.recovery").ClusterSnapshot
    known = (name for name in snapshot.__struct_fields__ if hasattr(read, name))
    parts = {name: frozen(getattr(read, name)) for name in known}
    plan = planner.make_plan(resolved.desired, inventory, snapshot(**parts), applyset, options)
    plan = module("planning.approval").with_approval(plan, options)
    if read.options.dry_run is DryRun.CLIENT:
        plan = planner.unchecked(plan)
    plan = planner.completed(plan, applyset, options)
    return Decisions(resolved, plan, tuple(planner.forecast(plan, options)))


def _outcome(call: Callable[[], Decisions]) -> Any:
    """Return what a planner decides or raises, as plain data."""
    try:
        found = call()
    except Exception as error:  # noqa: BLE001 - the other planner must end in the same way
        return f"{type(error).__name__}: {error}"
    resolved = found.resolved
    errors = [f"{type(error).__name__}: {error}" for error in resolved.errors]
    return [errors, plain(resolved.warnings), plain(found.plan), plain(found.forecast)]


def _differs(seed: int) -> bool:
    one = world(seed)
    today, before = _outcome(lambda: _planned(one)), _outcome(lambda: _as_frozen(one))
    if _without_added_versions(today, before) == before:
        return False
    found = _planned(one)
    left_out = [each.apply is ApplyRule.DISABLED for each in found.resolved.desired]
    # Narrowed: an input of which a mark leaves out each manifest counts as empty. Mended: one that
    # is left out is no use of its namespace, and the guard sees the others in another one.
    refused = {one.guard for one in found.plan.guards if one.verdict is GuardVerdict.REFUSED}
    is_refused = any(left_out) and Guard.OTHER_NAMESPACE in refused
    explained = all(left_out) or is_refused
    return not explained or bool(_deleted(found) - _deleted(_as_frozen(one)))


def _without_added_versions(today: Any, before: Any) -> Any:
    """Return today's decisions without the resourceVersions that only they name.

    Mended: an apply names its version too where it relies on another owner of a field.
    """
    if isinstance(today, str) or isinstance(before, str):
        return today
    today = copy.deepcopy(today)
    pairs = zip(today[2]["applies"], before[2]["applies"], strict=False)
    for new, old in ((one["request"], other["request"]) for one, other in pairs):
        if new and old and not old["precondition"]["resource_version"]:
            new["precondition"]["resource_version"] = ""
    return today


def _deleted(found: Decisions) -> set[str]:
    """Return the objects that a plan deletes."""
    steps = () if found.plan.no_prune else found.plan.removals
    return {str(step.entry.ref) for step in steps if step.fate.value == Fate.PRUNE.value}


def test_planner_decides_as_the_frozen_one() -> None:
    """The first seed that differs is the one to look at."""
    assert next(filter(_differs, range(WORLDS)), None) is None


@pytest.mark.sweep
def test_planner_decides_as_the_frozen_one_in_many_worlds() -> None:
    """Other seeds than those of the short form."""
    assert [seed for seed in range(WORLDS, MANY) if _differs(seed)] == []


def test_worlds_hold_every_fate_and_guard() -> None:
    """What no world holds, the comparison does not prove."""
    fates: Counter[Fate] = Counter()
    guards: Counter[Guard] = Counter()
    failures = 0
    for seed in range(WORLDS):
        try:
            plan = _planned(world(seed)).plan
        except Exception:  # noqa: BLE001 - counted
            failures += 1
            continue
        fates.update(step.fate for step in (*plan.applies, *plan.removals))
        guards.update(result.guard for result in plan.guards)
    assert failures < WORLDS // 10
    assert [fate for fate in Fate if fate not in fates.keys() | LATER] == []
    assert [guard for guard in Guard if guard not in guards.keys() | ELSEWHERE] == []


def test_difference_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison can fail."""
    monkeypatch.setattr("applyprune.planning.decide.has_witness", lambda *_: True)
    assert any(map(_differs, range(WORLDS)))
