"""A manifest, and where it was read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from applyprune.model.identity import GVK
from applyprune.values import Packed, dataclass, field

JSONObject: TypeAlias = "dict[str, Any]"


@dataclass(frozen=True, slots=True, order=True)
class Origin:
    """The place of a manifest, or of an error in it.

    ``document``, ``line`` and ``column`` count from 1; 0 means that the place has none, for example
    a whole file.
    """

    path: str
    """The path as the user wrote it; ``<stdin>`` for standard input."""
    document: int = 0
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        """Return ``web.yaml:12:3``, or ``web.yaml:12:3 (document 3)`` after the first document."""
        numbers = (number for number in (self.line, self.column) if number)
        place = ":".join((self.path, *map(str, numbers)))
        return f"{place} (document {self.document})" if self.document > 1 else place


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object as the user wants it; equality ignores the origin."""

    gvk: GVK
    namespace: str
    """The namespace in the text; empty if it has none."""
    name: str
    packed: Packed = field(hash=False)
    """The object in the text, as plain JSON data."""
    origin: Origin = field(compare=False)

    @property
    def body(self) -> Mapping[str, Any]:
        """Return the object in the text."""
        found: Mapping[str, Any] = self.packed.value
        return found
