"""The lock on a set's inventory: one run waits for it, takes it, renews it, and releases it.

A holder proves that it is alive by renewing the lock. Another run times the renewals on its own
monotonic clock. Every write is compare-and-swap, so a run that has lost the lock to another one
notices it at its next write at the latest.
No delete starts unless it fits in the rest of the lease.
"""

from __future__ import annotations

import getpass
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING

from applyprune.errors import ApplypruneError, InventoryLocked
from applyprune.model.events import InventoryWritten, Phase, Waiting
from applyprune.model.identity import Ref
from applyprune.model.inventory import (
    AppliedPlan,
    Inventory,
    InventoryEntry,
    LastRun,
    LockHolder,
)
from applyprune.model.options import Mode, Options

if TYPE_CHECKING:
    from applyprune.engine.cancellation import Cancellation
    from applyprune.engine.ports import Store

DELETE_TIMEOUT = 8.0
"""Seconds that one delete may take with all its retries; the lease must last that long."""
WRITE_MARGIN = 3.0
"""Seconds that the lease must last before any other write to an object."""
_RENEWALS_PER_LEASE = 3
_POLL = 0.5
_SETTLE = 2.0
_PROC = Path("/proc")


@contextmanager
def inventory_lock(
    store: Store,
    options: Options,
    cancellation: Cancellation,
    *,
    run: str,
    mode: Mode,
    who: str = "",
) -> Iterator[InventoryLock]:
    """Yield the lock of one set, not taken yet; release it at the end if it is still held.

    ``run`` is the run's id. ``mode`` is recorded as the mode of the last run. ``who`` is the name
    that other runs see; by default the user and the host.
    """
    lock = InventoryLock(store, options, cancellation, run=run, mode=mode, who=who)
    try:
        yield lock
    finally:
        lock.close()


