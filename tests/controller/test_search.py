"""A Bundle is deleted, and its inventory is lost: its objects are searched by their label."""

from __future__ import annotations

import itertools
import json
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.api import DISCOVERY, Api
from tests.support.controller import controller, told_of_namespace
from tests.support.fault_proxy import FaultProxy, always, faults, first
from tests.support.fault_proxy.exchange import ServerReply
from tests.support.objects import api_service, config_map, crd, custom_resource
from tests.support.second_server import SecondServer
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from applyprune.localplane import Binaries, Plane
    from tests.support.controller import Tenant
    from tests.support.fault_proxy import Exchange, Fault
    from tests.support.fault_proxy.exchange import Wire

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"


def test_finalizer_stays_while_the_list_of_kinds_is_not_complete(
    site: Plane, site_api: Api, new_tenant: Callable[[], Tenant], tmp_path: Path
) -> None:
    """Nothing was found, because the kind was not searched: that proves nothing."""
    tenant = new_tenant()
    assert site_api("POST", DEFINITIONS, crd())[0] == 201
    foos = f"/apis/x.example.com/v1/namespaces/{tenant.namespace}/foos"
    eventually(lambda: site_api("GET", foos)[0] == 200, lambda: "the kind")
    with (
        FaultProxy(site) as proxy,
        controller(proxy.kubeconfig(tmp_path), tmp_path / "log", "--no-lease"),
    ):
        tenant.bundle("web", custom_resource("f"))
        tenant.ready("web")
        cut = faults.without_groups("x.example.com")
        proxy.before_forward = _unconditional
        proxy.rule = always(cut, where=lambda seen: seen.path == "/apis")
        assert site_api("DELETE", tenant.path("configmaps", "applyprune-web"))[0] == 200
        tenant.delete("web")
        eventually(lambda: "cannot count yet" in tenant.condition("web")[2], lambda: "the refusal")
        told = tenant.condition("web")[2]
        assert "the kind of the CRD foos.x.example.com is not served" in told
        assert site_api.exists(f"{foos}/f")
        proxy.rule = lambda _seen: None
        message = tenant.failed("web", "InventoryUnreadable")
        assert "1 object has the set's label: foo.x.example.com/f" in message


def test_finalizer_stays_just_after_a_start(
    site: Plane,
    site_api: Api,
    new_tenant: Callable[[], Tenant],
    binaries: Binaries,
    tmp_path: Path,
) -> None:
    """A second server, which has just been started again, lists the built-in kinds only."""
    tenant = new_tenant()
    assert site_api("POST", DEFINITIONS, crd("Starter"))[0] == 201
    starters = f"/apis/x.example.com/v1/namespaces/{tenant.namespace}/starters"
    eventually(lambda: site_api("GET", starters)[0] == 200, lambda: "the kind")
    with (
        SecondServer(site, binaries) as second,
        FaultProxy(site) as proxy,
        controller(proxy.kubeconfig(tmp_path), tmp_path / "log", "--no-lease"),
    ):
        # Which of the two is first, the search or the whole list, is up to the machine.
        for turn in itertools.count():
            name, replies = f"web-{turn}", list[bytes]()
            tenant.bundle(name, custom_resource(name, "Starter"))
            tenant.ready(name)
            assert site_api("DELETE", tenant.path("configmaps", f"applyprune-{name}"))[0] == 200
            fresh = _just_started(second, replies)
            proxy.rule = first(1, fresh, where=lambda seen: seen.path == "/apis")
            tenant.delete(name)
            message = tenant.failed(name, "InventoryUnreadable")
            assert f"1 object has the set's label: starter.x.example.com/{name}" in message
            assert site_api.exists(f"{starters}/{name}")
            if b"x.example.com" not in replies[0]:
                return


@pytest.mark.parametrize(
    "reads",
    [
        pytest.param(0, marks=pytest.mark.holds("inventory-lost")),
        pytest.param(1, marks=pytest.mark.holds("removal-needs-inventory")),
    ],
)
def test_namespace_is_deleted_while_the_inventory_is_read(
    site: Plane, new_tenant: Callable[[], Tenant], tmp_path: Path, reads: int
) -> None:
    """Somebody deletes the Bundle, and then its namespace: the inventory goes first.

    The removal and the run in it read the inventory once each. Whichever misses it, an Event says
    that objects elsewhere may be left.
    """
    tenant, other = new_tenant(), new_tenant()
    _grant_without_lists(tenant)
    there = config_map("there", namespace=other.namespace)
    inventory = tenant.path("configmaps", "applyprune-web")
    namespace = f"/api/v1/namespaces/{tenant.namespace}"
    seen = itertools.count()

    def vanish(exchange: Exchange) -> None:
        if (exchange.method, exchange.path) == ("GET", inventory) and next(seen) == reads:
            assert own("DELETE", namespace)[0] == 200
            eventually(lambda: not own.exists(inventory), lambda: "no inventory")

    with (
        closing(Api(site)) as own,
        FaultProxy(site) as proxy,
        controller(proxy.kubeconfig(tmp_path), tmp_path / "log", "--no-lease"),
    ):
        tenant.bundle("web", config_map("a"), there, timeout="1h")
        tenant.ready("web")
        proxy.before_forward = vanish
        tenant.delete("web")
        eventually(lambda: not tenant.api.exists(namespace), lambda: "the namespace gone")
    assert next(seen) > reads
    assert other.exists("there") == [True]
    told = told_of_namespace(tenant)
    assert ["kubectl get -A -l applyset" in one for one in told] == [True]


