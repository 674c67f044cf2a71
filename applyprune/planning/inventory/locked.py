"""Say which run holds an inventory, and what was seen of it."""

from __future__ import annotations

from applyprune.errors import InventoryLocked
from applyprune.model.inventory import HolderObservation, Inventory


def locked_error(
    inventory: Inventory, seen: HolderObservation, watched: float, *, is_alive: bool
) -> InventoryLocked:
    """Return the error of a run that has watched the holder for some seconds, and ends.

    ``is_alive`` says whether it has seen a renewal. After a single look (``watched`` is zero) the
    error contains no time, so that the next look says the same.
    """
    holder, told = seen.holder, "holds the lock"
    if is_alive:
        told = "is alive: it has taken or renewed the lock during this wait"
    elif watched:
        told = f"holds the lock, and has not renewed it in the {watched:.1f} s of this wait"
    error = InventoryLocked(
        f"the set {inventory.name} is locked by another run",
        reason=f"{holder.who}, run {holder.run}, {told}",
        hint="Wait for it to end, or wait longer with --lock-timeout. A run that has crashed loses "
        f"the lock when it has not renewed it for {holder.lease:g} seconds.",
    )
    error.observation = seen
    return error
