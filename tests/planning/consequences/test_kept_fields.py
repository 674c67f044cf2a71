"""Fields that an adopted object keeps, and who has written them."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.fate import Fate
from tests.support.consequences import change, found, told
from tests.support.planning import managed

DATA: dict[str, Any] = {"f:data": {".": {}, "f:key": {}, "f:stale": {}}}
STATUS: dict[str, Any] = {"f:status": {"f:phase": {}}}
MANIFEST = {"data": {"key": "v"}}


def _by(manager: str, fields: object, **parts: Any) -> dict[str, Any]:
    return managed(manager, operation="Update", fieldsV1=fields, **parts)


KEPT = (
    "fields-kept: 1 field of kubectl-edit, which the manifest lacks, is kept: .data.stale; "
    "--take-over kubectl-edit removes them"
)
CASES: dict[str, tuple[Fate, list[dict[str, Any]], list[str]]] = {
    "by hand": (Fate.ADOPT, [_by("kubectl-edit", DATA)], [KEPT]),
    "by a controller": (
        Fate.ADOPT,
        [_by("some-operator", {"f:data": {"f:a": {}, "f:b": {}, "f:c": {}, "f:d": {}}})],
        [
            (
                "fields-kept: 4 fields of some-operator, which the manifest lacks, are kept: "
                ".data.a, .data.b, .data.c and 1 more"
            )
        ],
    ),
    "by two": (
        Fate.ADOPT,
        [_by("kubectl-edit", DATA), _by("z", {"f:data": {"f:y": {}}})],
        [KEPT, "fields-kept: 1 field of z, which the manifest lacks, is kept: .data.y"],
    ),
    "in the manifest": (Fate.ADOPT, [_by("kubectl-edit", {"f:data": {"f:key": {}}})], []),
    "of the status": (Fate.ADOPT, [_by("some-operator", STATUS)], []),
    "of a subresource": (Fate.ADOPT, [_by("some-operator", DATA, subresource="scale")], []),
    "of Kubernetes": (Fate.ADOPT, [_by("kube-controller-manager", DATA)], []),
    "of an orphaned object": (Fate.ADOPT, [_by("applyprune-orphaned", DATA)], []),
    "not adopted": (Fate.CHANGE, [_by("kubectl-edit", DATA)], []),
}


@pytest.mark.parametrize("name", CASES)
def test_kept_fields_name_their_manager(name: str) -> None:
    """And how to remove them, if a person has written them."""
    fate, entries, expected = CASES[name]
    adopted = change("ConfigMap", fate=fate, manifest=MANIFEST, managedFields=entries)
    assert told(found(adopted)) == expected
