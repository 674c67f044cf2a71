"""The plan of a Bundle that waits for an approval, before the question."""

from __future__ import annotations

import re

from applyprune.model.reports import PendingObject
from applyprune.output.inspection import plan_lines
from applyprune.values import replace
from tests.support.output.bundles import BUNDLE, DIGEST


def test_plan_says_what_waits_and_how_to_approve_it() -> None:
    """An object in the Bundle's own namespace needs no other one."""
    assert BUNDLE.pending is not None
    first, *others = plan_lines(BUNDLE, BUNDLE.pending)
    assert re.fullmatch(
        r"waiting for an approval of its deletions, since \d+d: 3 to prune, 4 cascaded", first
    )
    assert others == [
        "  service/old: prune",
        "  configmap/old -n blog: prune",
        "  and 1 more",
        f"  digest: {DIGEST}",
        "  approve it: applyprune bundle approve web -n shop",
    ]


def test_plan_names_what_goes_with_an_object() -> None:
    assert BUNDLE.pending is not None
    loss = "cascade-delete 1 object: shop/configmap/a"
    objects = (PendingObject("bundle.applyprune.dev/old", "shop", "prune", loss),)
    _, *others = plan_lines(BUNDLE, replace(BUNDLE.pending, objects=objects))
    assert others[:2] == ["  bundle.applyprune.dev/old: prune", f"    would {loss}"]


def test_approved_plan_says_so() -> None:
    """And no longer how to approve it."""
    assert BUNDLE.pending is not None
    lines = plan_lines(BUNDLE, replace(BUNDLE.pending, approved=True))
    assert lines[-2:] == [
        f"  digest: {DIGEST}",
        "  approved; the controller has not applied it yet",
    ]
