"""Count requests to the API server by method and kind of status code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from threading import Lock

from applyprune.values import dataclass, field

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
CODES = ("2xx", "3xx", "4xx", "5xx", "none")

Counts = Mapping[tuple[str, str], int]
"""How many tries there were, by method and kind of code."""


def labels_of(line: str) -> Iterator[tuple[str, str]]:
    """Yield the method and the kind of code of a transport's trace line, if it has them."""
    method, _, rest = line.partition(" ")
    code = f"{rest.partition(' ')[2][:1]}xx"
    if method in METHODS:
        yield method, code if code in CODES else "none"


@dataclass(slots=True)
class SentRequests:
    """Counts the tries of requests; thread-safe."""

    _counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    _lock: Lock = field(default_factory=Lock)

    def traced(self, line: str) -> None:
        """Count one try, from the transport's trace line."""
        for label in labels_of(line):
            with self._lock:
                self._counts[label] += 1

    def take(self) -> Counts:
        """Return the counts since the last call."""
        with self._lock:
            counts, self._counts = self._counts, Counter()
        return counts
