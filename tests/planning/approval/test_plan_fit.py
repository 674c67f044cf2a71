"""Whether a plan file still fits, as a table: what was planned, what would be planned now."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from applyprune.model.inventory import Inventory, InventoryEntry
from applyprune.model.plan import ApplyStep, Cascaded, Fate, Plan, RemoveStep
from applyprune.model.problem import Problem, ProblemKind
from applyprune.planning.approval.plan_file import PlanFile
from applyprune.planning.approval.plan_fit import misfits
from applyprune.planning.approval.planned_objects import planned_objects
from tests.support.planning import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    JOBS,
    body,
    desired,
    inventory,
    live,
    managed,
    recorded,
)

WEB = desired(body("Deployment", "web", spec={"replicas": 1}), DEPLOYMENTS)
OTHER = desired(body("Deployment", "web", spec={"replicas": 2}), DEPLOYMENTS)
THERE = live(WEB.ref, uid="u1", generation=3)
POD = Cascaded(desired(body(name="pod")).ref, "u7")
STRANGER = desired(body(name="stranger"))


def _entry(**changes: Any) -> InventoryEntry:
    return recorded(WEB, THERE, **changes)


def _apply(fate: Fate, state: Any = THERE, **changes: Any) -> ApplyStep:
    step = ApplyStep(WEB, fate, _entry(), state)
    return replace(step, **changes)


def _remove(fate: Fate, state: Any = THERE, **changes: Any) -> RemoveStep:
    return replace(RemoveStep(_entry(), DEPLOYMENTS, fate, state), **changes)


def _plan(step: ApplyStep | RemoveStep | None, **changes: Any) -> Plan:
    applies = (step,) if isinstance(step, ApplyStep) else ()
    removals = (step,) if isinstance(step, RemoveStep) else ()
    return replace(Plan(applies, removals), **changes)


def _file(plan: Plan) -> PlanFile:
    now = datetime(2026, 11, 21, tzinfo=UTC)
    recovered = tuple((entry.ref, entry.uid) for entry in plan.recovered)
    objects = planned_objects(plan)
    return PlanFile("web", "home", {}, "i1", 3, {}, now, now, "", "", objects, recovered)


def _reasons(
    before: ApplyStep | RemoveStep | None,
    now: ApplyStep | RemoveStep | None,
    entry: InventoryEntry | None = None,
    *,
    continues: bool = False,
) -> list[str]:
    """Return why a file of the first step does not fit the second one."""
    stored: Inventory = inventory(*([entry] if entry else []))
    found = misfits(_file(_plan(before)), _plan(now), stored, continues=continues)
    return [misfit.reason for misfit in found]


MOVED = live(WEB.ref, uid="u1", generation=4, entries=[managed(time="2026-11-22T10:00:00Z")])
LABELLED = live(WEB.ref, uid="u1", generation=3, labels={"a": "b"})
STATUS_ONLY = live(WEB.ref, uid="u1", version="99", generation=3)
REPLACED = live(WEB.ref, uid="u2", generation=1)
GUARDED = Problem(ProblemKind.PRUNE_REFUSED, "no")
UNREAD = Problem(ProblemKind.FORBIDDEN, "deployments cannot be read")
CREATE, CHANGE, LEAVE = _apply(Fate.CREATE, None), _apply(Fate.CHANGE), _apply(Fate.LEAVE)
PRUNE, ORPHAN = _remove(Fate.PRUNE), _remove(Fate.ORPHAN)

FITS: dict[str, tuple[ApplyStep | RemoveStep | None, ApplyStep | RemoveStep | None, str]] = {
    "the same create": (CREATE, CREATE, ""),
    "the same change": (CHANGE, CHANGE, ""),
    "the same prune": (PRUNE, PRUNE, ""),
    "left, and something else moved": (LEAVE, _apply(Fate.LEAVE, MOVED), ""),
    "only the status moved": (CHANGE, _apply(Fate.CHANGE, STATUS_ONLY), ""),
    "a prune that a guard refuses": (PRUNE, _remove(Fate.REFUSE, problem=GUARDED), ""),
    "a refused prune, allowed now": (_remove(Fate.REFUSE, problem=GUARDED), PRUNE, ""),
    "a recreation is found by the server": (_apply(Fate.RECREATE), CHANGE, ""),
    "one file more": (None, CREATE, "the input has it, and the plan does not"),
    "one file fewer, of a new object": (CREATE, None, "the input no longer has it"),
    "one file fewer, of a listed object": (LEAVE, PRUNE, "the input no longer has it"),
    "back in the input": (PRUNE, CHANGE, "the input has it again"),
    "another manifest": (CHANGE, _apply(Fate.CHANGE, desired=OTHER), "its manifest has changed"),
    "created meanwhile": (CREATE, _apply(Fate.ADOPT), "it was created meanwhile"),
    "deleted meanwhile": (CHANGE, CREATE, "it was deleted meanwhile"),
    "replaced meanwhile": (
        CHANGE,
        _apply(Fate.ADOPT, REPLACED),
        "it was deleted and created again meanwhile",
    ),
    "spec changed meanwhile": (
        CHANGE,
        _apply(Fate.CHANGE, MOVED),
        "it has been changed meanwhile",
    ),
    "labels changed meanwhile": (
        CHANGE,
        _apply(Fate.CHANGE, LABELLED),
        "it has been changed meanwhile",
    ),
    "spec of an object to prune changed": (
        PRUNE,
        _remove(Fate.PRUNE, MOVED),
        "it has been changed meanwhile",
    ),
    "unreadable now": (
        CHANGE,
        _apply(Fate.REFUSE, None, problem=UNREAD),
        "deployments cannot be read",
    ),
    "unreadable now, to prune": (
        PRUNE,
        _remove(Fate.REFUSE, None, problem=UNREAD),
        "deployments cannot be read",
    ),
    "left, and differs now": (
        LEAVE,
        CHANGE,
        "its live state differs from its manifest now",
    ),
    "another fate": (
        CHANGE,
        LEAVE,
        "the plan was to apply it; now an apply would leave it as it is",
    ),
    "pruned instead of orphaned": (
        ORPHAN,
        PRUNE,
        "the plan was to orphan it; now an apply would prune it",
    ),
    "not pruned at all": (PRUNE, None, "the inventory no longer lists it"),
    "left the set since": (None, PRUNE, "it has left the set: an apply would prune it"),
    "another cascade": (
        _remove(Fate.PRUNE, cascade=(POD,)),
        _remove(Fate.PRUNE, cascade=(replace(POD, uid="u8"),)),
        "its deletion would delete other objects now",
    ),
}


@pytest.mark.parametrize("name", FITS)
def test_plan_file_fits_only_the_same_plan(name: str) -> None:
    """Each object that does not fit has its reason."""
    before, now, reason = FITS[name]
    assert _reasons(before, now) == ([reason] if reason else [])


UNCONFIRMED = _entry(digest="", fingerprint=None)
CONTINUED: dict[
    str, tuple[ApplyStep | RemoveStep, ApplyStep | RemoveStep | None, InventoryEntry | None, bool]
] = {
    "not created yet": (CREATE, CREATE, UNCONFIRMED, True),
    "created, and recorded": (CREATE, LEAVE, _entry(), True),
    "created, and not recorded": (CREATE, CHANGE, UNCONFIRMED, True),
    "created by somebody else": (CREATE, _apply(Fate.ADOPT), UNCONFIRMED, False),
    "created, recorded, and changed by others": (CREATE, CHANGE, _entry(), False),
    "not changed yet": (CHANGE, CHANGE, UNCONFIRMED, True),
    "changed, and recorded": (CHANGE, _apply(Fate.LEAVE, MOVED), _entry(), True),
    "changed, and not recorded": (CHANGE, _apply(Fate.CHANGE, MOVED), UNCONFIRMED, True),
    "changed by others after the record": (CHANGE, _apply(Fate.CHANGE, MOVED), _entry(), False),
    "replaced by others": (CHANGE, _apply(Fate.CHANGE, REPLACED), UNCONFIRMED, False),
    "deleted by others": (CHANGE, CREATE, UNCONFIRMED, False),
    "adopted, and not recorded": (
        _apply(Fate.ADOPT),
        _apply(Fate.CHANGE, MOVED),
        UNCONFIRMED,
        True,
    ),
    "recreated, and recorded": (
        _apply(Fate.RECREATE),
        _apply(Fate.LEAVE, REPLACED),
        _entry(),
        True,
    ),
    "deleted to be recreated": (_apply(Fate.RECREATE), CREATE, UNCONFIRMED, True),
    "recreated, and not recorded": (
        _apply(Fate.RECREATE),
        _apply(Fate.CHANGE, REPLACED),
        UNCONFIRMED,
        True,
    ),
    "left, and changed by others": (LEAVE, _apply(Fate.CHANGE, MOVED), _entry(), False),
    "pruned, and recorded": (PRUNE, None, None, True),
    "pruned, and not recorded": (
        PRUNE,
        _remove(Fate.REMOVE_FROM_INVENTORY, None),
        _entry(deleting=True),
        True,
    ),
    "being pruned": (PRUNE, _remove(Fate.PRUNE, MOVED), _entry(deleting=True), True),
    "not pruned yet, and changed by others": (PRUNE, _remove(Fate.PRUNE, MOVED), _entry(), False),
    "orphaned, and recorded": (ORPHAN, None, None, True),
    "orphaned, and not recorded": (
        ORPHAN,
        _remove(Fate.REMOVE_FROM_INVENTORY, LABELLED),
        _entry(orphaning=True),
        True,
    ),
    "pruned instead of orphaned": (
        ORPHAN,
        _remove(Fate.PRUNE, MOVED),
        _entry(orphaning=True),
        False,
    ),
    "one file fewer": (CREATE, None, None, False),
    "another manifest": (CREATE, _apply(Fate.CREATE, None, desired=OTHER), UNCONFIRMED, False),
}


@pytest.mark.parametrize("name", CONTINUED)
def test_interrupted_plan_continues_with_what_is_done(name: str) -> None:
    """And with requests that may have arrived; not with what others did meanwhile."""
    before, now, entry, fits = CONTINUED[name]
    assert (_reasons(before, now, entry, continues=True) == []) is fits


@pytest.mark.parametrize(
    "name", [name for name in CONTINUED if "recorded" in name or name == "being pruned"]
)
def test_plan_that_was_not_interrupted_accepts_no_half_done_step(name: str) -> None:
    """Without the record in the inventory, somebody else did it."""
    before, now, entry, _ = CONTINUED[name]
    assert _reasons(before, now, entry, continues=False) != []


def test_misfits_name_object_and_place() -> None:
    """In the order of the refs."""
    job = ApplyStep(desired(body("Job", "a"), JOBS), Fate.CREATE, _entry())
    leaving = RemoveStep(_entry(ref=STRANGER.ref), CONFIG_MAPS, Fate.PRUNE, live(STRANGER.ref))
    plan = Plan((CREATE, job), (leaving,))
    found = list(misfits(_file(Plan((), ())), plan, inventory(), continues=False))
    assert [misfit.ref for misfit in found] == sorted([STRANGER.ref, WEB.ref, job.desired.ref])
    assert {str(misfit.origin) for misfit in found} == {"None", str(WEB.origin)}


def test_object_that_could_not_be_planned_does_not_fit() -> None:
    """The server of its API group is silent: that is the reason, not the input."""
    found = misfits(
        _file(_plan(CHANGE)),
        _plan(None),
        inventory(),
        continues=False,
        unknown={WEB.ref: "the server of the API group apps does not answer"},
    )
    assert [misfit.reason for misfit in found] == [
        "the server of the API group apps does not answer"
    ]


def test_recovered_objects_must_be_the_same() -> None:
    """With their UIDs, unless an interrupted apply has recorded them already."""
    before, now = _plan(CHANGE, recovered=(_entry(ref=STRANGER.ref),)), _plan(CHANGE)
    for first, second in ((before, now), (now, before)):
        found = misfits(_file(first), second, inventory(), continues=False)
        assert [misfit.ref for misfit in found] == [STRANGER.ref]
    assert list(misfits(_file(before), before, inventory(), continues=False)) == []
    assert list(misfits(_file(before), now, inventory(), continues=True)) == []
