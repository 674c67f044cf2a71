"""Where a run stands, from its events alone: what the live display and the heartbeat say."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from applyprune.model.events import (
    InventoryWritten,
    ObjectDone,
    Planned,
    ReadinessReported,
    Started,
    Waiting,
)
from applyprune.model.identity import called
from applyprune.model.options import DryRun, Mode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from applyprune.model.events import Event
    from applyprune.model.identity import Ref
    from applyprune.model.inventory import Wave
    from applyprune.model.plan import Plan

INTERRUPTED = "interrupted: what is in flight is finished and recorded; again to end at once"
_BAR = 16
_LISTED = 5
_REMOVING = {Mode.DELETE: "deleting", Mode.ORPHAN: "orphaning"}


def clock(seconds: float) -> str:
    """Return minutes and seconds, ``5:40`` for example; never less than none."""
    whole = max(int(seconds), 0)
    return f"{whole // 60}:{whole % 60:02}"


@dataclass(slots=True)
class Progress:
    """The state of one stream of events; times are those of one clock that never goes back."""

    began: float | None = None
    stopping: bool = False
    _name: str = ""
    _home: str = ""
    _mode: Mode = Mode.APPLY
    _dry: bool = False
    _waves: Mapping[Ref, Wave] = field(default_factory=dict)
    _of: Mapping[Wave, int] = field(default_factory=dict)
    _applies: int = 0
    _removals: int = 0
    _applied: int = 0
    _removed: int = 0
    _ready: int = 0
    _wave: int = 0
    _waiting: Waiting | None = None
    _since: float = 0.0
    _left: dict[Ref, str] = field(default_factory=dict)
    _count: int = 0

    def take(self, event: Event, now: float) -> None:
        """Go on by one event."""
        match event:
            case Started():
                self.began = now
                self._name, self._home, self._mode = event.name, event.namespace, event.mode
                self._dry = event.dry_run is not DryRun.OFF
            case Planned(plan=plan):
                self._waiting = None
                self._plan(plan)
            case Waiting():
                self._waiting, self._since = event, now - event.elapsed
                known = {} if event.ref is None else {event.ref: event.reason}
                self._left = known | {other.ref: other.reason for other in event.others}
                self._count = event.count
            case ReadinessReported(ref=ref):
                self._ready += 1
                self._over(ref)
            case ObjectDone(ref=ref):
                self._over(ref)
                if ref in self._waves:
                    self._applied += 1
                    self._wave = max(self._wave, self._of[self._waves[ref]])
                else:
                    self._removed += 1
            case InventoryWritten():
                self._waiting = None
            case _:
                pass

    def lines(self, now: float) -> list[str]:
        """Return the lines of the live display: the bar, then what is waited for."""
        done, of = self._share()
        bar = f" {_bar(done, of)} {done} of {of}" if of else ""
        told = [f"{self._name}: {self._doing}{bar}  {self._times(now)}"]
        if self.stopping:
            told.append(f"  {INTERRUPTED}")
        if self._waiting is not None:
            told += self._awaited(self._waiting)
        return told

    def sentence(self, now: float) -> str:
        """Return the same on one line, for a log."""
        if self._waiting is not None:
            return f"{self.waits_for} ({self._times(now)})"
        done, of = self._share()
        told = f", {done} of {of}" if of else ""
        return f"{self._name}: {self._doing}{told} ({self._times(now)})"

    def elapsed(self, now: float) -> float:
        """Return the seconds since the run began, none before."""
        return 0.0 if self.began is None else now - self.began

    @property
    def waits_for(self) -> str:
        """Return what is waited for and why, empty when nothing is; equal while it is the same."""
        one = self._waiting
        if one is None:
            return ""
        ref, why = next(iter(self._left.items()), (one.ref, one.reason))
        wait = f"until {called(ref, self._home)} is {one.what}" if ref else f"for {one.what}"
        others = f"; and {self._count - 1} more" if self._count > 1 else ""
        return f"waiting {wait}{_after(why)}{others}"

    @property
    def waits_since(self) -> float | None:
        """Return when the present wait began, None when nothing is waited for."""
        return None if self._waiting is None else self._since

    @property
    def waits_for_others(self) -> bool:
        """Return whether it is another run's end that is waited for."""
        return self._waiting is not None and self._waiting.ref is None

    def _plan(self, plan: Plan) -> None:
        self._waves = {step.desired.ref: step.desired.wave for step in plan.applies}
        self._of = {wave: at for at, wave in enumerate(sorted(set(self._waves.values())), 1)}
        self._applies, self._removals = len(plan.applies), len(plan.removals)

    def _over(self, ref: Ref) -> None:
        """Take one object off what is waited for; another one's event ends such a wait."""
        if self._waiting is None:
            return
        self._count -= 1
        if self._left.pop(ref, None) is None and self._count < len(self._left):
            self._count = 0
        if self._count <= 0:
            self._waiting = None

    def _share(self) -> tuple[int, int]:
        """Return how much of the present stage is done, and of how much."""
        if self._waiting is not None and self._waiting.what == "ready":
            return self._ready, self._ready + self._count
        if self._applied < self._applies:
            return self._applied, self._applies
        return min(self._removed, self._removals), self._removals

    @property
    def _doing(self) -> str:
        if self._waiting is not None:
            return f"waiting until {self._waiting.what}" if self._waiting.ref else "waiting"
        dry = " (dry run)" if self._dry else ""
        if self._applied < self._applies:
            wave = f" wave {max(self._wave, 1)}/{len(self._of)}" if len(self._of) > 1 else ""
            return f"applying{wave}{dry}"
        if self._removed < self._removals:
            return f"{_REMOVING.get(self._mode, 'pruning')}{dry}"
        return "recording" if self._applies or self._removals else "looking at what is there"

    def _awaited(self, one: Waiting) -> list[str]:
        if one.ref is None:
            return [f"  for {one.what}{_after(one.reason)}"]
        listed = list(self._left.items())[:_LISTED]
        told = [f"  {called(ref, self._home)}{_after(why)}" for ref, why in listed]
        more = self._count - len(listed)
        return [*told, *([f"  and {more} more"] if more > 0 else [])]

    def _times(self, now: float) -> str:
        if self._waiting is None:
            return clock(self.elapsed(now))
        elapsed = now - self._since
        left = self._waiting.timeout - elapsed
        return f"{clock(elapsed)}, {clock(left)} left"


def _bar(done: int, of: int) -> str:
    full = _BAR * done // of
    return f"{'█' * full}{'░' * (_BAR - full)}"


def _after(why: str) -> str:
    return f": {why}" if why else ""
