"""Fights of a Bundle with another field manager about the value of a ConfigMap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.api import WRITES
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.api import AuditTrail
    from tests.support.controller import Tenant

MERGE = "application/merge-patch+json"
DRIFT = {"contention": {"reverts": 2, "within": "1h"}}


def changed(tenant: Tenant, value: str, manager: str = "kubectl-patch", name: str = "a") -> None:
    """Change the value of a ConfigMap as a field manager."""
    path = f"{tenant.path('configmaps', name)}?fieldManager={manager}"
    status, reply = tenant.api("PATCH", path, {"data": {"key": value}}, content_type=MERGE)
    assert status == 200, reply


def contended(tenant: Tenant) -> str:
    """Wait until a field is contended; return the message."""
    eventually(
        lambda: tenant.condition("web", "Drifted")[:2] == ("True", "Contended"),
        lambda: f"contended: {tenant.get('web').get('status')}",
    )
    return tenant.condition("web", "Drifted")[2]


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
