"""Find the versions in which objects may be stored, and that a changed CRD serves no longer.

``status.storedVersions`` lists every version in which the server has ever stored an object, until
somebody migrates the objects and removes the version from that list.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from applyprune.model.live import CRD, items, mapping, text
from applyprune.model.plan import Consequence, ConsequenceKind, Fate
from applyprune.planning.consequences.facts import Change

_Versions = Mapping[str, Mapping[str, Any]]


def stored_versions(change: Change) -> Iterator[Consequence]:
    """Yield what happens to the versions of a changed CRD in which objects may be stored."""
    before = change.before
    if before is None or not may_lose_versions(change):
        return
    old, new = (
        _versions(items(before, "spec", "versions")),
        _versions(change.value("spec", "versions")),
    )
    stored = [str(name) for name in items(before, "status", "storedVersions")] if new else []
    if missing := [name for name in stored if name not in new]:
        yield Consequence(
            ConsequenceKind.VERSION_REFUSED,
            change.ref,
            f"the server rejects it: objects may be stored in {_listed(missing)}, which it lacks; "
            "migrate them, then remove the version from status.storedVersions",
        )
        return
    if change.fate is Fate.REFUSE:
        return
    served = [name for name, version in new.items() if version.get("served") is True]
    unserved = [name for name in stored if _is(old, name, "served") and name not in served]
    if unserved:
        where = f"their objects are served in {_listed(served)}"
        if not served:
            where = "no version is served, so its objects cannot be read"
        message = f"objects may be stored in {_listed(unserved)}, no longer served: {where}"
        yield Consequence(ConsequenceKind.VERSION_NOT_SERVED, change.ref, message)
    for name in stored:
        if _is(old, name, "storage") and not _is(new, name, "storage"):
            message = (
                f"objects stored in {name} stay in it until they are written again; new objects "
                f"are stored in {_listed([each for each in new if _is(new, each, 'storage')])}"
            )
            yield Consequence(ConsequenceKind.VERSION_NOT_STORED, change.ref, message)


def may_lose_versions(change: Change) -> bool:
    """Return whether a live CRD changes; one that the server refuses to change counts as well."""
    return change.kind == CRD and (change.is_changed or change.fate is Fate.REFUSE)


def _versions(found: object) -> _Versions:
    listed: Sequence[object] = found if isinstance(found, list | tuple) else ()
    return {text(mapping(item), "name"): mapping(item) for item in listed}


def _is(versions: _Versions, name: str, what: str) -> bool:
    return versions.get(name, {}).get(what) is True


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)
