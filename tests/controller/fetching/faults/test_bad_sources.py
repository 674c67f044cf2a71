"""A source becomes bad: its Bundle says why in time, and what it has applied stays.

All of them do at once, so that a slow one holds up the others if it can.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.api import Api
from tests.support.bad_sources import BAD_SOURCES, bad_servers
from tests.support.controller import controller, served, tenants
from tests.support.remote_bundles import LOOPBACK, secret
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from applyprune.localplane import Plane
    from tests.components import Components
    from tests.support.controller import Controller, Tenant

GUIDE = Path(__file__).parents[4] / "docs/guides/bundle-sources.md"
ELSEWHERE = {"SourceNotFound"}
"""The reasons that are not those of a source: other tests have them."""


@pytest.fixture(scope="module")
def running(
    site: Plane, components: Components, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Controller]:
    """A controller that finds sops, as in its image."""
    log = tmp_path_factory.mktemp("controller") / "log"
    path = f"PATH={components.sops.parent}:{os.environ['PATH']}"
    with controller(site.kubeconfig, log, "--no-lease", *LOOPBACK, within=("env", path)) as one:
        yield one


@pytest.fixture(scope="module")
def bad(
    site: Plane,
    running: Controller,
    components: Components,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Tenant]:
    """A tenant with a Bundle for each source: each has applied a good one, and is asked to look."""
    assert running.address
    folder = tmp_path_factory.mktemp("bad")
    api = Api(site)
    with tenants(api) as make, bad_servers(folder, components) as servers:
        tenant = make()
        sources = {name: one.begin(servers, name) for name, one in BAD_SOURCES.items()}
        servers.commit_content()
        for name, values in servers.all_secrets().items():
            secret(tenant, name, values)
        for name, one in BAD_SOURCES.items():
            tenant.bundle(name, source=sources[name], interval="1h", **one.spec)
        for name in BAD_SOURCES:
            tenant.ready(name)
        for name, one in BAD_SOURCES.items():
            one.spoil(servers, name)
        servers.commit_content()
        for name in BAD_SOURCES:
            tenant.annotate(name, reconcile_now="bad")
        yield tenant
    api.close()


@pytest.mark.parametrize("name", BAD_SOURCES)
def test_bad_source_prunes_nothing_and_says_why(bad: Tenant, name: str) -> None:
    """With the reason that the guide names."""
    source = BAD_SOURCES[name]
    message = bad.failed(name, source.reason)
    assert source.says in message
    assert ("stays applied" in message) is source.keeps
    assert bad.exists(f"{name}-a", f"{name}-b") == [True, True]
    assert bad.value(f"{name}-a") == "1"


@pytest.mark.parametrize("name", ["invalid", "edited", "not-decrypted", "missing-path"])
def test_drift_is_set_back_while_what_is_new_is_unusable(bad: Tenant, name: str) -> None:
    """To the content that was good last, whether what is new was not read or not usable."""
    bad.failed(name, BAD_SOURCES[name].reason)
    patch, kind = {"data": {"key": "by hand"}}, "application/merge-patch+json"
    path = bad.path("configmaps", f"{name}-a")
    assert bad.api("PATCH", path, patch, content_type=kind)[0] == 200
    eventually(lambda: bad.value(f"{name}-a") == "1", "the value of the last good content")
    assert "stays applied" in bad.failed(name, BAD_SOURCES[name].reason)
    assert bad.exists(f"{name}-b") == [True]


def test_other_tenants_are_served_beside_bad_sources(
    bad: Tenant, new_tenant: Callable[[], Tenant], running: Controller
) -> None:
    """Afterwards, too."""
    assert bad.condition(next(iter(BAD_SOURCES)))[0] == "False"
    served(new_tenant(), running, "afterwards")


def test_every_reason_of_the_guide_has_a_bad_source() -> None:
    """Those of its table."""
    table = GUIDE.read_text().partition("| reason |")[2].partition("\n\n")[0]
    reasons = set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE))
    found = Counter(one.reason for one in BAD_SOURCES.values())
    assert reasons - ELSEWHERE <= found.keys()
    assert len(reasons) > len(ELSEWHERE)
