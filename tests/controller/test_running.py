"""The controller as a process: what it reads and costs, its end, and an address that is taken."""

from __future__ import annotations

import platform
import socket
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from applyprune._version import __version__
from tests.benchmarks.bundles import OBJECTS, make_bundles
from tests.benchmarks.requests import count, is_counted, table
from tests.support.api import WRITES
from tests.support.command import applyprune
from tests.support.controller import Controller, Tenant, controller
from tests.support.fault_proxy import FaultProxy
from tests.support.objects import config_map
from tests.support.waiting import eventually
from tests.support.workloads import workload

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import Api, AuditTrail
    from tests.support.controller import Tenant


def test_bundle_write_is_not_followed_by_a_read(
    site: Plane, new_tenant: Callable[[], Tenant], site_audit: AuditTrail, tmp_path: Path
) -> None:
    """The reply to a write is what is stored: each reconcile of a Bundle reads it once.

    Nothing is read or written for a namespace outside ``--watch-namespaces``.
    """
    tenant, other = new_tenant(), new_tenant()
    other.bundle("web", config_map("a"))
    alone = ("lease=0", "--watch-namespaces", tenant.namespace)

    def since_restart() -> Counter[str]:
        counts = Counter(
            "/".join((one["verb"], *filter(None, (one["objectRef"].get("subresource"),))))
            for one in site_audit.events()
            if one.get("objectRef", {}).get("resource") == "bundles"
            and one["objectRef"].get("namespace") == tenant.namespace
            and str(one.get("userAgent", "")).startswith("applyprune/")
            and one["verb"] not in {"list", "watch"}
            # The deletion wakes one more pass, which finds nothing.
            and one["responseStatus"]["code"] != 404
        )
        site_audit.restart()
        return counts

    with controller(site.kubeconfig, tmp_path / "log", *alone):
        site_audit.restart()
        tenant.bundle("web", config_map("a"))
        tenant.ready("web")
        # One pass: the finalizer and the result.
        assert since_restart() == {"get": 1, "patch": 1, "update/status": 1}
        tenant.bundle("web", config_map("a", "changed"))
        tenant.ready("web")
        assert since_restart() == {"get": 1, "update/status": 1}
        tenant.bundle("many", *(config_map(f"m-{number}") for number in range(25)))
        tenant.ready("many")
        # More than a moment's work: it is progressing first.
        assert since_restart() == {"get": 1, "patch": 1, "update/status": 2}
        tenant.delete("web")
        tenant.gone("web")
        # The second read is of the newest state, from which the finalizer is removed.
        assert since_restart() == {"get": 2, "patch": 1}
    assert other.get("web")["status"] == {"observedGeneration": -1}


def has_metrics_from_the_start(running: Controller) -> None:
    """At zero: an alert on a rate must not miss the first failure."""
    text = running.ask("/metrics")[1]
    assert 'applyprune_reconciles_total{reason="PruneRefused"} 0.0' in text
    assert 'applyprune_api_requests_total{code="5xx",method="DELETE"} 0.0' in text
    assert 'applyprune_objects{state="failing"} 0.0' in text
    assert "applyprune_queue_depth 0.0" in text
    versions = f'python="{platform.python_version()}",version="{__version__}"'
    assert f"applyprune_build_info{{{versions}}} 1.0" in text
    assert running.metric("process_resident_memory_bytes") > 0


def test_stop_finishes_the_reconcile_in_progress(
    site: Plane, new_tenant: Callable[[], Tenant], tmp_path: Path
) -> None:
    """The running work ends, the Lease is given up, and the next replica serves at once."""
    tenant = new_tenant()
    lease = ("lease=3600",)
    with controller(site.kubeconfig, tmp_path / "one", *lease, "-n", tenant.namespace) as one:
        has_metrics_from_the_start(one)
        # No node exists: it never becomes ready, and the reconcile waits for it.
        never = workload("Deployment", "never")
        tenant.bundle("web", config_map("a"), never, wait=True, timeout="1h")
        eventually(lambda: tenant.exists("a") == [True], lambda: "the pass under way")
        eventually(lambda: tenant.condition("web")[1] == "Progressing", lambda: "the wait")
        assert one.ask("/healthz")[0] == 200
        assert eventually(lambda: one.ask("/readyz")[0] == 200)
        assert one.ask("/nothing")[0] == 404
        assert one.stop() == 0
    inventory = tenant.api.get(tenant.path("configmaps", "applyprune-web"))
    assert '"holder": null' in inventory["data"]["header"]
    with controller(site.kubeconfig, tmp_path / "two", *lease, "-n", tenant.namespace) as two:
        eventually(lambda: two.metric("applyprune_leader") == 1, lambda: "it leads")
        tenant.bundle("web", config_map("a"))
        tenant.ready("web")
        tenant.delete("web")
        tenant.gone("web")