class InventoryLock:
    """The inventory of one set, and the right to write it; thread-safe once it is taken."""

    def __init__(
        self,
        store: Store,
        options: Options,
        cancellation: Cancellation,
        *,
        run: str,
        mode: Mode,
        who: str,
    ) -> None:
        """Keep the arguments of ``inventory_lock``; nothing is read or held yet."""
        self._store = store
        self._cancellation = cancellation
        self._timeout = options.lock_timeout
        self._mode = mode
        self._holder = new_holder(run, lease=options.lease, who=who)
        self._stored = Inventory("", "")
        self._recorded_entries: dict[Ref, InventoryEntry] = {}
        self._lock = Lock()
        self._ended = Event()
        self._renewer: Thread | None = None
        self._taken = False
        self._held_since = 0.0
        self._lost: ApplypruneError | None = None

    @property
    def inventory(self) -> Inventory:
        """Return the inventory as last read or stored."""
        return self._stored

    @property
    def taken(self) -> bool:
        """Return whether this run has taken the lock; a dry run never does."""
        return self._taken

    @property
    def recorded_entries(self) -> Mapping[Ref, InventoryEntry]:
        """Return the entries that ``record_entry`` has stored."""
        return self._recorded_entries

    def wait(self, read: Callable[[], Inventory] | None = None) -> Iterator[Waiting]:
        """Wait until no other run holds the lock; ``inventory`` is then as last read.

        ``read`` replaces the store's own ``read``. A holder that has not renewed for the length of
        its lease has crashed. A holder that is known to be dead (a process on this machine) gets
        two seconds. Raises InventoryLocked if the holder is still alive after ``lock_timeout``
        seconds. Call it again if ``take`` has failed.
        """
        read = read or self._store.read
        self._lost = None
        self._stored = read()
        began = time.monotonic()
        seen, since = self._stored.holder, began
        while (holder := self._stored.holder) is not None:
            now = time.monotonic()
            if holder != seen:
                seen, since = holder, now
            # A request of the dead process may still be on its way to the server.
            dead = now - since >= _SETTLE and is_dead(holder)
            if dead or now - since >= holder.lease:
                return
            name = f"the set {self._stored.name}"
            if now - began >= self._timeout:
                raise InventoryLocked(
                    f"{name} is locked by another run",
                    reason=f"{holder.who}, run {holder.run}, is alive",
                    hint="Wait for it to end, or wait longer with --lock-timeout.",
                )
            yield Waiting(None, name, now - began, self._timeout, f"{holder.who} works on it")
            if self._cancellation.wait(_POLL):
                self._cancellation.check()
            self._stored = read()

    def has_moved(self) -> bool:
        """Return whether another run has written the inventory since it was last read."""
        now, then = self._store.read(), self._stored
        return (now.uid, now.generation) != (then.uid, then.generation)

    def take(self, inventory: Inventory, *, plan: str = "") -> InventoryWritten:
        """Store ``inventory`` and hold the lock from now on.

        ``plan`` is the checksum of the plan file that this run is bound to. Raises InventoryLocked
        if another run has written the inventory since it was read.
        """
        bound = AppliedPlan(plan) if plan else None
        with self._lock:
            self._put(replace(inventory, holder=self._holder, plan=bound))
            self._taken = True
            self._renewer = Thread(target=self._renew, name="applyprune-lease", daemon=True)
            self._renewer.start()
            return self._recorded(Phase.BEFORE_APPLY)

    def record(self, entries: Mapping[Ref, InventoryEntry], phase: Phase) -> InventoryWritten:
        """Store ``entries`` and keep the lock; InventoryLocked if another run has taken it."""
        with self._lock:
            self._check()
            self._put(replace(self._stored, entries=dict(entries), holder=self._holder))
            return self._recorded(phase)

    def record_entry(self, entry: InventoryEntry) -> None:
        """Store one entry in place of the object's recorded one, and keep the lock."""
        with self._lock:
            if not self._taken:
                raise InventoryLocked("nothing is recorded in this run, so nothing may be deleted")
            self._check()
            entries = {**self._stored.entries, entry.ref: entry}
            self._put(replace(self._stored, entries=entries, holder=self._holder))
            self._recorded_entries[entry.ref] = entry

    def ensure(self, seconds: float) -> None:
        """Make sure that the lease lasts ``seconds`` more; renew it if necessary.

        Return at once if this run has not taken the lock: then it writes nothing that needs it.
        Raises InventoryLocked if the lease cannot be renewed: then nothing more may be written.
        """
        if not self._taken:
            return
        with self._lock:
            self._check()
            if self._left() < seconds:
                self._put(replace(self._stored, holder=self._renewed()))
            if self._left() < seconds:
                raise InventoryLocked(
                    "the lock on the inventory could not be renewed in time",
                    hint="Nothing more was deleted. Run again.",
                )

    def release(self, entries: Mapping[Ref, InventoryEntry], *, exit_code: int) -> InventoryWritten:
        """Store ``entries`` and the end of this run, and release the lock."""
        self._stop_renewing()
        with self._lock:
            self._check()
            last = last_run(self._holder, str(self._mode), exit_code)
            plan = self._stored.plan and replace(self._stored.plan, done=exit_code == 0)
            ended = replace(self._stored, holder=None, last=last, plan=plan)
            self._put(replace(ended, entries=dict(entries)))
            return self._recorded(Phase.FINAL)

    def write_once(self, inventory: Inventory) -> InventoryWritten:
        """Store ``inventory`` in a single write, without holding the lock before or after."""
        with self._lock:
            self._put(replace(inventory, holder=None, plan=None))
            return self._recorded(Phase.FINAL)

    def remove(self) -> InventoryWritten:
        """Delete the inventory, once it lists no object any more."""
        self._stop_renewing()
        with self._lock:
            self._check()
            self._store.remove(self._stored)
            self._stored = replace(self._stored, holder=None)  # nothing is left to release
            return InventoryWritten(Phase.REMOVED, 0, self._stored.generation)

    def close(self) -> None:
        """Release the lock if it is still held, and record nothing else: an error ended the run.

        A lock that cannot be released expires by itself.
        """
        self._stop_renewing()
        with self._lock:
            if not self._taken or self._stored.holder is None or self._lost is not None:
                return
            try:
                self._put(replace(self._stored, holder=None))
            except ApplypruneError:
                return

    def _recorded(self, phase: Phase) -> InventoryWritten:
        return InventoryWritten(phase, len(self._stored.entries), self._stored.generation)

    def _left(self) -> float:
        return self._holder.lease - (time.monotonic() - self._held_since)

    def _renewed(self) -> LockHolder:
        self._holder = replace(self._holder, renewals=self._holder.renewals + 1)
        return self._holder

    def _put(self, inventory: Inventory) -> None:
        # The lease starts before the request: the reply may have taken long.
        since = time.monotonic()
        try:
            self._stored = self._store.write(inventory)
        except InventoryLocked as error:
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
                    # Retry at the next turn. If no renewal succeeds, `ensure` stops the deletes.
                    continue

    def _stop_renewing(self) -> None:
        self._ended.set()
        if self._renewer is not None:
            self._renewer.join()
            self._renewer = None


def new_holder(run: str, *, lease: float, who: str = "") -> LockHolder:
    """Return this process as the lock holder of one run; ``lease`` is in seconds.

    ``who`` is the name that other runs see; by default the user and the host.
    """
    return LockHolder(
        run=run,
        who=who or f"{_user()}@{platform.node()}",
        host=_host_mark(),
        process=_process_mark(os.getpid()),
        lease=lease,
    )


def last_run(holder: LockHolder, mode: str, exit_code: int) -> LastRun:
    """Return the record of a holder's run, which ends now."""
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return LastRun(run=holder.run, mode=mode, who=holder.who, at=at, exit_code=exit_code)


def is_dead(holder: LockHolder) -> bool:
    """Return whether a holder is certainly dead: it ran on this machine and no longer runs.

    False if that is unknown: then only its lease can expire.
    """
    if not holder.host or holder.host != _host_mark():
        return False
    pid, _, _ = holder.process.partition("@")
    return pid.isdecimal() and _process_mark(int(pid)) != holder.process


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return str(os.getuid())


def _host_mark() -> str:
    """Return an id of this boot and this PID namespace; empty if the system has none."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{(_PROC / 'self/ns/pid').stat().st_ino}"
    except OSError:
        return ""


def _process_mark(pid: int) -> str:
    """Return the PID and the start time of a process; together they are never reused."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return f"{pid}@"
    # The command's name, in parentheses, may contain anything; the start time is the 20th field
    # after it.
    return f"{pid}@{stat.rpartition(')')[2].split()[19]}"
