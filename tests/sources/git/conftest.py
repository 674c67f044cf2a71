"""Servers and stores for one test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from applyprune.sources.git_store import GitStore
from tests.support.git_servers import HttpsSite, SshSite, git_site, ssh_site

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def site(tmp_path: Path) -> Iterator[HttpsSite]:
    """A Git server over HTTPS."""
    with git_site(tmp_path / "site") as running:
        yield running


@pytest.fixture
def ssh(tmp_path: Path) -> Iterator[SshSite]:
    """A Git server over SSH."""
    with ssh_site(tmp_path / "ssh") as running:
        yield running


@pytest.fixture
def store(tmp_path: Path) -> GitStore:
    """An empty store."""
    return GitStore(tmp_path / "store")
