"""A conflict in words: both values, whose the field is, since when, and the ways out."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from applyprune.errors import Conflict, Invalid
from applyprune.model.fate import Fate
from applyprune.model.live import LiveObject
from applyprune.model.options import Adopt, Conflicts, Options
from applyprune.model.plan import ApplyStep, Desired, Migration, OnConflict
from applyprune.planning.applyset import PART_OF, applyset_identity
from applyprune.planning.conflicts import (
    conflicting_managers,
    excluding_fields,
    explain_conflict,
    forces,
    migrated_first,
    skip_reason,
    steps_of,
)
from applyprune.planning.managed_fields import UNKNOWN
from applyprune.values import replace
from tests.support.actors import ARGO
from tests.support.options import options_of
from tests.support.planning import DEPLOYMENTS, SECRETS, TARGET, body, desired, live, recorded
from tests.support.planning import managed as entry

DEPLOYMENT = desired(
    body(
        "Deployment",
        metadata={"labels": {"app.kubernetes.io/name": "a"}},
        spec={
            "replicas": 3,
            "template": {"spec": {"containers": [{"name": "c", "image": "web:1"}]}},
        },
    ),
    DEPLOYMENTS,
)
IMAGE = '.spec.template.spec.containers[name="c"].image'
SHOP = applyset_identity("shop", "home")


def cause(field: str, manager: str, rest: str = "") -> dict[str, str]:
    """Return one of the causes of a 409, as the API server words it."""
    message = f'conflict with "{manager}"{rest}'
    return {"reason": "FieldManagerConflict", "field": field, "message": message}


def conflict(*causes: dict[str, str]) -> Conflict:
    return Conflict("Apply failed with 1 conflict", code=409, causes=causes)


def _there(one: Desired = DEPLOYMENT, **changes: Any) -> LiveObject:
    spec = {**one.body.get("spec", {}), **changes}
    return live(one.ref, full={**one.body, "spec": spec}, entries=[entry(ARGO)])


def _told(
    *causes: dict[str, str],
    one: Desired = DEPLOYMENT,
    there: LiveObject | None = None,
) -> str:
    return explain_conflict(
        conflict(*causes), one, there or _there(replicas=5), TARGET, reverts=False
    ).reason


SCALE = cause(
    ".spec.replicas",
    "kube-controller-manager",
    ' with subresource "scale" using apps/v1 at 2026-11-21T11:59:48Z',
)


LINES: dict[str, tuple[dict[str, str], str]] = {
    "a write to a subresource": (
        SCALE,
        (
            ".spec.replicas: theirs 5 → ours 3, owned by kube-controller-manager (Update of scale, "
            "2026-11-21T11:59:48Z)"
        ),
    ),
    "an Apply, whose time is in managedFields": (
        cause(".spec.replicas", ARGO),
        f"owned by {ARGO} (Apply, 2026-11-21T10:00:00Z)",
    ),
    "an Apply that managedFields does not hold": (
        cause(".spec.replicas", "gone"),
        "theirs 5 → ours 3, owned by gone (Apply)",
    ),
    "nobody knows": (
        {"reason": "", "field": ".spec.replicas", "message": f'conflict with "{UNKNOWN}"'},
        f"owned by {UNKNOWN} (managedFields do not say who)",
    ),
    "a message in other words": (
        {"reason": "FieldManagerConflict", "field": ".spec.replicas", "message": "no"},
        ".spec.replicas: theirs 5 → ours 3, owned by another manager",
    ),
    "a field that cannot be found": (
        cause(".spec.what.is.this", "x"),
        ".spec.what.is.this: owned by x (Apply)",
    ),
    "a label with dots": (
        cause(".metadata.labels.app.kubernetes.io/name", "x"),
        '.metadata.labels.app.kubernetes.io/name: theirs "a" → ours "a", owned by x (Apply)',
    ),
}


@pytest.mark.parametrize("name", LINES)
def test_conflict_has_a_line_per_field(name: str) -> None:
    """The field as kubectl prints it, both values, the manager, how and when."""
    one, expected = LINES[name]
    assert _told(one).endswith(expected)


def test_two_fields_and_two_managers_are_one_problem() -> None:
    """Sorted by field; a field of two managers is one line."""
    why = _told(SCALE, cause(IMAGE, "b"), cause(IMAGE, "a"))
    first, *lines = why.splitlines()
    assert first == "other field managers own 2 of its fields"
    assert len(lines) == 2
    assert "owned by kube-controller-manager" in lines[0]
    assert "owned by b (Apply) and a (Apply)" in lines[1]


def test_hint_has_the_ways_out() -> None:
    """The pointers are those of just these fields."""
    error = conflict(SCALE, cause(IMAGE, "b"))
    worded = explain_conflict(error, DEPLOYMENT, None, TARGET, reverts=False)
    pointers = '/spec/replicas,/spec/template/spec/containers[name="c"]/image'
    assert worded.hint.startswith(
        "To leave it to its owner, remove it from the manifest, or annotate the object:\n"
        f"    applyprune.dev/ignore-fields: {pointers}\n  To skip"
    )
    assert worded.hint.endswith("--take-over b")
    assert "--conflicts revert" not in worded.hint
    assert (
        "--conflicts revert" in explain_conflict(error, DEPLOYMENT, None, TARGET, reverts=True).hint
    )


@pytest.mark.parametrize(
    ("there", "adopts", "is_anothers"),
    [
        (live(DEPLOYMENT.ref, entries=[entry(SHOP.manager)]), False, False),
        (live(DEPLOYMENT.ref, label="", entries=[entry(SHOP.manager)]), True, True),
        (live(DEPLOYMENT.ref, label="", entries=[entry(TARGET.manager)]), True, False),
    ],
)
def test_hint_about_an_object_without_a_set(
    there: LiveObject, adopts: bool, is_anothers: bool
) -> None:
    """Its creator may be taken over; one that another set has applied needs ``--adopt=all``."""
    error = conflict(cause(IMAGE, "kubectl-create", " using v1"))
    hint = explain_conflict(error, DEPLOYMENT, there, TARGET, reverts=False).hint
    assert ("--take-over kubectl-create" in hint) is adopts
    assert ("--adopt=all and --conflicts force" in hint) is is_anothers


def test_hint_leaves_nothing_to_others_that_the_set_must_own() -> None:
    """The set's own label cannot be ignored; to leave only other fields resolves nothing."""
    label = cause(f".metadata.labels.{PART_OF}", "kubectl-label", " using apps/v1")
    one = desired(body(metadata={"labels": {PART_OF: TARGET.id}}, data={"k": "v"}))
    for causes in ([label], [label, cause(".data.k", "x")]):
        hint = explain_conflict(conflict(*causes), one, None, TARGET, reverts=False).hint
        assert hint.startswith("To skip this object")
        assert "--conflicts force" in hint
        assert "applyprune.dev/ignore-fields" not in hint


