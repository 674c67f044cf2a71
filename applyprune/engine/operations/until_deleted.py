"""Wait until a set and all of its objects are gone, whoever deletes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from applyprune.engine.context import WorkerPool
from applyprune.engine.preflight import no_such_set
from applyprune.engine.snapshot_reader import SnapshotReader
from applyprune.engine.steps.wait_deleted import DeletedObject, DeletionWait, Read
from applyprune.errors import NotReady, RunFailed, as_problem
from applyprune.model.events import Event, Finished, Waiting, WarningRaised
from applyprune.model.identity import Ref
from applyprune.model.inventory import Inventory
from applyprune.model.live import CONFIG_MAPS, LiveObject, State, Unknown
from applyprune.model.options import StatusOptions
from applyprune.model.text import and_more
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
    began = cancellation.now()
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
        wait = DeletionWait([root], options.timeout, cancellation)
        yield from _waiting(wait, read)
        unknown: list[Ref] = []
        if not wait.pending and not cancellation.requested:
            rest = max(0.0, options.timeout - (cancellation.now() - began))
            remaining, unknown = _remaining(inventory, reader, cluster, applyset)
            wait = DeletionWait(remaining, rest, cancellation)
            yield from _waiting(wait, read)
    elapsed = cancellation.now() - began
    # Whatever was never read may be gone, or not.
    unknown += [one.ref for one in wait.pending if one.ref not in wait.last]
    error: RunFailed | None = None
    if unknown:
        error = RunFailed(f"it is unknown whether {_names(unknown)} still exists")
    elif wait.pending:
        names = _names([one.ref for one in wait.pending])
        error = NotReady(f"the set {applyset.name} is not gone: {names} still exists")
    if cancellation.requested:
        yield Finished({}, cancellation.exit_code, elapsed)
    elif error is not None:
        yield Finished({}, error.exit_code, elapsed, as_problem(error))
    else:
        yield Finished({}, 0, elapsed)


def _names(refs: Sequence[Ref]) -> str:
    return and_more([ref.short for ref in refs], _SHOWN)


def _remaining(
    inventory: Inventory, reader: SnapshotReader, cluster: Cluster, applyset: ApplySetIdentity
) -> tuple[list[DeletedObject], list[Ref]]:
    """Return the listed objects that are not known to be gone, and those that cannot be read.

    What has lost the set's label, or is another object by now, does not belong to the set.
    """
    snapshot = reader.read(
        (), inventory, cluster.resource_map(), prunes=False, proves=False, searches=False
    )
    remaining: list[DeletedObject] = []
    unknown: list[Ref] = []
    for ref, entry in inventory.entries.items():
        state, resource = snapshot.states[ref], snapshot.resources.get(ref.group_kind)
        if isinstance(state, LiveObject) and resource is not None:
            is_same = state.uid == entry.uid or not entry.uid
            if is_same and state.labels.get(PART_OF) == applyset.id:
                remaining.append(DeletedObject(resource, ref, state.uid))
        elif isinstance(state, Unknown):  # guard: unknown-is-not-gone
            unknown.append(ref)
    return remaining, unknown


def _waiting(wait: DeletionWait, read: Read) -> Iterator[Event]:
    """Wait until everything that is pending is gone; yield what it waits for."""
    yield from (event for event in wait.events(read) if isinstance(event, Waiting))
