"""A controller that may read sources on this machine, and a Git server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.controller import Controller, controller
from tests.support.git_servers import HttpsSite, git_site
from tests.support.remote_bundles import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from applyprune.localplane import Plane


@pytest.fixture(scope="module")
def running(site: Plane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controller]:
    """A controller for the stories of a module."""
    log = tmp_path_factory.mktemp("controller") / "log"
    with controller(site.kubeconfig, log, "--no-lease", *LOOPBACK) as one:
        yield one


@pytest.fixture
def git(tmp_path: Path) -> Iterator[HttpsSite]:
    """A Git server that wants a password."""
    with git_site(tmp_path / "git", login="me:hunter2") as one:
        yield one
