"""What an observer knows about the holder of an inventory lock, from one look to the next."""

from __future__ import annotations

from applyprune.model.inventory import Inventory, LockHolder
from applyprune.values import dataclass

SETTLE = 2.0
"""Seconds after the seen end of a run: its last request may still be on its way to the server."""


@dataclass(frozen=True, slots=True)
class HolderObservation:
    """That a lock holder has written nothing since a time.

    It can be given to a later run, or to another process, on the same machine: the times are boot
    time, and mean nothing on another machine or after another boot.

    Nobody needs to watch in between. Each write of a holder, and so each renewal, raises the number
    of writes. If two looks show the same number of the same inventory, the holder has not renewed
    its lock in the time between them, whatever the observer did. A sleep of the observer's machine
    counts, because that time has passed for the holder too: if it slept as well, its own lease is
    over by the same clock, and it must renew before it writes. A pause of a virtual machine does
    not count, because boot time stops then: the silence seems shorter than it was.
    """

    uid: str
    """The UID of the inventory's ConfigMap."""
    generation: int
    """The number of writes of the inventory."""
    holder: LockHolder
    """The holder, with its number of renewals."""
    since: float
    """When the first reply that shows this state had arrived."""
    ended: float | None = None
    """When the end of the holder's process was seen; None if it was not."""

    @property
    def over_at(self) -> float:
        """Return when another run may take the lock; a look must be asked for after that."""
        silent = self.since + self.holder.lease
        return silent if self.ended is None else min(silent, self.ended + SETTLE)


def observed(
    earlier: HolderObservation | None, inventory: Inventory, now: float
) -> HolderObservation | None:
    """Return what is known after a look, whose reply came ``now``; None if no run holds the lock.

    ``earlier`` is what was known before. It holds only as long as nothing has changed. A run ID and
    a number of renewals alone do not show that: the second part of a run counts its renewals from
    zero again, and an inventory that was created again may have been copied.
    """
    if inventory.holder is None:
        return None
    if (
        earlier is not None
        and earlier.uid == inventory.uid  # guard: same-inventory-observed
        and earlier.generation == inventory.generation  # guard: no-write-observed
        and earlier.holder == inventory.holder  # guard: same-holder-observed
    ):
        return earlier
    return HolderObservation(inventory.uid, inventory.generation, inventory.holder, since=now)
