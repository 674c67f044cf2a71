"""Letting go of an object without deleting it, as one guarded JSON patch.

Applying an object stripped to its name instead would wipe its data: fields that we alone own go
with our ownership. So the label and our managedFields entry are taken off together, and the patch
tests that the object is still the one that was read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from applyprune.planning.tracking import PART_OF

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from applyprune.model.live import Live

_LABEL = f"/metadata/labels/{PART_OF.replace('/', '~1')}"


def abandon_patch(live: Live, manager: str) -> Sequence[Mapping[str, Any]]:
    """Return the operations (RFC 6902) that take our label and our manager off ``live``."""
    # A list of one empty entry is how managedFields is emptied; an empty list is passed over.
    kept = [entry for entry in live.managed_fields if entry.get("manager") != manager] or [{}]
    operations: list[Mapping[str, Any]] = [
        {"op": "test", "path": "/metadata/uid", "value": live.uid},
        {"op": "test", "path": "/metadata/resourceVersion", "value": live.resource_version},
    ]
    if PART_OF in live.labels:
        operations.append({"op": "remove", "path": _LABEL})
    if live.managed_fields:
        # An empty list would make the server start anew with an entry for everything.
        operations.append(
            {"op": "replace", "path": "/metadata/managedFields", "value": kept or [{}]}
        )
    return operations


def release_patch(live: Live) -> Sequence[Mapping[str, Any]]:
    """Return the operations that take another set's label off ``live``, so that ours can go on it.

    That set's manager owns the label; without this every take-over would be a conflict about it.
    Its next run finds its label gone, or ours in its place, and deletes nothing.
    """
    return [
        {"op": "test", "path": "/metadata/uid", "value": live.uid},
        {"op": "test", "path": _LABEL, "value": live.labels[PART_OF]},
        {"op": "remove", "path": _LABEL},
    ]