@pytest.mark.holds("bundle-metadata")
def test_bundles_are_watched_by_their_metadata(
    site: Plane, new_tenant: Callable[[], Tenant], tmp_path: Path
) -> None:
    """A Bundle may be a megabyte: whole ones are read one at a time, when they are due."""
    tenant = new_tenant()
    alone = ("lease=0", "--watch-namespaces", tenant.namespace)
    with (
        FaultProxy(site) as proxy,
        controller(proxy.kubeconfig(tmp_path), tmp_path / "log", *alone),
    ):
        for value in ("a", "b"):
            tenant.bundle("web", config_map("web", value))
            tenant.ready("web")
        asked = [one for one in proxy.exchanges if one.path == tenant.bundle_path()]
        assert {"limit", "watch"} <= {key for one in asked for key in one.query}
        accepted = [one.header("Accept") for one in asked]
        assert [one for one in accepted if "as=PartialObjectMetadata" not in one] == []


def test_taken_address_is_named(site: Plane) -> None:
    """An error, and no traceback."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        refused = applyprune("controller", "--listen", address, kubeconfig=site.kubeconfig)
    assert (refused.code, address in refused.err) == (2, True)
    assert "cannot listen" in refused.err


BUNDLES, TEAMS, AGAIN, WORKERS = 24, 4, 6, 4
BEYOND = 13
"""Requests of a first apply, beyond those at its objects; one reviews the account's rights."""
DOCUMENTS = 4
"""The kinds, in two parts, and the schemas of two API versions."""


def counted(audit: AuditTrail) -> list[dict[str, Any]]:
    """Return the requests of controllers."""
    return list(filter(is_counted, audit.ours()))


def by_account(events: list[dict[str, Any]]) -> dict[str, Counter[str]]:
    """Return the verbs of the requests as a tenant's account, for each run."""
    runs: dict[str, Counter[str]] = {}
    for event in events:
        if "impersonatedUser" in event and event["verb"] != "watch":
            run = event["userAgent"].partition(" run/")[2]
            runs.setdefault(run, Counter())[event["verb"]] += 1
    return runs


def passes(audit: AuditTrail) -> Counter[str]:
    """Return how often each inventory was read: once by each reconcile."""
    refs = [event.get("objectRef", {}) for event in counted(audit) if event["verb"] == "get"]
    return Counter(ref["name"] for ref in refs if ref.get("resource") == "configmaps")


def told(api: Api, teams: Sequence[Tenant]) -> int:
    """Return how many Events about Bundles of these namespaces there are."""
    found = [one["involvedObject"] for one in api.get("/api/v1/events")["items"]]
    namespaces = {team.namespace for team in teams}
    return sum(one["kind"] == "Bundle" and one["namespace"] in namespaces for one in found)


def test_requests_of_many_bundles(
    site: Plane,
    site_api: Api,
    site_audit: AuditTrail,
    new_tenant: Callable[[], Tenant],
    tmp_path: Path,
) -> None:
    """Few for a first apply; without a change, one LIST for each kind, and no write."""
    teams = [new_tenant() for _ in range(TEAMS)]
    audit = site_audit
    audit.restart()
    options = ("lease=0", "--workers", str(WORKERS))
    with controller(site.kubeconfig, tmp_path / "log", *options):
        made = make_bundles(teams, BUNDLES, "10m")
        for team, name in made:
            team.ready(name)
        # The Event of a first apply is the last of its requests.
        eventually(lambda: told(site_api, teams) >= BUNDLES, lambda: "their Events")
        first = count(audit.ours())
        beyond = first["requests"] - first["objects"]
        assert beyond - first["shared"] <= BEYOND * BUNDLES, table(first, BUNDLES)
        # Lists that are refused, and watches, by each account; documents, by each worker.
        most = (TEAMS * OBJECTS + DOCUMENTS) * (WORKERS + 1)
        assert first["shared"] <= most, table(first, BUNDLES)
        # A read, the check, and the apply.
        assert first["objects"] <= 3 * OBJECTS * BUNDLES, table(first, BUNDLES)

        for team, name in made[:AGAIN]:
            team.patch(name, interval="1s")
        for team, name in made[:AGAIN]:
            team.ready(name)
        # The first pass writes the status, and the second one may have begun before that.
        names = {f"applyprune-{name}" for _, name in made[:AGAIN]}
        eventually(lambda: all(passes(audit)[name] >= 3 for name in names), lambda: "passes")
        audit.restart()
        eventually(lambda: passes(audit).total() >= 3 * AGAIN, lambda: "more passes")
        again = counted(audit)
        assert [event["requestURI"] for event in again if event["verb"] in WRITES] == []
        for verbs in by_account(again).values():
            assert not verbs - Counter(get=1, list=OBJECTS), verbs
        # The Bundle, its account and the inventory; a reconcile may be under way at either end.
        found = count(again)
        assert found["reads"] <= 3 * (found["reconciles"] + WORKERS), table(found, 1)


def test_main_process_imports_nothing_that_reads_manifests() -> None:
    """Its memory is not shared with the workers."""
    heavy = "{'pydantic', 'ruamel', 'applyprune.engine.run', 'applyprune.sources'}"
    program = f"import applyprune.controller.process, sys; print({heavy} & sys.modules.keys())"
    reply = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert reply.stdout == b"set()\n"
