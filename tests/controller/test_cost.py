"""What Bundles cost the API server: requests, counted in its audit log, never seconds.

Of all Bundles that there are: no other story is in this module.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.benchmarks.bundles import OBJECTS, make_bundles
from tests.benchmarks.requests import count, is_counted, table
from tests.support.api import WRITES
from tests.support.controller import controller
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import Api, AuditTrail
    from tests.support.controller import Tenant

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
    """Few for a first apply; without a change, one LIST for each kind, and no write.

    Slow: three passes of six Bundles are counted, a second apart.
    """
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
