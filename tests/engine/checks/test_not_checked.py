"""What the server cannot dry-run is not checked, and no failure; a real fault stays one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from applyprune.localplane import Plane
from applyprune.model.options import DryRun
from tests.support.accounts import RBAC, WRITE, kubeconfig_as, rule
from tests.support.api import Api, AuditTrail, writes
from tests.support.command import Ended, applyprune
from tests.support.input_files import write_input
from tests.support.objects import config_map, of_kind
from tests.support.stage import Stage

READER = of_kind("Role", "reader", rules=[rule("", ["configmaps"], ["get", "list"])])
ACCOUNT = of_kind("ServiceAccount", "reader")
OTHER = {**READER, "metadata": {"name": "reader-2"}}
BINDING = of_kind(
    "RoleBinding",
    "app",
    roleRef={"apiGroup": RBAC, "kind": "Role", "name": "reader"},
    subjects=[{"kind": "ServiceAccount", "name": "reader"}],
)


@pytest.fixture
def apply(plane: Plane, api: Api, namespace: str, tmp_path: Path) -> Callable[..., Ended]:
    """``apply --check`` by an account that may bind a Role only if it has the rights of it."""
    rules = (
        rule("", ["configmaps", "serviceaccounts"], WRITE),
        rule(RBAC, ["roles", "rolebindings"], WRITE),
        rule("", ["namespaces"], ["get"]),
    )
    kubeconfig = kubeconfig_as("deployer", plane, api, namespace, tmp_path, *rules)

    def call(*bodies: dict[str, Any]) -> Ended:
        path = write_input(tmp_path / "set.json", bodies)
        where = ("web", "-n", namespace, "-f", path, "--check")
        return applyprune("apply", *where, kubeconfig=kubeconfig)

    return call


def test_binding_of_a_role_of_the_same_set_is_not_checked(
    apply: Callable[..., Ended], api: Api, namespace: str
) -> None:
    """The server looks the Role up even in a dry run; the apply creates it first."""
    done = apply(BINDING, READER, config_map("a"))
    assert (done.code, set(done.lines.values())) == (0, {"created"}), done.err
    assert (
        "rolebinding.rbac.authorization.k8s.io/app: not checked: it needs "
        "role.rbac.authorization.k8s.io/reader, which does not exist yet\n"
    ) in done.err
    path = f"/apis/{RBAC}/v1/namespaces/{namespace}"
    assert api.exists(f"{path}/roles/reader")
    assert api.exists(f"{path}/rolebindings/app")


@pytest.mark.parametrize(
    "others", [[], [ACCOUNT], [OTHER]], ids=["alone", "account of that name", "another Role"]
)
def test_binding_of_a_role_that_is_nowhere_is_refused(
    apply: Callable[..., Ended], audit: AuditTrail, others: list[dict[str, Any]]
) -> None:
    """Whatever else is new in the set; nothing of it is written."""
    refused = apply(BINDING, config_map("a"), *others)
    assert refused.code == 3
    assert refused.lines == {"rolebinding.rbac.authorization.k8s.io/app": "failed"}
    assert '"reader" not found' in refused.err
    assert writes(audit) == []


# The plane's server runs without the plugin ServiceAccount.
NEEDED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "priorityclass.scheduling.k8s.io": (
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 7},
        {"priorityClassName": "{}"},
    ),
    "runtimeclass.node.k8s.io": (
        {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": "runsc"},
        {"runtimeClassName": "{}"},
    ),
}


@pytest.mark.parametrize("kind", NEEDED)
def test_pod_that_needs_a_new_object_of_the_same_set_is_not_checked(
    stage: Stage, kind: str
) -> None:
    """By the words of each admission plugin; without the object, the Pod is refused."""
    needed, spec = NEEDED[kind]
    name = f"for-{stage.namespace}"
    pod = of_kind(
        "Pod",
        "app",
        spec={
            "containers": [{"name": "app", "image": "app"}],
            **{key: value.format(name) for key, value in spec.items()},
        },
    )
    story = stage.run(pod, {**needed, "metadata": {"name": name}}, dry_run=DryRun.SERVER)
    assert story.exit_code == 0
    told = {step.desired.ref.short: step.not_checked for step in story.plan.applies}
    missing = f"not checked: it needs {kind}/{name}, which does not exist yet"
    assert told == {"pod/app": missing, f"{kind}/{name}": ""}
    assert stage.run(pod, dry_run=DryRun.SERVER).exit_code != 0