def test_unread_values_are_not_mentioned() -> None:
    """A GET that failed makes it poorer, not wrong."""
    why = explain_conflict(conflict(SCALE), DEPLOYMENT, None, TARGET, reverts=False).reason
    assert ".spec.replicas: ours 3, owned by" in why


def test_values_are_cut_and_printable() -> None:
    """No control sequence of a terminal, and no novel."""
    one = desired(body(data={"k": "x" * 500}))
    there = live(one.ref, full=body(data={"k": "\x1b[31mred\u202e"}))
    why = _told(cause(".data.k", "x"), one=one, there=there)
    assert f'theirs "\\u001b[31mred\\u202e" → ours "{"x" * 59}…' in why


def test_at_most_twenty_fields_are_listed() -> None:
    """A manifest of a thousand keys is not printed."""
    one = desired(body(data={f"k{number:03}": "x" for number in range(30)}))
    why = _told(*(cause(f".data.k{number:03}", "x") for number in range(30)), one=one)
    assert len(why.splitlines()) == 22
    assert "and 10 more" in why


@pytest.mark.parametrize("part", ["data", "stringData"])
def test_secret_values_are_never_shown(part: str) -> None:
    """Neither ours nor theirs, neither raw nor encoded; of no field."""
    ours, theirs = "hunter2-ours", "hunter2-theirs"
    encoded = [base64.b64encode(value.encode()).decode() for value in (ours, theirs)]
    mine = {"key": ours if part == "stringData" else encoded[0]}
    raw = {**body("Secret", metadata={"annotations": {"n": ours}}), part: mine}
    one = desired(raw, SECRETS)
    there = live(
        one.ref, full=body("Secret", metadata={"annotations": {"n": theirs}}, data={"key": theirs})
    )
    error = conflict(cause(".data.key", "x"), cause(".metadata.annotations.n", "x"))
    told = str(explain_conflict(error, one, there, TARGET, reverts=False))
    assert told.count("theirs (secret) → ours (secret)") == 2
    assert not [value for value in (ours, theirs, *encoded) if value in told]


