"""The policy in ``deploy/``: who may set the annotation that approves a plan of a Bundle."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.command import applyprune
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import Api
    from tests.support.command import Ended
    from tests.support.controller import Tenant

APPROVE = "applyprune.dev/approve"
DIGEST = "sha256:" + "0" * 64
RBAC = "rbac.authorization.k8s.io"
ROLES = f"/apis/{RBAC}/v1/clusterroles"
MERGE = "application/merge-patch+json"


def bundle(name: str, approval: str = "") -> dict[str, Any]:
    """Return the body of a Bundle, with the annotation if one is given."""
    metadata = {"name": name, **({"annotations": {APPROVE: approval}} if approval else {})}
    return {
        "apiVersion": "applyprune.dev/v1alpha1",
        "kind": "Bundle",
        "metadata": metadata,
        "spec": {"source": {"inline": ""}},
    }


class Person:
    """An account of a tenant's namespace, by impersonation."""

    def __init__(self, tenant: Tenant, name: str) -> None:
        """Act as this user."""
        self.tenant, self.name = tenant, f"{name}-of-{tenant.namespace}"

    def bind(self, kind: str, role: str) -> None:
        """Give the user a role in the namespace."""
        body = {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": f"{self.name}-{role}"},
            "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": self.name}],
        }
        self.tenant.put("rolebindings", body, f"{RBAC}/v1")

    def __call__(
        self, method: str, name: str, body: object, *, content_type: str = "application/json"
    ) -> tuple[int, Any]:
        """Send a request about a Bundle; return the status and the message or the annotations."""
        status, reply = self.tenant.api(
            method,
            self.tenant.bundle_path(name),
            body,
            content_type=content_type,
            headers={"Impersonate-User": self.name},
        )
        if status >= 400:
            return status, reply["message"]
        return status, reply["metadata"].get("annotations", {})

    def annotate(self, name: str, value: str | None) -> tuple[int, Any]:
        """Set or remove the annotation."""
        patch = {"metadata": {"annotations": {APPROVE: value}}}
        return self("PATCH", name, patch, content_type=MERGE)


@pytest.fixture
def tenant(ground: Plane, new_tenant: Callable[[], Tenant]) -> Tenant:
    """A tenant of a plane on which applyprune is installed, and its policy is in force."""
    reply = applyprune("install", kubeconfig=ground.kubeconfig)
    assert reply.code == 0, reply
    tenant = new_tenant()
    probe = person(tenant, "probe", "edit")
    path = f"{tenant.bundle_path()}?dryRun=All"

    def refused() -> bool:
        headers = {"Impersonate-User": probe.name}
        return tenant.api("POST", path, bundle("probe", DIGEST), headers=headers)[0] == 403

    eventually(refused, lambda: "the policy")
    return tenant


def person(tenant: Tenant, name: str, *roles: str) -> Person:
    """Return a user with cluster roles in the namespace, which the server already goes by."""
    one = Person(tenant, name)
    for role in roles:
        one.bind("ClusterRole", role)
    eventually(lambda: one("PATCH", "none", {}, content_type=MERGE)[0] == 404, lambda: f"{roles}")
    return one


def test_only_an_approver_may_approve(tenant: Tenant) -> None:
    """An editor may do anything else with a Bundle, and withdraw an approval."""
    editor = person(tenant, "editor", "edit")
    approver = person(tenant, "approver", "applyprune-approver")
    assert editor("POST", "", bundle("web"))[0] == 201
    status, message = editor.annotate("web", DIGEST)
    assert status == 403
    for part in (editor.name, APPROVE, "the verb approve", "applyprune-approver"):
        assert part in message
    assert APPROVE not in tenant.get("web")["metadata"].get("annotations", {})
    assert approver.annotate("web", DIGEST) == (200, {APPROVE: DIGEST})
    # What leaves the annotation as it is, is not an approval.
    labels = {"metadata": {"labels": {"a": "b"}}}
    assert editor("PATCH", "web", labels, content_type=MERGE)[0] == 200
    assert editor.annotate("web", DIGEST[:-1] + "1")[0] == 403
    assert editor.annotate("web", None)[0] == 200
    assert editor.annotate("web", DIGEST)[0] == 403


def test_created_bundle_cannot_bring_its_approval(tenant: Tenant) -> None:
    """Copied with its annotation, applied by any method, or with a generated name."""
    editor = person(tenant, "editor", "edit")
    assert editor("POST", "", bundle("web", DIGEST))[0] == 403
    status, _ = editor(
        "PATCH",
        "web?fieldManager=x",
        bundle("web", DIGEST),
        content_type="application/apply-patch+yaml",
    )
    assert status == 403
    body = bundle("web", DIGEST)
    body["metadata"]["generateName"] = body["metadata"].pop("name")
    assert editor("POST", "", body)[0] == 403
    assert tenant.api.get(tenant.bundle_path())["items"] == []
    both = person(tenant, "both", "edit", "applyprune-approver")
    assert both("POST", "", bundle("web", DIGEST)) == (201, {APPROVE: DIGEST})


