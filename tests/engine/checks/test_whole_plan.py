"""A plan is checked as a whole: with any fault, nothing is written, and all faults are reported."""

from __future__ import annotations

import json
from typing import Any

from applyprune.model.fate import Outcome
from applyprune.model.options import Adopt
from applyprune.values import replace
from tests.support.actors import ALICE
from tests.support.api import Api, AuditTrail, writes
from tests.support.fault_proxy import Exchange, FaultProxy, Rule, always, faults
from tests.support.objects import config_map
from tests.support.plane import Kubectl
from tests.support.stage import Stage
from tests.support.workloads import workload


def _set_field(api: Api, stage: Stage, name: str, manager: str, value: str) -> None:
    api.patch(stage.path(name), {"data": {"key": value}}, by=manager)


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


def test_conflict_of_one_object_stops_the_whole_apply(
    stage: Stage, api: Api, audit: AuditTrail
) -> None:
    """Whether the server has checked the plan, or the state that was read shows the conflict."""
    stage.run(config_map("a"), config_map("b"))
    _set_field(api, stage, "a", ALICE, "hers")
    audit.restart()
    given = config_map("a", "mine"), config_map("b", "new"), config_map("c")
    for check in (False, True):
        story = stage.run(*given, check=check)
        assert story.exit_code == 4
        assert story.outcomes == {"configmap/a": Outcome.FAILED}
        assert ALICE in story.problem("configmap/a")
    assert writes(audit) == []


def test_conflict_is_seen_although_the_server_cannot_check_the_object(
    stage: Stage, spoiled: Stage, proxy: FaultProxy, api: Api, audit: AuditTrail
) -> None:
    """An admission webhook without dry runs; the state that was read shows the conflict."""
    stage.run(config_map("a"), config_map("b"))
    _set_field(api, stage, "a", ALICE, "hers")
    proxy.rule = _no_dry_run_of("a")
    audit.restart()
    story = spoiled.run(config_map("a", "mine"), config_map("b", "new"), check=True)
    assert story.exit_code == 4
    assert story.outcomes == {"configmap/a": Outcome.FAILED}
    assert ALICE in story.problem("configmap/a")
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


def test_faults_of_all_objects_are_reported_together(
    stage: Stage, api: Api, audit: AuditTrail
) -> None:
    """Each with its place; the objects without a fault are not applied either."""
    replace(stage, name="other").run(config_map("theirs"))
    stage.run(config_map("a"))
    _set_field(api, stage, "a", ALICE, "hers")
    audit.restart()
    story = stage.run(config_map("new"), config_map("theirs"), config_map("a", "mine"))
    assert story.outcomes == {"configmap/theirs": Outcome.FAILED, "configmap/a": Outcome.FAILED}
    assert "belongs to another set" in story.problem("configmap/theirs")
    assert "set.yaml:2" in story.problem("configmap/theirs")
    assert "set.yaml:3" in story.problem("configmap/a")
    assert story.exit_code == 3
    assert writes(audit) == []


def test_server_check_finds_what_only_the_server_knows(stage: Stage, audit: AuditTrail) -> None:
    """A value that the server's validation refuses; without the check the rest is applied."""
    wrong = workload("Deployment", "web", spec={"replicas": -1})
    story = stage.run(config_map("a"), wrong, check=True)
    assert story.outcomes == {"deployment.apps/web": Outcome.FAILED}
    assert writes(audit) == []
    assert stage.listed() == set()
    story = stage.run(config_map("a"), wrong)
    assert story.outcomes["configmap/a"] is Outcome.CREATED


def test_checked_apply_changes_what_its_plan_says(stage: Stage, kubectl: Kubectl) -> None:
    """Fates and outcomes agree: created, adopted, changed, recreated, unchanged."""
    fixed = {**config_map("fixed"), "immutable": True}
    stage.run(config_map("same"), config_map("changed"), fixed)
    one: dict[str, Any] = config_map("theirs", namespace=stage.namespace)
    kubectl("apply", "-f", "-", stdin=json.dumps(one))
    story = stage.run(
        config_map("same"),
        config_map("changed", "new"),
        {**config_map("fixed", "new"), "immutable": True},
        config_map("theirs"),
        config_map("new"),
        check=True,
        recreate=True,
        adopt=Adopt.UNOWNED,
    )
    fates = {step.desired.ref.name: str(step.fate) for step in story.plan.applies}
    assert fates == {
        "same": "leave",
        "changed": "change",
        "fixed": "recreate",
        "theirs": "adopt",
        "new": "create",
    }
    assert {ref.partition("/")[2]: str(outcome) for ref, outcome in story.outcomes.items()} == {
        "same": "unchanged",
        "changed": "updated",
        "fixed": "recreated",
        "theirs": "updated",
        "new": "created",
    }
