"""A Bundle before what it needs: its kind, source, account and rights come in any order."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.objects import config_map, crd, custom_resource, text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.support.api import Api
    from tests.support.controller import Controller, Tenant

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PARTS = ("kind", "source", "account", "binding")
ORDERS = tuple(permutations(PARTS))
ACCOUNT = "deployer"
RBAC = "rbac.authorization.k8s.io"


def test_missing_kind_is_found_when_its_crd_comes(
    running: Controller, site_api: Api, tenant: Tenant
) -> None:
    """Long before the next retry; until then nothing of the source is applied."""
    assert running.process.poll() is None
    tenant.bundle("web", config_map("a"), custom_resource("b", "Late"), retryInterval="1h")
    assert "no matches for kind Late" in tenant.failed("web", "KindNotFound")
    assert tenant.condition("web", "Stalled")[0] == "False"
    assert tenant.exists("a") == [False]
    assert site_api("POST", DEFINITIONS, crd("Late"))[0] == 201
    tenant.ready("web")


def _kind(order: tuple[str, ...]) -> str:
    """Return the kind of the tenants in which it comes at this position."""
    return f"Kind{order.index('kind')}"


def _reason(existing: tuple[str, ...]) -> str:
    """Return why a Bundle waits when only these parts exist."""
    reasons = {
        "account": "ServiceAccountNotFound",
        "binding": "Forbidden",
        "source": "SourceNotFound",
        "kind": "KindNotFound",
    }
    return next(reason for part, reason in reasons.items() if part not in existing)


def _create(part: str, tenant: Tenant, order: tuple[str, ...]) -> None:
    metadata = {"name": ACCOUNT}
    if part == "source":
        source = text(custom_resource("made", _kind(order)), config_map("a"))
        tenant.put("configmaps", {**config_map("src"), "data": {"all": source}})
    elif part == "account":
        body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
        tenant.put("serviceaccounts", body)
    elif part == "binding":
        subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": tenant.namespace}
        binding: dict[str, Any] = {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [subject],
        }
        tenant.put("rolebindings", binding, f"{RBAC}/v1")


@pytest.mark.parametrize(
    "orders",
    # Of the few, each part is the first of one at least.
    [ORDERS[::5], pytest.param(ORDERS, marks=pytest.mark.sweep)],
    ids=["few", "all"],
)
def test_needs_of_a_bundle_may_come_in_any_order(
    running: Controller,
    site_api: Api,
    new_tenant: Callable[[], Tenant],
    orders: Sequence[tuple[str, ...]],
) -> None:
    """In some orders, or in all 24, and nobody touches the Bundle again."""
    assert running.process.poll() is None
    tenants = {order: new_tenant() for order in orders}
    source = {"configMapRefs": [{"name": "src"}]}
    for tenant in tenants.values():
        tenant.bundle("web", source=source, serviceAccountName=ACCOUNT, interval="1h")
    for turn in range(len(PARTS)):
        for order, tenant in tenants.items():
            tenant.failed("web", _reason(order[:turn]))
        assert site_api("POST", DEFINITIONS, crd(f"Kind{turn}"))[0] == 201
        for order, tenant in tenants.items():
            _create(order[turn], tenant, order)
    for order, tenant in tenants.items():
        assert tenant.ready("web")["objects"] == {"total": 2, "failing": 0, "elsewhere": 0}, order
