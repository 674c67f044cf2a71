"""The state of an object in the cluster, as a read returned it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from applyprune.model.identity import Ref
from applyprune.model.problem import Problem
from applyprune.model.text.display import time_of
from applyprune.values import dataclass, field

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
    def other_name(self) -> str:
        """Return the name in its metadata if that is not the name by which it was read; else empty.

        A webhook may have changed the name while the object was created by server-side apply. The
        server then finds it by the name that was sent, and lists it under the other one.
        """
        name = str(self.metadata.get("name", self.ref.name))
        return "" if name == self.ref.name else name

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
class NotListed:
    """A list did not contain the object, or its kind does not exist yet.

    That is enough for a create-only apply, but never enough to remove an entry from the inventory.
    """


@dataclass(frozen=True, slots=True)
class Absent:
    """The proof that an object does not exist: a 404 to a GET, whose Status named that object.

    Only the client makes one; a law test keeps it so.
    """


@dataclass(frozen=True, slots=True)
class KindDeleted:
    """The proof that the CRD of the object's kind was deleted, and all objects of the kind with it.

    Only `planning.schema.served_kinds` makes one; a law test keeps it so.
    """

    @property
    def reason(self) -> str:
        """Return why there is no object, in words."""
        return "its CRD was deleted"


@dataclass(frozen=True, slots=True)
class Unknown:
    """The read failed, so the state is unknown."""

    problem: Problem
    """Why the read failed."""


Missing: TypeAlias = NotListed | Absent | KindDeleted
"""There is no object, by a proof or only by a list."""

State: TypeAlias = LiveObject | Missing | Unknown


def deleted_at(live: LiveObject) -> datetime | None:
    """Return when an object was deleted, by the server's clock; None if it was not deleted."""
    return time_of(live.metadata.get("deletionTimestamp"))
