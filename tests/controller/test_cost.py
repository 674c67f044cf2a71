"""What Bundles cost the API server: requests, counted in its audit log, never seconds."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.benchmarks.controller.requests import WRITES, Requests, is_counted
from tests.benchmarks.controller.site import OBJECTS, Site
from tests.support.api import AuditTrail
from tests.support.controller import Tenant, controller
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import Api

BUNDLES, TEAMS, AGAIN, WORKERS = 24, 4, 6, 4
BEYOND = 13
"""Requests of a first apply, beyond those at its objects; one reviews the account's rights."""
DOCUMENTS = 4
"""The kinds, in two parts, and the schemas of two API versions."""


def counted(audit: AuditTrail) -> list[dict[str, Any]]:
    """Return the requests of controllers."""
    return [
        event
        for event in audit.events()
        if event["userAgent"].startswith("applyprune/") and is_counted(event)
    ]


def total(events: list[dict[str, Any]]) -> Requests:
    """Count requests."""
    found = Requests()
    for event in events:
        found.add(event)
    return found


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


def told(api: Api, teams: Sequence[str]) -> int:
    """Return how many Events about Bundles of these namespaces there are."""
    found = [one["involvedObject"] for one in api.get("/api/v1/events")["items"]]
    return sum(one["kind"] == "Bundle" and one["namespace"] in teams for one in found)


def test_requests_of_many_bundles(site: Plane, site_api: Api, tmp_path: Path) -> None:
    """Few for a first apply; without a change, one LIST for each kind, and no write."""
    place = Site(site, site_api)
    teams = place.make_namespaces(TEAMS)
    audit = AuditTrail(site, site_api)
    options = ("--no-lease", "--workers", str(WORKERS))
    with controller(site.kubeconfig, tmp_path / "log", *options):
        place.make_bundles(BUNDLES, teams, interval="10m")
        at = [(number, teams[number % TEAMS]) for number in range(BUNDLES)]
        for number, team in at:
            Tenant(site_api, team).ready(f"app-{number}")
        # The Event of a first apply is the last of its requests.
        eventually(lambda: told(site_api, teams) >= BUNDLES, lambda: "their Events")
        first = total(counted(audit))
        assert first.beyond - first.shared <= BEYOND * BUNDLES, first.table(BUNDLES)
        # Lists that are refused, and watches, by each account; documents, by each worker.
        assert first.shared <= (TEAMS * OBJECTS + DOCUMENTS) * (WORKERS + 1), first.table(BUNDLES)
        # A read, the check, and the apply.
        assert first.objects <= 3 * OBJECTS * BUNDLES, first.table(BUNDLES)

        for number, team in at[:AGAIN]:
            Tenant(site_api, team).patch(f"app-{number}", interval="1s")
        for number, team in at[:AGAIN]:
            Tenant(site_api, team).ready(f"app-{number}")
        # The first pass writes the status, and the second one may have begun before that.
        names = {f"applyprune-app-{number}" for number, _ in at[:AGAIN]}
        eventually(lambda: all(passes(audit)[name] >= 3 for name in names), lambda: "passes")
        audit.restart()
        eventually(lambda: passes(audit).total() >= 3 * AGAIN, lambda: "more passes")
        again = counted(audit)
        assert [event["requestURI"] for event in again if event["verb"] in WRITES] == []
        for verbs in by_account(again).values():
            assert not verbs - Counter(get=1, list=OBJECTS), verbs
        # The Bundle, its account and the inventory; a reconcile may be under way at either end.
        found = total(again)
        assert found.reads <= 3 * (found.reconciles + WORKERS), found.table(found.reconciles)


def test_main_process_imports_nothing_that_reads_manifests() -> None:
    """Its memory is not shared with the workers."""
    heavy = "{'pydantic', 'ruamel', 'applyprune.engine.run', 'applyprune.sources'}"
    program = f"import applyprune.controller.process, sys; print({heavy} & sys.modules.keys())"
    reply = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert reply.stdout == b"set()\n"
