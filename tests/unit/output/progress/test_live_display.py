"""What a log is told while a run goes on."""

from __future__ import annotations

import io

from applyprune.clock import CLOCK, Clock
from applyprune.model.events import Finished, ObjectStuck, Started, Waiting, stuck
from applyprune.model.identity import Ref
from applyprune.model.options import DryRun, Mode
from applyprune.output.progress import HEARTBEAT, LOG_INTERVAL, LiveDisplay
from applyprune.output.terminal import Terminal
from applyprune.values import replace
from tests.support.clocks import HeldClock
from tests.support.waiting import eventually

STARTED = Started("r", Mode.APPLY, "web", "home", DryRun.OFF)
REF = Ref("apps", "Deployment", "home", "web")


class _Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def _log(clock: Clock = CLOCK, stream: io.StringIO | None = None) -> tuple[Terminal, io.StringIO]:
    stream = stream or io.StringIO()
    return Terminal(stream, stream, {"TERM": "xterm"}, clock), stream


def _advance(clock: HeldClock, seconds: float) -> None:
    """Let time pass, and the display look at it."""
    before = eventually(lambda: max(clock.waiting, default=0))
    clock.advance(seconds)
    eventually(lambda: max(clock.waiting, default=0) > before)


def test_silence_is_broken_after_a_while() -> None:
    """When nothing was said for a while, by the clock and not by an event; not after the end."""
    clock = HeldClock()
    terminal, stream = _log(clock)
    live = LiveDisplay(terminal)
    live.show(STARTED)
    _advance(clock, HEARTBEAT - 1)
    assert stream.getvalue() == ""
    _advance(clock, 1)
    said = "web: reading the cluster (0:30)\n"
    assert stream.getvalue() == said
    _advance(clock, HEARTBEAT - 1)
    assert stream.getvalue() == said
    live.show(Finished({}, 0, 59))
    assert clock.waiting == []  # The display has no thread any more.
    assert stream.getvalue() == said


def test_open_question_is_no_time_of_the_run() -> None:
    """And no live line is drawn over it."""
    clock = HeldClock()
    terminal, stream = _log(clock, _Screen())
    live = LiveDisplay(terminal)
    live.show(STARTED)
    _advance(clock, 2)
    assert " 0:02" in stream.getvalue()
    with live.paused():
        drawn = stream.getvalue()
        _advance(clock, 3600)
        assert stream.getvalue() == drawn
    _advance(clock, 1)
    assert " 0:03" in stream.getvalue()
    live.close()


def test_wait_is_reported_when_it_lasts_and_when_it_changes() -> None:
    """Not in its first seconds, and not twice in the same words."""
    terminal, stream = _log()
    live = LiveDisplay(terminal)
    live.show(STARTED)
    for elapsed, why in (
        (1.0, "0 of 1"),
        (LOG_INTERVAL + 1.5, "0 of 1"),
        (LOG_INTERVAL + 2.5, "0 of 1"),
    ):
        live.show(Waiting(REF, "ready", elapsed, 60.0, why))
    assert stream.getvalue() == (
        "waiting until deployment.apps/web is ready: 0 of 1 (0:06, 0:53 left)\n"
    )
    live.close()


def test_other_run_is_reported_at_once() -> None:
    """Whoever waits for a lock wants to know for whose."""
    terminal, stream = _log()
    live = LiveDisplay(terminal)
    live.show(Waiting(None, "the lock of the set web", 0.0, 60.0, "held by ci@host"))
    live.close()
    waits = "waiting for the lock of the set web, held by ci@host (0:0"
    assert stream.getvalue().startswith(waits)


def test_interrupted_run_says_that_it_ends() -> None:
    """Once."""
    clock = HeldClock()
    terminal, stream = _log(clock)
    live = LiveDisplay(terminal)
    live.show(STARTED)
    live.stopping()
    _advance(clock, 1)
    _advance(clock, 1)
    live.close()
    assert stream.getvalue().count("interrupted: finishing the requests in flight") == 1


PULL = "ImagePullBackOff: no such host"


def test_long_wait_says_its_reason_once() -> None:
    """When it is known, not when it lasts, and not when the log has been silent for a while."""
    clock = HeldClock()
    terminal, stream = _log(clock)
    live = LiveDisplay(terminal)
    live.show(STARTED)
    for elapsed in range(45):
        _advance(clock, 1)
        live.show(Waiting(REF, "ready", elapsed + 1.0, 60.0, PULL))
        if elapsed == 14:
            live.show(ObjectStuck(REF, stuck(PULL), 15.0))
    assert stream.getvalue() == (
        f"waiting until deployment.apps/web is ready: {PULL} (0:05, 0:55 left)\n"
        "waiting until deployment.apps/web is ready (0:35, 0:25 left)\n"
    )
    live.close()


def test_other_reason_that_lasts_has_a_line() -> None:
    """On a terminal too, where the live lines go away."""
    for stream in (io.StringIO(), _Screen()):
        terminal, _ = _log(stream=stream)
        live = LiveDisplay(terminal)
        live.show(STARTED)
        for why in (PULL, PULL, "no node"):
            live.show(ObjectStuck(REF, stuck(why), 15.0))
        live.close()
        said = [line for line in stream.getvalue().splitlines() if line.startswith("waiting: ")]
        assert said == [
            f"waiting: deployment.apps/web is not ready (15 s): {why}" for why in (PULL, "no node")
        ]


def test_problem_with_a_line_of_its_own_is_not_reported_again() -> None:
    """Its words change with each try, and the next object's wait is reported."""
    terminal, stream = _log()
    live = LiveDisplay(terminal)
    live.show(STARTED)
    live.show(ObjectStuck(REF, stuck("CrashLoopBackOff: back-off 10s"), 6.0))
    told = stream.getvalue()
    for at, seconds in enumerate((10, 20, 40), 1):
        why = f"CrashLoopBackOff: back-off {seconds}s"
        live.show(Waiting(REF, "ready", at * (LOG_INTERVAL + 1), 60.0, why))
    assert stream.getvalue() == told
    other = replace(REF, name="other")
    live.show(Waiting(other, "ready", 4 * (LOG_INTERVAL + 1), 60.0, "0 of 1"))
    assert "until deployment.apps/other is ready" in stream.getvalue()
    live.close()
