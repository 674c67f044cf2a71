"""Fields of a live object as a server or a controller may have left them: typed, or a default.

Nothing here fails: a body that lacks a field, or has another type there, yields the default, as
kstatus's GetStringField and GetIntField do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from applyprune.model.display import visible

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SHOWN = 400


@dataclass(frozen=True, slots=True)
class Condition:
    """One of ``status.conditions``; ``outdated`` when it says itself that it saw an older spec."""

    type: str
    status: str
    reason: str
    message: str
    outdated: bool

    @property
    def told(self) -> str:
        """Return ``reason: message``, or the one that there is."""
        return ": ".join(part for part in (self.reason, self.message) if part)


def conditions(body: Mapping[str, Any]) -> Sequence[Condition]:
    """Return the conditions in the order in which the object has them."""
    generation = whole_number(body, "metadata", "generation")
    found = []
    for item in (mapping(one) for one in items(body, "status", "conditions")):
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
    """Return the first condition of a type."""
    return next((one for one in conditions(body) if one.type == type_), None)


def field(body: Mapping[str, Any], *path: str) -> object:
    """Return what is at a path, None where there is nothing."""
    value: object = body
    for name in path:
        value = mapping(value).get(name)
    return value


def text(body: Mapping[str, Any], *path: str, default: str = "") -> str:
    """Return the string at a path."""
    value = field(body, *path)
    return value if isinstance(value, str) else default


def whole_number(body: Mapping[str, Any], *path: str) -> int | None:
    """Return the integer at a path; a boolean is none."""
    value = field(body, *path)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def count(body: Mapping[str, Any], *path: str, default: int = 0) -> int:
    """Return the integer at a path, where a controller leaves out what is zero."""
    value = whole_number(body, *path)
    return default if value is None else value


def items(body: Mapping[str, Any], *path: str) -> Sequence[Any]:
    """Return the list at a path."""
    value = field(body, *path)
    return value if isinstance(value, list) else ()


def one_line(words: str) -> str:
    """Return what a controller wrote on one line that is safe to print and not too long."""
    line = visible(" ".join(words.split()))
    return f"{line[:_SHOWN]}…" if len(line) > _SHOWN else line


def mapping(value: object) -> Mapping[str, Any]:
    """Return the value when it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}
