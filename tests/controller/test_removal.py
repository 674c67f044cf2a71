"""A deleted Bundle goes: what its account may not delete stays, and stays listed."""

from __future__ import annotations

import json
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.command import applyprune
from tests.support.controller import served
from tests.support.objects import GUARDED, SERVICE, config_map, custom_resource
from tests.support.waiting import eventually
from tests.support.webhook import Webhook
from tests.support.workloads import workload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from applyprune.localplane import Plane
    from tests.support.api import Api
    from tests.support.controller import Controller, Tenant

BROKEN = [{"name": "db", "readyWhen": "self.("}]
"""The CRD accepts it, and the controller cannot read it."""
RBAC = "rbac.authorization.k8s.io/v1"
SLOW = "example.com/slow"
CRD_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/bundles.applyprune.dev"


def told(tenant: Tenant, reason: str, name: str = "web") -> str:
    """Return the message of the Event about a removal."""
    events = tenant.events(name)
    return next(message for _, known, message in events if known == reason)


def owner(tenant: Tenant, name: str = "web") -> str:
    """Return the owner that an inventory names."""
    return str(json.loads(tenant.get_map(f"applyprune-{name}")["data"]["header"])["owner"])


def delete_namespaces(*tenants: Tenant) -> list[dict[str, Any]]:
    """Delete namespaces, wait until they are gone, and return the Events about them."""
    api = tenants[0].api
    paths = [f"/api/v1/namespaces/{one.namespace}" for one in tenants]
    for path in paths:
        assert api("DELETE", path)[0] == 200
    eventually(lambda: not any(map(api.exists, paths)), lambda: "the namespaces gone")
    names = {one.namespace for one in tenants}
    events = api.get("/api/v1/namespaces/default/events")["items"]
    return [one for one in events if one["involvedObject"]["name"] in names]


def _no_account(tenant: Tenant) -> dict[str, Any]:
    return {"serviceAccountName": "missing"}


def _no_binding(tenant: Tenant) -> dict[str, Any]:
    body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "unbound"}}
    tenant.put("serviceaccounts", body)
    return {"serviceAccountName": "unbound"}


NEVER_APPLIED: dict[str, tuple[Callable[[Tenant], dict[str, Any]], str]] = {
    "an account that is missing": (_no_account, "ServiceAccountNotFound"),
    "an account without rights": (_no_binding, "Forbidden"),
    "a source that is missing": (
        lambda _: {"source": {"configMapRefs": [{"name": "none"}]}},
        "SourceNotFound",
    ),
    "a source that is invalid": (lambda _: {"source": {"inline": "["}}, "InvalidSource"),
    "a kind that is missing": (
        lambda _: {"source": {"inline": json.dumps(custom_resource("a", "Never"))}},
        "KindNotFound",
    ),
    "an invalid spec": (lambda _: {"dependsOn": BROKEN}, "InvalidSpec"),
}


def test_bundle_that_has_applied_nothing_goes_at_once(tenant: Tenant) -> None:
    """Whatever has kept it from it."""
    for number, (spec, reason) in enumerate(NEVER_APPLIED.values()):
        tenant.bundle(f"b{number}", config_map("a"), timeout="1h", **spec(tenant))
        tenant.failed(f"b{number}", reason)
        tenant.delete(f"b{number}")
    for number in range(len(NEVER_APPLIED)):
        tenant.gone(f"b{number}")


@pytest.mark.holds("late-removal")
def test_missing_account_keeps_a_bundle_until_its_timeout(
    tenant: Tenant, new_tenant: Callable[[], Tenant], running: Controller, site: Plane
) -> None:
    """The condition says what stays, and how long; then the Event says how to delete it.

    Slow: a removal takes all of its time.
    """
    tenant.account("deployer")
    more = {"serviceAccountName": "deployer", "retryInterval": "1h"}
    for name, timeout in (("long", "1h"), ("web", "3s")):
        tenant.bundle(name, config_map(f"of-{name}"), timeout=timeout, **more)
        tenant.ready(name)
    tenant.drop("deployer", "serviceaccounts")
    tenant.delete("long")
    tenant.delete("web")
    message = tenant.failed("long", "ServiceAccountNotFound")
    assert "the ServiceAccount deployer does not exist" in message
    assert "left in the inventory applyprune-long: 1 object; the Bundle goes at 20" in message
    tenant.gone("web")
    served(new_tenant(), running, "beside")
    command = f"web -n {tenant.namespace}"
    release, delete = f"inventory release {command}", f"delete {command}"
    event = told(tenant, "RemovalIncomplete")
    assert f"applyprune {release}, then applyprune {delete}" in event
    assert tenant.exists("of-web", "applyprune-web") == [True, True]
    for arguments in (release.split(), [*delete.split(), "--yes"]):
        reply = applyprune(*arguments, kubeconfig=site.kubeconfig)
        assert reply.code == 0, reply
    assert tenant.exists("of-web", "applyprune-web") == [False, False]
    # With its account, the other one is removed as usual, and nothing has been lost meanwhile.
    assert tenant.exists("of-long") == [True]
    tenant.account("deployer")
    tenant.annotate("long", reconcile_now="1")
    tenant.gone("long")
    assert tenant.exists("of-long", "applyprune-long") == [False, False]