def test_only_an_approver_may_weaken_the_approval(tenant: Tenant) -> None:
    """Else an editor would need no approval; to ask for more approvals is everybody's right."""
    editor = person(tenant, "editor", "edit")
    approver = person(tenant, "approver", "applyprune-approver")

    def demand(one: Person, approval: str | None) -> tuple[int, Any]:
        patch = {"spec": {"approval": approval, "interval": "1h"}}
        return one("PATCH", "web", patch, content_type=MERGE)

    assert editor("POST", "", bundle("web"))[0] == 201
    for stronger in ("Prune", "Always", "Always"):
        assert demand(editor, stronger)[0] == 200
    for weaker in ("Prune", "Automatic", None):
        status, message = demand(editor, weaker)
        assert status == 403
        assert f"{editor.name} may not weaken spec.approval" in message
    assert tenant.get("web")["spec"]["approval"] == "Always"
    assert demand(approver, "Prune")[0] == 200
    assert demand(editor, "Automatic")[0] == 403
    assert demand(approver, None)[0] == 200
    assert tenant.get("web")["spec"]["approval"] == "Automatic"


def test_status_cannot_bring_an_approval(tenant: Tenant) -> None:
    """The policy does not cover the status, because the server ignores annotations in it."""
    assert tenant.api("POST", tenant.bundle_path(), bundle("web"))[0] == 201
    path = tenant.bundle_path("web") + "/status"
    patch = {"metadata": {"annotations": {APPROVE: DIGEST}}}
    assert tenant.api("PATCH", path, patch, content_type=MERGE)[0] == 200
    assert APPROVE not in tenant.get("web")["metadata"].get("annotations", {})


def test_verb_can_be_limited_to_one_bundle(tenant: Tenant) -> None:
    """It is that on this Bundle, in this namespace."""
    names = ("web", "db")
    for name in names:
        assert tenant.api("POST", tenant.bundle_path(), bundle(name))[0] == 201
    rules = [
        {"apiGroups": ["applyprune.dev"], "resources": ["bundles"], "verbs": ["get", "patch"]},
        {
            "apiGroups": ["applyprune.dev"],
            "resources": ["bundles"],
            "resourceNames": ["web"],
            "verbs": ["approve"],
        },
    ]
    role = {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": {"name": "web-only"}}
    tenant.put("roles", {**role, "rules": rules}, f"{RBAC}/v1")
    one = Person(tenant, "one")
    one.bind("Role", "web-only")
    eventually(lambda: one.annotate("web", DIGEST)[0] == 200, lambda: "the role")
    assert one.annotate("db", DIGEST)[0] == 403


def test_roles_of_a_namespace_do_not_include_the_verb(ground_api: Api, tenant: Tenant) -> None:
    """Whoever may edit or administer a namespace may not approve unless somebody says so."""
    for name in ("edit", "admin"):
        rules = ground_api.get(f"{ROLES}/{name}")["rules"]
        verbs = {
            verb
            for rule in rules
            if "bundles" in rule.get("resources", ())
            for verb in rule["verbs"]
        }
        assert "patch" in verbs
        assert not verbs & {"approve", "*"}
    admin = person(tenant, "admin", "admin")
    assert admin("POST", "", bundle("web", DIGEST))[0] == 403


def test_verb_approves_with_the_users_own_rights(
    ground: Plane, tenant: Tenant, tmp_path: Path
) -> None:
    """The policy decides: `applyprune bundle approve` says what it says."""
    editor = person(tenant, "editor", "edit")
    approver = person(tenant, "approver", "applyprune-approver")
    assert editor("POST", "", bundle("web"))[0] == 201
    asked = ("bundle", "reconcile", "web", "-n", tenant.namespace, "--wait", "--timeout", "1s")
    nobody = applyprune(*asked, kubeconfig=ground.kubeconfig)
    assert nobody.code == 5
    assert "the controller has not handled the request yet" in nobody.err
    plan = {"digest": DIGEST, "scope": "Deletions", "since": "2026-11-23T07:00:00Z"}
    path = f"{tenant.bundle_path('web')}/status"
    patch = {"status": {"pendingPlan": plan}}
    assert tenant.api("PATCH", path, patch, content_type=MERGE)[0] == 200

    def approve(one: Person) -> Ended:
        access = json.loads(ground.kubeconfig.read_text(encoding="utf-8"))
        access["users"][0]["user"]["as"] = one.name
        config = tmp_path / one.name
        config.write_text(json.dumps(access), encoding="utf-8")
        where = ("-n", tenant.namespace, DIGEST)
        return applyprune("bundle", "approve", "web", *where, kubeconfig=config)

    refused = approve(editor)
    assert refused.code == 7
    assert f"{editor.name} may not set {APPROVE}" in refused.err
    assert "the verb approve on this Bundle" in " ".join(refused.err.split())
    assert APPROVE not in tenant.get("web")["metadata"].get("annotations", {})
    approved = approve(approver)
    assert approved.code == 0, approved
    assert tenant.get("web")["metadata"]["annotations"][APPROVE] == DIGEST
