"""A fetch that uses too much, or whose process is killed, fails its own Bundle, and no other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support import tls_site
from tests.support.archives import packed
from tests.support.artifacts import served_artifact
from tests.support.controller import controller, served
from tests.support.remote_bundles import (
    LOOPBACK,
    file_of,
    git_credentials,
    git_source,
    open_registry_source,
    stays,
)
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from applyprune.localplane import Plane
    from tests.support.controller import Controller, Tenant
    from tests.support.git_servers import HttpsSite

LARGE = 62 * 2**20
"""Bytes that a source may have, and that no worker can read in 112 MiB."""
"""How many looks in a row must fail before a Bundle with a good content says so."""


@pytest.fixture(scope="module")
def running(site: Plane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controller]:
    """A controller whose workers have little memory."""
    log = tmp_path_factory.mktemp("controller") / "log"
    limits = ("--reconcile-memory", "112Mi")
    with controller(site.kubeconfig, log, "lease=0", *LOOPBACK, *limits) as one:
        yield one


@pytest.fixture
def web() -> Iterator[tls_site.Site]:
    """A registry of what a test publishes."""
    with tls_site.site(lambda _: tls_site.Answer(404)) as one:
        yield one


def publish(web: tls_site.Site, *names: str, value: str = "1", size: int = 0) -> None:
    """Serve an artifact with ConfigMaps, and with a file of so many bytes."""
    files = {"web/a.yaml": file_of(*names, value=value).encode(), "large.bin": bytes(size)}
    web.answers |= served_artifact("shop/web", packed(files))


def test_fetch_that_needs_too_much_memory_is_ended(
    tenant: Tenant,
    new_tenant: Callable[[], Tenant],
    running: Controller,
    web: tls_site.Site,
    git: HttpsSite,
) -> None:
    """Its Bundle says so and keeps what it has; others are applied, by the same workers.

    Slow: a worker reads 62 MiB until its memory is used up.
    """
    publish(web, "a", "b")
    tenant.bundle("web", source=open_registry_source(tenant, web), interval="1h")
    other = new_tenant()
    git.repository().commit({"web/a.yaml": file_of("a")})
    git_credentials(other, git)
    other.bundle("web", source=git_source(git, path="web"), interval="1h")
    before = tenant.ready("web")["lastAppliedRevision"]
    other.ready("web")
    publish(web, "a", size=LARGE)
    message = tenant.failed("web", "SourceTooLarge")
    assert "it needed more than 112 MiB of memory" in message
    assert f"{before} stays applied" in message
    assert tenant.exists("a", "b") == [True, True]
    commit = git.repository_of("web").commit({"web/a.yaml": file_of("a", value="2")})
    other.applied("web", f"main@sha1:{commit}")
    served(other, running, "meanwhile")
    assert tenant.condition("web")[1] == "SourceTooLarge"
    stays(tenant, "a")
    publish(web, "a", value="3")
    tenant.ready("web")
    eventually(lambda: tenant.exists("a", "b") == [True, False], lambda: "the prune")
    assert tenant.value("a") == "3"