MAPS = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}


def test_missing_rights_keep_what_they_do_not_cover(tenant: Tenant) -> None:
    """What comes before it is deleted, and the inventory is released with what is left."""
    first = {"applyprune.dev/wave": "1"}
    services = {"apiGroups": [""], "resources": ["services"], "verbs": ["get", "list"]}
    names = {"some": [MAPS, services], "none": [services]}
    for name, rules in names.items():
        tenant.account(name)
        more = {"serviceAccountName": name, "timeout": "2s", "inventoryName": name}
        body = {**SERVICE, "metadata": {"name": name}}
        tenant.bundle(name, config_map(f"of-{name}", annotations=first), body, **more)
        tenant.ready(name)
        tenant.drop(name, "rolebindings", RBAC)
        tenant.account(name, *rules)
        tenant.delete(name)
    for name in names:
        tenant.gone(name)
    assert tenant.exists("of-some", "applyprune-some") == [False, True]
    said = told(tenant, "RemovalIncomplete", "some")
    assert "left in the inventory applyprune-some: 1 object (service/some)" in said
    assert owner(tenant, "some") == ""
    # Without the right to write the inventory, it keeps its owner, who does not exist any more.
    assert tenant.exists("of-none", "applyprune-none") == [True, True]
    assert owner(tenant, "none").endswith("/none")
    assert "inventory release none" in told(tenant, "RemovalIncomplete", "none")


@pytest.mark.holds("uncounted-removal")
def test_missing_right_to_count_keeps_a_bundle_until_its_timeout(tenant: Tenant) -> None:
    """Claims of a StatefulSet may not be listed: a guard refuses, and nothing is lost."""
    tenant.account("few")
    more = {"serviceAccountName": "few", "timeout": "2s"}
    body = {**GUARDED["statefulset"], "metadata": {"name": "db"}}
    tenant.bundle("web", config_map("a"), body, **more)
    tenant.ready("web")
    tenant.drop("few", "rolebindings", RBAC)
    sets = {"apiGroups": ["apps"], "resources": ["statefulsets"], "verbs": ["*"]}
    tenant.account("few", MAPS, sets)
    tenant.delete("web")
    tenant.gone("web")
    event = told(tenant, "RemovalIncomplete")
    assert "its cascaded deletions cannot be counted: persistentvolumeclaims" in event
    assert "left in the inventory applyprune-web: 2 objects" in event
    assert tenant.exists("a", "applyprune-web") == [True, True]
    assert owner(tenant) == ""


@contextmanager
def any_policy(api: Api) -> Iterator[None]:
    """Let the CRD accept each policy meanwhile, as that of a later version may."""
    path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/deletionPolicy/enum"
    kind = "application/json-patch+json"
    schema = api.get(CRD_PATH)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    policies = schema["properties"]["spec"]["properties"]["deletionPolicy"]["enum"]
    patch = [{"op": "remove", "path": path}]
    assert api("PATCH", CRD_PATH, patch, content_type=kind)[0] == 200
    yield
    # The other stories of the module have the CRD that people install.
    back = [{"op": "add", "path": path, "value": policies}]
    assert api("PATCH", CRD_PATH, back, content_type=kind)[0] == 200


