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
    of_kind,
    text,
)
from tests.support.pipelines import account_of
from tests.support.stage import Stage

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


def test_set_is_applied_pruned_and_deleted_under_exactly_the_printed_roles(
    plane: Plane, kubectl: Kubectl, namespace: str, tmp_path: Path, audit: AuditTrail
) -> None:
    """By a ServiceAccount with its own token; a set with a CRD and an object in cluster scope."""
    role = of_kind("ClusterRole", f"{namespace}-sample", rules=[])
    kept = [config_map("a"), DEPLOYMENT, crd(KIND), custom_resource("sample", KIND), role]
    given = text(*kept, SERVICE, SECRET)
    target = ("web", "-n", namespace, "-f", "-")
    printed = applyprune(
        *("rbac", *target, "--account", f"{namespace}/applyprune"),
        kubeconfig=plane.kubeconfig,
        stdin=given,
    )
    assert printed.code == 0, printed.err
    account = of_kind("ServiceAccount", "applyprune", {"namespace": namespace})
    rights = f"{json.dumps(account)}\n---\n{printed.out}"
    config = account_of(plane, namespace, rights, tmp_path)
    audit.restart()

    def run(*arguments: str, stdin: str = "") -> Ended:
        ended = applyprune(*arguments, kubeconfig=config, stdin=stdin)
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


def test_listed_objects_need_rights_too(plane: Plane, namespace: str) -> None:
    """A prune deletes it; without the name of the set, nobody can know that."""
    Stage(plane.kubeconfig, namespace).run(config_map("a"), SERVICE)
    for named, expected in ((("web",), True), ((), False)):
        line = ("rbac", *named, "-n", namespace, "-f", "-", "--account", "user:ci")
        line = (*line, "--account", "group:ops")
        given = text(config_map("a"))
        printed = applyprune(*line, kubeconfig=plane.kubeconfig, stdin=given)
        assert ("- services\n" in printed.out) is expected
        kinds = [one["kind"] for one in _documents(printed.out)]
        assert kinds == ["Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"]
