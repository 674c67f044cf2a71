"""A bounded pool of threads for one run, and the signal that stops it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from threading import Event as Flag
from typing import TYPE_CHECKING, Self, TypeVar

from applyprune.errors import Interrupted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T")
R = TypeVar("R")


@dataclass(slots=True)
class Stop:
    """Set from a signal handler; a run launches nothing more once it is set."""

    _flag: Flag = field(default_factory=Flag)
    _signal: int = 0

    def request(self, signal_number: int) -> None:
        """Ask the run to finish what is in flight, record and end."""
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


class Workers:
    """Runs calls on at most ``size`` threads."""

    def __init__(self, size: int, stop: Stop) -> None:
        """Start no thread before there is work."""
        self._pool = ThreadPoolExecutor(max_workers=size, thread_name_prefix="applyprune")
        self._stop = stop

    def each(
        self, call: Callable[[T], R], items: Iterable[T], *, in_order: bool = False
    ) -> Iterator[R]:
        """Yield the results as they come; a call that has not begun when the run stops is left out.

        ``in_order`` yields them in the order of the items.

        The first exception of a call is raised here after the calls in flight have ended.
        """
        futures = [self._pool.submit(self._one, call, item) for item in items]
        try:
            for future in futures if in_order else as_completed(futures):
                if (result := future.result()) is not None:
                    yield result[0]
        finally:
            for future in futures:
                future.cancel()

    def check(self) -> None:
        """Raise Interrupted when the run was asked to end, and results are missing for it."""
        self._stop.check()

    def __enter__(self) -> Self:
        """Return the pool itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for what is in flight and end the threads."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _one(self, call: Callable[[T], R], item: T) -> tuple[R] | None:
        return None if self._stop.requested else (call(item),)
