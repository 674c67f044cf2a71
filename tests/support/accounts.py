"""Users with few rights: a kubeconfig that acts as one of them, by impersonation."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import Api

RBAC = "rbac.authorization.k8s.io"
WRITE = ["get", "list", "watch", "create", "update", "patch", "delete"]
"""What a set needs; unlike ``*`` it contains neither ``bind`` nor ``escalate``."""


def rule(group: str, resources: list[str], verbs: list[str]) -> dict[str, Any]:
    """Return a rule of a Role."""
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


def kubeconfig_as(
    name: str, plane: Plane, api: Api, namespace: str, folder: Path, *rules: dict[str, Any]
) -> Path:
    """Return the kubeconfig of a user who has only these rights, in one namespace.

    The rules must let the user list ConfigMaps: by that the function sees that they hold.
    """
    bodies: dict[str, dict[str, Any]] = {
        "roles": {"kind": "Role", "rules": list(rules)},
        "rolebindings": {
            "kind": "RoleBinding",
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": name}],
        },
    }
    for plural, body in bodies.items():
        named = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": name}, **body}
        assert api("POST", f"/apis/{RBAC}/v1/namespaces/{namespace}/{plural}", named)[0] == 201
    maps, user = f"/api/v1/namespaces/{namespace}/configmaps", {"Impersonate-User": name}
    eventually(lambda: api("GET", maps, headers=user)[0] == 200, lambda: f"the rights of {name}")
    access = json.loads(plane.kubeconfig.read_text(encoding="utf-8"))
    for one in access["users"]:
        one["user"]["as"] = name
    path = folder / f"kubeconfig-{name}"
    path.write_text(json.dumps(access), encoding="utf-8")
    return path