@pytest.mark.holds("undecided-removal")
def test_unreadable_policy_deletes_nothing(tenant: Tenant, site_api: Api) -> None:
    """A later version may have written it: the Bundle goes at its timeout, the objects stay."""
    tenant.bundle("web", config_map("a"), timeout="1h")
    tenant.ready("web")

    def accepts() -> bool:
        try:
            tenant.patch("web", deletionPolicy="Later")
        except AssertionError:
            return False
        return True

    with any_policy(site_api):
        eventually(accepts, lambda: "the CRD without the list of policies")
        tenant.delete("web")
        message = tenant.failed("web", "InvalidSpec")
        assert "spec.deletionPolicy: must be" in message
        tenant.patch("web", timeout="1s")
        tenant.gone("web")
    assert "spec.deletionPolicy" in told(tenant, "RemovalIncomplete")
    assert "left in the inventory applyprune-web: 1 object" in told(tenant, "RemovalIncomplete")
    assert tenant.exists("a", "applyprune-web") == [True, True]


@pytest.mark.holds("removal-goes-on")
def test_lost_inventory_keeps_a_bundle_after_its_timeout(
    tenant: Tenant, running: Controller
) -> None:
    """Nothing else lists its objects; the annotation ends it, and says how to find them.

    Slow: a removal is tried three times, with growing pauses.
    """
    tenant.bundle("web", config_map("a"), timeout="1s")
    tenant.ready("web")
    tenant.drop("applyprune-web")
    tenant.delete("web")
    eventually(
        lambda: running.reconciles(tenant).count("InventoryUnreadable") >= 3,
        lambda: "three looks, with a growing pause",
    )
    assert "inventory repair web" in tenant.condition("web")[2]
    tenant.annotate("web", orphan="true")
    tenant.gone("web")
    assert "See: kubectl get -A -l applyset" in told(tenant, "RemovalIncomplete")
    assert tenant.exists("a") == [True]


def test_annotation_ends_a_removal_and_leaves_the_objects(tenant: Tenant) -> None:
    """At once, in the middle of a wait, or before anything is deleted."""
    held = config_map("held", finalizers=[SLOW])
    wait = {"deletionPolicy": "WaitForTermination", "timeout": "1h"}
    tenant.bundle("web", config_map("a"), held, **wait)
    tenant.ready("web")
    tenant.delete("web")
    eventually(lambda: "deletionTimestamp" in tenant.get_map("held")["metadata"])
    tenant.annotate("web", orphan="yes", reconcile_now="1")
    tenant.annotate("web", orphan="true")
    tenant.gone("web")
    assert 'the annotation applyprune.dev/orphan is "true"' in told(tenant, "RemovalIncomplete")
    assert owner(tenant) == ""
    tenant.strip("held")
    tenant.bundle("early", config_map("b"))
    tenant.ready("early")
    tenant.annotate("early", orphan="true")
    tenant.delete("early")
    tenant.gone("early")
    assert (tenant.exists("b", "applyprune-early"), owner(tenant, "early")) == ([True, True], "")
    said = told(tenant, "RemovalIncomplete", "early")
    assert "left in the inventory applyprune-early: 1 object (configmap/b)" in said


@pytest.mark.holds("release-own")
def test_annotation_takes_no_set_from_another_bundle(tenant: Tenant) -> None:
    """The set of the same name belongs to the other one, and stays with it."""
    tenant.bundle("web", config_map("a"))
    tenant.ready("web")
    tenant.bundle("thief", config_map("b"), inventoryName="web")
    tenant.failed("thief", "InventoryOwned")
    tenant.annotate("thief", orphan="true")
    tenant.delete("thief")
    tenant.gone("thief")
    assert owner(tenant) == f"Bundle {tenant.namespace}/web"
    active = f"the set web was not released: Bundle {tenant.namespace}/web is active"
    assert active in told(tenant, "RemovalIncomplete", "thief")


def test_event_of_a_removal_tells_what_all_looks_have_removed(tenant: Tenant) -> None:
    """One object has a finalizer, so it goes in a later look; an invalid spec holds nothing up."""
    slow = config_map("slow", finalizers=[SLOW])
    tenant.bundle("web", config_map("a"), config_map("b"), slow)
    tenant.ready("web")
    tenant.patch("web", dependsOn=BROKEN)
    tenant.failed("web", "InvalidSpec")
    tenant.delete("web")
    eventually(lambda: tenant.exists("a", "b") == [False, False])
    eventually(lambda: tenant.condition("web")[0] == "Unknown", lambda: "it waits for slow")
    tenant.strip("slow")
    tenant.gone("web")
    assert told(tenant, "Removed") == "3 deleted"
    assert tenant.exists("applyprune-web") == [False]


