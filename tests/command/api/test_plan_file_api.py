"""The way of a plan through a file, in Python: plan, write, read, apply."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from applyprune import (
    ApplyOptions,
    ApplySet,
    Outcome,
    PlanOutdated,
    PruneOptions,
    UsageError,
    load,
    read_plan,
    write_plan,
)
from applyprune.model.options import Conflicts
from applyprune.values import replace
from tests.support.api import writes
from tests.support.objects import config_map

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune import ClusterConnection, Input, Plan
    from tests.support.api import Api, AuditTrail


def _given(value: str) -> Input:
    return load(objects=[config_map("a", value), config_map("b")])


def _plan(web: ApplySet) -> Plan:
    plan = web.plan(_given("new")).plan
    assert plan is not None
    return plan


def test_plan_goes_through_a_file(web: ApplySet, tmp_path: Path, audit: AuditTrail) -> None:
    """It is applied once; what no longer fits is in the report, and can be raised."""
    web.apply(load(objects=[config_map(name) for name in "abc"]))
    path = tmp_path / "web.plan"
    audit.restart()
    file = web.plan_file(_plan(web), expires_in=60)
    write_plan(path, file)
    assert replace(read_plan(path), checksum="") == replace(file, checksum="")
    assert (file.name, file.expires - file.created) == ("web", timedelta(seconds=60))
    outdated = web.apply_plan(_given("other"), read_plan(path))
    assert (outdated.exit_code, [one.outcome for one in outdated.objects]) == (8, [Outcome.FAILED])
    with pytest.raises(PlanOutdated, match="1 object no longer fits the plan"):
        outdated.raise_for_failures()
    assert writes(audit) == []
    done = web.apply_plan(_given("new"), read_plan(path))
    done.raise_for_failures()
    assert {one.ref.name: one.outcome for one in done.objects} == {
        "a": Outcome.UPDATED,
        "b": Outcome.UNCHANGED,
        "c": Outcome.PRUNED,
    }
    again = web.apply_plan(_given("new"), read_plan(path))
    assert (again.exit_code, {one.outcome for one in again.objects}) == (0, {Outcome.UNCHANGED})


@pytest.mark.holds("options-of-the-plan")
def test_plan_file_of_something_else_is_raised(
    web: ApplySet, cluster: ClusterConnection, audit: AuditTrail
) -> None:
    """Of another set, of other options, for another cluster, or of a time that is over."""
    file = web.plan_file(_plan(web))
    other = ApplySet("other", cluster=cluster)
    with pytest.raises(UsageError, match="for the set web"):
        other.apply_plan(_given("new"), file)
    with pytest.raises(UsageError, match="--no-prune now"):
        web.apply_plan(_given("new"), file, prune=PruneOptions(enabled=False))
    with pytest.raises(UsageError, match="for another cluster"):
        web.apply_plan(_given("new"), replace(file, cluster={"kube-system": "u"}))
    with pytest.raises(PlanOutdated, match="the plan expired at"):
        web.apply_plan(_given("new"), replace(file, expires=datetime.now(UTC)))
    with pytest.raises(UsageError, match="the plan was made with other options"):
        web.plan_file(_plan(web), options=ApplyOptions(conflicts=Conflicts.FORCE))
    assert writes(audit) == []


def test_impossible_validity_is_refused(web: ApplySet) -> None:
    """Whatever a calculation may return."""
    plan = _plan(web)
    for seconds in (0.0, -1.0, 0.5, math.nan, math.inf, 366 * 24 * 3600):
        with pytest.raises(UsageError, match="valid for at least 1s, and at most 8760h"):
            web.plan_file(plan, expires_in=seconds)


def test_marks_of_manifests_hold_for_a_plan_file(web: ApplySet, api: Api, tmp_path: Path) -> None:
    """An object that only must exist may come after the plan; the others are as reviewed."""
    recreate, apply = "applyprune.dev/recreate", "applyprune.dev/apply"
    old = config_map("r", "1", annotations={recreate: "allowed"}) | {"immutable": True}
    web.apply(load(objects=[config_map("a"), config_map("b"), config_map("c"), old]))
    marked = load(
        objects=[
            config_map("a", "new", annotations={apply: "disabled"}),
            config_map("b", annotations={apply: "exists"}),
            config_map("must", annotations={apply: "exists"}),
            config_map("o", annotations={apply: "once"}),
            {**old, "data": {"key": "2"}},
        ]
    )
    path = tmp_path / "web.plan"
    plan = web.plan(marked).plan
    assert plan is not None
    write_plan(path, web.plan_file(plan))
    configs = f"/api/v1/namespaces/{web.identity.namespace}/configmaps"
    api("POST", configs, config_map("must"))
    done = web.apply_plan(marked, read_plan(path))
    done.raise_for_failures()
    assert {one.ref.name: one.outcome for one in done.objects} == {
        "a": Outcome.SKIPPED,
        "b": Outcome.ORPHANED,
        "c": Outcome.PRUNED,
        "must": Outcome.UNCHANGED,
        "o": Outcome.CREATED,
        "r": Outcome.RECREATED,
    }
    assert api.get(f"{configs}/r")["data"] == {"key": "2"}
