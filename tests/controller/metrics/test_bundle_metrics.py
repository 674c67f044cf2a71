"""The metrics of each Bundle: one series for each fact, and none for a Bundle that is gone."""

from __future__ import annotations

from collections import Counter

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from applyprune.controller.metrics import Metrics
from applyprune.controller.reasons import Reason
from applyprune.controller.report import measured
from applyprune.controller.result import FailedObject, RunResult
from applyprune.controller.status import ConditionStatus, ReconcileResult
from applyprune.model.fate import Fate, Outcome
from applyprune.model.fieldset import Drift
from applyprune.model.inventory import InventoryEntry
from applyprune.model.plan import ApplyStep, Plan
from applyprune.model.problem import ProblemKind
from applyprune.values import replace
from tests.support.planning import body, desired

KEY, OTHER = ("shop", "web"), ("blog", "web")
FIRST, SECOND = (f"sha256:{digit * 64}" for digit in "12")
STATUS = {
    "conditions": [
        {"type": "Ready", "status": "False"},
        {"type": "Stalled", "status": "Unknown"},
        {"type": "Drifted", "status": "Made/Up"},
        {"type": "Made/Up", "status": "True"},
    ],
    "objects": {"total": 5, "failing": 2},
    "lastAppliedRevision": FIRST,
    "pendingPlan": {},
}
FAILED = ReconcileResult(ConditionStatus.NOT_READY, Reason.CONFLICTS, "m", "r", RunResult())
SUSPENDED = ReconcileResult(ConditionStatus.SAME, Reason.SUSPENDED, "m")


def series(metrics: Metrics, bundle: tuple[str, str] = KEY) -> dict[str, float]:
    """Return the series of a Bundle, by name and the label beside those of every one."""
    found = {}
    families = text_string_to_metric_families(generate_latest(metrics.registry).decode())
    for sample in (sample for family in families for sample in family.samples):
        labels = dict(sample.labels)
        if (labels.pop("namespace", ""), labels.pop("bundle", "")) == bundle:
            more = ",".join(labels.values())
            found[f"{sample.name.removeprefix('applyprune_bundle_')} {more}".strip()] = sample.value
    return found


def total(metrics: Metrics, name: str, **labels: str) -> float | None:
    """Return one series that is about all Bundles."""
    return metrics.registry.get_sample_value(name, labels)


def test_bundle_has_a_series_for_each_fact() -> None:
    """Only conditions that the controller knows become labels, and of each the status it has."""
    metrics = Metrics()
    metrics.passed(KEY, measured(FAILED, 1.5, STATUS))
    assert series(metrics) == {
        "condition false,Ready": 1.0,
        "condition unknown,Stalled": 1.0,
        f"info {FIRST}": 1.0,
        "objects applied": 3.0,
        "objects failing": 2.0,
        "suspended": 0.0,
        "pending_approval": 1.0,
        "last_reconcile_seconds": 1.5,
        "reverted_fields_total": 0.0,
    }
    ready = [{"type": "Ready", "status": "True"}]
    later = {**STATUS, "lastAppliedRevision": SECOND, "conditions": ready}
    metrics.passed(KEY, measured(SUSPENDED, 0.5, later))
    after = series(metrics)
    assert (after["suspended"], after[f"info {SECOND}"]) == (1.0, 1.0)
    assert f"info {FIRST}" not in after
    assert [one for one in after if one.startswith("condition")] == ["condition true,Ready"]


@pytest.mark.holds("forged-revision")
def test_revision_that_is_not_a_digest_becomes_no_label() -> None:
    """Whoever may write the status may write a text of any length."""
    metrics = Metrics()
    for forged in ("x" * 10**6, f"{FIRST}\n", "sha256:1", 7):
        metrics.passed(KEY, measured(FAILED, 1, {**STATUS, "lastAppliedRevision": forged}))
        assert series(metrics).get("info") == 1.0


def test_gone_bundle_leaves_no_series() -> None:
    """And it is no longer counted."""
    metrics = Metrics()
    assert total(metrics, "applyprune_bundles", ready="False") == 0
    metrics.passed(KEY, measured(FAILED, 1, STATUS))
    metrics.passed(OTHER, measured(FAILED, 1, STATUS))
    assert total(metrics, "applyprune_bundles", ready="False") == 2
    assert total(metrics, "applyprune_objects", state="failing") == 4
    assert total(metrics, "applyprune_pending_approvals") == 2
    metrics.forget(KEY)
    assert series(metrics) == {}
    assert len(series(metrics, OTHER)) == 9
    assert total(metrics, "applyprune_bundles", ready="False") == 1
    assert total(metrics, "applyprune_objects", state="applied") == 3
    assert total(metrics, "applyprune_pending_approvals") == 1


def test_reverted_fields_are_counted_over_reconciles() -> None:
    """Those of objects that were written; a field of another applier is no drift."""
    metrics = Metrics()
    drift = Drift("/data/a", "1", "2", "kubectl-edit", "Update")
    found = (drift, replace(drift, path="/data/b"), replace(drift, operation="Apply"))
    first, second = (
        ApplyStep(one, Fate.CHANGE, InventoryEntry(one.ref, "p", "v1", None), drift=found)
        for one in (desired(body("ConfigMap", name)) for name in ("a", "b"))
    )
    failed = FailedObject(second.desired.ref, "m", ProblemKind.CONFLICT)
    run = RunResult(
        outcomes=Counter({Outcome.UPDATED: 1}),
        failing={second.desired.ref: failed},
        written={first.desired.ref},
        plan=Plan((first, second), ()),
    )
    result = ReconcileResult(ConditionStatus.READY, Reason.APPLIED, "m", "r", run)
    for _ in range(2):
        metrics.passed(KEY, measured(result, 1, STATUS))
    run.written.clear()
    metrics.passed(KEY, measured(result, 1, STATUS))
    assert series(metrics)["reverted_fields_total"] == 4
