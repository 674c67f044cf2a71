"""The reasons of an explanation: what the inventory says of an object."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from applyprune.model.options import Mode, Options
from applyprune.planning.explain import ExplainInput, explained
from applyprune.planning.plan import make_plan
from applyprune.planning.snapshot import ClusterSnapshot
from tests.support.options import options_of
from tests.support.planning import CONFIG_MAPS, TARGET, body, desired, inventory, live, recorded

if TYPE_CHECKING:
    from applyprune.model.inventory import InventoryEntry

ONE = desired(body(data={"k": "v"}))
THERE = live(ONE.ref)
ENTRY = recorded(ONE, THERE)


def _reasons(entry: InventoryEntry | None) -> str:
    entries = (entry,) if entry else ()
    snapshot = ClusterSnapshot({ONE.ref: THERE}, resources={CONFIG_MAPS.group_kind: CONFIG_MAPS})
    plan = make_plan((ONE,), inventory(*entries), snapshot, TARGET, Options())
    case = ExplainInput(ONE.ref, THERE, plan, inventory(*entries), TARGET, by_input=True)
    return "\n".join(explained(case).reasons)


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (None, "the inventory does not list it"),
        (ENTRY, "its manifest is the same as the last applied manifest"),
        (replace(ENTRY, digest="x"), "its manifest is different from the last applied manifest"),
        (replace(ENTRY, digest="", fingerprint=None), "the last applied manifest is unknown"),
        (replace(ENTRY, deleting=True), "an interrupted run was about to delete it"),
        (replace(ENTRY, orphaning=True), "an interrupted run was about to orphan it"),
    ],
)
def test_explanation_says_what_the_inventory_records(
    entry: InventoryEntry | None, reason: str
) -> None:
    """Also for an entry of a run that was killed before it got a reply."""
    assert reason in _reasons(entry).splitlines()


@pytest.mark.parametrize("by_input", [True, False])
def test_explanation_has_each_guard_of_a_deletion(by_input: bool) -> None:
    """Those that passed or were lifted, each with what it found; not that no input was given."""
    snapshot = ClusterSnapshot({ONE.ref: THERE}, resources={CONFIG_MAPS.group_kind: CONFIG_MAPS})
    options = options_of(mode=Mode.PRUNE, allow_empty=True)
    plan = make_plan((), inventory(ENTRY), snapshot, TARGET, options)
    case = ExplainInput(ONE.ref, THERE, plan, inventory(ENTRY), TARGET, by_input=by_input)
    reasons = explained(case).reasons
    assert "guard max-prune passed: 1 deletion is not more than 5" in reasons
    lifted = "guard empty-input lifted by --allow-empty: no object in the input"
    assert (lifted in reasons) is by_input
    assert len([one for one in reasons if one.startswith("guard ")]) == len(plan.guards) - (
        not by_input
    )
