"""Versions of a CRD in which objects may be stored."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.fate import Fate
from tests.support.consequences import change, found, told

Body = dict[str, Any]


def _crd(*stored: str, **versions: str) -> Body:
    """Return a CRD; each version is ``S`` if stored, ``s`` if served, ``-`` if neither."""
    listed = [
        {"name": name, "served": mark in "sS", "storage": mark in "S+"}
        for name, mark in versions.items()
    ]
    status = {"status": {"storedVersions": list(stored)}} if stored else {}
    return {"spec": {"versions": listed}, **status}


REFUSED = (
    "version-refused: the server rejects it: objects may be stored in v1, which it lacks; migrate "
    "them, then remove the version from status.storedVersions"
)
BEFORE = _crd("v1", v1="S", v2="s")
CASES: dict[str, tuple[Body, Body, list[str]]] = {
    "nothing": (BEFORE, _crd(v1="S", v2="s"), []),
    "a new version": (BEFORE, _crd(v1="S", v2="s", v3="s"), []),
    "without the stored version": (
        BEFORE,
        _crd(v2="S"),
        [REFUSED],
    ),
    "without a version that was never stored": (BEFORE, _crd(v1="S"), []),
    "another storage version": (
        BEFORE,
        _crd(v1="s", v2="S"),
        [
            (
                "version-not-stored: objects stored in v1 stay in it until they are written again; "
                "new objects are stored in v2"
            )
        ],
    ),
    "no longer served": (
        BEFORE,
        _crd(v1="+", v2="s"),
        [
            (
                "version-not-served: objects may be stored in v1, no longer served: "
                "their objects are served in v2"
            )
        ],
    ),
    "nothing served": (
        _crd("v1", v1="S"),
        _crd(v1="+"),
        [
            (
                "version-not-served: objects may be stored in v1, no longer served: "
                "no version is served, so its objects cannot be read"
            )
        ],
    ),
    "neither stored nor served": (
        BEFORE,
        _crd(v1="-", v2="S"),
        [
            (
                "version-not-served: objects may be stored in v1, no longer served: "
                "their objects are served in v2"
            ),
            (
                "version-not-stored: objects stored in v1 stay in it until they are written again; "
                "new objects are stored in v2"
            ),
        ],
    ),
    "a version that was stored once": (
        _crd("v1", "v2", v1="s", v2="S"),
        _crd(v2="S"),
        [REFUSED],
    ),
}


@pytest.mark.parametrize(("before", "after", "expected"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("checked", [True, False])
def test_stored_version_is_missed(
    before: Body, after: Body, expected: list[str], *, checked: bool
) -> None:
    """The manifest says as much as the server: it lists all versions."""
    result, manifest = (after, None) if checked else (None, after)
    kind = "CustomResourceDefinition"
    caused = found(change(kind, "foos.x", before=before, after=result, manifest=manifest))
    assert told(caused) == expected


def test_unread_or_deleted_crd_has_no_stored_versions() -> None:
    """A CRD that is deleted loses all its objects anyway."""
    kind = "CustomResourceDefinition"
    assert found(change(kind, "foos.x", manifest=_crd(v2="S"))) == []
    assert found(change(kind, "foos.x", Fate.PRUNE, before=BEFORE)) == []


def test_crd_that_the_server_refuses_is_explained() -> None:
    """It changes nothing, so nothing else is said."""
    kind = "CustomResourceDefinition"
    for versions, expected in ((_crd(v2="S"), [REFUSED]), (_crd(v1="s", v2="S"), [])):
        one = change(kind, "foos.x", Fate.REFUSE, before=BEFORE, manifest=versions)
        assert told(found(one)) == expected
