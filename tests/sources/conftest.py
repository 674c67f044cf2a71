"""Servers of sources: a site with an archive on it, Git servers, and registries."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from applyprune.sources.git_store import GitStore
from tests.support.archives import packed
from tests.support.git_servers import HttpsSite, SshSite, git_site, ssh_site
from tests.support.registries import (
    anonymous_registry,
    password_registry,
    referrers_registry,
    token_registry,
)
from tests.support.tls_site import Site, files_of
from tests.support.tls_site import site as tls_site

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.components import Components
    from tests.support.registries import Registry

FILES = {"web/a.yaml": b"a: 1\n", "web/b/c.yaml": b"c: 1\n", "other/d.yaml": b"d: 1\n"}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Path]]:
    """A server of the files of a folder, for all tests of a module."""
    folder = tmp_path_factory.mktemp("site")
    with tls_site(files_of(folder)) as one:
        yield one, folder


@pytest.fixture
def web_site(running: tuple[Site, Path]) -> Site:
    """The server, with ``/web.tar.gz`` and without the answers and calls of other tests."""
    one, folder = running
    one.answers.clear()
    one.calls.clear()
    (folder / "web.tar.gz").write_bytes(packed(FILES))
    os.utime(folder / "web.tar.gz", (1e9, 1e9))
    return one


@pytest.fixture
def folder(running: tuple[Site, Path]) -> Path:
    """The folder with the server's files."""
    return running[1]


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


@pytest.fixture(scope="session")
def registry(
    components: Components, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Registry]:
    """A registry that asks for a user and a password."""
    with password_registry(components, tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture(scope="session")
def with_tokens(
    components: Components, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Registry]:
    """A registry that asks for a token of another server."""
    with token_registry(components, tmp_path_factory.mktemp("tokens")) as running:
        yield running


@pytest.fixture(scope="session")
def with_referrers(
    components: Components, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Registry]:
    """A registry with the referrers API, which asks for a user and a password."""
    with referrers_registry(components, tmp_path_factory.mktemp("referrers")) as running:
        yield running


@pytest.fixture(scope="session")
def without_login(
    components: Components, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Registry]:
    """A registry that asks nobody."""
    with anonymous_registry(components, tmp_path_factory.mktemp("anonymous")) as running:
        yield running


@pytest.fixture(params=["without_login", "registry", "with_tokens", "with_referrers"])
def any_registry(request: pytest.FixtureRequest, components: Components) -> Registry:
    """Each kind of registry."""
    running: Registry = request.getfixturevalue(request.param)
    return running
