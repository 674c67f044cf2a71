"""What a log is told while a run goes on."""

from __future__ import annotations

import io
import time

from applyprune.model.events import Finished, Started, Waiting
from applyprune.model.identity import Ref
from applyprune.model.options import DryRun, Mode
from applyprune.output.terminal.live_display import LOG_INTERVAL, LiveDisplay
from applyprune.output.terminal.terminal import Terminal

STARTED = Started("r", Mode.APPLY, "web", "home", DryRun.OFF)
REF = Ref("apps", "Deployment", "home", "web")


def _log() -> tuple[Terminal, io.StringIO]:
    stream = io.StringIO()
    return Terminal(stream, stream, {"TERM": "xterm"}), stream


def test_silence_is_broken_after_a_while() -> None:
    """When nothing was said for a while, by the clock and not by an event; not after the end."""
    terminal, stream = _log()
    live = LiveDisplay(terminal, heartbeat=0.2)
    live.show(STARTED)
    time.sleep(0.7)
    live.show(Finished({}, 0, 0.7))
    said = stream.getvalue()
    assert 1 <= said.count("web: reading the cluster (0:00)\n") <= 3
    time.sleep(0.3)
    assert stream.getvalue() == said


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
    live.show(Waiting(None, "the set web", 0.0, 60.0, "ci@host holds its lock"))
    live.close()
    assert stream.getvalue().startswith("waiting for the set web: ci@host holds its lock (0:0")


def test_interrupted_run_says_that_it_ends() -> None:
    """Once."""
    terminal, stream = _log()
    live = LiveDisplay(terminal, heartbeat=0.2)
    live.show(STARTED)
    live.stopping()
    time.sleep(0.5)
    live.close()
    assert stream.getvalue().count("interrupted: finishing the requests in flight") == 1
