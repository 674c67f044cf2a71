"""Show the progress of a run: live lines on a terminal, a line from time to time in a log.

A thread updates both, because a run that waits for a server yields no events. They go to standard
error, whatever the format of the data.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct, field

from applyprune.model.events import (
    Event,
    Finished,
    InventoryWritten,
    ObjectDone,
    ObjectStuck,
    Planned,
    ReadinessReported,
    SetEvent,
    SetsBegan,
    Started,
    Waiting,
)
from applyprune.model.identity import Ref, SetKey, kubectl_name
from applyprune.model.options import DryRun, Mode
from applyprune.model.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from applyprune.model.inventory import Wave
    from applyprune.model.plan import Plan
    from applyprune.output.terminal import Terminal


FRAME = 0.1
"""Seconds between two redraws."""
DELAY = 0.5
"""Seconds before the first live lines: most runs end earlier."""
HEARTBEAT = 30.0
"""Seconds of silence in a log after which the progress is printed."""
LOG_INTERVAL = 5.0
"""Seconds before a wait is printed in a log, and between its changes."""


# Not rich's: that takes 50 ms and 117 modules to import, leaves remains when the window gets
# narrower, and does not know about the data on the other stream.
class LiveDisplay:
    """Shows the progress of a run from its start to its end."""

    def __init__(self, terminal: Terminal, heartbeat: float = HEARTBEAT) -> None:
        """Take the terminal or log; the first event starts a thread.

        In a log, print the progress after ``heartbeat`` seconds of silence.
        """
        self._heartbeat = heartbeat
        self.terminal = terminal
        self._clock = terminal.clock
        self._run = _Reported(RunProgress())
        self._sets: SetsProgress | None = None
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._paused = False
        self._thread: threading.Thread | None = None
        self._interrupt_printed = False

    def show(self, event: Event) -> None:
        """Take one event."""
        now = self._clock.now()
        with self._lock:
            about = self._take(event, now)
        if isinstance(event, Finished):
            self.close()
            return
        if self._progress.began is not None and self._thread is None:
            self._thread = threading.Thread(
                target=self._redraw, name="applyprune-live", daemon=True
            )
            self._thread.start()
        inner = event.event if isinstance(event, SetEvent) else event
        if isinstance(inner, ObjectStuck):
            self._tell_stuck(about, inner)
        if not self.terminal.draws and not isinstance(inner, Finished):
            self._log_wait(about, now)

    def close(self) -> None:
        """Stop the thread and remove the live lines."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        self.terminal.draw(())

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Show nothing until the block ends, and do not count that time: a question is open."""
        began = self._clock.now()
        with self._lock:
            self._paused = True
            self.terminal.draw(())
        try:
            yield
        finally:
            with self._lock:
                self._paused = False
                self._progress.shift(self._clock.now() - began)

    def stopping(self) -> None:
        """Show from now on that the run was interrupted."""
        self._progress.stopping = True

    @property
    def _progress(self) -> RunProgress | SetsProgress:
        """Return what the display shows."""
        return self._run.progress if self._sets is None else self._sets

    def _take(self, event: Event, now: float) -> _Reported:
        """Take one event; return the run that it is about."""
        if self._sets is None and isinstance(event, SetsBegan | SetEvent):
            self._sets = SetsProgress(now, self._progress.stopping)
        if isinstance(event, SetEvent) and self._sets is not None:
            return self._sets.take(event, now)
        if isinstance(event, SetsBegan) and self._sets is not None:
            self._sets.count = event.count
        self._run.progress.update(event, now)
        return self._run

    def _redraw(self) -> None:
        pause = FRAME if self.terminal.draws else min(1.0, self._heartbeat)
        while not self._clock.wait(self._ended, pause):
            self._tick(self._clock.now())

    def _tick(self, now: float) -> None:
        with self._lock:
            if self._paused:
                return
            if self.terminal.draws:
                if self._progress.elapsed(now) > DELAY:
                    self.terminal.draw(self._progress.lines(now))
            elif self._progress.stopping and not self._interrupt_printed:
                self._interrupt_printed = True
                self.terminal.err(INTERRUPTED)
            elif now - self.terminal.last_write >= self._heartbeat:
                about = self._run if self._sets is None else self._sets
                self.terminal.err(about.sentence(now))

    def _log_wait(self, about: _Reported, now: float) -> None:
        """Print in a log what a run waits for, if that has changed."""
        progress = about.progress
        waits_for, since = progress.waits_for(), progress.waits_since
        if since is None or waits_for == about.last_wait or progress.is_told:
            return
        pause = 0.0 if progress.waits_for_others else LOG_INTERVAL
        if now - since >= pause and now - about.last_wait_at >= pause:
            about.last_wait, about.last_wait_at = waits_for, now
            ref, reason = progress.first
            if ref is not None:
                about.told[ref] = reason
            self.terminal.err(progress.sentence(now))

    def _tell_stuck(self, about: _Reported, event: ObjectStuck) -> None:
        """Print that an object is not ready for a reason that lasts, unless a line has said it.

        On a terminal this line stays when the live lines go.
        """
        reason = event.readiness.message
        if about.told.get(event.ref) != reason:
            about.told[event.ref] = reason
            line = f"{about.progress.of_set}waiting: {about.progress.shown(event.ref)} is not ready"
            self.terminal.err(" ".join(f"{line} ({event.elapsed:.0f} s): {reason}".split()))


# The progress of a run, from its events alone.


INTERRUPTED = "interrupted: finishing the requests in flight; again to exit at once"
_LISTED = 5
_REMOVING = {Mode.DELETE: "deleting", Mode.ORPHAN: "orphaning"}


class RunProgress(Struct):
    """The progress of one run; times are those of a monotonic clock."""

    began: float | None = None
    stopping: bool = False
    of_set: str = ""
    """How a line about it begins where it is one of many: ``shop/web: ``."""
    _name: str = ""
    _namespace: str = ""
    _mode: Mode = Mode.APPLY
    _dry: bool = False
    _waves: Mapping[Ref, Wave] = field(default_factory=dict)
    _wave_numbers: Mapping[Wave, int] = field(default_factory=dict)
    _applies: int = 0
    _removals: int = 0
    _applied: int = 0
    _removed: int = 0
    _ready: int = 0
    _wave: int = 0
    _waiting: Waiting | None = None
    _since: float = 0.0
    _pending: dict[Ref, str] = field(default_factory=dict)
    _stuck: set[Ref] = field(default_factory=set)
    _count: int = 0

    def update(self, event: Event, now: float) -> None:
        """Take one event."""
        match event:
            case Started():
                self.began = now
                self._name, self._namespace, self._mode = event.name, event.namespace, event.mode
                self._dry = event.dry_run is not DryRun.OFF
            case Planned(plan=plan):
                self._waiting = None
                self._plan(plan)
            case Waiting():
                self._waiting, self._since = event, now - event.elapsed
                # A verb that only waits has no run that began.
                self.began = self._since if self.began is None else self.began
                known = {} if event.ref is None else {event.ref: event.reason}
                self._pending = known | {other.ref: other.reason for other in event.others}
                self._count = event.count
            case ObjectStuck(ref=ref):
                self._stuck.add(ref)
            case ReadinessReported(ref=ref):
                self._ready += 1
                self._remove_waiting(ref)
            case ObjectDone(ref=ref):
                self._remove_waiting(ref)
                if ref in self._waves:
                    self._applied += 1
                    self._wave = max(self._wave, self._wave_numbers[self._waves[ref]])
                else:
                    self._removed += 1
            case InventoryWritten():
                self._waiting = None
            case _:
                pass

    def shift(self, seconds: float) -> None:
        """Do not count the last ``seconds`` of the run."""
        if self.began is not None:
            self.began += seconds

    def lines(self, now: float) -> list[str]:
        """Return the lines of the live display: the bar, then the objects the run waits for."""
        if self.waits_for_others:
            stops = [f"  {INTERRUPTED}"] if self.stopping else []
            return [self.sentence(now), *stops]
        done, of = self._completed()
        bar = f" {_bar(done, of)} {done} of {of}" if of else ""
        lines = [f"{self._subject}{self._activity}{bar}  {self._times(now)}"]
        if self.stopping:
            lines.append(f"  {INTERRUPTED}")
        if self._waiting is not None:
            lines += self._pending_lines()
        return lines

    def sentence(self, now: float, *, again: bool = False) -> str:
        """Return the progress as one line, for a log; ``again``: without why the run waits."""
        if self._waiting is not None:
            return f"{self.waits_for(again=again)} ({self._times(now)})"
        done, of = self._completed()
        count = f", {done} of {of}" if of else ""
        return f"{self._subject}{self._activity}{count} ({self._times(now)})"

    def elapsed(self, now: float) -> float:
        """Return the seconds since the run began, 0 before that."""
        return 0.0 if self.began is None else now - self.began

    def waits_for(self, *, again: bool = False) -> str:
        """Return what the run waits for and why, empty if it does not wait."""
        if self._waiting is None:
            return ""
        ref, reason = self.first
        what = self._waiting.what
        wait = f"until {self.shown(ref)} is {what}" if ref else f"for {what}"
        others = f"; and {self._count - 1} more" if self._count > 1 else ""
        because = "" if again else _because(reason, ": " if ref else ", ")
        return f"{self.of_set}waiting {wait}{because}{others}"

    @property
    def first(self) -> tuple[Ref | None, str]:
        """Return the object that is named first, and why it is not ready."""
        waiting = self._waiting
        if waiting is None:
            return None, ""
        return next(iter(self._pending.items()), (waiting.ref, waiting.reason))

    def shown(self, ref: Ref) -> str:
        """Return an object as kubectl names it, seen from the set's namespace."""
        return kubectl_name(ref, self._namespace)

    @property
    def is_told(self) -> bool:
        """Return whether a line of its own has said why the object that is named is not ready."""
        return next(iter(self._pending), None) in self._stuck

    @property
    def waits_since(self) -> float | None:
        """Return when the current wait began, None if the run does not wait."""
        return None if self._waiting is None else self._since

    @property
    def waits_for_others(self) -> bool:
        """Return whether the run waits for another run to end."""
        return self._waiting is not None and self._waiting.ref is None

    def _plan(self, plan: Plan) -> None:
        self._waves = {step.desired.ref: step.desired.wave for step in plan.applies}
        self._wave_numbers = {
            wave: at for at, wave in enumerate(sorted(set(self._waves.values())), 1)
        }
        self._applies, self._removals = len(plan.applies), len(plan.removals)

    def _remove_waiting(self, ref: Ref) -> None:
        """Remove an object from the wait; an unknown object ends a wait that knows its objects."""
        if self._waiting is None:
            return
        self._count -= 1
        if self._pending.pop(ref, None) is None and self._count < len(self._pending):
            self._count = 0
        if self._count <= 0:
            self._waiting = None

    def _completed(self) -> tuple[int, int]:
        """Return how many objects of the current stage are done, and how many it has."""
        if self._waiting is not None and self._waiting.what == "ready":
            return self._ready, self._ready + self._count
        if self._applied < self._applies:
            return self._applied, self._applies
        return min(self._removed, self._removals), self._removals

    @property
    def _subject(self) -> str:
        return self.of_set or (f"{self._name}: " if self._name else "")

    @property
    def _activity(self) -> str:
        if self._waiting is not None:
            return f"waiting until {self._waiting.what}"
        dry = " (dry run)" if self._dry else ""
        if self._applied < self._applies:
            wave = (
                f" wave {max(self._wave, 1)}/{len(self._wave_numbers)}"
                if len(self._wave_numbers) > 1
                else ""
            )
            return f"applying{wave}{dry}"
        if self._removed < self._removals:
            return f"{_REMOVING.get(self._mode, 'pruning')}{dry}"
        return "recording" if self._applies or self._removals else "reading the cluster"

    def _pending_lines(self) -> list[str]:
        listed = list(self._pending.items())[:_LISTED]
        lines = [f"  {self.shown(ref)}{_because(reason)}" for ref, reason in listed]
        more = self._count - len(listed)
        return [*lines, *([f"  and {more} more"] if more > 0 else [])]

    def _times(self, now: float) -> str:
        if self._waiting is None:
            return elapsed_text(self.elapsed(now))
        elapsed = now - self._since
        left = self._waiting.timeout - elapsed
        return f"{elapsed_text(elapsed)}, {elapsed_text(left)} left"


