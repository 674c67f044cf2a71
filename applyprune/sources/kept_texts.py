"""The texts of all sources of a run, kept for the few messages that quote one."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping

_SMALL = 4096
"""A shorter text is kept as it is: to compress it would save nothing."""


class KeptTexts(Mapping[str, str]):
    """Texts by the path of their source, compressed: standard input cannot be read again."""

    def __init__(self) -> None:
        """Begin with no text."""
        self._texts: dict[str, str | bytes] = {}

    def keep(self, path: str, text: str) -> None:
        """Keep a text."""
        is_small = len(text) < _SMALL
        self._texts[path] = text if is_small else zlib.compress(text.encode(), 1)

    def __getitem__(self, path: str) -> str:
        """Return a text; raises KeyError for a path without one."""
        kept = self._texts[path]
        return kept if isinstance(kept, str) else zlib.decompress(kept).decode()

    def __iter__(self) -> Iterator[str]:
        """Iterate over the paths."""
        return iter(self._texts)

    def __len__(self) -> int:
        """Return the number of texts."""
        return len(self._texts)
