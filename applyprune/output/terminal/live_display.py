"""Show the progress of a run: live lines on a terminal, a line from time to time in a log.

A thread updates both, because a run that waits for a server yields no events. They go to standard
error, whatever the format of the data. This is not rich's live display, because that takes 50 ms
and 117 modules to import, leaves remains when the window gets narrower, and does not know about the
data on the other stream.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from applyprune.model.events import Event, Finished
from applyprune.output.terminal.progress import INTERRUPTED, Progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from applyprune.output.terminal.terminal import Terminal

FRAME = 0.1
"""Seconds between two redraws."""
DELAY = 0.5
"""Seconds before the first live lines: most runs end earlier."""
HEARTBEAT = 30.0
"""Seconds of silence in a log after which the progress is printed."""
LOG_INTERVAL = 5.0
"""Seconds before a wait is printed in a log, and between its changes."""


class LiveDisplay:
    """Shows the progress of a run from its start to its end."""

    def __init__(self, terminal: Terminal, heartbeat: float = HEARTBEAT) -> None:
        """Take the terminal or log; the first event starts a thread.

        In a log, print the progress after ``heartbeat`` seconds of silence.
        """
        self._heartbeat = heartbeat
        self.terminal = terminal
        self._clock = terminal.clock
        self._progress = Progress()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._paused = False
        self._thread: threading.Thread | None = None
        self._interrupt_printed = False
        self._last_wait = ""
        self._last_wait_at = 0.0

    def show(self, event: Event) -> None:
        """Take one event."""
        now = self._clock.now()
        with self._lock:
            self._progress.update(event, now)
        if isinstance(event, Finished):
            self.close()
            return
        if self._progress.began is not None and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="applyprune-live", daemon=True)
            self._thread.start()
        if not self.terminal.live:
            self._log_wait(now)

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

    def _run(self) -> None:
        pause = FRAME if self.terminal.live else min(1.0, self._heartbeat)
        while not self._clock.wait(self._ended, pause):
            self._tick(self._clock.now())

    def _tick(self, now: float) -> None:
        with self._lock:
            if self._paused:
                return
            if self.terminal.live:
                if self._progress.elapsed(now) > DELAY:
                    self.terminal.draw(self._progress.lines(now))
            elif self._progress.stopping and not self._interrupt_printed:
                self._interrupt_printed = True
                self.terminal.err(INTERRUPTED)
            elif now - self.terminal.last_write >= self._heartbeat:
                self.terminal.err(self._progress.sentence(now))

    def _log_wait(self, now: float) -> None:
        """Print in a log what the run waits for, if that has changed."""
        waits_for, since = self._progress.waits_for, self._progress.waits_since
        if since is None or waits_for == self._last_wait:
            return
        pause = 0.0 if self._progress.waits_for_others else LOG_INTERVAL
        if now - since >= pause and now - self._last_wait_at >= pause:
            self._last_wait, self._last_wait_at = waits_for, now
            self.terminal.err(self._progress.sentence(now))
