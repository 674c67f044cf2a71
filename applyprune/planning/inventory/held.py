"""Say that other tools hold an inventory that applyprune has deleted."""

from __future__ import annotations

from collections.abc import Iterable

from applyprune.model.inventory import Inventory
from applyprune.model.problem import Problem, ProblemKind
from applyprune.planning.applyset import ApplySetIdentity


def held_inventory(inventory: Inventory, finalizers: Iterable[str]) -> Problem:
    """Return the warning about a deleted inventory that still exists, and what to do about it."""
    ref = ApplySetIdentity(inventory.name, inventory.namespace).inventory
    return Problem(
        ProblemKind.HELD_INVENTORY,
        f"the inventory of the set {inventory.name} is deleted but not gone yet",
        location=str(ref),
        reason=f"other tools hold it by the finalizers: {', '.join(finalizers)}",
        hint="It lists no object any more. Until these tools remove their finalizers, the set "
        "cannot be applied again.",
    )