def test_object_that_somebody_holds_keeps_a_bundle_only_where_that_is_asked_for(
    tenant: Tenant,
) -> None:
    """After the timeout, it is deleted and still listed; or it is nobody's, also by default.

    Slow: a removal takes all of its time.
    """
    for name, policy in (("d", "Delete"), ("w", "WaitForTermination"), ("o", "MirrorPrune")):
        held = config_map(f"held-{name}", finalizers=[SLOW])
        more = {"deletionPolicy": policy, "timeout": "2s", "prune": {"enabled": False}}
        tenant.bundle(name, config_map(name), held, **more)
        tenant.ready(name)
        tenant.delete(name)
    tenant.gone("d")
    assert tenant.exists("d", "held-d", "applyprune-d") == [False, True, True]
    assert any(one[1] == "RemovalIncomplete" for one in tenant.events("d"))
    tenant.gone("o")
    assert tenant.exists("o", "held-o", "applyprune-o") == [True, True, False]
    assert told(tenant, "Removed", "o") == "2 orphaned"
    metadata = tenant.get_map("o")["metadata"]
    assert "labels" not in metadata
    assert not any("applyprune/" in one["manager"] for one in metadata.get("managedFields", ()))
    assert SLOW in tenant.failed("w", "RemovalFailed")
    for name in "dwo":
        tenant.strip(f"held-{name}")
    tenant.gone("w")


POLICIES = ("Delete", "WaitForTermination", "Orphan")
WITHIN: tuple[dict[str, Any], ...] = (
    {"deletionPolicy": "Delete"},
    {"deletionPolicy": "WaitForTermination"},
    {"deletionPolicy": "Orphan"},
    {"prune": {"enabled": False}},
    {"dependsOn": BROKEN},
    {"suspend": True},
)


@pytest.mark.holds("nothing-elsewhere")
def test_bundle_goes_with_its_namespace(new_tenant: Callable[[], Tenant], tenant: Tenant) -> None:
    """At once, whatever its policy and its timeout are, if no object of it is elsewhere.

    With some elsewhere, when its rights have gone: nobody can give these again, and an Event says
    what may be left. Slow: the deletion of a namespace takes its controller several seconds.
    """
    other, leaving = new_tenant(), [new_tenant() for _ in POLICIES]
    for policy, one in zip(POLICIES, leaving, strict=True):
        guest(other, one)
        there = config_map(f"of-{policy.lower()}", namespace=other.namespace)
        spec = {"deletionPolicy": policy, "timeout": "1h", "retryInterval": "1h"}
        one.bundle("web", config_map("a"), there, **spec)
        assert one.ready("web")["objects"]["elsewhere"] == 1
        # It is not known which of account, rights and inventory goes first: here, the rights do.
        rbac = f"/apis/{RBAC}/namespaces/{one.namespace}/rolebindings"
        assert one.api("DELETE", rbac)[0] == 200
    tenants = [tenant, *(new_tenant() for _ in WITHIN[1:])]
    for one in tenants:
        one.bundle("web", config_map("a"), timeout="1h", retryInterval="1h", interval="1h")
    for one, spec in zip(tenants, WITHIN, strict=True):
        assert one.ready("web")["objects"] == {"total": 1, "failing": 0, "elsewhere": 0}
        one.patch("web", **spec)
    tenants[-2].failed("web", "InvalidSpec")
    eventually(partial(_is_suspended, tenants[-1]))
    tenants[-1].delete("web")
    events = delete_namespaces(*tenants, *leaving)
    names = {one.namespace for one in leaving}
    assert {one["involvedObject"]["name"] for one in events} == names
    said = "\n".join(one["message"] for one in events)
    assert said.count("kubectl get -A -l applyset") == 3
    assert said.count("before all of its objects elsewhere could be removed") == 2
    assert "before all of its objects elsewhere could be orphaned" in said
    assert other.exists(*(f"of-{policy.lower()}" for policy in POLICIES)) == [True] * 3


def guest(other: Tenant, tenant: Tenant) -> None:
    """Let the account of a tenant write in the namespace of another one."""
    binding = {
        "apiVersion": RBAC,
        "kind": "RoleBinding",
        "metadata": {"name": f"guest-{tenant.namespace}"},
        "roleRef": {"apiGroup": RBAC[:-3], "kind": "ClusterRole", "name": "admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": tenant.namespace}],
    }
    other.put("rolebindings", binding, RBAC)


