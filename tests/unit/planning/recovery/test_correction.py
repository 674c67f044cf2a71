"""What is corrected alone: a listed object with drift, and nothing that a whole set decides."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.fate import Fate
from applyprune.model.identity import GroupKind
from applyprune.model.inventory import Inventory, InventoryEntry
from applyprune.model.live import AUTOSCALERS
from applyprune.model.plan import ApplyStep, Plan
from applyprune.model.problem import Problem, ProblemKind
from applyprune.planning.recovery import WholeSetNeeded, part_to_correct, refuse_beyond_drift
from applyprune.values import replace
from tests.support.planning import NAMESPACES, body, desired, inventory, live, recorded

ONE, OTHER = desired(body(name="a")), desired(body(name="b"))
SPACE = desired(body("Namespace", "n"), NAMESPACES)
MAPS = GroupKind("", "ConfigMap")


def entry(of: Any = ONE, **changes: Any) -> InventoryEntry:
    return recorded(of, live(of.ref), **changes)


WHOLE = inventory(entry(), entry(OTHER))


def test_only_the_entries_of_the_objects_are_read() -> None:
    """The inventory that is written has the others too."""
    found = part_to_correct(WHOLE, {ONE.ref}, [ONE], {MAPS})
    assert found.entries.keys() == {ONE.ref}
    assert found == replace(WHOLE, entries=found.entries)


REFUSED: dict[str, tuple[Inventory, Any, set[GroupKind]]] = {
    "no inventory": (replace(WHOLE, uid=""), ONE, {MAPS}),
    "a copy": (replace(WHOLE, copied=True), ONE, {MAPS}),
    "an object that is not listed": (inventory(entry(OTHER)), ONE, {MAPS}),
    "an apply that nobody has confirmed": (inventory(entry(uid="")), ONE, {MAPS}),
    "a Namespace": (inventory(entry(SPACE)), SPACE, {MAPS}),
    "an autoscaler in the input": (WHOLE, ONE, {MAPS, AUTOSCALERS.group_kind}),
}


@pytest.mark.holds("correction-of-listed", row="a copy")
@pytest.mark.parametrize("what", REFUSED)
def test_whatever_else_may_be_wrong_needs_the_whole_set(what: str) -> None:
    """Nothing was read yet."""
    listed, one, kinds = REFUSED[what]
    with pytest.raises(WholeSetNeeded):
        part_to_correct(listed, {one.ref}, [one], kinds)


def test_object_that_has_left_the_source_needs_the_whole_set() -> None:
    """Nobody creates it again alone."""
    with pytest.raises(WholeSetNeeded):
        part_to_correct(WHOLE, {ONE.ref, OTHER.ref}, [ONE], {MAPS})


CORRECTED = ApplyStep(ONE, Fate.CHANGE, entry(), live(ONE.ref), is_reapplied=True)
STEPS: dict[str, tuple[ApplyStep, bool]] = {
    "a field is reverted": (CORRECTED, True),
    "a deleted object is created": (replace(CORRECTED, fate=Fate.CREATE, live=None), True),
    "nothing": (replace(CORRECTED, fate=Fate.LEAVE, is_reapplied=False), True),
    "another manifest is applied": (replace(CORRECTED, is_reapplied=False), False),
    "another object is adopted": (replace(CORRECTED, fate=Fate.ADOPT), False),
    "it is recreated": (replace(CORRECTED, fate=Fate.RECREATE), False),
    "it is refused": (replace(CORRECTED, fate=Fate.REFUSE), False),
    "it would fail": (replace(CORRECTED, problem=Problem(ProblemKind.ERROR, "no")), False),
}


@pytest.mark.parametrize("what", STEPS)
def test_plan_may_do_no_more_than_set_back_drift(what: str) -> None:
    """Else the whole set is planned, which writes nothing yet either."""
    step, allowed = STEPS[what]
    plan = Plan((CORRECTED, step), ())
    if allowed:
        refuse_beyond_drift(plan)
        plan = replace(plan, restored=True)
    with pytest.raises(WholeSetNeeded):
        refuse_beyond_drift(plan)
