"""Before which prunes everything must be ready: by the kinds of what goes and of what stays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from applyprune.model.identity import Ref
from applyprune.model.inventory import InventoryEntry
from applyprune.model.live import Resource
from applyprune.model.options import Mode, Options, WaitMode, WaitOptions
from applyprune.model.plan import ApplyStep, Fate, Plan, RemoveStep
from applyprune.model.problem import ProblemKind
from applyprune.planning.leave import wait_reason
from applyprune.planning.plan import completed, make_plan
from applyprune.planning.recovery import ClusterSnapshot
from tests.support.planning import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    TARGET,
    body,
    desired,
    inventory,
    live,
    recorded,
)

CONFIG_MAP = Ref("", "ConfigMap", "home", "old")
DEPLOYMENT = Ref("apps", "Deployment", "home", "old")
STAYS = {
    "a workload": desired(body("Deployment", "web"), DEPLOYMENTS),
    "no workload": desired(body("ConfigMap", "a"), CONFIG_MAPS),
    "a custom workload": desired(
        body("Rollout", "a", spec={"jobs": [{"template": {"spec": {"containers": [{}]}}}]}),
        Resource("argoproj.io", "v1", "Rollout", "rollouts", namespaced=True),
    ),
    "another custom resource": desired(
        body("Widget", "a", spec={"containers": [], "size": {"x": [1]}}),
        Resource("x.io", "v1", "Widget", "widgets", namespaced=True),
    ),
}


def _ref(kind: str, group: str = "") -> Ref:
    return Ref(group, kind, "home", "old")


GOES: dict[str, tuple[str, Ref, str]] = {
    "a Deployment": ("no workload", DEPLOYMENT, "deployment.apps/old is a workload"),
    "a Job": ("no workload", _ref("Job", "batch"), "job.batch/old is a workload"),
    "a Pod": ("no workload", _ref("Pod"), "pod/old is a workload"),
    "a custom resource": (
        "no workload",
        _ref("Rollout", "argoproj.io"),
        "rollout.argoproj.io/old may be a workload",
    ),
    "a Service": ("no workload", _ref("Service"), "service/old is a Service"),
    "a Namespace": ("no workload", _ref("Namespace"), "namespace/old is deleted with its contents"),
    "a CRD": (
        "no workload",
        _ref("CustomResourceDefinition", "apiextensions.k8s.io"),
        "customresourcedefinition.apiextensions.k8s.io/old is deleted with its contents",
    ),
    **{
        f"a {kind}": (
            "a workload",
            _ref(kind),
            f"{kind.lower()}/old may be used by Pods of the set",
        )
        for kind in ("ConfigMap", "Secret", "ServiceAccount", "PersistentVolumeClaim")
    },
    "a Secret beside a custom workload": (
        "a custom workload",
        _ref("Secret"),
        "secret/old may be used by Pods of the set",
    ),
    "a ConfigMap beside another custom resource": ("another custom resource", CONFIG_MAP, ""),
    "a ConfigMap, without Pods": ("no workload", CONFIG_MAP, ""),
    "a Role": ("a workload", _ref("Role", "rbac.authorization.k8s.io"), ""),
    "an Ingress": ("a workload", _ref("Ingress", "networking.k8s.io"), ""),
}


def _removal(ref: Ref, fate: Fate = Fate.PRUNE, **metadata: Any) -> RemoveStep:
    entry = InventoryEntry(ref, "plural", "v1", None)
    return RemoveStep(entry, None, fate, live(ref, **metadata))


@pytest.mark.parametrize("name", GOES)
def test_prune_waits_for_readiness_by_kind(name: str) -> None:
    """What Pods may use waits where Pods may be; the old template is not known."""
    stays, ref, reason = GOES[name]
    there = STAYS[stays]
    apply = ApplyStep(there, Fate.LEAVE, InventoryEntry(there.ref, "plural", "v1", None))
    assert wait_reason((apply,), (_removal(ref),)) == reason
    assert wait_reason((), (_removal(ref),)) == "", "a run that applies nothing waits for nothing"


@pytest.mark.parametrize("fate", sorted(set(Fate) - {Fate.PRUNE}))
def test_only_deletions_wait_for_readiness(fate: Fate) -> None:
    """What stays in the cluster stays in use."""
    there = STAYS["a workload"]
    apply = ApplyStep(there, Fate.CREATE, InventoryEntry(there.ref, "plural", "v1", None))
    assert wait_reason((apply,), (_removal(DEPLOYMENT, fate),)) == ""


def test_object_that_is_being_deleted_needs_no_wait() -> None:
    """An earlier run has decided that; there is nothing left to protect."""
    there = STAYS["a workload"]
    apply = ApplyStep(there, Fate.CREATE, InventoryEntry(there.ref, "plural", "v1", None))
    assert wait_reason((apply,), (_removal(DEPLOYMENT, deletionTimestamp="x"),)) == ""


def _plan(**options: Any) -> Plan:
    """Return the plan of a set whose Deployment ``old`` has become ``web``."""
    old, web = desired(body("Deployment", "old"), DEPLOYMENTS), STAYS["a workload"]
    states = {one.ref: live(one.ref, uid=one.ref.name) for one in (old, web)}
    before = inventory(recorded(old, states[old.ref]), recorded(web, states[web.ref]))
    snapshot = ClusterSnapshot(states, resources={web.ref.group_kind: DEPLOYMENTS})
    given = replace(Options(), **options)
    return completed(make_plan((web,), before, snapshot, TARGET, given), TARGET, given)


@pytest.mark.parametrize("mode", WaitMode)
def test_plan_holds_the_wait_or_the_warning(mode: WaitMode) -> None:
    """With --no-wait there is a warning, with the same reason."""
    plan = _plan(wait=WaitOptions(mode))
    told = plan.waits_before_prune or plan.warnings[0].reason
    assert told == "deployment.apps/old is a workload"
    assert bool(plan.waits_before_prune) == (mode is not WaitMode.NONE)
    assert [one.kind for one in plan.warnings] == (
        [ProblemKind.NO_WAIT] if mode is WaitMode.NONE else []
    )


def test_plan_without_deletions_has_no_wait() -> None:
    """A refused prune deletes nothing; a pure prune and a delete apply nothing."""
    refused = _plan(prune=replace(Options().prune, enabled=False), wait=WaitOptions(WaitMode.NONE))
    assert (refused.waits_before_prune, refused.warnings) == ("", ())
    for mode in (Mode.PRUNE, Mode.DELETE):
        assert _plan(mode=mode).waits_before_prune == ""
