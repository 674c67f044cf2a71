"""What an error of the cluster adds for whom types: the name that is meant, and missing rights."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.support.command import applyprune
from tests.support.objects import config_map, text
from tests.support.pipelines import account_of

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane import Plane

RBAC = "rbac.authorization.k8s.io/v1"


def test_namespace_that_does_not_exist_names_a_similar_one(plane: Plane, namespace: str) -> None:
    line = ("apply", "web", "-n", f"{namespace}x", "-f", "-")
    missing = applyprune(*line, kubeconfig=plane.kubeconfig, stdin=text(config_map("a")))
    assert missing.code == 2
    assert f"the namespace {namespace}x does not exist" in missing.err
    assert f"  Did you mean the namespace {namespace}?\n" in missing.err


def _rights(namespace: str, *rules: dict[str, Any]) -> str:
    """Return an account with these rights in a namespace."""
    metadata = {"name": "applyprune", "namespace": namespace}
    subject = {"kind": "ServiceAccount", **metadata}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "applyprune"}
    return "\n---\n".join(
        json.dumps(one)
        for one in (
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
            {"apiVersion": RBAC, "kind": "Role", "metadata": metadata, "rules": rules},
            {
                "apiVersion": RBAC,
                "kind": "RoleBinding",
                "metadata": metadata,
                "subjects": [subject],
                "roleRef": role,
            },
        )
    )


ALL_CONFIG_MAPS = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}
ROLES = {
    "apiGroups": ["rbac.authorization.k8s.io"],
    "resources": ["roles"],
    "verbs": ["get", "list", "watch", "create", "patch"],
}


def test_missing_right_names_the_command_that_prints_the_roles(
    plane: Plane, namespace: str, tmp_path: Path
) -> None:
    """For the account that was used; at the first request, and once for all objects."""
    account = account_of(plane, namespace, _rights(namespace), tmp_path)
    command = f"applyprune rbac web -n {namespace} -f PATH --account {namespace}/applyprune\n"
    for line in (("status", "web"), ("apply", "web", "-f", "-"), ("inventory", "show", "web")):
        given = text(config_map("a"))
        refused = applyprune(*line, "-n", namespace, kubeconfig=account, stdin=given)
        assert refused.code == 7
        assert refused.err.count(command) == 1, refused.err
    everywhere = applyprune("list", "-A", kubeconfig=account)
    assert (everywhere.code, "For one namespace: applyprune list -n NS" in everywhere.err) == (
        7, True,
    )  # fmt: skip
    assert "For one namespace" not in applyprune("list", kubeconfig=account).err


def test_missing_right_for_objects_names_the_command_once(
    plane: Plane, namespace: str, tmp_path: Path
) -> None:
    """Not for each object; who may not grant what a role says is told why."""
    account = account_of(plane, namespace, _rights(namespace, ALL_CONFIG_MAPS, ROLES), tmp_path)
    rule = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
    role = {"apiVersion": RBAC, "kind": "Role", "metadata": {"name": "more"}, "rules": [rule]}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}}
    service["spec"] = {"ports": [{"port": 80}]}
    other = {**service, "metadata": {"name": "b"}}
    line = ("apply", "web", "-n", namespace, "-f", "-")
    given = text(config_map("a"), role, service, other)
    refused = applyprune(*line, kubeconfig=account, stdin=given)
    assert refused.code != 0
    assert refused.err.count("applyprune rbac web") == 1, refused.err
    assert "Nobody may grant rights that they do not have" in refused.err
