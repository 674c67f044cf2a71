"""The state of an object in the cluster, as a read returned it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from applyprune.model.display import time_of
from applyprune.model.identity import Ref
from applyprune.model.problem import Problem

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class LiveObject:
    """An object that exists."""

    ref: Ref
    uid: str
    resource_version: str
    metadata: Mapping[str, Any] = field(hash=False, repr=False)
    body: Mapping[str, Any] | None = field(default=None, hash=False, repr=False)
    """The whole object; None if only its metadata was read."""

    @property
    def generation(self) -> int | None:
        """Return ``metadata.generation``; many kinds have none."""
        value = self.metadata.get("generation")
        return value if isinstance(value, int) else None

    @property
    def labels(self) -> Mapping[str, str]:
        """Return the labels; empty if there are none."""
        return self.metadata.get("labels") or {}

    @property
    def annotations(self) -> Mapping[str, str]:
        """Return the annotations; empty if there are none."""
        return self.metadata.get("annotations") or {}

    @property
    def terminating(self) -> bool:
        """Return whether it was deleted and only its finalizers keep it."""
        return bool(self.metadata.get("deletionTimestamp"))

    @property
    def finalizers(self) -> tuple[str, ...]:
        """Return the finalizers, which a deletion waits for."""
        return tuple(self.metadata.get("finalizers") or ())

    @property
    def managed_fields(self) -> tuple[Mapping[str, Any], ...]:
        """Return the managedFields entries in the server's order."""
        return tuple(self.metadata.get("managedFields") or ())


class WatchEventType(StrEnum):
    """The type of a watch event."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    # Deleted, or no longer selected by the watch: then the object exists, but its labels changed.
    DELETED = "DELETED"
    # The progress of the watch, without an object.
    BOOKMARK = "BOOKMARK"


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One event of a watch."""

    kind: WatchEventType
    live: LiveObject
    """The object, read in full, or its last state before the deletion.

    For a BOOKMARK, only its resourceVersion is valid: name and UID are empty.
    """


@dataclass(frozen=True, slots=True)
class Absent:
    """No object with that name."""

    proven: bool = False
    """Whether a Status NotFound named the object, which is the only proof of absence.

    Otherwise a list did not contain it. That is enough for a create-only apply, but never enough to
    remove an entry from the inventory.
    """


@dataclass(frozen=True, slots=True)
class Unknown:
    """The read failed, so the state is unknown."""

    problem: Problem
    """Why the read failed."""


State: TypeAlias = LiveObject | Absent | Unknown


def deleted_at(live: LiveObject) -> datetime | None:
    """Return when an object was deleted, by the server's clock; None if it was not deleted."""
    return time_of(live.metadata.get("deletionTimestamp"))
