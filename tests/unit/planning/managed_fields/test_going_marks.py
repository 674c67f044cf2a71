"""The marks of other tools that go with an adoption: whose they are, and when they stay."""

from __future__ import annotations

from typing import Any

import jsonpatch
import pytest

from applyprune.model.fieldset import FieldSet, with_value
from applyprune.model.live import LiveObject
from applyprune.model.options import Adopt
from applyprune.model.plan import Migration
from applyprune.planning.managed_fields import (
    going_marks,
    has_migration,
    migration_of,
    own_fields,
    taken,
    with_marks_of,
)
from applyprune.planning.requests import migrate_request
from applyprune.values import packed
from tests.support.options import options_of
from tests.support.planning import CONFIG_MAPS, TARGET, desired, live, managed

ONE = desired()
OURS = TARGET.manager
IDENTITY = ("metadata", "annotations", "kapp.k14s.io/identity")
MARKS = {"kapp.k14s.io/identity": "i"}
FIELDS: dict[str, Any] = {
    "f:metadata": {"f:annotations": {"f:kapp.k14s.io/identity": {}, "f:note": {}}}
}
KAPP = managed("kapp", operation="Update", fieldsV1=FIELDS)
ALSO = managed("other", operation="Apply", fieldsV1=FIELDS)
OPTIONS = options_of(adopt=Adopt.ALL).apply


def _there(*entries: dict[str, Any], **annotations: str) -> LiveObject:
    noted = {"note": "x", "kapp.k14s.io/identity": "i", **annotations}
    return live(ONE.ref, label="", entries=list(entries), annotations=noted)


def _migration(one: LiveObject, *, adopts: bool = True) -> Migration:
    return migration_of(one, None, OPTIONS, manager=OURS, adopts=adopts)


def _after(one: LiveObject) -> LiveObject:
    """Return an object after the patch that must precede its apply."""
    request = migrate_request(CONFIG_MAPS, one, _migration(one), packed({}), OURS)
    metadata = jsonpatch.apply_patch({"metadata": one.whole_metadata}, request.operations)
    return LiveObject.of(ONE.ref, "u1", "6", metadata["metadata"])


@pytest.mark.parametrize(
    "entries",
    [[KAPP], [KAPP, ALSO], [managed("kapp", operation="Update", fields="f:data")], []],
    ids=["its tool's", "two managers'", "nobody's", "without managers"],
)
def test_mark_becomes_ours_whoever_has_it(entries: list[dict[str, Any]]) -> None:
    """And nobody else's, so that the apply removes it; the rest stays where it is."""
    before = _there(*entries)
    migration = _migration(before)
    assert has_migration(before, migration, packed({}), OURS)
    after = _after(before)
    assert IDENTITY in own_fields(after, OURS)
    others = [one.fields for one in after.writers if one.manager != OURS]
    assert not any(IDENTITY in fields for fields in others)
    assert {path for one in others for path in one.leaves()} == {
        path for one in before.writers for path in one.fields.leaves() if path != IDENTITY
    }
    assert after.annotations == before.annotations
    assert not has_migration(after, _migration(after), packed({}), OURS)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, FieldSet.of(IDENTITY)),
        ({"metadata": {"annotations": {"kapp.k14s.io/identity": None}}}, FieldSet.of(IDENTITY)),
        ({"metadata": {"annotations": MARKS}}, FieldSet()),
        ({"metadata": {"labels": MARKS}}, FieldSet.of(IDENTITY)),
    ],
    ids=["it lacks it", "null", "it sets it", "a label of this name"],
)
def test_mark_that_a_manifest_sets_does_not_go(body: dict[str, Any], expected: FieldSet) -> None:
    """With whatever value."""
    assert going_marks(_migration(_there(KAPP)), packed(body)) == expected


