"""Fights of a Bundle with another field manager about the value of a ConfigMap."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from tests.support.api import WRITES
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.api import AuditTrail
    from tests.support.controller import Tenant

DRIFT = {"reverts": 2}


def changed(tenant: Tenant, value: str, manager: str = "kubectl-patch", name: str = "a") -> None:
    """Change the value of a ConfigMap as a field manager."""
    tenant.api.patch(tenant.path("configmaps", name), {"data": {"key": value}}, by=manager)


def contended(tenant: Tenant) -> str:
    """Wait until an object is contended; return the message."""
    eventually(
        lambda: tenant.condition("web", "Drifted")[:2] == ("True", "Contended"),
        lambda: f"contended: {tenant.get('web').get('status')}",
    )
    return tenant.condition("web", "Drifted")[2]


def quiet(tenant: Tenant) -> None:
    """Let the status say that each fight was an hour ago: no test waits so long."""
    counts = tenant.get("web")["status"]["contention"]
    for count in counts:
        past = datetime.fromisoformat(count["last"]) - timedelta(hours=1)
        count["last"] = past.strftime("%Y-%m-%dT%H:%M:%SZ")
    patch = {"status": {"contention": counts}}
    tenant.api.patch(f"{tenant.bundle_path('web')}/status", patch)


def written(
    audit: AuditTrail, tenant: Tenant, name: str, plural: str = "configmaps", group: str = ""
) -> int:
    """Return how often the controller has applied an object for the Bundle ``web``."""
    path = tenant.path(plural, name, group)
    manager = f"?fieldManager=applyprune%2F{tenant.namespace}%2Fweb&"
    return sum(
        event["userAgent"].startswith("applyprune/")
        and event["verb"] in WRITES
        and event["requestURI"].startswith(f"{path}{manager}")
        and "dryRun=All" not in event["requestURI"]
        and event["responseStatus"]["code"] < 300
        for event in audit.events()
    )
