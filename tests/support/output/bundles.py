"""A Bundle in every state at once, and a line of the controller's log, for the printers."""

from __future__ import annotations

from applyprune.model.identity import Ref
from applyprune.model.reports import (
    BundleChange,
    BundleCondition,
    BundlePlan,
    BundleStatus,
    FailingObject,
    LogLine,
    PendingObject,
)

DIGEST = "sha256:" + "0123456789abcdef" * 4
_REVISIONS = ("sha256:" + "ab" * 32, "sha256:" + "cd" * 32)
_REFUSAL = (
    "2 objects would be pruned, which is more than half of the 3 live objects of the set; waiting "
    "for an approval: 2 to prune"
)

BUNDLE = BundleStatus(
    name="web",
    namespace="shop",
    uid="u-web",
    generation=4,
    observed_generation=4,
    ready="False",
    reason="PruneRefused",
    message=_REFUSAL,
    drifted="True",
    age=7200.0,
    source=("configmap/web-manifests (web.yaml, more.yaml)", "configmap/other"),
    account="deployer",
    kubeconfig=Ref("", "Secret", "shop", "prod-eu"),
    applyset="web",
    inventory=Ref("", "ConfigMap", "shop", "applyprune-web"),
    revision=_REVISIONS[0],
    attempted_revision=_REVISIONS[1],
    requested_at="2026-11-23T07:00:00.000000+00:00",
    reconciled_at="2026-11-23T07:00:00.000000+00:00",
    objects=3,
    failing_count=12,
    failing=(
        FailingObject("deployment.apps/web", "shop", "conflict with kubectl-edit: .spec.replicas"),
        FailingObject("namespace/other", "", "forbidden"),
    ),
    pending=BundlePlan(
        DIGEST,
        "Deletions",
        "2020-01-01T06:00:00Z",
        _REVISIONS[1],
        {"prune": 3, "cascaded": 4},
        (
            PendingObject("service/old", "shop", "prune"),
            PendingObject("configmap/old", "blog", "prune"),
        ),
    ),
    last_change=BundleChange("2020-01-01T07:00:00Z", 1.25, 2, 1, 0),
    conditions=(
        BundleCondition("Ready", "False", "PruneRefused", _REFUSAL, "2020-01-01T06:00:00Z"),
        BundleCondition("Drifted", "True", "Drifted", "1 field", "2020-01-01T06:30:00Z"),
    ),
)
LINE = LogLine(
    Ref("", "Pod", "applyprune-system", "applyprune-controller-7d9c5b6f4-abcde"),
    "2026-11-23T07:00:01.250+00:00",
    "warning",
    "bundle reconciled",
    {
        "namespace": "shop",
        "bundle": "web",
        "reason": "PruneRefused",
        "detail": "2 objects would be pruned",
        "seconds": 0.25,
        "outcomes": {"unchanged": 1},
    },
)
