"""Fields that others lose: to the set, or with an object that is deleted."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.fate import Fate
from applyprune.planning.applyset import LAST_APPLIED, OWNED_BY
from tests.support.consequences import change, found, told
from tests.support.planning import TARGET, managed

DATA: dict[str, Any] = {"f:data": {"f:key": {}, "f:stale": {}}}
LABEL: dict[str, Any] = {"f:metadata": {"f:labels": {"f:team": {}}}}
MARKS: dict[str, Any] = {
    "f:metadata": {"f:annotations": {f"f:{LAST_APPLIED}": {}, f"f:{OWNED_BY}": {}}}
}
TOOL: dict[str, Any] = {"f:metadata": {"f:annotations": {"f:config.k8s.io/owning-inventory": {}}}}
FINALIZER: dict[str, Any] = {"f:metadata": {"f:finalizers": {'v:"x/y"': {}}}}
BEFORE = {"data": {"key": "v", "stale": "1"}}
MANIFEST = {"data": {"key": "v"}}
REMOVED = "fields-lost: 1 field of {} {} removed, because the manifest lacks it: .data.stale"
UNCERTAIN = "fields-lost: 1 field of x may be removed, because the manifest lacks it: "
GONE = "fields-lost: {} lost with the object: {}"


def _by(manager: str, fields: object, operation: str = "Update", **parts: Any) -> dict[str, Any]:
    return managed(manager, operation=operation, fieldsV1=fields, **parts)


Case = tuple[Fate, list[dict[str, Any]], dict[str, Any] | None, list[str]]
CASES: dict[str, Case] = {
    "an adoption": (
        Fate.ADOPT,
        [_by("x", DATA), _by("y", LABEL)],
        MANIFEST,
        [REMOVED.format("x", "is")],
    ),
    "a take-over": (Fate.CHANGE, [_by("x", DATA)], MANIFEST, [REMOVED.format("x", "is")]),
    "an unchecked one": (Fate.CHANGE, [_by("x", DATA)], None, [REMOVED.format("x", "may be")]),
    "what somebody else has too": (Fate.CHANGE, [_by("x", DATA), _by("y", DATA)], None, []),
    "what stays": (Fate.ADOPT, [_by("x", DATA)], BEFORE, []),
    "our marks": (Fate.ADOPT, [_by("x", MARKS)], None, []),
    "marks of its tool": (Fate.ADOPT, [_by("x", TOOL)], None, []),
    "marks of a tool on an object of the set": (
        Fate.CHANGE,
        [_by("x", TOOL)],
        None,
        [UNCERTAIN + ".metadata.annotations.config.k8s.io/owning-inventory"],
    ),
    "a finalizer is never taken": (Fate.ADOPT, [_by("x", FINALIZER)], None, []),
    "a subresource": (Fate.ADOPT, [_by("x", DATA, subresource="scale")], None, []),
    "a recreation": (
        Fate.RECREATE,
        [_by("y", DATA), _by("z", LABEL)],
        None,
        [
            GONE.format("1 field of y is", ".data.stale"),
            GONE.format("1 field of z is", ".metadata.labels.team"),
        ],
    ),
    "a recreation, of Kubernetes": (
        Fate.RECREATE,
        [_by("kube-controller-manager", DATA), _by(TARGET.yielded, DATA)],
        None,
        [],
    ),
    "a prune of what others apply": (
        Fate.PRUNE,
        [_by("y", DATA, "Apply")],
        None,
        [GONE.format("2 fields of y are", ".data.key, .data.stale")],
    ),
    "a prune of what others have written": (Fate.PRUNE, [_by("y", DATA)], None, []),
    "an orphan": (Fate.LEAVE, [_by("x", DATA)], None, []),
}


@pytest.mark.parametrize("name", CASES)
def test_lost_fields_name_their_manager(name: str) -> None:
    """What the manifest has too stays, and nobody declares a status."""
    fate, entries, after, expected = CASES[name]
    changed = change(
        "ConfigMap",
        fate=fate,
        before=BEFORE,
        manifest=MANIFEST,
        after=after,
        taken=frozenset({"x"}),
        managedFields=entries,
        annotations={"config.k8s.io/owning-inventory": "x"},
    )
    there = told(found(changed))
    assert [one for one in there if one.startswith("fields-lost")] == expected
