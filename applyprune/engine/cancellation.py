"""The request that a run should end: a signal handler or a thread sets it, the run obeys it."""

from __future__ import annotations

from dataclasses import dataclass, field
from signal import SIGINT
from threading import Event as Flag

from applyprune.errors import Interrupted


@dataclass(slots=True)
class Cancellation:
    """Set from a signal handler or another thread; a run starts nothing more once it is set."""

    _flag: Flag = field(default_factory=Flag)
    _signal: int = 0

    def request(self, signal_number: int = SIGINT) -> None:
        """Ask the run to finish what is in flight, record and end.

        The exit code will be 128 plus the number, by default that of Ctrl-C.
        """
        self._signal = self._signal or signal_number
        self._flag.set()

    @property
    def requested(self) -> bool:
        """Return whether the run was asked to end."""
        return self._flag.is_set()

    @property
    def exit_code(self) -> int:
        """Return the exit code of a run that was asked to end; 0 when it was not."""
        return 128 + self._signal if self.requested else 0

    def wait(self, seconds: float) -> bool:
        """Sleep, less when the run is asked to end; return whether it is."""
        return self._flag.wait(seconds)

    def check(self) -> None:
        """Raise Interrupted when the run was asked to end."""
        if self.requested:
            raise Interrupted(self._signal)
