"""How a run shows that it is alive: lines drawn again on a terminal, a line now and then in a log.

Both have a clock of their own, for a run that waits for a server tells nothing meanwhile. What they
write goes to standard error, whatever the format of the data. It is little enough to be written
here: rich's live display takes 50 ms and 117 modules to import, draws by counting lines, so that a
window made narrower leaves rests behind, and knows nothing of the data on the other stream.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from applyprune.model.events import Finished
from applyprune.output.terminal.progress import INTERRUPTED, Progress

if TYPE_CHECKING:
    from applyprune.model.events import Event
    from applyprune.output.terminal.terminal import Terminal

FRAME = 0.1
"""Seconds from one drawing to the next."""
PATIENCE = 0.5
"""Seconds for which a run shows no live lines: most are over by then."""
HEARTBEAT = 30.0
"""Seconds of silence in a log after which it is told what is going on."""
SAY_EVERY = 5.0
"""Seconds after which a log is told of a wait, and of each change of it, at most."""


class LiveDisplay:
    """Shows where a run stands, from its beginning to its end."""

    def __init__(self, terminal: Terminal, heartbeat: float = HEARTBEAT) -> None:
        """Take the terminal or log; a thread is started when the run has begun.

        A log that was silent for ``heartbeat`` seconds is told where the run stands.
        """
        self._heartbeat = heartbeat
        self.terminal = terminal
        self._progress = Progress()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._clock: threading.Thread | None = None
        self._told_to_stop = False
        self._said = ""
        self._said_at = 0.0

    def show(self, event: Event) -> None:
        """Take one event."""
        now = time.monotonic()
        with self._lock:
            self._progress.take(event, now)
        if isinstance(event, Finished):
            self.close()
        elif self._progress.began is not None and self._clock is None:
            self._clock = threading.Thread(target=self._run, name="applyprune-live", daemon=True)
            self._clock.start()
        elif not self.terminal.live:
            self._say(now)

    def close(self) -> None:
        """Take the live lines away."""
        self._ended.set()
        if self._clock is not None:
            self._clock.join()
        self.terminal.draw(())

    def stopping(self) -> None:
        """Say from now on that the run was asked to end."""
        self._progress.stopping = True

    def _run(self) -> None:
        pause = FRAME if self.terminal.live else min(1.0, self._heartbeat)
        while not self._ended.wait(pause):
            self._beat(time.monotonic())

    def _beat(self, now: float) -> None:
        with self._lock:
            elapsed = self._progress.elapsed(now)
            lines = self._progress.lines(now)
            sentence = self._progress.sentence(now)
        if self.terminal.live:
            if elapsed > PATIENCE:
                self.terminal.draw(lines)
        elif self._progress.stopping and not self._told_to_stop:
            self._told_to_stop = True
            self.terminal.err(INTERRUPTED)
        elif now - self.terminal.spoke >= self._heartbeat:
            self.terminal.err(sentence)

    def _say(self, now: float) -> None:
        """Tell a log what is waited for, when that is another thing than before."""
        waits_for, since = self._progress.waits_for, self._progress.waits_since
        if since is None or waits_for == self._said:
            return
        patient = 0.0 if self._progress.waits_for_others else SAY_EVERY
        if now - since >= patient and now - self._said_at >= patient:
            self._said, self._said_at = waits_for, now
            self.terminal.err(self._progress.sentence(now))
