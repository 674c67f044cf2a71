"""Rewrite the API versions in managedFields that are no longer served.

An entry keeps the version in which its manager has written. Once a CRD no longer serves it, the
server cannot convert the object to it, and refuses every apply of every manager. The rewritten
entry keeps its manager and its fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.model.fieldset import united
from applyprune.planning.ownership.managed_fields import guarded_patch

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

    from applyprune.model.live import LiveObject
    from applyprune.model.plan import Desired
    from applyprune.planning.ownership.managed_fields import Managers, Operations


_IDENTITY = ("manager", "operation", "subresource", "apiVersion")


def dead_versions(live: LiveObject, served: Collection[str]) -> frozenset[str]:
    """Return the API versions in managedFields of a custom resource that are not served.

    ``served`` are the API versions of its kind; if they are unknown, nothing is dead.
    """
    if not served:
        return frozenset()
    group = live.ref.group
    written = {str(entry.get("apiVersion", "")) for entry in live.managed_fields}
    return frozenset(
        version
        for version in written
        if version.startswith(f"{group}/") and version not in served  # guard: served-version
    )


def version_patch(live: LiveObject, dead: Collection[str], api_version: str) -> Operations:
    """Return the operations that rewrite these API versions; nothing else changes."""
    return guarded_patch(live, live.labels, _rewritten(live.managed_fields, dead, api_version))


def with_versions(
    state: Mapping[str, Any], live: LiveObject, desired: Desired
) -> Mapping[str, Any]:
    """Return a state of ``live`` whose managedFields the server can read."""
    dead = dead_versions(live, desired.versions)
    managers = _rewritten(live.managed_fields, dead, desired.resource.gvk.api_version)
    return {**state, "metadata": {**state["metadata"], "managedFields": managers}}


def _rewritten(managers: Managers, dead: Collection[str], api_version: str) -> Managers:
    found: dict[tuple[object, ...], Mapping[str, Any]] = {}
    for entry in managers:
        fresh = {**entry, "apiVersion": api_version} if entry.get("apiVersion") in dead else entry
        # Of two entries with the same of these, the server would drop the fields of one.
        key = tuple(fresh.get(name) for name in _IDENTITY)
        # guard: two-entries-of-a-manager
        if (same := found.get(key)) is not None:
            both = united(same.get("fieldsV1") or {}, fresh.get("fieldsV1") or {})
            fresh = {**same, **fresh, "fieldsV1": both}
        found[key] = fresh
    return list(found.values())
