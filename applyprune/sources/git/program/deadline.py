"""One deadline for everything that is done for a source."""

from __future__ import annotations

import time

from applyprune.sources.remote.fetch_errors import FetchFailed


class Deadline:
    """The end of the time for one source."""

    __slots__ = ("_ends", "seconds")

    def __init__(self, seconds: float) -> None:
        """Start the clock."""
        self.seconds = seconds
        self._ends = time.monotonic() + seconds

    def left(self, where: str) -> float:
        """Return the seconds left, more than zero; raise FetchFailed for ``where`` if none is."""
        left = self._ends - time.monotonic()
        if left <= 0:
            raise self.passed(where)
        return left

    def passed(self, where: str) -> FetchFailed:
        """Return the error for a deadline that has passed."""
        return FetchFailed(
            "the source was not read in time",
            location=where,
            reason=f"the limit is {self.seconds:.3g} s",
            hint="Check the server and the network, or raise the timeout of the source.",
        )
