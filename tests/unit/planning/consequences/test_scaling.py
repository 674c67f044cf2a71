"""To how many replicas an object falls back if its manifest no longer sets them."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.identity import Ref
from applyprune.planning.normalize import targets
from applyprune.values import replace
from tests.support.consequences import change, found, told

Body = dict[str, Any]
SCALES = "scales: scales from 5 to 1: its manifest does not set replicas"


def _body(replicas: int | None) -> Body:
    return {"spec": {} if replicas is None else {"replicas": replicas}}


CASES: dict[str, tuple[str, int | None, int | None, int | None, list[str]]] = {
    "they leave": ("Deployment", 5, None, 1, [SCALES]),
    "of another kind": ("StatefulSet", 5, None, 1, [SCALES]),
    "of a custom resource": (
        "Database",
        5,
        None,
        None,
        [SCALES.replace("to 1", "to what its controller sets")],
    ),
    "of a custom resource with a default": ("Database", 5, None, 1, [SCALES]),
    "somebody else owns them too": ("Deployment", 5, None, 5, []),
    "the manifest sets them": ("Deployment", 5, 3, 3, []),
    "there were none": ("Database", None, None, None, []),
}


@pytest.mark.parametrize(
    ("kind", "before", "wanted", "after", "expected"), CASES.values(), ids=CASES
)
def test_replicas_that_no_manifest_sets_fall_back(
    kind: str, before: int | None, wanted: int | None, after: int | None, expected: list[str]
) -> None:
    """The server's answer decides."""
    changed = change(kind, before=_body(before), manifest=_body(wanted), after=_body(after))
    assert told(found(changed)) == expected


@pytest.mark.parametrize("loses", [True, False])
def test_without_a_check_the_owner_of_the_replicas_decides(*, loses: bool) -> None:
    """Only what the set owns leaves with its manifest; the live number may be unknown."""
    for before, number in ((_body(5), " from 5"), (None, "")):
        changed = change("Deployment", before=before, manifest=_body(None))
        assert changed.desired is not None
        one = replace(changed, desired=replace(changed.desired, loses_replicas=loses))
        expected = f"scales: may scale{number} to 1: its manifest does not set replicas"
        assert told(found(one)) == [expected] * loses


@pytest.mark.parametrize(
    ("kind", "target", "expected"),
    [
        ("HorizontalPodAutoscaler", {"apiVersion": "apps/v1", "kind": "Deployment"}, True),
        ("HorizontalPodAutoscaler", {"apiVersion": "apps/v1", "kind": "StatefulSet"}, False),
        ("HorizontalPodAutoscaler", {}, False),
        ("ScaledObject", {}, True),
        ("ScaledObject", {"kind": "Deployment"}, True),
        ("ScaledObject", {"kind": "StatefulSet"}, False),
        ("ScaledObject", {"apiVersion": "example.com/v1", "kind": "Deployment"}, False),
    ],
)
def test_target_of_an_autoscaler(kind: str, target: Body, expected: bool) -> None:
    """KEDA has defaults for what it targets, and the name must fit."""
    scaler = {"kind": kind, "spec": {"scaleTargetRef": {**target, "name": "web"}}}
    assert targets(scaler, Ref("apps", "Deployment", "home", "web")) is expected
    assert not targets(scaler, Ref("apps", "Deployment", "home", "other"))
