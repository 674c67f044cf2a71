"""A Bundle is deleted, and its inventory is lost: its objects are searched by their label."""

from __future__ import annotations

import itertools
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tests.support.api import Api
from tests.support.controller import controller, told_of_namespace
from tests.support.fault_proxy import FaultProxy, always, faults
from tests.support.objects import api_service, config_map, crd, custom_resource
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from applyprune.localplane import Plane
    from tests.support.controller import Controller, Tenant
    from tests.support.fault_proxy import Exchange

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"


@pytest.fixture(scope="module")
def of_module(site: Plane) -> Iterator[FaultProxy]:
    """The proxy of the module."""
    with FaultProxy(site) as one:
        yield one


@pytest.fixture(scope="module")
def behind(of_module: FaultProxy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controller]:
    """A controller behind the proxy."""
    folder = tmp_path_factory.mktemp("controller")
    with controller(of_module.kubeconfig(folder), folder / "log", "lease=0") as one:
        yield one


@pytest.fixture
def proxy(of_module: FaultProxy, behind: Controller) -> Iterator[FaultProxy]:
    """The proxy of the module, with its controller and without a fault."""
    assert behind.process.poll() is None
    before = of_module.before_forward
    yield of_module
    of_module.rule, of_module.before_forward = lambda _: None, before


@pytest.fixture
def tenant(proxy: FaultProxy, new_tenant: Callable[[], Tenant]) -> Tenant:
    """A tenant whose Bundles the controller behind the proxy reconciles."""
    assert proxy.port
    return new_tenant()


def served(api: Api, tenant: Tenant, kind: str) -> str:
    """Create the CRD of a kind; return the path of its objects, once it is served."""
    api.create(DEFINITIONS, crd(kind))
    path = tenant.path(f"{kind.lower()}s", "", "x.example.com/v1")
    eventually(lambda: api("GET", path)[0] == 200, lambda: "the kind")
    return path


def test_finalizer_stays_while_the_list_of_kinds_is_not_complete(
    tenant: Tenant, proxy: FaultProxy, site_api: Api
) -> None:
    """Nothing was found, because the kind was not searched: that proves nothing.

    Slow: an incomplete list of kinds is asked for again before it is told.
    """
    foos = served(site_api, tenant, "Foo")
    tenant.bundle("web", custom_resource("f"))
    tenant.ready("web")
    cut = faults.without_groups("x.example.com")
    proxy.before_forward = _unconditional
    proxy.rule = always(cut, where=lambda seen: seen.path == "/apis")
    tenant.drop("applyprune-web")
    tenant.delete("web")
    eventually(lambda: "cannot count yet" in tenant.condition("web")[2], lambda: "the refusal")
    told = tenant.condition("web")[2]
    assert "the kind of the CRD foos.x.example.com is not served" in told
    assert site_api.exists(f"{foos}/f")
    proxy.rule = lambda _seen: None
    tenant.annotate("web", reconcile_now="1")
    message = tenant.failed("web", "InventoryUnreadable")
    assert "1 object has the set's label: foo.x.example.com/f" in message


@pytest.mark.parametrize(
    "reads",
    [
        pytest.param(0, marks=pytest.mark.holds("inventory-lost")),
        pytest.param(1, marks=pytest.mark.holds("removal-needs-inventory")),
    ],
)
def test_namespace_is_deleted_while_the_inventory_is_read(
    tenant: Tenant, proxy: FaultProxy, site: Plane, new_tenant: Callable[[], Tenant], reads: int
) -> None:
    """Somebody deletes the Bundle, and then its namespace: the inventory goes first.

    The removal and the run in it read the inventory once each. Whichever misses it, an Event says
    that objects elsewhere may be left.

    Slow: the deletion of a namespace takes its controller seconds.
    """
    other = new_tenant()
    _grant_without_lists(tenant)
    there = config_map("there", namespace=other.namespace)
    inventory = tenant.path("configmaps", "applyprune-web")
    namespace = f"/api/v1/namespaces/{tenant.namespace}"
    seen = itertools.count()

    def vanish(exchange: Exchange) -> None:
        if (exchange.method, exchange.path) == ("GET", inventory) and next(seen) == reads:
            assert own("DELETE", namespace)[0] == 200
            eventually(lambda: not own.exists(inventory), lambda: "no inventory")

    with closing(Api(site)) as own:
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
    tenant.api.create(f"{path}/clusterroles", {**name, "rules": rules})
    binding = {**name, "roleRef": role, "subjects": [subject]}
    tenant.api.create(f"{path}/clusterrolebindings", binding)


def _unconditional(seen: Exchange) -> None:
    """Let the server send its whole list of kinds, not that it has not changed."""
    seen.headers = [one for one in seen.headers if one[0].lower() != "if-none-match"]


def test_silent_api_group_does_not_hold_every_bundle(
    tenant: Tenant, behind: Controller, site_api: Api
) -> None:
    """A dead metrics API blocks only its own group; the log says that it was not searched."""
    site_api.create(SERVICES, api_service("silent.example.com"))
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
        lines = (line for line in behind.lines if line.get("bundle") == "never")
        found = [str(line.get("detail")) for line in lines]
        return next((one for one in found if "does not answer" in one), "")

    # The line is written when the Bundle is gone already.
    eventually(lambda: bool(told()), lambda: "the line about the deletion")
    assert "the API group silent.example.com does not answer" in told()
    # The account may list only what is in its namespace: that is said too.
    assert "is forbidden" in told()


@pytest.mark.holds("finalizer-search")
def test_finalizer_stays_while_a_kind_cannot_be_listed(tenant: Tenant, site_api: Api) -> None:
    """The conversion webhook of a CRD is dead: its objects exist, and no list shows them.

    Slow: a list that fails is asked for again before it is told.
    """
    definition = f"{DEFINITIONS}/turners.x.example.com"
    turners = served(site_api, tenant, "Turner")
    tenant.bundle("web", custom_resource("t", "Turner"))
    tenant.ready("web")
    (version,) = crd("Turner")["spec"]["versions"]
    versions = [version, {**version, "name": "v2", "storage": False}]
    dead = {"url": "https://127.0.0.1:1/convert"}
    webhook = {"conversionReviewVersions": ["v1"], "clientConfig": dead}
    turned = {"strategy": "Webhook", "webhook": webhook}
    site_api.patch(definition, {"spec": {"versions": versions, "conversion": turned}})
    newer = turners.replace("/v1/", "/v2/")
    eventually(lambda: "conversion" in str(site_api("GET", newer)), lambda: "the dead conversion")
    tenant.drop("applyprune-web")
    tenant.delete("web")
    message = tenant.failed("web", "RemovalFailed")
    assert "the search was incomplete: turners.x.example.com: " in message
    assert "conversion webhook" in message
    straight = {"strategy": "None", "webhook": None}
    site_api.patch(definition, {"spec": {"conversion": straight}})
    eventually(lambda: site_api("GET", newer)[0] == 200, lambda: "the kind")
    tenant.annotate("web", reconcile_now="1")
    eventually(
        lambda: "1 object has the set's label: turner" in tenant.condition("web")[2],
        lambda: "the search",
    )
    assert site_api("DELETE", f"{turners}/t")[0] == 200
    tenant.annotate("web", reconcile_now="2")
    tenant.gone("web")
