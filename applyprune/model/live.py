"""The side of the cluster: what a read said of one object."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from applyprune.model.display import time_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from applyprune.model.identity import Ref
    from applyprune.model.problem import Problem


@dataclass(frozen=True, slots=True)
class LiveObject:
    """An object that exists, by its metadata; ``body`` is there only when it was read in full."""

    ref: Ref
    uid: str
    resource_version: str
    metadata: Mapping[str, Any] = field(hash=False, repr=False)
    body: Mapping[str, Any] | None = field(default=None, hash=False, repr=False)

    @property
    def generation(self) -> int | None:
        """Return ``metadata.generation``; many kinds have none."""
        value = self.metadata.get("generation")
        return value if isinstance(value, int) else None

    @property
    def labels(self) -> Mapping[str, str]:
        """Return the labels, empty when there are none."""
        return self.metadata.get("labels") or {}

    @property
    def annotations(self) -> Mapping[str, str]:
        """Return the annotations, empty when there are none."""
        return self.metadata.get("annotations") or {}

    @property
    def terminating(self) -> bool:
        """Return whether somebody has deleted it already and finalizers hold it."""
        return bool(self.metadata.get("deletionTimestamp"))

    @property
    def finalizers(self) -> tuple[str, ...]:
        """Return what a deletion waits for."""
        return tuple(self.metadata.get("finalizers") or ())

    @property
    def managed_fields(self) -> tuple[Mapping[str, Any], ...]:
        """Return the managedFields entries as the server gave them."""
        return tuple(self.metadata.get("managedFields") or ())


class WatchEventType(StrEnum):
    """What a watch says of an object."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    # Deleted, or left the watch's selection: then the object is there, and its labels are others.
    DELETED = "DELETED"
    # Of no object: how far the watch has come.
    BOOKMARK = "BOOKMARK"


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One event of a watch, with the object read in full; of a deleted one its last state.

    The ``live`` of a BOOKMARK has no name and no UID: only its resourceVersion says something.
    """

    kind: WatchEventType
    live: LiveObject


@dataclass(frozen=True, slots=True)
class Absent:
    """Nothing of that name.

    ``proven`` tells a Status NotFound that named the object, the one proof of absence, from a list
    that did not hold it: enough to try a create-only apply, never enough to forget an entry.
    """

    proven: bool = False


@dataclass(frozen=True, slots=True)
class Unknown:
    """The read failed, so nothing is known; ``problem`` says why."""

    problem: Problem


State: TypeAlias = LiveObject | Absent | Unknown


def deleted_at(live: LiveObject) -> datetime | None:
    """Return when an object was deleted, by the server's clock; None when it was not."""
    return time_of(live.metadata.get("deletionTimestamp"))
