"""What the server cannot dry-run is not checked, and no failure; a real fault stays one."""

from __future__ import annotations

from pathlib import Path

import pytest

from applyprune.localplane import Plane
from applyprune.model.fate import Outcome
from applyprune.model.options import DryRun
from tests.support.accounts import RBAC, WRITE, kubeconfig_as, rule
from tests.support.api import Api, AuditTrail, writes
from tests.support.objects import config_map, of_kind
from tests.support.stage import Stage, Story

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
def deployer(plane: Plane, api: Api, namespace: str, tmp_path: Path) -> Stage:
    """The set, by an account that may bind a Role only if it has the rights of it."""
    rules = (
        rule("", ["configmaps", "serviceaccounts"], WRITE),
        rule(RBAC, ["roles", "rolebindings"], WRITE),
        rule("", ["namespaces"], ["get"]),
    )
    return Stage(kubeconfig_as("deployer", plane, api, namespace, tmp_path, *rules), namespace)


def _not_checked(story: Story) -> dict[str, str]:
    steps = story.plan.applies
    return {step.desired.ref.short: step.not_checked for step in steps if step.not_checked}


def test_binding_of_a_role_of_the_same_set_is_not_checked(deployer: Stage, api: Api) -> None:
    """The server looks the Role up even in a dry run; the apply creates it first."""
    story = deployer.run(BINDING, READER, config_map("a"), check=True)
    assert (story.exit_code, set(story.outcomes.values())) == (0, {Outcome.CREATED}), story.events
    told = f"not checked: it needs role.{RBAC}/reader, which does not exist yet"
    assert _not_checked(story) == {f"rolebinding.{RBAC}/app": told}
    for name, plural in (("reader", "roles"), ("app", "rolebindings")):
        assert api.exists(deployer.path(name, plural, f"/apis/{RBAC}/v1"))


def test_binding_of_a_role_that_is_nowhere_is_refused(deployer: Stage, audit: AuditTrail) -> None:
    """Whatever else is new in the set; nothing of it is written."""
    for other in ((), (ACCOUNT,), (OTHER,)):
        refused = deployer.run(BINDING, config_map("a"), *other, check=True)
        assert refused.exit_code == 3
        assert refused.outcomes == {f"rolebinding.{RBAC}/app": Outcome.FAILED}
        assert '"reader" not found' in refused.problem(f"rolebinding.{RBAC}/app")
    assert writes(audit) == []


def test_binding_of_a_role_that_the_set_makes_smaller_is_not_checked(
    deployer: Stage, stage: Stage
) -> None:
    """The account may grant what the Role will contain, but not what it contains now."""
    binding = f"rolebinding.{RBAC}/app"
    larger = {**READER, "rules": [rule("", ["configmaps", "secrets"], ["get", "list"])]}
    assert stage.run(larger).exit_code == 0
    refused = deployer.run(larger, BINDING, check=True)
    assert refused.exit_code == 3
    told = "attempting to grant RBAC permissions not currently held"
    assert told in refused.problem(binding)
    story = deployer.run(READER, BINDING, check=True)
    assert story.exit_code == 0, story.events
    told = f"not checked: it needs role.{RBAC}/reader, which is about to change"
    assert _not_checked(story) == {binding: told}


def test_pod_that_needs_a_new_object_of_the_same_set_is_not_checked(stage: Stage) -> None:
    """By the words of each admission plugin; without the object, the Pod is refused.

    The plane's server runs without the plugin ServiceAccount.
    """
    name = f"for-{stage.namespace}"
    needed = {
        "priorityclass.scheduling.k8s.io": (
            of_kind("PriorityClass", name, api="scheduling.k8s.io/v1", value=7),
            {"priorityClassName": name},
        ),
        "runtimeclass.node.k8s.io": (
            of_kind("RuntimeClass", name, api="node.k8s.io/v1", handler="runsc"),
            {"runtimeClassName": name},
        ),
    }
    containers = [{"name": "app", "image": "app"}]
    pods = {
        kind: of_kind("Pod", kind.partition(".")[0], spec={"containers": containers, **spec})
        for kind, (_, spec) in needed.items()
    }
    classes = [body for body, _ in needed.values()]
    story = stage.run(*pods.values(), *classes, dry_run=DryRun.SERVER)
    assert story.exit_code == 0
    assert _not_checked(story) == {
        f"pod/{pod['metadata']['name']}": f"not checked: it needs {kind}/{name}, which does not "
        "exist yet"
        for kind, pod in pods.items()
    }
    refused = stage.run(*pods.values(), dry_run=DryRun.SERVER)
    assert [*refused.outcomes.values()] == [Outcome.FAILED] * 2
