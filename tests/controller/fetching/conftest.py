"""A controller that may read sources on this machine, and a Git server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.git_servers import HttpsSite, git_site
from tests.support.remote_bundles import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.controller import Controller
    from tests.support.shared_site import SharedSite


@pytest.fixture(scope="module")
def running(site: Plane, sites: SharedSite, shared_controller: str) -> Controller:
    """The controller for the stories of a module: of all Bundles, with sources on this machine."""
    return sites.controller(*LOOPBACK)


@pytest.fixture
def git(tmp_path: Path) -> Iterator[HttpsSite]:
    """A Git server that wants a password."""
    with git_site(tmp_path / "git", login="me:hunter2") as one:
        yield one
