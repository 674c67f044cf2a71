"""The lock on a set's inventory: one run waits for it, takes it, renews it, and releases it.

A holder proves that it is alive by renewing the lock; another run times the renewals on its own
clock. Every write of the inventory is compare-and-swap, and every write of an object is sent under
the lease: nothing is sent, or sent again, after its end, and no delete starts unless it fits in the
rest. After a pause of the process or the machine, the lease must be renewed first.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Self

from applyprune.clock import CLOCK, Clock, Instant, read_clock, seconds_held
from applyprune.errors import ApplypruneError, InventoryError, InventoryLocked
from applyprune.model.events import InventoryWritten, Phase, Waiting, WarningRaised
from applyprune.model.identity import Ref
from applyprune.model.inventory import (
    NO_SOURCE,
    AppliedPlan,
    Changes,
    HolderObservation,
    Inventory,
    InventoryEntry,
    LockHolder,
    RunRecord,
    RunSource,
    observe,
    valid_lease,
)
from applyprune.model.options import Options
from applyprune.model.text import visible
from applyprune.planning.approved_deletions import after_run
from applyprune.planning.history import with_objects
from applyprune.planning.recovery import held_inventory, locked_error, marks_not_stored
from applyprune.system.terminal import user_name
from applyprune.values import replace

if TYPE_CHECKING:
    from applyprune.engine.ports import Cancellation, Store


DELETE_TIMEOUT = 8.0
"""Seconds that one delete may take with all its retries; the lease must last that long."""
WRITE_MARGIN = 3.0
"""Seconds that the lease must last before any other write to an object."""
_ARRIVAL_MARGIN = 1.0
"""Seconds before the end of the lease from which nothing is sent: it would arrive too late."""
_RENEWALS_PER_LEASE = 3
# A renewal has failed if it takes longer than this part of the lease.
_RENEWAL_TIMEOUT = 2 / 3
_POLL = 0.5
# Characters. A user's name comes from the environment, and a record must stay small.
_LONGEST_WHO = 300


class InventoryLock:
    """The inventory of one set, and the right to write it; thread-safe once it is taken.

    It is not taken yet when it is made. As a context, it releases the lock at the end if that is
    still held.
    """

    def __init__(
        self,
        store: Store,
        options: Options,
        cancellation: Cancellation,
        *,
        run: str,
        who: str = "",
        clock: Callable[[], Instant] = read_clock,
        renewal_clock: Clock = CLOCK,
    ) -> None:
        """Read and hold nothing yet.

        ``run`` is the run's id. ``who`` is the name that other runs see; by default the user and
        the host. ``clock`` times the leases. The lock waits for its next renewal by
        ``renewal_clock``, and for its next look at another run's lock by the clock of
        ``cancellation``.
        """
        self.inventory = Inventory("", "")
        """The inventory as last read or stored."""
        self.taken = False
        """Whether this run has taken the lock; a dry run never does."""
        self.recorded_entries: dict[Ref, InventoryEntry] = {}
        """The entries that ``record_entry`` has stored."""
        self._store = store
        self._cancellation = cancellation
        self._options = options
        who = visible(who or f"{user_name()}@{platform.node()}")[:_LONGEST_WHO]
        self._holder = LockHolder(run, who, valid_lease(options.lease))
        self._lock = Lock()
        self._source, self._number = NO_SOURCE, 0
        self._ended = Event()
        self._renewer: Thread | None = None
        self._clock = clock
        self._renewal_clock = renewal_clock  # guard: renewal-clock -> CLOCK
        self._held_since = clock()
        self._lost: ApplypruneError | None = None
        # The last write that failed, and when: who waited for it does not try again.
        self._failure: tuple[float, ApplypruneError] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Release the lock if it is still held, and record nothing else: an error ended the run.

        A lock that cannot be released expires by itself.
        """
        self.pause()
        with self._lock, suppress(ApplypruneError):
            if self.taken and self.inventory.holder is not None and self._lost is None:
                self._put(replace(self.inventory, holder=None))

    def wait(
        self,
        read: Callable[[], Inventory] | None = None,
        observation: HolderObservation | None = None,
    ) -> Iterator[Waiting]:
        """Wait until no other run holds the lock; ``inventory`` is then as last read.

        ``read`` replaces the store's own ``read``. ``observation`` is what an earlier run of this
        machine has seen of the holder. A holder that has not renewed for the length of its lease
        has crashed. Raises InventoryLocked, with what was seen, if it still has the lock after
        ``lock_timeout`` seconds; if that is 0, after one look. Call it again if ``take`` has
        failed.
        """
        read = read or self._store.read
        self._lost = None
        began = asked = self._clock().boot
        self.inventory = read()
        at_first = self.inventory.generation
        seen = observe(observation, self.inventory, self._clock().boot)
        while seen is not None:
            # What was read may be as old as the request for it.
            if asked >= seen.over_at:  # guard: lease-observed always
                return
            if asked - began >= self._options.lock_timeout:
                is_alive = seen.generation != at_first
                raise locked_error(self.inventory, seen, asked - began, is_alive=is_alive)
            name, what = f"the lock of the set {self.inventory.name}", f"held by {seen.holder.who}"
            yield Waiting(None, name, asked - began, self._options.lock_timeout, what)
            if self._cancellation.wait(_POLL):
                self._cancellation.check()
            asked = self._clock().boot
            self.inventory = read()
            seen = observe(seen, self.inventory, self._clock().boot)

    def has_moved(self) -> bool:
        """Return whether another run has written the inventory since it was last read."""
        now, then = self._store.read(), self.inventory
        return (now.uid, now.generation) != (then.uid, then.generation)

    def take(
        self, inventory: Inventory, *, plan: str = "", source: RunSource = NO_SOURCE
    ) -> InventoryWritten:
        """Store ``inventory`` and hold the lock from now on.

        ``plan`` is the checksum of the plan file that this run is bound to, and ``source`` is where
        its input came from. Raises InventoryLocked
        if another run has written the inventory since it was read, InventoryError if what is stored
        is not what every later run must find.
        """
        with self._lock:
            bound = AppliedPlan(plan) if plan else None
            begun = replace(inventory, holder=self._holder, plan=bound)
            if inventory.last is not None and inventory.last.run != self._holder.run:
                # The record of the last run makes room for this one, which has no end yet.
                begun = replace(begun, earlier=inventory.history)
            self._source, self._number = (
                source,
                1 + max((one.number for one in begun.earlier), default=0),
            )
            try:
                self._put(replace(begun, last=self._record()))
            except InventoryError:
                if self.inventory.root.faults:  # it is stored, and nothing follows
                    with suppress(ApplypruneError):
                        self._put(replace(self.inventory, holder=None))
                raise
            self.taken = True
            self._renewer = Thread(target=self._renew, name="applyprune-lease", daemon=True)
            self._renewer.start()
            return self._recorded(Phase.BEFORE_APPLY)

    def record(self, entries: Mapping[Ref, InventoryEntry], phase: Phase) -> InventoryWritten:
        """Store ``entries`` and keep the lock; InventoryLocked if another run has taken it."""
        with self._lock:
            self._check()
            self._put(replace(self.inventory, entries=dict(entries), holder=self._holder))
            return self._recorded(phase)

    def record_entry(self, entry: InventoryEntry) -> None:
        """Store one entry in place of the object's recorded one, and keep the lock."""
        with self._lock:
            if not self.taken:
                raise InventoryLocked("nothing is recorded in this run, so nothing may be deleted")
            self._check()
            entries = {**self.inventory.entries, entry.ref: entry}
            self._put(replace(self.inventory, entries=entries, holder=self._holder))
            self.recorded_entries[entry.ref] = entry

    def ensure(self, seconds: float = WRITE_MARGIN) -> None:
        """Make sure that the lease lasts ``seconds`` more; renew it if necessary.

        Return at once if this run has not taken the lock: then it writes nothing that needs it.
        Raises InventoryLocked if the lease cannot be renewed: then nothing more may be written.
        """
        if not self.taken or (self._lost is None and self._seconds_left() >= seconds):
            return
        asked = self._clock().boot
        with self._lock:
            self._check()
            if self._seconds_left() < seconds:
                if self._failure is not None and self._failure[0] >= asked:
                    raise self._failure[1]
                self._put_renewal()
            if self._seconds_left() < seconds:
                raise InventoryLocked(
                    "the lock on the inventory could not be renewed in time",
                    hint="Nothing more was written. Run again.",
                )

    def left(self) -> float:
        """Return for how many seconds a write may still be sent; without limit if not taken."""
        if not self.taken:
            return math.inf
        return 0.0 if self._lost is not None else self._seconds_left() - _ARRIVAL_MARGIN

    def release(
        self, entries: Mapping[Ref, InventoryEntry], *, exit_code: int, changes: Changes
    ) -> InventoryWritten:
        """Store ``entries`` and the end of this run, and release the lock."""
        self.pause()
        with self._lock:
            self._check()
            last = replace(
                self._record(),
                exit_code=exit_code,
                created=changes.created,
                changed=changes.changed,
                pruned=changes.pruned,
            )
            before = self.inventory
            objects = with_objects(
                before.objects_of_runs,
                last.run,
                changes.objects,
                (one.run for one in before.earlier),
            )
            plan = self.inventory.plan and replace(self.inventory.plan, done=exit_code == 0)
            approved = after_run(self.inventory.approved, entries)
            ended = replace(
                self.inventory,
                entries=dict(entries),
                last=last,
                objects_of_runs=objects,
                plan=plan,
                approved=approved,
            )
            self._put(replace(ended, holder=None))
            return self._recorded(Phase.FINAL)

    def write_once(self, inventory: Inventory) -> InventoryWritten:
        """Store ``inventory`` in a single write, without holding the lock before or after."""
        with self._lock:
            self._put(replace(inventory, holder=None, plan=None))
            return self._recorded(Phase.FINAL)

    def remove(self) -> Iterator[InventoryWritten | WarningRaised]:
        """Delete the inventory, once no object of it is left; warn if other tools still hold it."""
        self.pause()
        with self._lock:
            self._check()
            held_by = self._store.remove(self.inventory, within=self._holder.lease)
            self.inventory = replace(self.inventory, holder=None)  # nothing is left to release
        yield InventoryWritten(Phase.REMOVED, 0, self.inventory.generation)
        if held_by:
            yield WarningRaised(held_inventory(self.inventory, held_by))

    def end(self, *, is_gone: bool) -> Iterator[InventoryWritten]:
        """Write nothing more: the inventory is deleted with its Namespace, now or soon."""
        self.pause()
        with self._lock:
            self.inventory = replace(self.inventory, holder=None)  # nothing is left to release
        if is_gone:
            yield InventoryWritten(Phase.REMOVED, 0, self.inventory.generation)

    def _record(self) -> RunRecord:
        holder, by, mode = self._holder, self._options.actor, self._options.mode
        at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        record = RunRecord(holder.run, str(mode), holder.who, at)
        source = self._source if self._source.commit else replace(self._source, commit=by.commit)
        return replace(
            record,
            actor=by.name,
            url=by.url,
            source=source,
            number=self._number,
            is_whole=self._options.applies_whole,
        )

    def _recorded(self, phase: Phase) -> InventoryWritten:
        return InventoryWritten(phase, len(self.inventory.entries), self.inventory.generation)

    def _seconds_left(self) -> float:
        """Return how many seconds the lease lasts; less than zero after its end or a pause."""
        return self._holder.lease - seconds_held(self._held_since, self._clock())

    def _put_renewal(self) -> None:
        self._holder = replace(self._holder, renewals=self._holder.renewals + 1)
        within = self._holder.lease * _RENEWAL_TIMEOUT
        self._put(replace(self.inventory, holder=self._holder), within=within)

    def _put(self, inventory: Inventory, *, within: float | None = None) -> None:
        # The lease starts before the request: the reply may have taken long.
        since = self._clock()
        try:
            self.inventory = self._store.write(inventory, within=within or self._holder.lease)
            if self.inventory.root.faults:  # guard: marks-of-the-inventory never
                raise marks_not_stored(self.inventory)
        except InventoryLocked as error:
            self._lost = error
            raise
        except ApplypruneError as error:
            self._failure = (self._clock().boot, error)
            raise
        self._held_since = since

    def _check(self) -> None:
        if self._lost is not None:
            raise self._lost

    def _renew(self) -> None:
        seconds = self._holder.lease / _RENEWALS_PER_LEASE
        while not self._renewal_clock.wait(self._ended, seconds):
            with self._lock:
                if self._ended.is_set() or self._lost is not None:
                    return
                # Retry at the next turn. If no renewal succeeds, `ensure` stops the writes.
                with suppress(ApplypruneError):
                    self._put_renewal()

    def pause(self) -> None:
        """Renew the lock no more: it ends with its lease, or the inventory is about to vanish."""
        self._ended.set()
        if self._renewer is not None:
            self._renewer.join()
            self._renewer = None
