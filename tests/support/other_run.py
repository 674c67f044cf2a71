"""A lock holder on another machine: nothing here can know whether it is alive."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from applyprune.model.inventory import LockHolder
from tests.support.actors import ALICE

if TYPE_CHECKING:
    from tests.support.stage import Stage

ELSEWHERE = LockHolder("r0", f"{ALICE}@elsewhere", "another boot/1", "7@99", lease=15.0)


def take_from_elsewhere(stage: Stage, holder: LockHolder | None = ELSEWHERE) -> None:
    """Write that holder into the inventory of a set, even if another run holds the lock.

    None frees the lock at once, as the lease of a run that has lost it would do in time.
    """
    transport = stage.transport()
    try:
        store = stage.store(transport)
        store.write(replace(store.read(), holder=holder))
    finally:
        transport.close()
