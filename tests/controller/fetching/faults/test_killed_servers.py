"""The server of a source is killed at moments of a fetch: what is applied stays meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.controller import served
from tests.support.killed_servers import KilledServers, Moment
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.components import Components
    from tests.support.controller import Controller, Tenant

MOMENTS = {
    "git-look": ("git", 1, Moment.BEFORE),
    "git-look-cut": ("git", 2, Moment.WITHIN),
    "git-looked": ("git", 2, Moment.AFTER),
    "git-commit": ("git", 4, Moment.BEFORE),
    "git-commit-cut": ("git", 4, Moment.WITHIN),
    "oci-look": ("oci", 1, Moment.BEFORE),
    "oci-looked": ("oci", 2, Moment.AFTER),
    "oci-manifest-cut": ("oci", 4, Moment.WITHIN),
    "oci-manifest": ("oci", 4, Moment.AFTER),
    "oci-layer-cut": ("oci", 5, Moment.WITHIN),
}
"""What is followed, the request of a look that finds something new, and the moment in it."""


FEW = ("git-look-cut", "git-commit", "git-commit-cut", "oci-manifest", "oci-layer-cut")
"""The moments at which the most is there already, of each kind of server."""


@pytest.mark.parametrize(
    "names", [FEW, pytest.param((*MOMENTS,), marks=pytest.mark.sweep)], ids=["few", "all"]
)
def test_killed_server_prunes_nothing_and_is_followed_when_it_is_back(
    tenant: Tenant,
    new_tenant: Callable[[], Tenant],
    running: Controller,
    components: Components,
    tmp_path: Path,
    names: tuple[str, ...],
) -> None:
    """At each moment; what it had when it was killed would have pruned an object."""
    with KilledServers(tmp_path, components) as opened:
        opened.login(tenant)
        revisions = {}
        for name in names:
            kind, _, _ = MOMENTS[name]
            server = opened.start(kind, name)
            revisions[name] = server.publish((f"{name}-a", f"{name}-b"), "1")
            tenant.bundle(name, source=server.source, interval="1h")
        for name, revision in revisions.items():
            tenant.applied(name, revision)
        new = {}
        for name in names:
            _, number, moment = MOMENTS[name]
            server = opened.servers[name]
            new[name] = server.publish((f"{name}-a",), "2")
            server.kill_at(number, moment)
            tenant.annotate(name, reconcile_now="new")
        for name, server in opened.servers.items():
            eventually(lambda: server.is_killed, lambda: f"{name} killed")  # noqa: B023
        for name, revision in revisions.items():
            message = tenant.failed(name, "FetchFailed")
            assert f"{revision} stays applied" in message
            assert tenant.exists(f"{name}-a", f"{name}-b") == [True, True]
            assert tenant.value(f"{name}-a") == "1"
        served(new_tenant(), running, "meanwhile")
        for name, server in opened.servers.items():
            server.restart()
            tenant.annotate(name, reconcile_now="back")
        for name, revision in new.items():
            tenant.applied(name, revision)
            assert tenant.exists(f"{name}-a", f"{name}-b") == [True, False]
            assert tenant.value(f"{name}-a") == "2"
