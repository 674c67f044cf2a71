"""Cancel a run: a signal handler or another thread requests it, and the run checks for it.

Whatever a run waits for, it waits for its cancellation too. So the clock by which it waits is here.
"""

from __future__ import annotations

from signal import SIGINT
from threading import Event as Flag

from applyprune.clock import CLOCK, Clock
from applyprune.errors import Interrupted
from applyprune.values import dataclass, field


@dataclass(slots=True)
class Cancellation:
    """A request to end the run; once it is made, the run starts nothing more."""

    clock: Clock = CLOCK
    """The clock of the run's waits."""
    _flag: Flag = field(default_factory=Flag)
    _signal: int = 0

    def request(self, signal_number: int = SIGINT) -> None:
        """Ask the run to finish the requests in flight, write the inventory and end.

        The exit code will be 128 plus the number, by default that of Ctrl-C.
        """
        self._signal = self._signal or signal_number
        self._flag.set()

    @property
    def requested(self) -> bool:
        """Return whether the run is cancelled."""
        return self._flag.is_set()

    @property
    def exit_code(self) -> int:
        """Return 128 plus the signal's number if the run is cancelled, otherwise 0."""
        return 128 + self._signal if self.requested else 0

    def now(self) -> float:
        """Return the time in seconds on the clock of the run's waits."""
        return self.clock.now()

    def wait(self, seconds: float) -> bool:
        """Wait, but no longer if the run is cancelled; return whether it is."""
        return self.clock.wait(self._flag, seconds)

    def check(self) -> None:
        """Raise Interrupted if the run is cancelled."""
        if self.requested:
            raise Interrupted(self._signal)
