"""A source becomes bad: its Bundle says why in time, and what it has applied stays.

All of them do at once, so that a slow one holds up the others if it can.
"""

from __future__ import annotations

import os
import re
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
ALL = tuple(BAD_SOURCES)
FEW = (
    *("missing-path", "invalid", "cut-connection", "cut-layer", "bomb", "edited"),
    *("not-decrypted", "force-push", "unsigned", "wrong-password"),
)
"""Each reason, by Git and by a registry; tests/sources has what git, tar or a server says."""
few_and_all = pytest.mark.parametrize(
    "bad", [FEW, pytest.param(ALL, marks=pytest.mark.sweep)], ids=["few", "all"], indirect=True
)
ELSEWHERE = {"SourceNotFound"}
"""The reasons that are not those of a source: other tests have them."""


@pytest.fixture(scope="module")
def running(
    site: Plane, components: Components, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Controller]:
    """A controller that finds sops, as in its image."""
    log = tmp_path_factory.mktemp("controller") / "log"
    path = f"PATH={components.sops.parent}:{os.environ['PATH']}"
    with controller(site.kubeconfig, log, "lease=0", *LOOPBACK, within=("env", path)) as one:
        yield one


@pytest.fixture(scope="module")
def bad(
    request: pytest.FixtureRequest,
    site: Plane,
    running: Controller,
    components: Components,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Tenant]:
    """A tenant with a Bundle for each source: each has applied a good one, and is asked to look."""
    assert running.address
    chosen = {name: BAD_SOURCES[name] for name in request.param}
    folder = tmp_path_factory.mktemp("bad")
    api = Api(site)
    with tenants(api) as make, bad_servers(folder, components) as servers:
        tenant = make()
        sources = {name: one.begin(servers, name) for name, one in chosen.items()}
        servers.commit_content()
        for name, values in servers.all_secrets().items():
            secret(tenant, name, values)
        for name, one in chosen.items():
            tenant.bundle(name, source=sources[name], interval="1h", **one.spec)
        for name in chosen:
            tenant.ready(name)
        for name, one in chosen.items():
            one.spoil(servers, name)
        servers.commit_content()
        for name in chosen:
            tenant.annotate(name, reconcile_now="bad")
        yield tenant
    api.close()


@pytest.mark.parametrize(
    ("bad", "name"),
    [
        *(pytest.param(FEW, name, id=name) for name in FEW),
        *(pytest.param(ALL, name, id=f"all-{name}", marks=pytest.mark.sweep) for name in ALL),
    ],
    indirect=["bad"],
    scope="module",
)
def test_bad_source_prunes_nothing_and_says_why(bad: Tenant, name: str) -> None:
    """With the reason that the guide names."""
    source = BAD_SOURCES[name]
    message = bad.failed(name, source.reason)
    assert source.says in message
    assert ("stays applied" in message) is source.keeps
    assert bad.exists(f"{name}-a", f"{name}-b") == [True, True]
    assert bad.value(f"{name}-a") == "1"


@few_and_all
@pytest.mark.parametrize("name", ["invalid", "edited", "not-decrypted", "missing-path"])
def test_drift_is_set_back_while_what_is_new_is_unusable(bad: Tenant, name: str) -> None:
    """To the content that was good last, whether what is new was not read or not usable."""
    bad.failed(name, BAD_SOURCES[name].reason)
    patch, kind = {"data": {"key": "by hand"}}, "application/merge-patch+json"
    path = bad.path("configmaps", f"{name}-a")
    assert bad.api("PATCH", path, patch, content_type=kind)[0] == 200
    eventually(lambda: bad.value(f"{name}-a") == "1", lambda: "the value of the last good content")
    assert "stays applied" in bad.failed(name, BAD_SOURCES[name].reason)
    assert bad.exists(f"{name}-b") == [True]


@few_and_all
def test_other_tenants_are_served_beside_bad_sources(
    bad: Tenant, new_tenant: Callable[[], Tenant], running: Controller
) -> None:
    """Afterwards, too."""
    assert bad.condition("missing-path")[0] == "False"
    served(new_tenant(), running, "afterwards")


def test_every_reason_of_the_guide_has_a_bad_source() -> None:
    """Those of its table, in ``make test`` too."""
    table = GUIDE.read_text().partition("| reason |")[2].partition("\n\n")[0]
    reasons = set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE))
    found = {BAD_SOURCES[name].reason for name in FEW}
    assert reasons - ELSEWHERE <= found
    assert len(reasons) > len(ELSEWHERE)
