"""Read fields of untyped live objects with their types, or a default.

Nothing here fails: for a missing field, or a field of another type, the functions return the
default, as kstatus's GetStringField and GetIntField do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from applyprune.model.text.display import visible
from applyprune.values import dataclass

_SHOWN = 400


@dataclass(frozen=True, slots=True)
class Condition:
    """An item of ``status.conditions``."""

    type: str
    status: str
    reason: str
    message: str
    """The message, on one line."""
    outdated: bool
    """Whether its observedGeneration is older than the object's generation."""

    @property
    def told(self) -> str:
        """Return ``reason: message``, or only the part that is not empty."""
        return ": ".join(part for part in (self.reason, self.message) if part)


def conditions(body: Mapping[str, Any]) -> Sequence[Condition]:
    """Return the conditions in the order of the object."""
    generation = whole_number(body, "metadata", "generation")
    found = []
    for item in (mapping(entry) for entry in items(body, "status", "conditions")):
        observed = whole_number(item, "observedGeneration")
        found.append(
            Condition(
                text(item, "type"),
                text(item, "status"),
                text(item, "reason"),
                one_line(text(item, "message")),
                outdated=observed is not None and generation is not None and observed < generation,
            )
        )
    return found


def condition(body: Mapping[str, Any], type_: str) -> Condition | None:
    """Return the first condition of a type; None if there is none."""
    return next((found for found in conditions(body) if found.type == type_), None)


def field(body: Mapping[str, Any], *path: str) -> object:
    """Return the value at a path; None if it is missing."""
    value: object = body
    for name in path:
        value = mapping(value).get(name)
    return value


def text(body: Mapping[str, Any], *path: str, default: str = "") -> str:
    """Return the string at a path, else the default."""
    value = field(body, *path)
    return value if isinstance(value, str) else default


def whole_number(body: Mapping[str, Any], *path: str) -> int | None:
    """Return the integer at a path; None if it is missing. A boolean is not an integer."""
    value = field(body, *path)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def count(body: Mapping[str, Any], *path: str, default: int = 0) -> int:
    """Return the integer at a path, else the default: controllers omit a count of zero."""
    value = whole_number(body, *path)
    return default if value is None else value


def items(body: Mapping[str, Any], *path: str) -> Sequence[Any]:
    """Return the list at a path, else an empty sequence."""
    value = field(body, *path)
    return value if isinstance(value, list) else ()


def one_line(words: str) -> str:
    """Return what a controller wrote on one line that is safe to print and not too long."""
    line = visible(" ".join(words.split()))
    return f"{line[:_SHOWN]}…" if len(line) > _SHOWN else line


def mapping(value: object) -> Mapping[str, Any]:
    """Return the value if it is a mapping, else an empty mapping."""
    return value if isinstance(value, dict) else {}
