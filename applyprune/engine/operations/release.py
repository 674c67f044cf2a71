"""Release a set from the Bundle that owns it, by a single write of its inventory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from applyprune.engine.context import RunSummary
from applyprune.engine.inventory_lock import inventory_lock
from applyprune.engine.preflight import no_such_set
from applyprune.errors import UsageError
from applyprune.model.events import Event, ObjectDone, Outcome, Started
from applyprune.model.options import DryRun, Mode, Options
from applyprune.planning.applyset import ApplySetIdentity
from applyprune.values import replace

if TYPE_CHECKING:
    from applyprune.engine.cancellation import Cancellation
    from applyprune.engine.ports import Store


def release(
    applyset: ApplySetIdentity,
    options: Options,
    store: Store,
    cancellation: Cancellation,
    *,
    run: str,
    is_active: Callable[[str], bool],
) -> Iterator[Event]:
    """Record that no Bundle owns a set; ``is_active`` says whether the controller runs its owner.

    ``run`` is the ID of the run.

    Raises UsageError if it does, because the Bundle would take the set over again at once. Also
    raises InventoryError, AccessError, InventoryLocked and Interrupted.
    """
    summary = RunSummary(run)
    yield Started(summary.run, Mode.REPAIR, applyset.name, applyset.namespace, options.dry_run)
    with inventory_lock(store, options, cancellation, run=summary.run, mode=Mode.REPAIR) as lock:
        yield from lock.wait()
        if not lock.inventory.exists:
            raise no_such_set(applyset)
        ref = applyset.inventory
        if not (owner := lock.inventory.owner):
            done = ObjectDone(ref, Outcome.UNCHANGED, reason="it belongs to no Bundle")
        else:
            if is_active(owner):
                raise UsageError(
                    f"the set {applyset.name} was not released",
                    reason=f"{owner} is active, and would take it over again",
                    hint="Suspend the Bundle first: spec.suspend: true",
                )
            if options.dry_run is DryRun.OFF:
                yield lock.write_once(replace(lock.inventory, owner=""))
            done = ObjectDone(ref, Outcome.CONFIGURED, reason=f"released from {owner}")
    yield from summary.counted((done,))
    yield summary.finished()
