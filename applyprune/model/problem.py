"""An error as a value, for events and plans."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from applyprune.model.manifest import Origin

Field: TypeAlias = "tuple[str | int, ...]"
"""The path of a field within an object: names of fields and indices of items."""


class ProblemKind(StrEnum):
    """What sort of problem it is: the word for it in every output, and what code compares."""

    ERROR = "Error"
    USAGE_ERROR = "UsageError"
    OWNED_BY_BUNDLE = "OwnedByBundle"
    INPUT_ERROR = "InputError"
    EMPTY_INPUT = "EmptyInput"
    RUN_FAILED = "RunFailed"
    CONFLICTS_FOUND = "ConflictsFound"
    NOT_READY = "NotReady"
    PRUNE_REFUSED = "PruneRefused"
    ACCESS_ERROR = "AccessError"
    UNREACHABLE = "Unreachable"
    API_ERROR = "ApiError"
    UNAUTHORIZED = "Unauthorized"
    FORBIDDEN = "Forbidden"
    NOT_FOUND = "NotFound"
    NOT_SERVED = "NotServed"
    CONFLICT = "Conflict"
    ALREADY_EXISTS = "AlreadyExists"
    EXPIRED = "Expired"
    INVALID = "Invalid"
    UNAVAILABLE = "Unavailable"
    INVENTORY_ERROR = "InventoryError"
    INVENTORY_INCOMPLETE = "InventoryIncomplete"
    INVENTORY_TOO_NEW = "InventoryTooNew"
    INVENTORY_LOCKED = "InventoryLocked"
    INTERRUPTED = "Interrupted"
    # The controller's own errors.
    ACCOUNT_MISSING = "AccountMissing"
    INVALID_SPEC = "InvalidSpec"
    SOURCE_MISSING = "SourceMissing"
    LEASE_LOST = "LeaseLost"
    # Warnings that no error class stands for.
    IGNORED_NAMESPACE = "IgnoredNamespace"
    PART_OF_THE_SET = "PartOfTheSet"
    KUSTOMIZE = "Kustomize"
    REDIRECTED = "Redirected"


@dataclass(frozen=True, slots=True)
class Mark:
    """One field that a problem is about, and in a few words what is wrong there.

    ``origin`` is the object that the field is in where that is not the problem's own.
    """

    field: Field
    note: str = ""
    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class ContestedField:
    """One field in conflict, with the values of both sides; those of a Secret are masked."""

    field: str
    """The field as the server names it: ``.spec.replicas``."""
    path: str | None
    """Its path as ``ignore-fields`` takes it, None where the manifest has no such field."""
    ours: str | None
    """The manifest's value, None where it is not known."""
    theirs: str | None
    """The live value, None where it could not be read."""


@dataclass(frozen=True, slots=True)
class ManagerConflict:
    """Another field manager, and the fields that it owns and a manifest sets differently."""

    manager: str
    operation: str
    """``Apply`` or ``Update``; empty where the server does not name the manager."""
    subresource: str
    time: str
    """When it last wrote, RFC 3339; empty where that is not known."""
    fields: tuple[ContestedField, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """What happened, where, why, what to do.

    Empty parts are parts that there are not. ``origin`` is the place in the input, where there is
    one, and ``field`` the path of the field that it is about, within the object at that place.
    ``marks`` are all the fields that it is about, where there are more. ``conflicts`` are the field
    managers that it is in conflict with. ``excerpt`` is the line of
    the input and a line with a caret below it, for each of them. No part ever holds a Secret's
    value.
    """

    kind: ProblemKind
    message: str
    location: str = ""
    reason: str = ""
    hint: str = ""
    exit_code: int = 3
    origin: Origin | None = None
    field: Field = ()
    excerpt: str = ""
    marks: tuple[Mark, ...] = ()
    conflicts: tuple[ManagerConflict, ...] = ()

    def __str__(self) -> str:
        """Return ``where: what: why``; below it the excerpt, indented, and the hint."""
        line = ": ".join(part for part in (self.location, self.message, self.reason) if part)
        below = [*self.excerpt.splitlines(), *([self.hint] if self.hint else [])]
        return "\n".join((line, *(f"  {text}" for text in below)))
