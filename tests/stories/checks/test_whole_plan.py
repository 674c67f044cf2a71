"""A plan is checked as a whole: with any fault nothing is written; what cannot be checked is said.

The server refuses an object in a dry run also because another one of the set is not applied yet.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from applyprune.localplane import Plane
from applyprune.model.fate import Outcome
from applyprune.values import replace
from tests.support.accounts import RBAC, WRITE, kubeconfig_as, rule
from tests.support.actors import ALICE
from tests.support.api import Api, AuditTrail, writes
from tests.support.fault_proxy import Exchange, FaultProxy, Rule, always, faults
from tests.support.objects import config_map, of_kind
from tests.support.stage import Stage, Story
from tests.support.waiting import eventually
from tests.support.workloads import workload

CHANGES, MISSING = "is about to change", "does not exist yet"


def _not_checked(story: Story) -> dict[str, str]:
    """Return what is not checked, and what it needs."""
    steps = story.plan.applies
    told = {step.desired.ref.short: step.not_checked for step in steps if step.not_checked}
    return {name: text.removeprefix("not checked: it needs ") for name, text in told.items()}


def _no_dry_run_of(name: str) -> Rule:
    """Refuse the dry runs of an object as the server does for a webhook without dry runs."""

    def is_dry_run(seen: Exchange) -> bool:
        # That of a DELETE is in its body.
        return seen.query.get("dryRun") == "All" or b'"dryRun"' in seen.body

    refusal = "admission webhook x does not support dry run"
    return always(
        faults.status(400, reason="BadRequest", message=refusal),
        where=lambda seen: is_dry_run(seen) and seen.path.endswith(f"/{name}"),
    )


@pytest.mark.parametrize("can_check", [True, False])
def test_conflict_of_one_object_stops_the_whole_apply(
    stage: Stage, spoiled: Stage, proxy: FaultProxy, api: Api, audit: AuditTrail, can_check: bool
) -> None:
    """Whether the server has checked the plan, or the state that was read shows the conflict.

    All faults are reported together, each with its place.
    """
    replace(stage, name="other").run(config_map("theirs"))
    stage.run(config_map("a"), config_map("b"))
    api.patch(stage.path("a"), {"data": {"key": "hers"}}, by=ALICE)
    proxy.rule = proxy.rule if can_check else _no_dry_run_of("a")
    audit.restart()
    given = config_map("a", "mine"), config_map("b", "new"), config_map("c")
    for options in ({}, {"check": True}):
        story = spoiled.run(*given, **options)
        assert (story.exit_code, story.outcomes) == (4, {"configmap/a": Outcome.FAILED})
        assert ALICE in story.problem("configmap/a")
    story = spoiled.run(*given, config_map("theirs"))
    assert story.exit_code == 3
    assert story.outcomes == dict.fromkeys(("configmap/theirs", "configmap/a"), Outcome.FAILED)
    for name, told in (("theirs", "belongs to another set"), ("theirs", "yaml:4"), ("a", "yaml:1")):
        assert told in story.problem(f"configmap/{name}")
    assert writes(audit) == []


def test_object_without_a_dry_run_is_applied(
    stage: Stage, spoiled: Stage, proxy: FaultProxy, api: Api
) -> None:
    """Of that webhook, the real request passes. What is pruned gets no dry run at all."""
    stage.run(*map(config_map, "abc"))
    proxy.rule = _no_dry_run_of("a")
    story = spoiled.run(config_map("a", "new"), config_map("c"), check=True)
    assert story.exit_code == 0
    steps = {one.desired.ref.name: one.not_checked for one in story.plan.applies}
    steps |= {one.entry.ref.name: one.not_checked for one in story.plan.removals}
    told = "not checked: an admission webhook does not support dry runs"
    assert steps == {"a": told, "b": "", "c": ""}
    path = stage.path()
    assert (api.get(f"{path}/a")["data"], api.exists(f"{path}/b")) == ({"key": "new"}, False)


def test_server_check_finds_what_only_the_server_knows(stage: Stage, audit: AuditTrail) -> None:
    """A value that the server's validation refuses; without the check the rest is applied."""
    wrong = workload("Deployment", "web", spec={"replicas": -1})
    story = stage.run(config_map("a"), wrong, check=True)
    assert story.outcomes == {"deployment.apps/web": Outcome.FAILED}
    assert writes(audit) == []
    assert stage.listed() == set()
    story = stage.run(config_map("a"), wrong)
    assert story.outcomes["configmap/a"] is Outcome.CREATED


