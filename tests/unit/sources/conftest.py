"""Servers of sources: a site, Git servers, and registries."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from functools import partial
from typing import TYPE_CHECKING

import pytest

from applyprune.sources.git_store import GitStore
from tests.support.git_servers import HttpsSite, SshSite, git_site, ssh_site
from tests.support.registries import (
    anonymous_registry,
    password_registry,
    referrers_registry,
    token_registry,
)
from tests.support.tls_site import Answer, Site
from tests.support.tls_site import site as tls_site

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.components import Components
    from tests.support.registries import Registry


@pytest.fixture(scope="module")
def running() -> Iterator[Site]:
    """A server without files, for all tests of a module."""
    with tls_site(lambda _: Answer(404)) as one:
        yield one


@pytest.fixture
def web_site(running: Site) -> Site:
    """The server, without the answers and calls of other tests."""
    running.answers.clear()
    running.calls.clear()
    return running


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
def be_without_passwd_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From the call on, ssh and ssh-keygen run as 54321, which has no entry in /etc/passwd."""
    other = ("unshare", "--user", "--map-user=54321")
    if subprocess.run([*other, "true"], capture_output=True, check=False).returncode:
        pytest.skip("it takes user namespaces")
    programs = tmp_path / "as-another"
    programs.mkdir()
    for name in ("ssh", "ssh-keygen"):
        script = programs / name
        script.write_text(f'#!/bin/sh\nexec {shlex.join(other)} {shutil.which(name)} "$@"\n')
        script.chmod(0o755)
    return partial(monkeypatch.setenv, "PATH", f"{programs}:{os.environ['PATH']}")


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
