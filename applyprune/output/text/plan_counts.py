"""How many objects of a plan have each fate, in words: ``3 to create``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.model.events import Outcome
from applyprune.model.plan import Fate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from applyprune.model.plan import Plan

_WORDS = {
    Outcome.CREATED: "to create",
    Outcome.CONFIGURED: "to update",
    Outcome.RECREATED: "to recreate",
    Outcome.PRUNED: "to prune",
    Outcome.DELETED: "to delete",
    Outcome.ORPHANED: "to orphan",
    Outcome.REMOVED_FROM_INVENTORY: "to remove from inventory",
    Outcome.MOVED: "to move",
    Outcome.REPAIRED: "to repair",
    Outcome.UNCHANGED: "unchanged",
    Outcome.NOT_PRUNED: "not pruned",
    Outcome.SKIPPED: "skipped",
    Outcome.FAILED: "failed",
}


def plan_counts(counts: Mapping[Outcome, int], plan: Plan | None) -> Mapping[str, int]:
    """Return the counts of a run that writes nothing, each by its words; none of them is 0.

    To adopt an object is an update as well, but counts only once.
    """
    adopted = sum(step.fate is Fate.ADOPT for step in plan.applies) if plan is not None else 0
    adopted = min(adopted, counts.get(Outcome.CONFIGURED, 0))
    found: dict[str, int] = {}
    for outcome, words in _WORDS.items():
        found[words] = counts.get(outcome, 0)
        if outcome is Outcome.CONFIGURED:
            found[words] -= adopted
            found["to adopt"] = adopted
    return {words: count for words, count in found.items() if count}
