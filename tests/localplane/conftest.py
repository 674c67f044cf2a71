"""The installed command, in a home of the test's own, and what it leaves running."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.support.home import Home

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from applyprune.localplane import Binaries


@pytest.fixture
def empty_home(tmp_path: Path) -> Iterator[Home]:
    """A home whose cache is empty; every plane left in it is stopped at the end."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PIP_")}
    home = Home(
        tmp_path,
        kept
        | {
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
            "XDG_STATE_HOME": str(tmp_path / "state"),
        },
    )
    yield home
    home.run("local", "down", "--all")
    assert home.processes() == {}


@pytest.fixture
def home(empty_home: Home, binaries: Binaries) -> Home:
    """A home whose cache has the built control plane."""
    empty_home.cache.mkdir(parents=True)
    (empty_home.cache / "controlplane").symlink_to(binaries.program.parent.parent)
    return empty_home


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache folder, which does not exist yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "applyprune"
