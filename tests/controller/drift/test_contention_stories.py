"""Fights about an object: named, stopped after so many writes, and ended.

Each way to try again is in test_contention_ends.py.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.api import WRITES, Api
from tests.support.fights import DRIFT, changed, contended, quiet
from tests.support.objects import config_map
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from applyprune.localplane import Plane
    from tests.support.api import AuditTrail
    from tests.support.controller import Tenant

MERGE = "application/merge-patch+json"


def fought(tenant: Tenant, **spec: Any) -> dict[str, Any]:
    """Change a value until the Bundle gives way; return its status then."""
    options = {"drift": DRIFT, "interval": "1h", **spec}
    tenant.bundle("web", config_map("a", "ours"), config_map("b"), **options)
    tenant.ready("web")

    def given_way() -> dict[str, Any] | None:
        if tenant.value("a") == "ours":
            changed(tenant, "theirs")
        status = dict(tenant.get("web")["status"])
        return status if _condition(status, "Drifted")["reason"] == "Contended" else None

    return dict(eventually(given_way, lambda: f"contended: {tenant.get('web').get('status')}"))


def _condition(status: dict[str, Any], kind: str) -> dict[str, Any]:
    return next(one for one in status["conditions"] if one["type"] == kind)


def _counts(tenant: Tenant) -> list[dict[str, Any]]:
    return list(tenant.get("web")["status"]["contention"])


def test_contended_object_is_left_until_its_opponent_is_quiet(tenant: Tenant) -> None:
    """Named with both values and what resolves it; other objects are still corrected."""
    status = fought(tenant, interval="2s")
    message = _condition(status, "Drifted")["message"]
    assert "configmap/a /data/key: kubectl-patch" in message
    assert 'ours "ours", theirs "theirs"' in message
    assert "ignoreFields" in message
    assert "applyprune.dev/conflicts: skip" in message
    ready = _condition(status, "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "Contended")
    assert _condition(status, "Stalled")["status"] == "True"
    (count,) = status["contention"]
    assert (count["object"], count["manager"]) == ("configmap/a", "kubectl-patch")
    assert count["reverts"] == 2
    changed(tenant, "theirs", name="b")
    eventually(lambda: len(_counts(tenant)) == 2, lambda: "the revert of another object")
    assert (tenant.value("a"), tenant.value("b")) == ("theirs", "v")
    # No change of the Bundle begins the next reconcile: its interval does.
    quiet(tenant)
    eventually(lambda: tenant.value("a") == "ours", lambda: "the end of the contention")
    tenant.ready("web")
    assert tenant.condition("web", "Drifted")[:2] == ("False", "NoDrift")


def test_deletion_again_and_again_is_contended(tenant: Tenant) -> None:
    """Nobody is named: a deleted object has no managedFields."""
    tenant.bundle("web", config_map("a"), config_map("b"), drift=DRIFT, interval="1h")
    tenant.ready("web")
    path = tenant.path("configmaps", "a")
    for _ in range(2):
        assert tenant.api("DELETE", path)[0] == 200
        eventually(lambda: tenant.api.exists(path), lambda: "the creation")
        tenant.ready("web")
    assert tenant.api("DELETE", path)[0] == 200
    assert "configmap/a: somebody has deleted it again" in contended(tenant)
    assert not tenant.api.exists(path)
    assert tenant.condition("web")[:2] == ("False", "Contended")


def test_opponent_that_never_rests_is_written_against_only_so_often(
    tenant: Tenant, new_tenant: Callable[[], Tenant], site: Plane, site_audit: AuditTrail
) -> None:
    """Some writes miss the version that was judged, and change nothing; others are served."""
    tenant.bundle("web", config_map("a", "ours"), drift=DRIFT, interval="1h")
    tenant.ready("web")
    site_audit.restart()
    ended = threading.Event()
    number = 0

    def oppose() -> None:
        nonlocal number
        api = Api(site)
        path = f"{tenant.path('configmaps', 'a')}?fieldManager=loop"
        while not ended.wait(0.01):
            number += 1
            api("PATCH", path, {"data": {"key": f"theirs-{number}"}}, content_type=MERGE)
        api.close()

    def tried() -> list[int]:
        """Return the status of each try to write the object."""
        path = tenant.path("configmaps", "a")
        return [
            event["responseStatus"]["code"]
            for event in site_audit.events()
            if event["userAgent"].startswith("applyprune/")
            and event["verb"] in WRITES
            and event["requestURI"].partition("?")[0] == path
        ]

    thread = threading.Thread(target=oppose)
    thread.start()
    try:
        assert "configmap/a /data/key: loop" in contended(tenant)
        until_contended, changes = tried(), number
        other = new_tenant()
        other.bundle("other", config_map("b"))
        other.ready("other")
        eventually(lambda: number > changes + 100, lambda: "a hundred changes more")
    finally:
        ended.set()
        thread.join()
    assert sum(code < 300 for code in until_contended) == 2
    assert len(until_contended) <= changes
    assert tried() == until_contended


def test_other_applier_stays_a_conflict(tenant: Tenant, site_audit: AuditTrail) -> None:
    """It is not drift, so nothing is written, and nothing is contended."""
    tenant.bundle("web", config_map("a", "ours"), drift=DRIFT, interval="1h")
    tenant.ready("web")
    for number in range(2):
        other = config_map("a", f"theirs-{number}")
        tenant.put("configmaps", other)
        site_audit.restart()
        tenant.reconciled("web", str(number))
        assert tenant.condition("web")[:2] == ("False", "Conflicts")
        assert tenant.value("a") == f"theirs-{number}"
    assert "contention" not in tenant.get("web")["status"]


@pytest.mark.holds("taken-objects")
def test_bundle_that_takes_an_object_causes_no_drift_of_the_other(
    tenant: Tenant, site_audit: AuditTrail
) -> None:
    """It says whose the object is now, at once, and writes nothing, however often it is asked."""
    tenant.bundle("web", config_map("a", "ours"), drift=DRIFT, interval="1h")
    tenant.ready("web")
    options = {"adopt": "all", "conflicts": "force", "interval": "1h"}
    tenant.bundle("other", config_map("a", "theirs"), **options)
    tenant.ready("other")
    site_audit.restart()
    eventually(lambda: tenant.condition("web")[0] == "False", lambda: "the loss")
    tenant.reconciled("web", "1")
    tenant.reconciled("web", "2")
    ready = tenant.condition("web")
    assert ready[0] == "False"
    assert ready[1] != "Contended"
    assert "belongs to" in tenant.failures("web")["configmap/a"]
    assert tenant.value("a") == "theirs"
    assert tenant.condition("web", "Drifted")[1] != "Contended"
    path = tenant.path("configmaps", "a")
    writes = [one for one in site_audit.events() if one["verb"] in WRITES]
    assert [one for one in writes if one["requestURI"].startswith(path)] == []
