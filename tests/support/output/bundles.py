"""A Bundle whose plan waits for an approval."""

from __future__ import annotations

from applyprune.model.reports import (
    BundleCondition,
    BundlePlan,
    BundleStatus,
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
    revision=_REVISIONS[0],
    requested_at="2026-11-23T07:00:00.000000+00:00",
    reconciled_at="2026-11-23T07:00:00.000000+00:00",
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
    conditions=(
        BundleCondition("Ready", "False", "PruneRefused", _REFUSAL, "2020-01-01T06:00:00Z"),
        BundleCondition("Drifted", "True", "Drifted", "1 field", "2020-01-01T06:30:00Z"),
    ),
)
