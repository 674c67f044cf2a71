"""The stage of all attacks: a tenant, its victim, the controller, and what nobody may change."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.support.api import Api, AuditTrail, UserApi
from tests.support.attacks.attack import DEPLOYER, GHOST, RBAC, TENANT, VICTIM, WEAK, Scene, body
from tests.support.canaries import TOKEN, encoded
from tests.support.controller import CONTROLLER, SYSTEM_NAMESPACE, TENANTS, Tenant
from tests.support.objects import config_map, text
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from applyprune.localplane import Plane
    from tests.support.controller import Controller

CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/bundles.applyprune.dev"
RIGHTS = f"/apis/{RBAC}/v1"
CHECKS = frozenset(
    {"enum", "maxItems", "maxLength", "minItems", "minLength", "pattern"}
    | {"x-kubernetes-validations"}
)
"""What a schema has beside types."""
OUTSIDE = (
    *(
        f"/api/v1/namespaces/{namespace}/{plural}"
        for namespace in (VICTIM, SYSTEM_NAMESPACE, "kube-system", "default", "kube-public")
        for plural in ("configmaps", "secrets", "serviceaccounts", "pods", "services")
    ),
    *(f"{RIGHTS}/{plural}" for plural in ("clusterroles", "clusterrolebindings")),
    *(
        f"{RIGHTS}/namespaces/{namespace}/{plural}"
        for namespace in (VICTIM, SYSTEM_NAMESPACE, "kube-system")
        for plural in ("roles", "rolebindings")
    ),
    f"/apis/applyprune.dev/v1alpha1/namespaces/{VICTIM}/bundles",
    "/api/v1/namespaces",
    "/api/v1/persistentvolumes",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/apiregistration.k8s.io/v1/apiservices",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    "/apis/certificates.k8s.io/v1/certificatesigningrequests",
)
"""Everything that a tenant has no rights for."""
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM_NAMESPACE}/leases"


def lenient(schema: Any) -> Any:
    """Return a schema that checks types only."""
    if isinstance(schema, list):
        return [lenient(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: lenient(value) for key, value in schema.items() if key not in CHECKS}


def create(api: Api, path: str, made: dict[str, Any]) -> None:
    """Create an object."""
    status, reply = api("POST", path, made)
    assert status == 201, reply


def grant(api: Api, name: str, account: str, namespace: str) -> None:
    """Give an account all rights everywhere."""
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"}
    made = body(f"{RBAC}/v1", "ClusterRoleBinding", name, roleRef=role, subjects=[subject])
    create(api, f"{RIGHTS}/clusterrolebindings", made)


def populate(api: Api, plane: Plane) -> Scene:
    """Make the namespaces, accounts and objects of the attacker, the victim and the controller."""
    crd = api.get(CRD)
    crd["spec"]["versions"] = lenient(crd["spec"]["versions"])
    assert api("PUT", CRD, crd)[0] == 200
    for namespace in (TENANT, VICTIM, SYSTEM_NAMESPACE, "other"):
        create(api, "/api/v1/namespaces", body("v1", "Namespace", namespace))
        Tenant(api, namespace).account("default")
    grant(api, "ghost", GHOST, TENANT)
    grant(api, "deployer", DEPLOYER, VICTIM)
    grant(api, "controller", CONTROLLER, SYSTEM_NAMESPACE)
    for name, namespace in ((DEPLOYER, VICTIM), (CONTROLLER, SYSTEM_NAMESPACE)):
        account = body("v1", "ServiceAccount", name)
        create(api, f"/api/v1/namespaces/{namespace}/serviceaccounts", account)
    rules = [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]},
        {"apiGroups": [RBAC], "resources": ["roles", "rolebindings"], "verbs": VERBS},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["patch"]},
    ]
    Tenant(api, TENANT).account(WEAK, *rules)
    user = {"apiGroup": RBAC, "kind": "User", "name": TENANT}
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"}
    binding = body(f"{RBAC}/v1", "RoleBinding", TENANT, roleRef=role, subjects=[user])
    create(api, f"{RIGHTS}/namespaces/{TENANT}/rolebindings", binding)
    victim, tenant = Tenant(api, VICTIM), Tenant(UserApi(plane, TENANT), TENANT)
    victim.put("configmaps", config_map("settings"))
    bank = {**body("v1", "Secret", "bank"), "data": {"password": encoded(TOKEN)}}
    victim.put("secrets", bank)
    manifests = {"all": encoded(text(config_map("from-secret", TOKEN)))}
    victim.put("secrets", {**body("v1", "Secret", "manifests"), "data": manifests})
    own = {**body("v1", "Secret", "own"), "data": {"key": encoded(TOKEN)}}
    Tenant(api, TENANT).put("secrets", own)
    eventually(lambda: tenant.api("GET", tenant.path("configmaps"))[0] == 200, lambda: "the rights")
    wrong = {"source": {"inline": ""}, "serviceAccountName": "a/b"}
    probe = body("applyprune.dev/v1alpha1", "Bundle", "probe", spec=wrong)
    path, listed = f"{tenant.bundle_path()}?dryRun=All", "/apis/applyprune.dev/v1alpha1/bundles"

    def served() -> bool:
        """Return whether the changed CRD is served: its cache is filled again, too."""
        made, found = tenant.api("POST", path, probe), api("GET", f"{listed}?resourceVersion=0")
        return (made[0], found[0]) == (201, 200)

    eventually(served, lambda: "the lenient CRD")
    return Scene(tenant, victim)


VERBS = ["get", "list", "watch", "create", "update", "patch", "delete"]


def uids(api: Api) -> dict[str, str]:
    """Return the UIDs of what inventories are forged about."""
    paths = {
        f"{VICTIM}/settings": f"/api/v1/namespaces/{VICTIM}/configmaps/settings",
        f"{VICTIM}/bank": f"/api/v1/namespaces/{VICTIM}/secrets/bank",
        "kube-system/extension-apiserver-authentication": (
            "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
        ),
        "/cluster-admin": f"{RIGHTS}/clusterroles/cluster-admin",
        f"/{VICTIM}": f"/api/v1/namespaces/{VICTIM}",
    }
    return {name: api.get(path)["metadata"]["uid"] for name, path in paths.items()}


def outside(api: Api) -> dict[str, dict[str, tuple[str, str]]]:
    """Return the version of every object that no tenant may change.

    The namespaces of the tests before may still be going.
    """
    found = {}
    for path in OUTSIDE:
        every = [one["metadata"] for one in api.get(path)["items"]]
        found[path] = {
            one["name"]: (one["uid"], one["resourceVersion"])
            for one in every
            if path != "/api/v1/namespaces" or not one["name"].startswith(TENANTS)
        }
    found[LEASES] = {
        one["metadata"]["name"]: (one["metadata"]["uid"], one["spec"]["holderIdentity"])
        for one in api.get(LEASES)["items"]
    }
    return found


def untried(scene: Scene, request: str = "") -> list[str]:
    """Return the Bundles of which the last change, or this request, was not tried yet."""
    return [
        one["metadata"]["name"]
        for one in scene.tenant.api.get(scene.tenant.bundle_path())["items"]
        if (status := one.get("status", {})).get("observedGeneration")
        != one["metadata"]["generation"]
        or (
            request in one["metadata"].get("annotations", {}).values()
            and status.get("lastHandledReconcileAt") != request
        )
    ]


def said(one: dict[str, Any]) -> str:
    """Return what the status of a Bundle says, in words."""
    status = one.get("status", {})
    conditions = [f"{c['reason']}: {c['message']}" for c in status.get("conditions", ())]
    return "\n".join([*conditions, *(failed["message"] for failed in status.get("failing", ()))])


def readable(scene: Scene, running: Controller, admin: Api) -> str:
    """Return everything that the tenant may read of what the controller has written, and more.

    The spec of a Bundle is the tenant's own.
    """
    tenant = scene.tenant
    bundles = tenant.api.get(tenant.bundle_path())["items"]
    texts = [json.dumps({**one, "spec": None}) for one in bundles]
    lists = [tenant.path("events"), tenant.path("configmaps")]
    texts += [json.dumps(tenant.api.get(path)["items"]) for path in lists]
    texts += [json.dumps(admin.get("/api/v1/namespaces/default/events")["items"])]
    return "\n".join([*texts, running.log.read_text(), running.ask("/metrics")[1]])


def escaped(audit: AuditTrail) -> list[str]:
    """Return what the controller has done for the tenant that no tenant may do.

    As an account of the tenant, it has reached another namespace; or as another identity, it has
    written there, or read something of a Bundle that is not its own business.
    """
    found = []
    accounts = f"system:serviceaccount:{TENANT}:"
    for event in audit.events():
        if not event["userAgent"].startswith("applyprune/"):
            continue
        user = event.get("impersonatedUser", {}).get("username", "")
        about = event.get("objectRef") or {}
        where = about.get("namespace", "")
        what = f"{user} {event['verb']} {event['requestURI']}"
        if user.startswith(accounts):
            reviews = about.get("apiGroup") == "authorization.k8s.io"
            done = event["responseStatus"]["code"] < 300
            if about and done and where != TENANT and not reviews:
                found.append(what)
            if user not in {f"{accounts}{name}" for name in ("default", WEAK, CONTROLLER)}:
                found.append(what)
        elif (user and where == TENANT) or (
            not user and (where in {TENANT, VICTIM}) and about["resource"] not in OWN_BUSINESS
        ):
            found.append(what)
    return found


OWN_BUSINESS = frozenset({"bundles", "serviceaccounts", "events", "namespaces"})
"""What the controller reads and writes as itself; see ``deploy/rbac.yaml``."""
