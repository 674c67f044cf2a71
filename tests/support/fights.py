"""Fights of a Bundle with another field manager about the value of a ConfigMap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.waiting import eventually

if TYPE_CHECKING:
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
        f"contended: {tenant.get('web').get('status')}",
    )
    return tenant.condition("web", "Drifted")[2]
