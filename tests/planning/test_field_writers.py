"""What kind of writer has a field, and which way out of a conflict is named first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from applyprune.model.identity import Ref
from applyprune.model.problem import ManagerConflict
from applyprune.planning.applyset import MANAGERS
from applyprune.planning.field_writers import Contest, Way, WriterKind, writer_of, writers_since
from applyprune.planning.managed_fields import UNKNOWN
from tests.support.planning import live


def owner(manager: str, operation: str = "Update", subresource: str = "") -> ManagerConflict:
    return ManagerConflict(manager, operation, subresource, time="")


EDIT = owner("kubectl-edit")
HPA = owner("kube-controller-manager", subresource="scale")
ARGO = owner("argocd-controller", "Apply")
SHOP = owner(f"{MANAGERS}shop/web", "Apply")
NOBODY = ManagerConflict(UNKNOWN, "", "", "")
TOOL = owner("nightly")

WRITERS: dict[str, tuple[ManagerConflict, WriterKind]] = {
    "an edit": (EDIT, WriterKind.PERSON),
    "kubectl scale": (owner("kubectl", subresource="scale"), WriterKind.PERSON),
    "kubectl apply on the client": (owner("kubectl-client-side-apply"), WriterKind.PERSON),
    "kubectl apply on the server": (owner("kubectl", "Apply"), WriterKind.APPLIER),
    "an autoscaler": (HPA, WriterKind.CONTROLLER),
    "an operator": (owner("redis-operator"), WriterKind.CONTROLLER),
    "Argo CD": (ARGO, WriterKind.APPLIER),
    "Argo CD, by Updates": (replace(ARGO, operation="Update"), WriterKind.APPLIER),
    "Flux": (owner("kustomize-controller", "Apply"), WriterKind.APPLIER),
    "Helm": (owner("helm"), WriterKind.APPLIER),
    "a controller that applies": (owner("x-controller", "Apply"), WriterKind.APPLIER),
    "another set": (SHOP, WriterKind.SET),
    "nobody knows": (NOBODY, WriterKind.UNKNOWN),
    "any other program": (TOOL, WriterKind.PROGRAM),
}


@pytest.mark.parametrize("name", WRITERS)
def test_writer_has_a_kind(name: str) -> None:
    """By its name, and by how it writes."""
    owner, expected = WRITERS[name]
    assert writer_of(owner) is expected


def test_writer_of_an_object_to_adopt_may_leave() -> None:
    """Whoever has created it; but no controller, and nobody through a subresource."""
    assert writer_of(EDIT, adopts=True) is WriterKind.APPLIER
    assert writer_of(HPA, adopts=True) is WriterKind.CONTROLLER
    scaled = owner("kubectl", subresource="scale")
    assert writer_of(scaled, adopts=True) is WriterKind.PERSON


DATA_FIELDS: dict[str, Any] = {"f:data": {"f:a": {}, "f:b": {}, "f:c": {}, "f:d": {}}}
THEN, LATER = "2026-11-22T10:00:00Z", "2026-11-22T10:00:01Z"
SINCE: dict[str, tuple[dict[str, Any], list[str]]] = {
    "an edit": (
        {"manager": "kubectl-edit", "time": THEN},
        ["kubectl-edit (.data.a, .data.b, .data.c and 1 more)"],
    ),
    "an edit before": ({"manager": "kubectl-edit", "time": "2026-11-22T09:59:59Z"}, []),
    "an edit at an unknown time": ({"manager": "kubectl-edit"}, []),
    "a status": ({"manager": "x", "time": LATER, "subresource": "status"}, []),
    "an apply": ({"manager": "flux", "time": LATER, "operation": "Apply"}, ["flux"]),
    "who is left out": ({"manager": "us", "time": LATER}, []),
    "a hostile name": ({"manager": "x\x1b", "time": LATER, "fieldsV1": {}}, ["x\\x1b"]),
}


@pytest.mark.parametrize("name", SINCE)
def test_writers_since_a_time_are_named(name: str) -> None:
    """With what they own, if they own only what they have written."""
    given, expected = SINCE[name]
    entry = {"operation": "Update", "fieldsV1": DATA_FIELDS, **given}
    written = live(Ref("", "ConfigMap", "home", "a"), entries=[entry])
    assert writers_since(written, THEN, but="us") == expected


def test_writers_of_a_secret_are_named_without_its_fields() -> None:
    """Anybody may have put a value into a key."""
    entry = {"manager": "x", "operation": "Update", "time": LATER, "fieldsV1": DATA_FIELDS}
    written = live(Ref("", "Secret", "home", "a"), entries=[entry])
    assert writers_since(written, THEN, but="") == ["x"]


DATA = ("/data/key",)
FREE = Contest((), DATA, leaves_all=True)
FIRST: dict[str, tuple[Contest, Way]] = {
    "drift by hand": (replace(FREE, owners=(EDIT,), reverts=True), Way.REVERT),
    "an edit that is no drift": (replace(FREE, owners=(EDIT,)), Way.FORCE),
    "a controller": (replace(FREE, owners=(HPA,)), Way.LEAVE),
    "drift by a controller": (replace(FREE, owners=(HPA,), reverts=True), Way.LEAVE),
    "a controller, at a field that must be ours": (Contest((HPA,), must_own=True), Way.SKIP),
    "a controller, also at such a field": (Contest((HPA,), DATA), Way.SKIP),
    "an edit of what an autoscaler writes": (
        replace(FREE, owners=(EDIT,), is_scaled=True),
        Way.LEAVE,
    ),
    "drift by an autoscaler that is gone": (
        replace(FREE, owners=(HPA,), reverts=True, is_over=True),
        Way.REVERT,
    ),
    "another applier": (replace(FREE, owners=(ARGO,)), Way.TAKE_OVER),
    "another set": (replace(FREE, owners=(SHOP,)), Way.ADOPT),
    "nobody knows": (replace(FREE, owners=(NOBODY,)), Way.FORCE),
    "drift by a program": (replace(FREE, owners=(TOOL,), reverts=True), Way.REVERT),
    "a program": (replace(FREE, owners=(TOOL,)), Way.LEAVE),
    "drift by hand and by a program": (
        replace(FREE, owners=(EDIT, TOOL), reverts=True),
        Way.REVERT,
    ),
    "an edit and a controller": (replace(FREE, owners=(EDIT, HPA), reverts=True), Way.LEAVE),
    "an edit and a controller, at such a field": (Contest((EDIT, HPA), must_own=True), Way.SKIP),
}


@pytest.mark.parametrize("name", FIRST)
def test_first_way_fits_all_writers(name: str) -> None:
    """Without one that fits all, nothing is overwritten; the others follow, each once."""
    contest, expected = FIRST[name]
    first, *others = contest.ways
    assert first is expected
    assert {first, *others} == set(contest.possible)
    assert len(others) == len(contest.possible) - 1


WORDS: dict[Way, tuple[str, str]] = {
    Way.REVERT: ("--conflicts revert", "spec.drift.policy: Correct"),
    Way.FORCE: ("To overwrite it: --conflicts force,", "spec.conflicts: force, or only"),
    Way.TAKE_OVER: (
        "To take over all fields of a b and argocd: --take-over 'a b' --take-over argocd",
        "spec.conflicts: force, or only",
    ),
    Way.ADOPT: ("--adopt=all --conflicts force", "spec.adopt: all and spec.conflicts: force"),
    Way.LEAVE: ("object:\n    applyprune.dev/ignore-fields: /data/key", "object: applyprune.dev/"),
    Way.SKIP: ("applyprune.dev/conflicts: skip", "applyprune.dev/conflicts: skip"),
}


def test_annotation_that_decides_is_what_must_change() -> None:
    """No option has any effect on its object."""
    contest = replace(FREE, owners=(SHOP,), is_marked=True)
    for way in (Way.REVERT, Way.FORCE, Way.ADOPT):
        words = contest.words(way)
        mark = "force" if way is not Way.REVERT else "revert"
        assert words.endswith(f"applyprune.dev/conflicts: {mark}")
        assert "--conflicts" not in words


@pytest.mark.parametrize("way", WORDS)
def test_way_names_the_option_or_the_field_of_a_bundle(way: Way) -> None:
    """A name that a shell would split is quoted."""
    owners = tuple(owner(name, "Apply") for name in ("argocd", "a b"))
    contest = replace(FREE, owners=owners)
    option, field = WORDS[way]
    assert option in contest.words(way)
    assert field in contest.words(way, of_bundle=True)
