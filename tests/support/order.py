"""The order of test files: what takes long comes first, so that nothing waits for it alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

LONG_FILES = ("tests/engine/steps/test_wait.py",)
"""The files that take longest, the longest first; see ``pytest --durations``."""

_TURNS = {path: turn for turn, path in enumerate(LONG_FILES)}


def longest_first(items: list[pytest.Item]) -> None:
    """Sort tests by the turn of their file; all other files keep their order behind those."""
    items.sort(key=lambda item: _TURNS.get(item.nodeid.partition("::")[0], len(_TURNS)))