@pytest.mark.holds("elsewhere-first")
def test_status_says_that_objects_are_elsewhere_before_they_are(
    tenant: Tenant, new_tenant: Callable[[], Tenant], site: Plane, site_api: Api
) -> None:
    """A namespace that is deleted in between must not take the Bundle without them."""
    other = new_tenant()
    guest(other, tenant)
    spec = {"prune": {"maxPrune": "100%"}}
    tenant.bundle("web", config_map("a"), **spec)
    assert tenant.ready("web")["objects"]["elsewhere"] == 0
    known: list[int] = []

    def reply(request: dict[str, Any]) -> dict[str, Any] | None:
        if not request["dryRun"]:
            known.append(tenant.get("web")["status"]["objects"]["elsewhere"])
        return None

    there = [config_map(name, namespace=other.namespace) for name in ("b", "c")]
    with Webhook(site, site_api, other.namespace, ("CREATE",), reply):
        tenant.bundle("web", config_map("a"), *there, **spec)
        eventually(lambda: other.exists("b", "c") == [True, True], lambda: "the objects there")
    assert set(known) == {2}
    tenant.bundle("web", config_map("a"), **spec)
    eventually(
        lambda: tenant.get("web")["status"]["objects"]["elsewhere"] == 0,
        lambda: "all of its objects are in its namespace again",
    )
    assert other.exists("b", "c") == [False, False]


def _is_suspended(tenant: Tenant) -> bool:
    return tenant.condition("web", "Reconciling")[1] == "Suspended"


@pytest.mark.holds("removal-waits-anew")
def test_removal_has_its_whole_time_whatever_was_before(
    tenant: Tenant, running: Controller
) -> None:
    """What is deleted and not gone yet is waited for, and then the rest is deleted.

    Nothing is removed while the Bundle is suspended. Slow: the wait before it takes its timeout.
    """
    after = {"config.kubernetes.io/depends-on": f"/namespaces/{tenant.namespace}/ConfigMap/a"}
    slow = config_map("slow", finalizers=[SLOW], annotations=after)
    never = workload("Deployment", "never")
    tenant.bundle("web", config_map("a"), slow, never, wait=True, timeout="3s", retryInterval="1h")

    def reasons() -> list[str]:
        return [one for one in running.reconciles(tenant, "web") if one != "Suspended"]

    eventually(lambda: "NotReady" in reasons(), lambda: "the end of the wait")
    tenant.suspended("web")
    earlier = len(reasons())
    tenant.delete("web")
    told = "its objects are not removed"
    eventually(lambda: told in tenant.condition("web", "Reconciling")[2], lambda: told)
    assert tenant.exists("a", "slow") == [True, True]
    tenant.patch("web", suspend=False)
    eventually(lambda: len(reasons()) > earlier, lambda: "the removal")
    assert reasons()[earlier] == "Progressing"
    # On a busy machine, its time may be over by now: then it is tried again.
    tenant.patch("web", retryInterval="1s")
    tenant.strip("slow")
    tenant.gone("web")
    assert tenant.exists("a", "slow", "applyprune-web") == [False, False, False]


def test_denied_deletion_keeps_the_bundle(
    tenant: Tenant, running: Controller, site: Plane, site_api: Api
) -> None:
    """No right is missing where a webhook says no: it is tried again, beyond the timeout too.

    Slow: a removal is tried three times, with growing pauses.
    """
    tenant.bundle("web", config_map("a"), timeout="1s")
    tenant.ready("web")

    def reply(request: dict[str, Any]) -> dict[str, Any] | None:
        said = {"status": "Failure", "code": 403, "message": "not today"}
        return said if request["name"] == "a" else None

    def tries() -> int:
        return running.reconciles(tenant, "web").count("RemovalFailed")

    with Webhook(site, site_api, tenant.namespace, ("DELETE",), reply):
        tenant.delete("web")
        assert "not today" in tenant.failed("web", "RemovalFailed")
        # With a growing pause, so the third try is after the timeout.
        eventually(lambda: tries() >= 3, lambda: "more tries")
        assert tenant.condition("web")[1] == "RemovalFailed"
        assert tenant.exists("a") == [True]
    tenant.annotate("web", reconcile_now="1")
    tenant.gone("web")
    assert tenant.exists("a", "applyprune-web") == [False, False]
