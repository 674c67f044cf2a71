"""A Bundle whose account lacks rights says which command prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.objects import config_map

if TYPE_CHECKING:
    from tests.support.controller import Tenant

READS: dict[str, Any] = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}
KEEPS: dict[str, Any] = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}
SERVICES: dict[str, Any] = {"apiGroups": [""], "resources": ["services"], "verbs": ["get", "list"]}
SERVICE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "web"},
    "spec": {"ports": [{"port": 80}]},
}
ACCOUNTS = {
    "it may do nothing": ((), "Forbidden"),
    "it may only read": ((READS, SERVICES), "ApplyFailed"),
    "it lacks one right": ((KEEPS, SERVICES), "ApplyFailed"),
}


@pytest.mark.parametrize("name", ACCOUNTS)
def test_missing_right_shows_the_command_for_roles(tenant: Tenant, name: str) -> None:
    """With the account that needs them."""
    rules, reason = ACCOUNTS[name]
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "poor"}}
    tenant.put("serviceaccounts", account)
    if rules:
        tenant.account("poor", *rules)
    tenant.bundle("web", config_map("a"), SERVICE, serviceAccountName="poor")
    message = tenant.failed("web", reason)
    own = tenant.namespace
    command = f"applyprune rbac web -n {own} -f PATH --account {own}/poor"
    assert message.endswith(f". The roles for this set: {command}"), message
    status = tenant.get("web")["status"]
    assert status.get("objects", {}).get("total", 0) == 0
