"""Missing rights are reported before the first write, all of them together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from applyprune.localplane import Plane
from applyprune.model.events import ObjectDone
from applyprune.model.fate import Outcome
from applyprune.model.options import DryRun, Mode
from tests.support.accounts import WRITE, kubeconfig_as, rule
from tests.support.api import REVIEWS, Api, AuditTrail, writes
from tests.support.fault_proxy import FaultProxy, always, faults
from tests.support.objects import DEPLOYMENT, SERVICE, config_map, of_kind
from tests.support.stage import Stage

Limited = Callable[..., Stage]

MAPS = rule("", ["configmaps"], WRITE)
READ = ["get", "list", "watch"]
COUNT = [rule("", ["persistentvolumeclaims"], READ), rule("apps", ["statefulsets"], READ)]
"""The rights to count what a deletion would cascade to."""
CLUSTER_ROLE: dict[str, Any] = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "rules": [],
}


@pytest.fixture
def limited(plane: Plane, api: Api, namespace: str, tmp_path: Path) -> Limited:
    """A function that returns the set as a user who has only these rights."""

    def stage_of(name: str, *rules: dict[str, Any]) -> Stage:
        path = kubeconfig_as(f"{namespace}-{name}", plane, api, namespace, tmp_path, *rules)
        return Stage(path, namespace)

    return stage_of


def reviews(audit: AuditTrail) -> dict[str, int]:
    """Return how many reviews of each kind applyprune has asked for."""
    asked = [
        one["requestURI"].removeprefix(REVIEWS)
        for one in audit.ours()
        if one["requestURI"].startswith(REVIEWS)
    ]
    return {kind: asked.count(kind) for kind in sorted(set(asked))}


@pytest.mark.holds("access-review", "missing-rights")
def test_missing_rights_are_all_reported_before_the_first_write(
    stage: Stage, limited: Limited, api: Api
) -> None:
    """At file and line; each object once, whether a dry run has found it or a review."""
    rules = (rule("", ["services"], [*READ, "patch"]), rule("apps", ["deployments"], READ))
    ci = limited("ci", MAPS, *rules, *COUNT)
    stage.run(config_map("a"), SERVICE)
    before = stage.inventory()
    # A changed object, and one to prune; then a new object of a readable kind as well.
    story = ci.run(config_map("a", "new"), check=True)
    assert story.outcomes == {"service/web": Outcome.FAILED}
    story = ci.run(config_map("a", "new"), DEPLOYMENT, check=True)
    assert story.exit_code == 3
    assert (stage.inventory(), api.get(stage.path("a"))["data"]) == (before, {"key": "v"})
    names = sorted(one.ref.short for one in story.of(ObjectDone))
    assert names == ["deployment.apps/web", "service/web"]
    problem = story.problem("deployment.apps/web")
    assert "set.yaml:2" in problem
    assert "may not create or patch deployments.apps in namespace" in problem
    assert "applyprune rbac web" in problem
    assert "may not delete services in namespace" in story.problem("service/web")
    # Without the check, the writes begin.
    assert ci.run(config_map("a", "new"), DEPLOYMENT).outcomes["configmap/a"] is Outcome.UPDATED


@pytest.mark.holds("rights-of-a-plan")
def test_missing_right_is_a_finding_of_a_plan(stage: Stage, limited: Limited) -> None:
    """Of every kind of dry run: what the run would report; a plan without writes needs none.

    A diff only notes them: another account may apply it.
    """
    ci = limited("ci", rule("", ["configmaps", "services"], READ), *COUNT)
    stage.run(config_map("a"), SERVICE)
    given: dict[str, Any] = {"check": True, "dry_run": DryRun.SERVER}
    story = ci.run(config_map("a", "new"), **given)
    real = ci.run(config_map("a", "new"), check=True)
    names = ("configmap/applyprune-web", "configmap/a", "service/web")
    assert [one.exit_code for one in (story, real)] == [3, 3]
    assert story.outcomes == real.outcomes == dict.fromkeys(names, Outcome.FAILED)
    for name in names:
        assert "this account may not" in story.problem(name)
        assert story.problem(name) == real.problem(name)
    for mode, bodies in ((Mode.PRUNE, [config_map("a")]), (Mode.DELETE, [])):
        story = ci.run(*bodies, mode=mode, **given)
        assert story.exit_code == 3, story.events
        assert "may not delete services" in story.problem("service/web")
    assert ci.run(config_map("a"), SERVICE, **given).exit_code == 0
    story = ci.run(config_map("a", "new"), diff=True, **given)
    assert story.exit_code == 0
    steps = {step.entry.ref.short: step.not_checked for step in story.plan.steps}
    assert steps == {
        "configmap/a": "not checked: this account may not patch it",
        "service/web": "not checked: this account may not delete it",
    }
    # Of the inventory alone: an apply of this plan would leave half a set.
    everything_else = rule("", ["configmaps"], [*READ, "patch"]), rule("", ["services"], WRITE)
    cd = limited("cd", *everything_else, *COUNT)
    story = cd.run(config_map("a", "new"), **given)
    assert story.exit_code == 3, story.events
    assert "may not update configmaps" in story.problem("configmap/applyprune-web")
    story = cd.run(config_map("a", "new"), diff=True, **given)
    assert {step.not_checked for step in story.plan.steps} == {""}
    (warning,) = [one for one in story.warnings if "this account may not" in one]
    assert "configmap/applyprune-web: this account may not update configmaps" in warning


@pytest.mark.holds("resource-names")
def test_rule_with_names_allows_only_these(
    limited: Limited, stage: Stage, audit: AuditTrail
) -> None:
    """Server-side apply creates by name, so such a rule suffices for it; not for the inventory."""
    named = {**rule("", ["configmaps"], ["create", "patch"]), "resourceNames": ["a"]}
    poor = limited("poor", named, rule("", ["configmaps"], READ))
    story = poor.run(config_map("a"), check=True)
    assert story.outcomes == {"configmap/applyprune-web": Outcome.FAILED}
    assert "may not create or update configmaps" in story.problem("configmap/applyprune-web")
    assert not writes(audit)
    own = {**rule("", ["configmaps"], ["update"]), "resourceNames": ["applyprune-web"]}
    named = {**rule("", ["services"], ["create", "patch"]), "resourceNames": ["web"]}
    reads = rule("", ["services"], READ)
    ci = limited("ci", rule("", ["configmaps"], [*READ, "create"]), own, named, reads)
    other = {**SERVICE, "metadata": {"name": "other"}}
    story = ci.run(SERVICE, other, check=True)
    assert story.outcomes == {"service/other": Outcome.FAILED}
    assert "may not create or patch services" in story.problem("service/other")
    assert ci.run(SERVICE, check=True).outcomes == {"service/web": Outcome.CREATED}
    assert stage.listed() == {"service/web"}


def test_recreation_needs_the_right_to_delete(
    stage: Stage, limited: Limited, audit: AuditTrail
) -> None:
    """Only a dry run finds that an object must be recreated."""
    address = {**SERVICE, "spec": {"clusterIP": "None", "ports": [{"port": 80}]}}
    stage.run(address)
    ci = limited("ci", MAPS, rule("", ["services"], [*READ, "create", "patch"]), *COUNT)
    audit.restart()
    story = ci.run(SERVICE, check=True, recreate=True)
    assert "this account may not delete services" in story.problem("service/web")
    assert not writes(audit)


def test_reviews_are_few(stage: Stage, audit: AuditTrail) -> None:
    """One of rules for each namespace; in cluster scope, one for each verb and resource."""
    objects = [config_map(name) for name in "abcdefgh"]
    stage.run(*objects, check=True)
    assert reviews(audit) == {"rulesreviews": 1}
    roles = [{**CLUSTER_ROLE, "metadata": {"name": f"{stage.namespace}-{name}"}} for name in "abc"]
    try:
        audit.restart()
        stage.run(*objects, *roles, check=True)
        assert reviews(audit) == {"accessreviews": 2, "rulesreviews": 1}
        audit.restart()
        stage.run(*objects, *roles, check=True)
        stage.run(*objects, *roles, config_map("i"))
        assert reviews(audit) == {}
    finally:
        stage.run(*objects)


def test_rule_of_a_role_does_not_hold_in_cluster_scope(limited: Limited, audit: AuditTrail) -> None:
    """The review of rules lists it all the same; what may not even be read is reported too.

    The server authorizes a request for a Namespace as one in that namespace.
    """
    ci = limited("ci", rule("*", ["*"], ["*"]))
    role = {**CLUSTER_ROLE, "metadata": {"name": f"{ci.namespace}-r"}}
    ref = f"clusterrole.rbac.authorization.k8s.io/{ci.namespace}-r"
    story = ci.run(config_map("a"), role, check=True)
    assert story.outcomes == {ref: Outcome.FAILED}
    assert not writes(audit)
    own = of_kind("Namespace", ci.namespace)
    story = ci.run(own, config_map("a"), check=True)
    assert story.exit_code == 0, story.events
    assert story.outcomes[f"namespace/{ci.namespace}"] is Outcome.UPDATED


def test_without_reviews_the_rights_are_not_checked(spoiled: Stage, proxy: FaultProxy) -> None:
    """One warning says so; the run goes on."""
    forbidden = faults.status(403, "Forbidden", "selfsubjectaccessreviews is forbidden")
    proxy.rule = always(forbidden, where=lambda seen: seen.path.startswith(REVIEWS))
    story = spoiled.run(config_map("a"), check=True)
    assert story.outcomes == {"configmap/a": Outcome.CREATED}
    (warning,) = story.warnings
    assert "the rights of this account were not checked" in warning
