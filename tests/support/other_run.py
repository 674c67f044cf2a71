"""Other runs of a set: a holder of its lock elsewhere, and one that waits for the lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.clock import Instant
from applyprune.engine.lock import InventoryLock
from applyprune.engine.ports import Cancellation
from applyprune.model.inventory import LockHolder
from applyprune.model.options import Options
from tests.support.actors import ALICE
from tests.support.clocks import ManualClock

if TYPE_CHECKING:
    from tests.support.stage import Stage

ELSEWHERE = LockHolder("r0", f"{ALICE}@elsewhere", lease=15.0)
"""A holder on another machine."""


def take_from_elsewhere(stage: Stage, holder: LockHolder | None = ELSEWHERE) -> None:
    """Write that holder into the inventory of a set, even if another run holds the lock.

    None frees the lock at once, as the lease of a run that has lost it would do in time.
    """
    stage.rewrite(holder=holder)


def wait_for_lock(stage: Stage, timeout: float = 60.0) -> list[float]:
    """Take the lock of a set as a run does, and free it; return when it looked in vain.

    The time of this run passes at once, so no dead holder has to be waited for.
    """
    clock = ManualClock()
    transport = stage.transport()
    try:
        with InventoryLock(
            stage.store(transport),
            Options(lock_timeout=timeout),
            Cancellation(clock=clock),
            run="waits",
            clock=lambda: Instant(clock.now(), clock.now()),
        ) as lock:
            waited = [one.elapsed for one in lock.wait()]
            lock.take(lock.inventory)
        return waited
    finally:
        transport.close()
