"""A conflict with another field manager as data: its fields, and both values of each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ContestedField:
    """A field in conflict, with both values; the values of a Secret are masked."""

    field: str
    """The field as the server names it: ``.spec.replicas``."""
    path: str | None
    """Its path as in ``ignore-fields``; None if the manifest has no such field."""
    ours: str | None
    """The manifest's value; None if it is unknown."""
    theirs: str | None
    """The live value; None if it could not be read."""


@dataclass(frozen=True, slots=True)
class ManagerConflict:
    """Another field manager, with the fields that it owns and a manifest sets differently."""

    manager: str
    operation: str
    """``Apply`` or ``Update``; empty if the server does not name the manager."""
    subresource: str
    time: str
    """The time of its last write, RFC 3339; empty if unknown."""
    fields: tuple[ContestedField, ...]
