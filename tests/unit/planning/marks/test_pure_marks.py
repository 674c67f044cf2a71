"""The marks of other tools that go when a set takes an object in: a closed list."""

from __future__ import annotations

import pytest

from applyprune.model.identity import GroupKind
from applyprune.model.kinds import CONFIG_MAP, DEPLOYMENT, POD, REPLICA_SET
from applyprune.planning.marks import OWNER_MARKS, PEER_MARKS, PURE_MARKS, pure_marks

KAPP_APP = ("labels", "kapp.k14s.io/app")
BY_HELM = ("labels", "app.kubernetes.io/managed-by")
RELEASE = ("annotations", "meta.helm.sh/release-name")
HELM = {
    "labels": {"app.kubernetes.io/managed-by": "Helm", "helm.sh/chart": "web-1"},
    "annotations": {"meta.helm.sh/release-name": "web"},
}
KAPP = {
    "labels": {"kapp.k14s.io/app": "1600468671765235154", "app": "web"},
    "annotations": {"kapp.k14s.io/identity": "v1;a//ConfigMap/b;v1"},
}
IDENTITY = ("annotations", "kapp.k14s.io/identity")


ROWS = [
    pytest.param(CONFIG_MAP, {}, set(), id="nothing"),
    pytest.param(CONFIG_MAP, HELM, {RELEASE, BY_HELM}, id="of Helm"),
    pytest.param(
        CONFIG_MAP,
        {"labels": {"app.kubernetes.io/managed-by": "tiller"}},
        set(),
        id="managed by somebody else",
        marks=pytest.mark.holds("managed-by-others"),
    ),
    pytest.param(
        CONFIG_MAP, {"labels": {"app.kubernetes.io/instance": "web"}}, set(), id="a common label"
    ),
    pytest.param(
        CONFIG_MAP, {"annotations": {"app.kubernetes.io/managed-by": "Helm"}}, set(), id="no label"
    ),
    pytest.param(
        CONFIG_MAP,
        {"annotations": {"kapp.k14s.io/delete-strategy": "orphan"}},
        set(),
        id="a wish of the user",
        marks=pytest.mark.holds("only-marks"),
    ),
    pytest.param(DEPLOYMENT, KAPP, {KAPP_APP, IDENTITY}, id="of kapp"),
    pytest.param(POD, KAPP, {IDENTITY}, id="of a Pod"),
    pytest.param(
        REPLICA_SET,
        KAPP,
        {IDENTITY},
        id="labels that a selector may choose by",
        marks=pytest.mark.holds("labels-of-pods"),
    ),
    pytest.param(
        GroupKind("example.com", "Pod"), KAPP, {KAPP_APP, IDENTITY}, id="another kind of Pod"
    ),
]


@pytest.mark.parametrize(("kind", "metadata", "expected"), ROWS)
def test_marks_of_the_list_go_and_nothing_else(
    kind: GroupKind, metadata: dict[str, dict[str, str]], expected: set[tuple[str, str]]
) -> None:
    """Nor any label of what selectors choose."""
    labels, annotations = metadata.get("labels", {}), metadata.get("annotations", {})
    assert {*pure_marks(kind, labels, annotations)} == expected


def test_pure_mark_has_no_other_meaning() -> None:
    """A key that says what to do with an object is a wish, and stays."""
    pure = {mark.key for mark in PURE_MARKS}
    assert pure.isdisjoint(mark.key for mark in PEER_MARKS)
    common = {mark.key: mark.value for mark in PURE_MARKS if "app.kubernetes.io" in mark.key}
    assert common == {"app.kubernetes.io/managed-by": "Helm"}


def test_each_owner_that_is_known_loses_its_mark() -> None:
    """Of the tools of the list; for the others nobody has looked."""
    tools = {mark.tool for mark in PURE_MARKS}
    owners = {
        (mark.part, mark.key) for mark in OWNER_MARKS if mark.tool in tools and not mark.managers
    }
    assert owners <= {(mark.part, mark.key) for mark in PURE_MARKS}
