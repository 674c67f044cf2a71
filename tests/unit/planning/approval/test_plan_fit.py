"""Whether a plan file still fits, as a table: what was planned, what would be planned now."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from applyprune.model.fate import Fate
from applyprune.model.inventory import AppliedPlan, InventoryEntry
from applyprune.model.live import LiveObject
from applyprune.model.options import Options
from applyprune.model.plan import ApplyStep, Cascaded, Plan, RemoveStep
from applyprune.model.problem import Problem, ProblemKind
from applyprune.planning.applyset import PART_OF
from applyprune.planning.approval import PlanFile, misfits
from applyprune.planning.digests import planned_objects
from applyprune.planning.requests import apply_request
from applyprune.values import replace
from tests.support.planning import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    JOBS,
    TARGET,
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
    if fate not in {Fate.LEAVE, Fate.REFUSE}:
        step = replace(step, request=apply_request(step, TARGET, Options()))
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
    *,
    is_last: bool = False,
) -> list[str]:
    """Return why a file of the first step does not fit the second one."""
    file = _file(_plan(before))
    stored = inventory(plan=AppliedPlan(file.checksum if is_last else "another"))
    return [misfit.problem.reason for misfit in misfits(file, _plan(now), stored) if misfit.problem]


MOVED = live(WEB.ref, uid="u1", generation=4, entries=[managed(time="2026-11-22T10:00:00Z")])
BY_HAND = live(
    WEB.ref,
    uid="u1",
    generation=4,
    entries=[
        managed(),
        managed(
            "kubectl-edit",
            operation="Update",
            time="2026-11-22T10:00:00Z",
            fieldsV1={"f:spec": {"f:replicas": {}}},
        ),
    ],
)
NOT_ENOUGH = "changing it back is not enough"
LABELLED = live(WEB.ref, uid="u1", generation=3, labels={"a": "b"})
STATUS_ONLY = live(WEB.ref, uid="u1", version="99", generation=3)
REPLACED = live(WEB.ref, uid="u2", generation=1)
GUARDED = Problem(ProblemKind.PRUNE_REFUSED, "no")
UNREAD = Problem(ProblemKind.FORBIDDEN, "deployments cannot be read")
CHECKED = replace(_apply(Fate.CHANGE), fate=Fate.LEAVE, is_checked=True)
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
        f"it has been changed meanwhile, by {TARGET.manager}; {NOT_ENOUGH}",
    ),
    "labels changed meanwhile": (
        CHANGE,
        _apply(Fate.CHANGE, LABELLED),
        f"it has been changed meanwhile; {NOT_ENOUGH}",
    ),
    "spec of an object to prune changed": (
        PRUNE,
        _remove(Fate.PRUNE, MOVED),
        f"it has been changed meanwhile; {NOT_ENOUGH}",
    ),
    "spec changed by hand": (
        CHANGE,
        _apply(Fate.CHANGE, BY_HAND),
        f"it has been changed meanwhile, by kubectl-edit (.spec.replicas); {NOT_ENOUGH}",
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
    "left, and differs now": (LEAVE, CHANGE, "its live state differs from its manifest now"),
    "left as it is now": (CHANGE, LEAVE, ""),
    "not pruned now": (PRUNE, _remove(Fate.LEAVE), ""),
    "a recreation that the plan does not have": (
        CHANGE,
        _apply(Fate.RECREATE),
        "the plan was to apply it; now an apply would recreate it",
    ),
    "a prune that was refused": (
        _remove(Fate.REFUSE, problem=UNREAD),
        PRUNE,
        "the plan was to refuse it; now an apply would prune it",
    ),
    "an adoption that the plan does not have": (
        CHANGE,
        _apply(Fate.ADOPT),
        "the plan was to apply it; now an apply would adopt it",
    ),
    "pruned instead of orphaned": (
        ORPHAN,
        PRUNE,
        "the plan was to orphan it; now an apply would prune it",
    ),
    "not listed any more": (PRUNE, None, ""),
    "left the set since": (None, PRUNE, "it is no longer in the input: an apply would prune it"),
    "a smaller cascade": (_remove(Fate.PRUNE, cascade=(POD,)), PRUNE, ""),
    "another cascade of a recreation": (
        _apply(Fate.RECREATE, cascade=(POD,)),
        _apply(Fate.RECREATE, cascade=(POD, replace(POD, uid="u8"))),
        "its deletion would delete other objects now",
    ),
    "another cascade": (
        _remove(Fate.PRUNE, cascade=(POD,)),
        _remove(Fate.PRUNE, cascade=(replace(POD, uid="u8"),)),
        "its deletion would delete other objects now",
    ),
}


@pytest.mark.holds("reviewed-state", row="spec of an object to prune changed")
@pytest.mark.holds("reviewed-fate", row="a recreation that the plan does not have")
@pytest.mark.holds("reviewed-cascade", row="another cascade of a recreation")
@pytest.mark.parametrize("name", FITS)
def test_plan_file_fits_only_the_same_plan(name: str) -> None:
    """Each object that does not fit has its reason."""
    before, now, reason = FITS[name]
    assert _reasons(before, now) == ([reason] if reason else [])


LATER = "2026-11-22T10:00:00Z"
ALL_FIELDS = {"f:metadata": {"f:labels": {f"f:{PART_OF}": {}}}, "f:spec": {"f:replicas": {}}}
APPLIED = managed(fieldsV1=ALL_FIELDS, time=LATER)
UNDONE = managed(fieldsV1={**ALL_FIELDS, "f:spec": {"f:paused": {}}}, time=LATER)
EDIT = managed("kubectl-edit", operation="Update", time=LATER)


def _state(*entries: dict[str, Any], uid: str = "u1", **metadata: Any) -> LiveObject:
    return live(WEB.ref, uid=uid, generation=4, entries=list(entries), **metadata)


ARRIVED = _apply(Fate.CHANGE, _state(APPLIED))
"""Our apply has changed it: our own entry is new, and has the whole manifest."""
EDITED = _apply(Fate.CHANGE, _state(managed(), EDIT))
"""Our entry is that of the plan: whoever has changed it, it was not this plan."""
TAKEN = _apply(Fate.CHANGE, _state(UNDONE, EDIT))
"""Our apply has arrived; then somebody has changed or removed a field of it."""
PATCHED = _apply(Fate.ADOPT, _state({**managed(), "time": None}, EDIT))
"""Our patch has given our entry the fields of others; the apply has not arrived."""
ADOPT = _apply(Fate.ADOPT, _state(EDIT))
RECREATE = _apply(Fate.RECREATE)
NEW = _apply(Fate.CHANGE, _state(APPLIED, uid="u2"))
ENDING = live(WEB.ref, generation=3, deletionTimestamp=LATER)
REFUSED = Problem(ProblemKind.RUN_FAILED, "it is being deleted")
CONTINUED: dict[str, tuple[ApplyStep | RemoveStep, ApplyStep | RemoveStep | None, bool]] = {
    "not created yet": (CREATE, CREATE, True),
    "created, and recorded": (CREATE, LEAVE, True),
    "created, and not recorded": (CREATE, ARRIVED, True),
    "created, not recorded, and extended": (
        CREATE,
        _apply(Fate.CHANGE, _state(APPLIED, EDIT)),
        True,
    ),
    "created, not recorded, and changed by others": (CREATE, TAKEN, False),
    "created by somebody else": (CREATE, _apply(Fate.ADOPT), False),
    "created, recorded, and changed by others": (CREATE, CHANGE, False),
    "not changed yet": (CHANGE, CHANGE, True),
    "changed, and recorded": (CHANGE, _apply(Fate.LEAVE, MOVED), True),
    "changed, and not recorded": (CHANGE, ARRIVED, True),
    "changed, recorded, and to apply in any case": (CHANGE, ARRIVED, True),
    "changed, recorded, and then by others": (CHANGE, TAKEN, False),
    "not changed yet, but by others": (CHANGE, EDITED, False),
    "changed, not recorded, and changed by others": (CHANGE, TAKEN, False),
    "left after a check, and not applied yet": (CHECKED, CHANGE, True),
    "left after a check, and not recorded": (CHECKED, ARRIVED, True),
    "left after a check, and recorded": (CHECKED, LEAVE, True),
    "left after a check, and changed by others": (CHECKED, EDITED, False),
    "changed by others after the record": (CHANGE, _apply(Fate.CHANGE, MOVED), False),
    "replaced by others": (CHANGE, _apply(Fate.CHANGE, REPLACED), False),
    "deleted by others": (CHANGE, CREATE, False),
    "not adopted yet": (ADOPT, ADOPT, True),
    "not adopted yet, and listed": (ADOPT, _apply(Fate.CHANGE, _state(EDIT)), True),
    "not adopted yet, and changed by others": (
        ADOPT,
        _apply(Fate.CHANGE, _state({**EDIT, "time": "2026-11-22T11:00:00Z"})),
        False,
    ),
    "half adopted": (ADOPT, PATCHED, True),
    "adopted, and not recorded": (ADOPT, ARRIVED, True),
    "recreated, and recorded": (RECREATE, _apply(Fate.LEAVE, REPLACED), True),
    "not recreated yet": (RECREATE, CHANGE, True),
    "not recreated yet, and changed by others": (RECREATE, EDITED, False),
    "not recreated yet, and deleted by others": (RECREATE, CREATE, True),
    "being recreated": (RECREATE, _apply(Fate.REFUSE, ENDING, problem=REFUSED), False),
    "left, and changed by others": (LEAVE, _apply(Fate.CHANGE, MOVED), False),
    "pruned, and recorded": (PRUNE, None, True),
    "being pruned": (PRUNE, _remove(Fate.PRUNE, ENDING), True),
    "replaced, and being deleted by others": (
        PRUNE,
        _remove(Fate.PRUNE, live(WEB.ref, uid="u2", deletionTimestamp=LATER)),
        False,
    ),
    "recreated, and only to be changed": (CHANGE, NEW, False),
    "to recreate, and changed in place": (RECREATE, ARRIVED, False),
    "to prune, recorded, and changed by others": (PRUNE, _remove(Fate.PRUNE, MOVED), False),
    "pruned, and not recorded": (PRUNE, _remove(Fate.REMOVE_FROM_INVENTORY, None), True),
    "not orphaned yet, and deleted by others": (
        ORPHAN,
        _remove(Fate.REMOVE_FROM_INVENTORY, None),
        True,
    ),
    "to prune, and being deleted by others": (PRUNE, _remove(Fate.PRUNE, ENDING), True),
    "not pruned yet, and changed by others": (PRUNE, _remove(Fate.PRUNE, MOVED), False),
    "orphaned, and recorded": (ORPHAN, None, True),
    "orphaned, and not recorded": (ORPHAN, _remove(Fate.REMOVE_FROM_INVENTORY, LABELLED), True),
    "not orphaned yet, and changed by others": (ORPHAN, _remove(Fate.ORPHAN, MOVED), False),
    "pruned instead of orphaned": (ORPHAN, _remove(Fate.PRUNE, MOVED), False),
    "one file fewer": (CREATE, None, False),
    "another manifest": (CREATE, _apply(Fate.CREATE, None, desired=OTHER), False),
}


@pytest.mark.holds("reviewed-apply", row="changed, not recorded, and changed by others")
@pytest.mark.parametrize("name", CONTINUED)
def test_interrupted_plan_continues_with_what_is_done(name: str) -> None:
    """And with requests that may have arrived; not with what others have changed meanwhile."""
    before, now, fits = CONTINUED[name]
    assert (_reasons(before, now, is_last=True) == []) is fits


@pytest.mark.holds("reviewed-run")
def test_apply_of_another_run_is_not_that_of_the_plan() -> None:
    """managedFields have no values: it may be another manifest that has arrived."""
    assert _reasons(CHANGE, ARRIVED, is_last=True) == []
    reasons = [reason.partition(",")[0] for reason in _reasons(CHANGE, ARRIVED)]
    assert reasons == ["it has been changed meanwhile"]


def test_misfits_name_object_and_place() -> None:
    """In the order of the refs."""
    job = ApplyStep(desired(body("Job", "a"), JOBS), Fate.CREATE, _entry())
    leaving = RemoveStep(_entry(ref=STRANGER.ref), CONFIG_MAPS, Fate.PRUNE, live(STRANGER.ref))
    plan = Plan((CREATE, job), (leaving,))
    found = list(misfits(_file(Plan((), ())), plan, inventory()))
    assert [misfit.ref for misfit in found] == sorted([STRANGER.ref, WEB.ref, job.desired.ref])
    assert {str(misfit.origin) for misfit in found} == {"None", str(WEB.origin)}


def test_object_that_could_not_be_planned_does_not_fit() -> None:
    """The server of its API group is silent: that is the reason, not the input."""
    found = misfits(
        _file(_plan(CHANGE)),
        _plan(None),
        inventory(),
        {WEB.ref: "the server of the API group apps does not answer"},
    )
    assert [misfit.problem.reason for misfit in found if misfit.problem] == [
        "the server of the API group apps does not answer"
    ]


@pytest.mark.holds("reviewed-recovery")
def test_recovered_objects_must_have_been_shown() -> None:
    """With their UIDs; an interrupted apply has recorded them already."""
    before, now = _plan(CHANGE, recovered=(_entry(ref=STRANGER.ref),)), _plan(CHANGE)
    assert [misfit.ref for misfit in misfits(_file(now), before, inventory())] == [STRANGER.ref]
    assert list(misfits(_file(before), before, inventory())) == []
    assert list(misfits(_file(before), now, inventory())) == []
