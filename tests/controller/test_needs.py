"""What a Bundle needs, in any order: its kind, source, account, rights, and rules of readiness."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.objects import SERVICE, config_map, crd, custom_resource, of_kind, text

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.api import Api
    from tests.support.controller import Controller, Tenant

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PARTS = ("kind", "source", "account", "binding")
ORDERS = tuple(PARTS[turn:] + PARTS[:turn] for turn in range(len(PARTS)))
"""Each part is the first of one, and the last of one."""
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
    tenant.reconciled("web", "still")  # by now the controller knows that it waits
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


def test_needs_of_a_bundle_may_come_in_any_order(
    running: Controller, site_api: Api, new_tenant: Callable[[], Tenant]
) -> None:
    """And nobody touches the Bundle again.

    Slow: four kinds come one after the other, and each is served a little later.
    """
    assert running.process.poll() is None
    tenants = {order: new_tenant() for order in ORDERS}
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


GROUP = "x.example.com/v1"
FILLED = "cm=has(self.data.done)"
DONE = "ruled.x.example.com=has(self.note) && self.note == 'done'"


def test_rule_decides_when_objects_of_a_kind_are_ready(
    running: Controller, site_api: Api, tenant: Tenant
) -> None:
    """Of a kind that comes later, and of one that is ready at once by itself; a removal has none.

    By the rules of their kinds, both objects would be ready as soon as they are stored.

    Slow: a kind is served a little after its CRD is there.
    """
    assert running.process.poll() is None
    tenant.bundle("web", config_map("a"), wait=True, retryInterval="1h", readyWhen=[FILLED, DONE])
    message = tenant.failed("web", "KindNotFound")
    assert message.startswith("spec.readyWhen ruled.x.example.com: unknown kind: no matches for")
    assert tenant.exists("a") == [False]
    tenant.reconciled("web", "still")
    assert site_api("POST", DEFINITIONS, crd("Ruled"))[0] == 201
    tenant.waits("web", "waiting for configmap/a")
    tenant.api.patch(tenant.path("configmaps", "a"), {"data": {"done": "yes"}})
    tenant.ready("web")

    inline = tenant.get("web")["spec"]["source"]["inline"]
    tenant.bundle(
        "web", config_map("a"), custom_resource("b", "Ruled"), wait=True, retryInterval="1h",
        readyWhen=[FILLED, DONE],
    )  # fmt: skip
    assert tenant.get("web")["spec"]["source"]["inline"] != inline
    tenant.waits("web", "waiting for ruled.x.example.com/b")
    tenant.api.patch(tenant.path("ruleds", "b", GROUP), {"note": "done"})
    tenant.ready("web")

    tenant.patch("web", readyWhen=["never.x.example.com=true"])
    tenant.failed("web", "KindNotFound")
    tenant.delete("web")
    tenant.gone("web")
    assert tenant.exists("a") == [False]
