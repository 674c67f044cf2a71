"""Which cluster a Bundle's objects are in, and when it may leave it."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.controller.clusters import previous_cluster
from applyprune.controller.result import ClusterChanged
from applyprune.model.identity import Ref
from applyprune.model.live import BUNDLES, LiveObject
from applyprune.planning.marks import ACCEPT_CLUSTER, FINALIZER

HOME, OLD, NEW = "uid-of-home", "uid-of-old", "uid-of-new"


def bundle(recorded: str, *, applied: bool, accepted: str) -> LiveObject:
    """Return a Bundle with that cluster in its status."""
    metadata: dict[str, Any] = {
        "name": "web",
        "namespace": "shop",
        "finalizers": [FINALIZER] if applied else [],
        "annotations": {ACCEPT_CLUSTER: accepted} if accepted else {},
    }
    status = {"cluster": {"uid": recorded, "namespace": "kube-system"}} if recorded else {}
    body = {"metadata": metadata, "status": status}
    return LiveObject.of(
        Ref(BUNDLES.group, BUNDLES.kind, "shop", "web"), "uid", "1", metadata, body
    )


# What is recorded, whether anything was applied, what is accepted, what answers; what it leaves,
# None if it may not.
CASES: tuple[tuple[str, bool, str, str, str | None], ...] = (
    ("", False, "", NEW, ""),
    ("", False, "", HOME, ""),
    (OLD, True, "", OLD, ""),
    (OLD, False, "", OLD, ""),
    (OLD, True, "", NEW, None),
    (OLD, False, "", NEW, None),
    (OLD, True, OLD, NEW, None),
    (OLD, True, "true", NEW, None),
    (OLD, True, NEW, NEW, OLD),
    # Its objects are in its own cluster, and now it names another one; and the other way round.
    ("", True, "", HOME, ""),
    ("", True, "", NEW, None),
    ("", True, NEW, NEW, HOME),
    (OLD, True, "", HOME, None),
    (OLD, True, HOME, HOME, OLD),
)


@pytest.mark.holds("other-cluster", row="uid-of-old-True--uid-of-new-None")
@pytest.mark.parametrize(("recorded", "applied", "accepted", "now", "left"), CASES)
def test_bundle_stays_in_its_cluster(
    recorded: str, applied: bool, accepted: str, now: str, left: str | None
) -> None:
    """Unless somebody has named the new one."""
    live = bundle(recorded, applied=applied, accepted=accepted)
    if left is not None:
        assert previous_cluster(live, now, HOME) == left
        return
    with pytest.raises(ClusterChanged) as caught:
        previous_cluster(live, now, HOME)
    assert caught.value.message == (
        f"another cluster answers ({now}) than has its objects ({recorded or HOME}): nothing is "
        "applied or deleted"
    )
    assert caught.value.reason.endswith(
        f"kubectl annotate bundle web -n shop --overwrite applyprune.dev/accept-cluster={now}"
    )
