"""The printed roles are enough for a set, and nothing that writes in them is left over."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML

from tests.support.command import applyprune
from tests.support.objects import (
    DEPLOYMENT,
    SECRET,
    SERVICE,
    config_map,
    crd,
    custom_resource,
    text,
)
from tests.support.pipelines import account_of

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import AuditTrail
    from tests.support.command import Ended
    from tests.support.plane import Kubectl

DENIED = ("forbidden", "may not", "no right", "not checked")
WRITES = frozenset({"create", "update", "patch", "delete"})
KIND = "RbacSample"


def _documents(printed: str) -> list[dict[str, Any]]:
    return list(YAML(typ="safe").load_all(printed))


def _account(namespace: str) -> dict[str, Any]:
    metadata = {"name": "applyprune", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}


def _cluster_role(name: str) -> dict[str, Any]:
    rules: list[Any] = []
    body = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": rules}
    return {**body, "metadata": {"name": name}}


def test_set_is_applied_pruned_and_deleted_under_exactly_the_printed_roles(
    plane: Plane, kubectl: Kubectl, namespace: str, tmp_path: Path, audit: AuditTrail
) -> None:
    """By a ServiceAccount with its own token; a set with a CRD and an object in cluster scope."""
    role = _cluster_role(f"{namespace}-sample")
    kept = [config_map("a"), DEPLOYMENT, crd(KIND), custom_resource("sample", KIND), role]
    given = text(*kept, SERVICE, SECRET)
    target = ("web", "-n", namespace, "-f", "-")
    printed = applyprune(
        "rbac",
        *target,
        "--account",
        f"{namespace}/applyprune",
        kubeconfig=plane.kubeconfig,
        stdin=given,
    )
    assert printed.code == 0, printed.err
    rights = f"{json.dumps(_account(namespace))}\n---\n{printed.out}"
    account = account_of(plane, namespace, rights, tmp_path)
    audit.restart()

    def run(*arguments: str, stdin: str = "") -> Ended:
        ended = applyprune(*arguments, kubeconfig=account, stdin=stdin)
        assert ended.code == 0, ended.out + ended.err
        told = f"{ended.out}{ended.err}".lower()
        assert not [word for word in DENIED if word in told], told
        return ended

    try:
        run("apply", *target, "--check", "--wait", stdin=given)
        again = run("apply", *target, "--check", stdin=given)
        assert "7 unchanged" in again.out + again.err
        pruned = run("apply", *target, "--check", stdin=text(*kept))
        assert "2 pruned" in pruned.out + pruned.err
        run("delete", "web", "-n", namespace, "--yes")
        assert not kubectl("get", "configmap", "a", "-n", namespace, "--ignore-not-found")
    finally:
        kubectl("delete", "clusterrole", f"applyprune:{namespace}:web", role["metadata"]["name"],
                "--ignore-not-found")  # fmt: skip
        kubectl("delete", "clusterrolebinding", f"applyprune:{namespace}:web")
        kubectl("delete", "crd", crd(KIND)["metadata"]["name"], "--ignore-not-found")
    used = {
        (verb, one["objectRef"]["resource"])
        for one in audit.events()
        # Server-side apply is a patch; for a new object it needs both rights.
        for verb in {one["verb"], "create" if one["responseStatus"]["code"] == 201 else ""}
        if one["user"]["username"].endswith(f":{namespace}:applyprune")
        and one["userAgent"].startswith("applyprune/")
        and "objectRef" in one
    }
    allowed = {
        (verb, plural)
        for document in _documents(printed.out)
        for rule in document.get("rules", ())
        for plural in rule["resources"]
        for verb in rule["verbs"]
    }
    left = {(verb, plural) for verb, plural in allowed - used if verb in WRITES}
    assert left == set()


def test_roles_are_bound_to_whom_the_user_names(plane: Plane, namespace: str) -> None:
    """Without a name of a set, the roles have none either; a wrong account is a wrong call."""
    given = text(config_map("a"), _cluster_role("sample"))
    line = ("rbac", "-n", namespace, "-f", "-")
    printed = applyprune(
        *line, "--user", "ci", "--group", "ops", kubeconfig=plane.kubeconfig, stdin=given
    )
    assert printed.code == 0, printed.err
    role, cluster_role, *bindings = _documents(printed.out)
    assert [one["metadata"] for one in (role, cluster_role)] == [
        {"name": "applyprune", "namespace": namespace},
        {"name": "applyprune"},
    ]
    assert [one["kind"] for one in bindings] == ["RoleBinding", "ClusterRoleBinding"]
    for binding in bindings:
        named = [(one["kind"], one["name"]) for one in binding["subjects"]]
        assert named == [("User", "ci"), ("Group", "ops")]
    assert "# The set has roles or bindings." in printed.out
    only = applyprune(*line, kubeconfig=plane.kubeconfig, stdin=text(config_map("a")))
    assert [one["kind"] for one in _documents(only.out)] == ["Role", "ClusterRole"]
    wrong = applyprune(*line, "--account", "ci", kubeconfig=plane.kubeconfig, stdin=given)
    assert (wrong.code, "Write NAMESPACE/NAME" in wrong.err) == (2, True)


def test_listed_objects_need_rights_too(plane: Plane, namespace: str) -> None:
    """A prune deletes it; without the name of the set, nobody can know that."""
    target = ("web", "-n", namespace, "-f", "-")
    both = text(config_map("a"), SERVICE)
    assert applyprune("apply", *target, kubeconfig=plane.kubeconfig, stdin=both).code == 0
    alone = text(config_map("a"))
    for named, expected in ((("web",), True), ((), False)):
        line = ("rbac", *named, "-n", namespace, "-f", "-")
        printed = applyprune(*line, kubeconfig=plane.kubeconfig, stdin=alone)
        assert ("- services\n" in printed.out) is expected


def test_objects_with_pods_need_the_list_of_autoscalers(plane: Plane, namespace: str) -> None:
    """Of whatever kind, and also without replicas: these may have left the manifest."""
    spec = {"selector": {"app": "web"}, "template": DEPLOYMENT["spec"]["template"]}
    controller = {
        "apiVersion": "v1",
        "kind": "ReplicationController",
        "metadata": {"name": "web"},
        "spec": spec,
    }
    scaled = {**controller, "spec": {**spec, "replicas": 1}}
    line = ("rbac", "-n", namespace, "-f", "-")
    for body, expected in ((scaled, True), (controller, True), (config_map("a"), False)):
        printed = applyprune(*line, kubeconfig=plane.kubeconfig, stdin=text(body))
        listed = {
            "apiGroups": ["autoscaling"],
            "resources": ["horizontalpodautoscalers"],
            "verbs": ["list"],
        }
        assert (listed in _documents(printed.out)[0]["rules"]) is expected


def test_namespace_in_the_set_is_explained(plane: Plane, namespace: str) -> None:
    """Its Role needs it first; its deletion counts everything in it, and nowhere else."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "sample-there"}}
    given = text(body, config_map("a", namespace="sample-there"))
    line = ("rbac", "-n", namespace, "-f", "-")
    printed = applyprune(*line, kubeconfig=plane.kubeconfig, stdin=given)
    assert "# The namespace sample-there is in the set. Create it before this Role" in printed.out
    everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["list"]}
    places = [
        one["metadata"].get("namespace")
        for one in _documents(printed.out)
        if everything in one["rules"]
    ]
    assert places == ["sample-there"]
    (cluster,) = [one for one in _documents(printed.out) if one["kind"] == "ClusterRole"]
    assert {
        "apiGroups": [""],
        "resources": ["namespaces"],
        "resourceNames": ["sample-there"],
        "verbs": ["get", "create", "patch", "delete"],
    } in cluster["rules"]
