"""Select objects by name or by label."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from applyprune.model.identity import Ref
from applyprune.model.inventory import InventoryEntry
from applyprune.model.problem import Problem, ProblemKind

if TYPE_CHECKING:
    from applyprune.model.text.label_selector import Selector


def chosen(names: Collection[str], entries: Iterable[InventoryEntry]) -> Sequence[InventoryEntry]:
    """Return the entries with the given names; all entries if there are no names."""
    return [entry for entry in entries if not names or entry.ref.is_among(names)]


def unlisted(names: Collection[str], refs: Collection[Ref]) -> Sequence[str]:
    """Return the names that match no object."""
    return sorted(name for name in names if not any(ref.is_among((name,)) for ref in refs))


def partial_problem(
    selector: Selector, picked: Collection[Ref], listed: Collection[Ref]
) -> Problem:
    """Return the warning for a run that a selector limits to a part of the set."""
    others = len(set(listed) - set(picked))
    return Problem(
        kind=ProblemKind.PART_OF_THE_SET,
        message=f"nothing is pruned: -l {selector.text} selects only a part of the set",
        reason=f"{others} other objects in the inventory do not change" if others else "",
    )