class _Reported(Struct):
    """The progress of a run, and what lines have said of its waits."""

    progress: RunProgress
    last_wait: str = ""
    last_wait_at: float = 0.0
    told: dict[Ref, str] = field(default_factory=dict)
    """Why an object is not ready, as a line has said it last."""

    def sentence(self, now: float) -> str:
        """Return the progress as one line, without a reason that a line has said."""
        ref, reason = self.progress.first
        again = ref is not None and self.told.get(ref) == reason
        return self.progress.sentence(now, again=again)


class SetsProgress(Struct):
    """The progress of a command over many sets, of which several run side by side."""

    began: float
    stopping: bool = False
    count: int = 0
    """How many sets there are; 0 if that is unknown."""
    _done: int = 0
    _running: dict[SetKey, _Reported] = field(default_factory=dict)

    def take(self, event: SetEvent, now: float) -> _Reported:
        """Take an event of a set; return the progress of the set."""
        about = self._running.get(event.key)
        if about is None:
            about = _Reported(RunProgress(now, of_set=f"{event.key}: "))
            self._running[event.key] = about
        about.progress.update(event.event, now)
        if isinstance(event.event, Finished):
            del self._running[event.key]
            self._done += 1
        return about

    def shift(self, seconds: float) -> None:
        """Do not count the last ``seconds`` of the command."""
        self.began += seconds
        for about in self._running.values():
            about.progress.shift(seconds)

    def lines(self, now: float) -> list[str]:
        """Return the lines of the live display: the bar, then the sets that run."""
        of = self._known
        bar = f"{_bar(self._done, of)} " if of else ""
        shown = list(self._running.values())[:_LISTED]
        more = len(self._running) - len(shown)
        return [
            f"{bar}{self._counted}  {elapsed_text(self.elapsed(now))}",
            *([f"  {INTERRUPTED}"] if self.stopping else []),
            *(f"  {about.progress.sentence(now)}" for about in shown),
            *([f"  and {more} more"] if more else []),
        ]

    def sentence(self, now: float) -> str:
        """Return the progress as one line, for a log, with that of the set that began first."""
        first = next(iter(self._running.values()), None)
        about = f"; {first.sentence(now)}" if first is not None else ""
        others = len(self._running) - 1
        more = f"; and {counted(others, 'more set')}" if others > 0 else ""
        return f"{self._counted} ({elapsed_text(self.elapsed(now))}){about}{more}"

    def elapsed(self, now: float) -> float:
        """Return the seconds since the command began."""
        return now - self.began

    @property
    def _known(self) -> int:
        return max(self.count, self._done + len(self._running))

    @property
    def _counted(self) -> str:
        return f"{self._done} of {counted(self._known, 'set')} done"


_BAR = 16


def _bar(done: int, of: int) -> str:
    full = _BAR * done // of
    return f"{'█' * full}{'░' * (_BAR - full)}"


def _because(reason: str, glue: str = ": ") -> str:
    return f"{glue}{reason}" if reason else ""


def elapsed_text(seconds: float) -> str:
    """Return minutes and seconds, such as ``5:40``; ``0:00`` for a negative number."""
    whole = max(int(seconds), 0)
    return f"{whole // 60}:{whole % 60:02}"
