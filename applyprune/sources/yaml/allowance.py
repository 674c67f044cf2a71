"""What the documents of one load may take together: memory, and errors.

A document of a few hundred bytes may stand for millions of values by its aliases, and a stream may
have a hundred thousand documents. So no limit begins again with the next document or file.
"""

from __future__ import annotations

from applyprune.sources.yaml.error import YAMLFault
from applyprune.values import dataclass, field

MOST_MEMORY = 2**30
"""Bytes for all values of one load, by the measure below; 100,000 Deployments take 700 MB."""
MOST_ERRORS = 1000
"""How many errors of one load are reported."""

_BYTES_PER_VALUE = 64


class TooMuch(YAMLFault):
    """No further document of the load is read."""


@dataclass(slots=True)
class Allowance:
    """What is left for the rest of one load."""

    memory: int = MOST_MEMORY
    """Bytes: 64 for each mapping, list and scalar, the text of each alias, and the input itself."""
    errors: int = MOST_ERRORS
    _limit: int = field(init=False)
    _reported: int = 0

    def __post_init__(self) -> None:
        """Keep the limit for its message."""
        self._limit = self.memory

    @property
    def spent(self) -> bool:
        """Return whether nothing more is read."""
        return self.memory < 0 or self.errors <= 0

    def take(self, values: int, text: int = 0) -> None:
        """Take the memory for some values and for their text; raise TooMuch if it is too much."""
        self.memory -= values * _BYTES_PER_VALUE + text
        if self.memory < 0:  # guard: memory-of-a-load
            raise TooMuch(
                f"the input is too large: up to here, with all aliases expanded, it takes more "
                f"than {self._limit >> 20} MiB of memory",
                hint="Write fewer or smaller aliases, or split the input into several sets.",
            )

    def take_error(self) -> None:
        """Count an error that is reported; raise TooMuch after the last one."""
        self.errors -= 1
        self._reported += 1
        if self.errors <= 0:  # guard: errors-of-a-load
            raise TooMuch(
                f"there may be more errors than these {self._reported}", hint="Correct these first."
            )
