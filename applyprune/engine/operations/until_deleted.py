"""Wait until a set and all of its objects are gone, whoever deletes them."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from applyprune.engine.context import WorkerPool
from applyprune.engine.preflight import no_such_set
from applyprune.engine.snapshot_reader import SnapshotReader
from applyprune.engine.steps.wait_deleted import DeletedObject, DeletionWait, Read
from applyprune.errors import NotReady, as_problem
from applyprune.model.events import Event, Finished, Waiting, WarningRaised
from applyprune.model.inventory import Inventory
from applyprune.model.live import LiveObject, State
from applyprune.model.options import StatusOptions
from applyprune.model.resources import CONFIG_MAPS
from applyprune.model.text.display import and_more
from applyprune.planning.applyset import PART_OF, ApplySetIdentity

if TYPE_CHECKING:
    from applyprune.engine.cancellation import Cancellation
    from applyprune.engine.ports import Cluster, Readable

_SHOWN = 5


def until_deleted(
    applyset: ApplySetIdentity,
    options: StatusOptions,
    cluster: Cluster,
    store: Readable,
    cancellation: Cancellation,
) -> Iterator[Event]:
    """Yield what the set still consists of, until nothing is left or the timeout is over.

    The inventory goes last, so the objects are read after it. What has lost the set's label by then
    was orphaned, and stays. A set that does not exist is a warning: a typing error must be visible.
    """
    began = time.monotonic()
    inventory = store.read()
    if not inventory.exists:
        yield WarningRaised(as_problem(no_such_set(applyset)))
        yield Finished({}, 0, 0.0)
        return
    with WorkerPool(16, cancellation) as workers:
        reader = SnapshotReader(cluster, workers, applyset, store)

        def read(pending: Sequence[DeletedObject]) -> Iterable[tuple[DeletedObject, State]]:
            return workers.each(
                lambda one: (one, reader.read_object(one.resource, one.ref)), pending
            )

        root = DeletedObject(CONFIG_MAPS, applyset.inventory, inventory.uid)
        left = yield from _wait([root], options.timeout, read, cancellation)
        if not left:
            rest = max(0.0, options.timeout - (time.monotonic() - began))
            remaining = [
                one
                for one, state in read(_listed(inventory, cluster))
                if isinstance(state, LiveObject)
                and state.uid == one.uid
                and state.labels.get(PART_OF) == applyset.id
            ]
            left = yield from _wait(remaining, rest, read, cancellation)
    elapsed = time.monotonic() - began
    if cancellation.requested:
        yield Finished({}, cancellation.exit_code, elapsed)
    elif left:
        names = and_more([one.ref.short for one in left], _SHOWN)
        error = NotReady(f"the set {applyset.name} is not gone: {names} still exists")
        yield Finished({}, error.exit_code, elapsed, as_problem(error))
    else:
        yield Finished({}, 0, elapsed)


def _listed(inventory: Inventory, cluster: Cluster) -> Sequence[DeletedObject]:
    """Return the listed objects of the kinds that are served: nothing exists of any other."""
    resource_map = cluster.resource_map()
    found = (
        (resource_map.find_kind(ref.group_kind), entry) for ref, entry in inventory.entries.items()
    )
    return [
        DeletedObject(resource, entry.ref, entry.uid)
        for resource, entry in found
        if resource is not None
    ]


def _wait(
    pending: Sequence[DeletedObject], timeout: float, read: Read, cancellation: Cancellation
) -> Generator[Event, None, Sequence[DeletedObject]]:
    """Wait until all of them are gone; return those that are not."""
    wait = DeletionWait(pending, timeout, cancellation)
    for event in wait.events(read):
        if isinstance(event, Waiting):
            yield event
    return wait.pending