# What the server refuses only because of another object of the set.


def test_pod_that_the_present_namespace_forbids_is_not_checked(stage: Stage, home: str) -> None:
    """The set loosens Pod Security; if it does not, the Pod is refused before any write."""

    def space(level: str) -> dict[str, Any]:
        labels = {"pod-security.kubernetes.io/enforce": level}
        return of_kind("Namespace", home, {"labels": labels})

    spec = {"containers": [{"name": "c", "image": "c"}]}
    pod = of_kind("Pod", "p", {"namespace": home}, spec=spec)
    assert stage.run(space("restricted")).exit_code == 0
    refused = stage.run(space("restricted"), pod, check=True, reapply_all=True)
    assert refused.exit_code == 3
    assert "violates PodSecurity" in refused.problem("pod/p")
    story = stage.run(space("privileged"), pod, check=True)
    assert _not_checked(story) == {"pod/p": f"namespace/{home}, which {CHANGES}"}
    assert (story.exit_code, story.outcomes["pod/p"]) == (0, Outcome.CREATED)


@pytest.mark.holds("excused-by-a-change")
def test_object_beyond_the_present_quota_is_not_checked(stage: Stage, api: Api) -> None:
    """The set raises the quota."""

    def quota(services: int) -> dict[str, Any]:
        return of_kind("ResourceQuota", "q", spec={"hard": {"count/services": services}})

    service = of_kind("Service", "s", spec={"ports": [{"port": 80}]})
    assert stage.run(quota(0)).exit_code == 0
    path = stage.path("q", "resourcequotas")
    eventually(lambda: api.get(path)["status"].get("used"), lambda: "the quota is counted")
    refused = stage.run(quota(0), service, check=True, reapply_all=True)
    assert (refused.exit_code, refused.outcomes) == (3, {"service/s": Outcome.FAILED})
    story = stage.run(quota(5), service, check=True)
    assert _not_checked(story) == {"service/s": f"resourcequota/q, which {CHANGES}"}


def _role(*resources: str) -> dict[str, Any]:
    return of_kind("Role", "reader", rules=[rule("", [*resources], ["get", "list"])])


def test_binding_of_a_role_of_the_same_set_is_not_checked(
    stage: Stage, plane: Plane, api: Api, audit: AuditTrail, tmp_path: Path
) -> None:
    """The server looks the Role up even in a dry run, and the account must have its rights.

    A Role that is nowhere is refused, and nothing is written.
    """
    rules = (
        rule("", ["configmaps", "serviceaccounts"], WRITE),
        rule(RBAC, ["roles", "rolebindings"], WRITE),
        rule("", ["namespaces"], ["get"]),
    )
    account = kubeconfig_as("deployer", plane, api, stage.namespace, tmp_path, *rules)
    deployer, name = Stage(account, stage.namespace), f"rolebinding.{RBAC}/app"
    subjects = [{"kind": "ServiceAccount", "name": "reader"}]
    of_role = {"apiGroup": RBAC, "kind": "Role", "name": "reader"}
    binding = of_kind("RoleBinding", "app", roleRef=of_role, subjects=subjects)
    smaller, larger = _role("configmaps"), _role("configmaps", "secrets")
    audit.restart()
    for other in ((), ({**smaller, "metadata": {"name": "reader-2"}},)):
        refused = deployer.run(binding, config_map("a"), *other, check=True)
        assert (refused.exit_code, refused.outcomes) == (3, {name: Outcome.FAILED})
        assert '"reader" not found' in refused.problem(name)
    assert writes(audit) == []
    story = deployer.run(binding, smaller, config_map("a"), check=True)
    assert (story.exit_code, set(story.outcomes.values())) == (0, {Outcome.CREATED}), story.events
    assert _not_checked(story) == {name: f"role.{RBAC}/reader, which {MISSING}"}
    api("DELETE", stage.path("app", "rolebindings", f"/apis/{RBAC}/v1"))
    assert stage.run(larger, config_map("a"), prune=False).exit_code == 0
    refused = deployer.run(larger, config_map("a"), binding, check=True)
    told = "attempting to grant RBAC permissions not currently held"
    assert told in refused.problem(name)
    story = deployer.run(smaller, config_map("a"), binding, check=True)
    assert story.exit_code == 0, story.events
    assert _not_checked(story) == {name: f"role.{RBAC}/reader, which {CHANGES}"}
