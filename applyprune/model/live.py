"""The state of an object in the cluster, as a read returned it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from applyprune.model.identity import Ref
from applyprune.model.problem import Problem
from applyprune.model.text.display import time_of
from applyprune.values import Packed, dataclass, field, packed, shared

if TYPE_CHECKING:
    from datetime import datetime


_MANAGERS = "managedFields"


@dataclass(frozen=True, slots=True)
class LiveObject:
    """An object that exists."""

    ref: Ref
    uid: str
    resource_version: str
    generation: int | None
    """``metadata.generation``; many kinds have none."""
    terminating: bool
    """Whether it was deleted and only its finalizers keep it."""
    own_name: str
    """The name in its metadata."""
    packed_metadata: Packed = field(hash=False, repr=False)
    """Its metadata without ``managedFields``."""
    packed_managers: Packed = field(hash=False, repr=False)
    """``managedFields``, which many objects of a kind have in common; a list, perhaps empty."""
    packed_body: Packed | None = field(hash=False, repr=False)
    """The whole object; None if only its metadata was read."""

    @classmethod
    def of(
        cls,
        ref: Ref,
        uid: str,
        resource_version: str,
        metadata: Mapping[str, Any],
        body: Mapping[str, Any] | None = None,
    ) -> Self:
        """Return an object by its metadata, as a response has it, and by the whole if it has it."""
        generation = metadata.get("generation")
        return cls(
            ref,
            uid,
            resource_version,
            generation if isinstance(generation, int) else None,
            bool(metadata.get("deletionTimestamp")),
            str(metadata.get("name", ref.name)),
            packed({key: value for key, value in metadata.items() if key != _MANAGERS}),
            shared(packed(metadata.get(_MANAGERS) or [])),
            None if body is None else packed(body),
        )

    @property
    def other_name(self) -> str:
        """Return the name in its metadata if that is not the name by which it was read; else empty.

        A webhook may have changed the name while the object was created by server-side apply. The
        server then finds it by the name that was sent, and lists it under the other one.
        """
        return "" if self.own_name == self.ref.name else self.own_name

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Return its metadata without ``managedFields``."""
        found: Mapping[str, Any] = self.packed_metadata.value
        return found

    @property
    def whole_metadata(self) -> Mapping[str, Any]:
        """Return its metadata as the response had it, with ``managedFields``."""
        managers = self.managed_fields
        return {**self.metadata, _MANAGERS: list(managers)} if managers else self.metadata

    @property
    def body(self) -> Mapping[str, Any] | None:
        """Return the whole object; None if only its metadata was read."""
        return None if self.packed_body is None else self.packed_body.value

    @property
    def labels(self) -> Mapping[str, str]:
        """Return the labels; empty if there are none."""
        return self.metadata.get("labels") or {}

    @property
    def annotations(self) -> Mapping[str, str]:
        """Return the annotations; empty if there are none."""
        return self.metadata.get("annotations") or {}

    @property
    def finalizers(self) -> tuple[str, ...]:
        """Return the finalizers, which a deletion waits for."""
        return tuple(self.metadata.get("finalizers") or ())

    @property
    def managed_fields(self) -> tuple[Mapping[str, Any], ...]:
        """Return the managedFields entries in the server's order."""
        return tuple(self.packed_managers.value)


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