def test_short_form_names_the_managers() -> None:
    error = conflict(SCALE, cause(IMAGE, 'a \\"b\\"'))
    assert conflicting_managers(error) == {"kube-controller-manager", 'a \\"b\\"'}


def test_skip_is_decided() -> None:
    """A conflict about fields, in an object that asks for it, and nothing else."""
    one = replace(DEPLOYMENT, conflicts=OnConflict.SKIP)
    words = "applyprune.dev/conflicts: skip, and .spec.replicas is owned by kube-controller-manager"
    assert skip_reason(one, conflict(SCALE)) == words
    assert not skip_reason(DEPLOYMENT, conflict(SCALE))
    assert not skip_reason(replace(one, conflicts=OnConflict.FORCE), conflict(SCALE))
    assert not skip_reason(one, Conflict("a precondition", code=409))
    assert not skip_reason(one, Invalid("no", code=422))


OURS = live(DEPLOYMENT.ref)
UNLABELLED = live(DEPLOYMENT.ref, label="", entries=[entry(SHOP.manager)])
FORCED = options_of(conflicts=Conflicts.FORCE)


@pytest.mark.parametrize(
    ("rule", "there", "options", "expected"),
    [
        (OnConflict.UNSET, OURS, Options(), False),
        (OnConflict.UNSET, OURS, FORCED, True),
        (OnConflict.UNSET, None, FORCED, True),
        (OnConflict.FAIL, OURS, FORCED, False),
        (OnConflict.FAIL, OURS, options_of(drift_only=True), True),
        (OnConflict.REVERT, OURS, FORCED, False),
        (OnConflict.FORCE, OURS, Options(), True),
        (OnConflict.SKIP, OURS, FORCED, False),
        (OnConflict.FORCE, UNLABELLED, Options(), False),
        (OnConflict.UNSET, UNLABELLED, FORCED, False),
        (OnConflict.FORCE, UNLABELLED, options_of(adopt=Adopt.ALL), True),
        (OnConflict.FORCE, live(DEPLOYMENT.ref, label="", entries=[]), Options(), True),
        (OnConflict.FORCE, live(DEPLOYMENT.ref, label=""), Options(), True),
    ],
)
def test_force_is_decided(
    rule: OnConflict, there: LiveObject | None, options: Options, expected: bool
) -> None:
    """The manifest before the option, and nothing that another set may still list."""
    one = replace(DEPLOYMENT, conflicts=rule)
    assert forces(one, there, options, TARGET) is expected


def test_managers_migrated_before_the_apply_are_no_conflict() -> None:
    """Our second manager, those that are migrated, and that of a set from which it is taken."""
    step = ApplyStep(DEPLOYMENT, Fate.CHANGE, recorded(DEPLOYMENT, OURS), OURS)
    assert migrated_first(step.live, step.migration, TARGET) == {TARGET.yielded}
    theirs = live(DEPLOYMENT.ref, label=SHOP.id, entries=[entry(SHOP.manager)])
    migration = Migration(whole=frozenset({("helm", "Update")}))
    assert migrated_first(theirs, migration, TARGET) == {TARGET.yielded, "helm", SHOP.manager}


PLACES: dict[str, tuple[str, dict[str, Any], bool]] = {
    "a key": ("data.a", {"f:data": {"f:a": {}}}, True),
    "another key": ("data.b", {"f:data": {"f:a": {}}}, False),
    "a key of digits": ("data[0]", {"f:data": {"f:0": {}}}, True),
    "a word where a number is": ("data[0]", {"f:data": {"f:a": {}}}, False),
    "an item, whichever": (
        "spec.ports[1].name",
        {"f:spec": {"f:ports": {'k:{"port":80}': {"f:name": {}}}}},
        True,
    ),
    "what is above": ("data[0]", {"f:data": {}}, True),
}


@pytest.mark.parametrize("name", PLACES)
def test_field_that_the_server_names_is_found_in_what_others_own(name: str) -> None:
    """It writes the index of an item and a key of digits alike, and nobody's key may be missed."""
    field, fields, is_there = PLACES[name]
    state = live(desired().ref, entries=[{**entry("opponent"), "fieldsV1": fields}])
    found = excluding_fields(state, [steps_of(field)], TARGET.manager)
    assert [writer.manager for _, writer in found] == ["opponent"] * is_there
