"""Find the fields that a manifest sets and another manager owns; choose the drift to revert."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from applyprune.model.fieldset import MISSING, Path, leaves, to_pointer, value_at
from applyprune.model.plan import OnConflict
from applyprune.planning.applyset import PART_OF
from applyprune.planning.fields.normalize import sent
from applyprune.planning.ownership.conflicts import is_drift, settled_first
from applyprune.planning.ownership.default_rules import REPLICAS

if TYPE_CHECKING:
    from applyprune.model.inventory import InventoryEntry
    from applyprune.model.live import LiveObject
    from applyprune.model.plan import Desired, Migration
    from applyprune.planning.applyset import ApplySetIdentity

_LABEL: Path = ("metadata", "labels", PART_OF)


def shared_fields(
    desired: Desired, live: LiveObject, migration: Migration, applyset: ApplySetIdentity
) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield each field that a manifest sets and another manager owns, with that manager's entry.

    What changes hands before the apply is left out, and everything if the manifest itself says what
    to do on a conflict.
    """
    if desired.conflicts is not OnConflict.FAIL:
        return
    body = sent(desired)
    for entry in _others(live, migration, applyset):
        for path in leaves(entry.get("fieldsV1") or {}):
            if path != _LABEL and value_at(body, path) is not MISSING:
                yield path, entry


def _others(
    live: LiveObject, migration: Migration, applyset: ApplySetIdentity
) -> Iterator[Mapping[str, Any]]:
    """Yield the entries of other managers, without the status and what changes hands first."""
    settled = {applyset.manager, *settled_first(live, migration, applyset)}
    for entry in live.managed_fields:
        if entry.get("manager") not in settled and entry.get("subresource") != "status":
            yield entry


def last_owned(entry: InventoryEntry) -> Mapping[str, Any]:
    """Return the fields that the set's last confirmed apply owned."""
    return _fields(entry.owned_fields or "{}")


# Most objects of a kind own the same fields.
@lru_cache(64)
def _fields(text: str) -> Mapping[str, Any]:
    fields: Mapping[str, Any] = json.loads(text)
    return fields


def drift_to_revert(
    desired: Desired,
    live: LiveObject,
    entry: InventoryEntry,
    migration: Migration,
    applyset: ApplySetIdentity,
) -> tuple[tuple[str, str], ...]:
    """Return the drifted fields that a forced apply would set back, each with who has changed it.

    A field is its JSON pointer. Force takes every field that a request sets to another value, so
    there is nothing to return if one of them is in a real conflict, or if ``live`` was not read in
    full.
    """
    if live.body is None:
        return ()
    owned, body = last_owned(entry), sent(desired)
    version = desired.resource.gvk.api_version
    if any(_is_elsewhere(other, version) for other in _others(live, migration, applyset)):
        return ()  # guard: other-version
    found = []
    for path, other in shared_fields(desired, live, migration, applyset):
        if value_at(body, path) == value_at(live.body, path):
            continue  # both own the same value afterwards
        if not is_drift(owned, path, str(other.get("operation", ""))):
            return ()  # guard: real-conflict
        if desired.is_scaling_unknown and to_pointer(path) == REPLICAS:
            return ()  # guard: unread-autoscalers
        found.append((to_pointer(path), str(other.get("manager", ""))))
    return tuple(sorted(found))


def _is_elsewhere(entry: Mapping[str, Any], version: str) -> bool:
    """Return whether a manager owns fields in another API version: they cannot be compared.

    The metadata is the same in each version.
    """
    fields = (entry.get("fieldsV1") or {}).keys() - {"f:metadata", "f:status"}
    return bool(fields) and entry.get("apiVersion") != version


def drifted_fields(reverts: Sequence[tuple[str, str]]) -> str:
    """Return drifted fields in words: ``2 fields that kubectl-patch had changed``."""
    fields = "1 field" if len(reverts) == 1 else f"{len(reverts)} fields"
    return f"{fields} that {' and '.join(sorted({who for _, who in reverts}))} had changed"