def _grant_without_lists(tenant: Tenant) -> None:
    """Let the account write and read each ConfigMap of the cluster, and list none."""
    rbac = "rbac.authorization.k8s.io"
    name = {"metadata": {"name": tenant.namespace}}
    verbs = ["get", "create", "patch", "update", "delete"]
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}]
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": tenant.namespace}
    role = {"apiGroup": rbac, "kind": "ClusterRole", "name": tenant.namespace}
    path = f"/apis/{rbac}/v1"
    assert tenant.api("POST", f"{path}/clusterroles", {**name, "rules": rules})[0] == 201
    binding = {**name, "roleRef": role, "subjects": [subject]}
    assert tenant.api("POST", f"{path}/clusterrolebindings", binding)[0] == 201


def _just_started(second: SecondServer, replies: list[bytes]) -> Fault:
    """Let a server that has just been started again give its list of kinds."""

    def fault(wire: Wire) -> None:
        second.restart()
        second.await_answer()
        api = Api(second.plane)
        status, document = api("GET", "/apis", headers={"Accept": DISCOVERY})
        api.close()
        replies.append(json.dumps(document).encode())
        wire.reply(ServerReply(status, [("Content-Type", DISCOVERY)], replies[-1]))

    return fault


def _unconditional(seen: Exchange) -> None:
    """Let the server send its whole list of kinds, not that it has not changed."""
    seen.headers = [one for one in seen.headers if one[0].lower() != "if-none-match"]


def test_silent_api_group_does_not_hold_every_bundle(
    site: Plane, site_api: Api, new_tenant: Callable[[], Tenant], tmp_path: Path
) -> None:
    """A dead metrics API blocks only its own group; the log says that it was not searched."""
    tenant = new_tenant()
    service = api_service("silent.example.com")
    assert site_api("POST", SERVICES, service)[0] == 201
    log = tmp_path / "log"
    with controller(site.kubeconfig, log, "--no-lease") as running:
        tenant.bundle("applied", config_map("a"))
        tenant.ready("applied")
        # It was held for its first run, which has applied nothing.
        tenant.bundle("never", custom_resource("a", "Never"))
        tenant.failed("never", "KindNotFound")
        for name in ("applied", "never"):
            tenant.delete(name)
            tenant.gone(name)
        assert not site_api.exists(tenant.path("configmaps", "a"))

        def told() -> str:
            lines = (line for line in running.lines if line.get("bundle") == "never")
            found = [str(line.get("detail")) for line in lines]
            return next((one for one in found if "does not answer" in one), "")

        # The line is written when the Bundle is gone already.
        eventually(lambda: bool(told()), lambda: "the line about the deletion")
        assert "the API group silent.example.com does not answer" in told()
        # The account may list only what is in its namespace: that is said too.
        assert "is forbidden" in told()


@pytest.mark.holds("finalizer-search")
def test_finalizer_stays_while_a_kind_cannot_be_listed(
    site: Plane, site_api: Api, new_tenant: Callable[[], Tenant], tmp_path: Path
) -> None:
    """The conversion webhook of a CRD is dead: its objects exist, and no list shows them."""
    tenant = new_tenant()
    definition = f"{DEFINITIONS}/turners.x.example.com"
    assert site_api("POST", DEFINITIONS, crd("Turner"))[0] == 201
    turners = f"/apis/x.example.com/v1/namespaces/{tenant.namespace}/turners"
    eventually(lambda: site_api("GET", turners)[0] == 200, lambda: "the kind")
    with controller(site.kubeconfig, tmp_path / "log", "--no-lease"):
        tenant.bundle("web", custom_resource("t", "Turner"))
        tenant.ready("web")
        (version,) = crd("Turner")["spec"]["versions"]
        versions = [version, {**version, "name": "v2", "storage": False}]
        dead = {"url": "https://127.0.0.1:1/convert"}
        webhook = {"conversionReviewVersions": ["v1"], "clientConfig": dead}
        _patch(
            site_api,
            definition,
            {
                "spec": {
                    "versions": versions,
                    "conversion": {"strategy": "Webhook", "webhook": webhook},
                }
            },
        )
        newer = turners.replace("/v1/", "/v2/")
        eventually(
            lambda: "conversion" in str(site_api("GET", newer)), lambda: "the dead conversion"
        )
        assert site_api("DELETE", tenant.path("configmaps", "applyprune-web"))[0] == 200
        tenant.delete("web")
        message = tenant.failed("web", "RemovalFailed")
        assert "the search was incomplete: turners.x.example.com: " in message
        assert "conversion webhook" in message
        _patch(
            site_api, definition, {"spec": {"conversion": {"strategy": "None", "webhook": None}}}
        )
        eventually(
            lambda: "1 object has the set's label: turner" in tenant.condition("web")[2],
            lambda: "the search",
        )
        assert site_api("DELETE", f"{turners}/t")[0] == 200
        tenant.annotate("web", reconcile_now="1")
        tenant.gone("web")


def _patch(api: Api, path: str, body: dict[str, Any]) -> None:
    kind = "application/merge-patch+json"
    status, reply = api("PATCH", path, body, content_type=kind)
    assert status == 200, reply