@pytest.mark.parametrize(
    ("now", "left"),
    [
        (_there(KAPP, note="changed"), 1),
        pytest.param(
            _there(KAPP, **{"kapp.k14s.io/identity": "of another app"}),
            0,
            marks=pytest.mark.holds("mark-of-another-owner"),
        ),
        (_there(KAPP, **{"meta.helm.sh/release-name": "web"}), 1),
        (live(ONE.ref, label="", entries=[KAPP]), 0),
    ],
    ids=["as it was", "another value", "another mark", "gone"],
)
def test_mark_goes_only_as_it_was_read(now: LiveObject, left: int) -> None:
    """Another value may be that of another owner, whom the plan has not named."""
    migration = with_marks_of(_migration(_there(KAPP)), now)
    assert len(migration.marks) == left


def test_marks_are_in_no_text_of_a_migration() -> None:
    """Their values may be copies of a Secret."""
    assert "kapp" not in repr(_migration(_there(KAPP)))


def test_marks_stay_on_what_is_not_adopted() -> None:
    """They tell then that the other tool has come after the set."""
    assert _migration(_there(KAPP), adopts=False).marks == ()


LABELS: dict[str, Any] = {
    "f:app.kubernetes.io/instance": {},
    "f:tier": {},
    "f:kapp.k14s.io/app": {},
}
NOTES: dict[str, Any] = {
    "f:kapp.k14s.io/delete-strategy": {},
    "f:kapp.k14s.io/identity": {},
    "f:note": {},
}
WRITTEN: dict[str, Any] = {
    "f:metadata": {"f:labels": LABELS, "f:annotations": NOTES},
    "f:spec": {"f:template": {"f:metadata": {"f:labels": {"f:kapp.k14s.io/app": {}, "f:x": {}}}}},
}
TEMPLATE = ("spec", "template", "metadata", "labels")
STAYS = {
    "wish-of-a-user": ("metadata", "annotations", "kapp.k14s.io/delete-strategy"),
    "label-others-select-by": ("metadata", "labels", "app.kubernetes.io/instance"),
    "mark-in-a-template": (*TEMPLATE, "kapp.k14s.io/app"),
}
GOES = [
    ("metadata", "labels", "tier"),
    ("metadata", "labels", "kapp.k14s.io/app"),
    ("metadata", "annotations", "kapp.k14s.io/identity"),
    ("metadata", "annotations", "note"),
    (*TEMPLATE, "x"),
]


def _taken(manager: str, manifest: dict[str, Any]) -> FieldSet:
    """Return what an adoption takes of a manager that has applied an object of kapp."""
    labels = {"kapp.k14s.io/app": "17", "app.kubernetes.io/instance": "i", "tier": "t"}
    entry = managed(manager, operation="Update", fieldsV1=WRITTEN)
    one = live(ONE.ref, label="", entries=[entry], annotations=MARKS, labels=labels)
    return taken(one.writers[0], _migration(one), packed(manifest))


@pytest.mark.holds("wish-of-a-user", row="wish-of-a-user")
@pytest.mark.holds("label-others-select-by", row="label-others-select-by")
@pytest.mark.holds("mark-in-a-template", row="mark-in-a-template")
@pytest.mark.parametrize("path", STAYS.values(), ids=STAYS)
def test_adoption_of_all_leaves_what_says_more_than_whose_it_is(path: tuple[str, ...]) -> None:
    """What the tool has applied becomes the set's, as what kubectl has; but for some marks."""
    found = _taken("kapp", {})
    assert path not in found
    assert [goes for goes in GOES if goes not in found] == []


@pytest.mark.parametrize("path", STAYS.values(), ids=STAYS)
def test_adoption_takes_what_the_manifest_sets(path: tuple[str, ...]) -> None:
    assert path in _taken("kapp", with_value({}, path, "v"))


def test_adoption_takes_nothing_of_a_tool_without_its_mark() -> None:
    """Another manager keeps its fields, but for the marks of the object's tool."""
    left = set(_taken("kustomize-controller", {}).leaves())
    assert left == {GOES[1], GOES[2]}
