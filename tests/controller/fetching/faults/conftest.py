"""A folder for the temporary files of one controller."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def private() -> Iterator[Path]:
    """The folder for temporary files of a controller; its path is short, as sockets need it."""
    with tempfile.TemporaryDirectory(prefix="applyprune-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
