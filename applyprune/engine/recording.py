"""The inventory's part in a run: union first, shrunk last, held and renewed in between.

A holder lives by its renewals, which an observer times on its own monotonic clock. Every write is
compare-and-swap, so a run that was taken over learns of it at its next write at the latest, and
no delete starts unless it fits in what is left of the lease.
"""

from __future__ import annotations

import time
from dataclasses import replace
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING

from applyprune.engine.holding import is_dead, last_run
from applyprune.errors import ApplypruneError, LostRace
from applyprune.model.events import Phase, Recorded, Waiting

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from applyprune.engine.ports import Readable, Store
    from applyprune.engine.workers import Stop
    from applyprune.model.inventory import Entry, Holder, Inventory
    from applyprune.model.options import Mode
    from applyprune.model.refs import Ref

DELETE_TIMEOUT = 8.0
"""Seconds that one delete may take, all its tries; so much of the lease must be left for it."""
WRITE_MARGIN = 3.0
"""Seconds of the lease that must be left before any other write to an object."""
_RENEWALS_PER_LEASE = 3
_POLL = 0.5
_SETTLE = 2.0


class Record:
    """The inventory as this run holds it; thread-safe."""

    def __init__(self, store: Store, inventory: Inventory, holder: Holder, mode: Mode) -> None:
        """Take the inventory as read; nothing is held before the first ``write``.

        ``holder`` and ``mode`` are of the run that the inventory names as its last one, at its end.
        """
        self._store = store
        self._stored = inventory
        self._holder = holder
        self._mode = mode
        self._lock = Lock()
        self._ended = Event()
        self._renewer: Thread | None = None
        self._held_since = 0.0
        self._lost: ApplypruneError | None = None

    @property
    def inventory(self) -> Inventory:
        """Return it as last stored."""
        return self._stored

    def write(self, entries: Mapping[Ref, Entry], phase: Phase, *, exit_code: int = 0) -> Recorded:
        """Store ``entries``; hold the set with all phases but SHRUNK, which lets go of it.

        That one records the run as the last one, and ``exit_code`` as what it has come to. Raises
        LostRace when the inventory is not as this run left it.
        """
        final = phase is Phase.SHRUNK
        if final:
            self._stop_renewing()
        with self._lock:
            self._check()
            fresh = replace(self._stored, entries=dict(entries), holder=self._holder)
            if final:
                last = last_run(self._holder, str(self._mode), exit_code)
                fresh = replace(fresh, holder=None, last=last)
            self._put(fresh)
            if not final and self._renewer is None:
                self._renewer = Thread(target=self._renew, name="applyprune-lease", daemon=True)
                self._renewer.start()
            return Recorded(phase, len(self._stored.entries), self._stored.generation)

    def note(self, entry: Entry) -> None:
        """Store one entry in the place of what is recorded of its object, and hold on."""
        with self._lock:
            self._check()
            entries = {**self._stored.entries, entry.ref: entry}
            self._put(replace(self._stored, entries=entries, holder=self._holder))

    def remove(self) -> Recorded:
        """Delete the inventory itself, once it lists nothing more."""
        self._stop_renewing()
        with self._lock:
            self._check()
            self._store.remove(self._stored)
            self._stored = replace(self._stored, holder=None)  # nothing is left to let go of
            return Recorded(Phase.REMOVED, 0, self._stored.generation)

    def ensure(self, seconds: float) -> None:
        """Return when at least so much of the lease is left; renew it first when it must be.

        Raises LostRace when it cannot be: then nothing may be deleted any more.
        """
        with self._lock:
            self._check()
            if self._left() < seconds:
                self._put(replace(self._stored, holder=self._renewed()))
            if self._left() < seconds:
                raise LostRace(
                    "the hold on the inventory could not be renewed in time",
                    hint="Nothing more was deleted. Run again.",
                )

    def let_go(self) -> None:
        """Let go without recording anything, for a run that ends by an error.

        A hold that cannot be let go of runs out by itself.
        """
        self._stop_renewing()
        with self._lock:
            if self._stored.holder is None or self._lost is not None:
                return
            try:
                self._put(replace(self._stored, holder=None))
            except ApplypruneError:
                return

    def close(self) -> None:
        """End the renewals; a hold that was not let go of runs out by itself."""
        self._stop_renewing()

    def _left(self) -> float:
        return self._holder.lease - (time.monotonic() - self._held_since)

    def _renewed(self) -> Holder:
        self._holder = replace(self._holder, renewals=self._holder.renewals + 1)
        return self._holder

    def _put(self, inventory: Inventory) -> None:
        # The lease counts from before the request: the reply may have been long on its way.
        since = time.monotonic()
        try:
            self._stored = self._store.write(inventory)
        except LostRace as error:
            self._lost = error
            raise
        self._held_since = since

    def _check(self) -> None:
        if self._lost is not None:
            raise self._lost

    def _renew(self) -> None:
        while not self._ended.wait(self._holder.lease / _RENEWALS_PER_LEASE):
            with self._lock:
                if self._ended.is_set() or self._lost is not None:
                    return
                try:
                    self._put(replace(self._stored, holder=self._renewed()))
                except ApplypruneError:
                    # A failed renewal is tried again at the next turn; `ensure` is what stops
                    # deletes when none comes through.
                    continue

    def _stop_renewing(self) -> None:
        self._ended.set()
        if self._renewer is not None:
            self._renewer.join()
            self._renewer = None


def await_turn(store: Readable, *, timeout: float, stop: Stop) -> Iterator[Inventory | Waiting]:
    """Yield what is waited for, and last the inventory that nobody holds any more.

    A holder that has not moved for the length of its lease has crashed; one that is known to be
    dead (a process of this very machine) is given two seconds. Raises LostRace when the holder
    still lives after ``timeout`` seconds.
    """
    inventory = store.read()
    began = time.monotonic()
    seen, since = inventory.holder, began
    while (holder := inventory.holder) is not None:
        now = time.monotonic()
        if holder != seen:
            seen, since = holder, now
        # What a dead process has sent may still be on its way to the server.
        dead = now - since >= _SETTLE and is_dead(holder)
        if dead or now - since >= holder.lease:
            break
        if now - began >= timeout:
            raise LostRace(
                f"the set {inventory.name} is held by another run",
                why=f"{holder.who}, run {holder.run}, is alive",
                hint="Wait for it to end, or give it longer with --lock-timeout.",
            )
        what, why = f"the set {inventory.name}", f"{holder.who} works on it"
        yield Waiting(None, what, now - began, timeout, why)
        if stop.wait(_POLL):
            stop.check()
        inventory = store.read()
    yield inventory
