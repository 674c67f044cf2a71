"""A Bundle whose account lacks rights says which command prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.objects import SERVICE, config_map, of_kind

if TYPE_CHECKING:
    from tests.support.controller import Tenant

READS: dict[str, Any] = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}
SERVICES = {**READS, "resources": ["services"]}
ACCOUNTS = {
    "nothing": ((), "Forbidden"),
    "reads": ((READS, SERVICES), "ApplyFailed"),
    "almost": (({**READS, "verbs": ["*"]}, SERVICES), "ApplyFailed"),
}
"""What each may do."""


def test_missing_right_shows_the_command_for_roles(tenant: Tenant) -> None:
    """With the account that needs them."""
    for name, (rules, _) in ACCOUNTS.items():
        tenant.put("serviceaccounts", of_kind("ServiceAccount", name))
        if rules:
            tenant.account(name, *rules)
        tenant.bundle(name, config_map(name), SERVICE, serviceAccountName=name)
    own = tenant.namespace
    for name, (_, reason) in ACCOUNTS.items():
        message = tenant.failed(name, reason)
        command = f"applyprune rbac {name} -n {own} -f PATH --account {own}/{name}"
        assert message.endswith(f". The roles for this set: {command}"), message
        assert tenant.get(name)["status"].get("objects", {}).get("total", 0) == 0
    # A right that is missing for one object leaves the others alone too.
    assert "services" in tenant.failures("almost")["service/web"]
    assert tenant.exists(*ACCOUNTS) == [False] * 3
