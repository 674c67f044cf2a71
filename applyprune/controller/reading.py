"""Fields of a spec, read by their types; what does not fit is noted, and a default stands in."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from applyprune.planning.durations import seconds_of

if TYPE_CHECKING:
    from collections.abc import Collection

T = TypeVar("T")

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_LONGEST = 30 * 24 * 3600.0


@dataclass(slots=True)
class Fields:
    """The fields of one object at a place; ``faults`` is shared with those of the parts in it."""

    where: str
    raw: object
    faults: list[str] = field(default_factory=list)

    def value(self, key: str) -> object:
        """Return a field as it is, None where there is none."""
        if self.raw is None:
            return None
        if not isinstance(self.raw, dict):
            self.faults.append(f"{self.where} is no object")
            self.raw = None
            return None
        return self.raw.get(key)

    def refused(self, key: str, why: str, default: T) -> T:
        """Note what is wrong with a field, and return what stands in for it."""
        self.faults.append(f"{self.where}.{key} {why}")
        return default

    def given(self, key: str) -> str | None:
        """Return a text; None when there is none."""
        value = self.value(key)
        if value is None or isinstance(value, str):
            return value
        return self.refused(key, "is no text", None)

    def text(self, key: str, default: str = "") -> str:
        """Return a text."""
        value = self.given(key)
        return default if value is None else value

    def flag(self, key: str, *, default: bool = False) -> bool:
        """Return true or false."""
        value = self.value(key)
        if value is None or isinstance(value, bool):
            return default if value is None else value
        return self.refused(key, "is neither true nor false", default)

    def name(self, key: str) -> str:
        """Return the name of an object, empty where there is none: it becomes part of a path."""
        name = self.text(key)
        if name and not _NAME.fullmatch(name):
            return self.refused(key, f"{name!r} is no name", "")
        return name

    def choice(self, key: str, words: Collection[str], default: str) -> str:
        """Return one of some words."""
        word = self.text(key, default)
        if word not in words:
            return self.refused(key, f"{word!r} is none of {', '.join(words)}", default)
        return word

    def seconds(self, key: str, default: float) -> float:
        """Return a duration in seconds, of a second to thirty days."""
        text = self.given(key)
        if text is None:
            return default
        try:
            seconds = seconds_of(text)
        except ValueError as error:
            return self.refused(key, f"{text!r} {error}", default)
        if not 1.0 <= seconds <= _LONGEST:
            return self.refused(key, f"{text!r} is not between 1s and 720h", default)
        return seconds

    def part(self, key: str) -> Fields:
        """Return the fields of an object within this one."""
        return Fields(f"{self.where}.{key}", self.value(key), self.faults)

    def parts(self, key: str) -> list[Fields]:
        """Return the fields of each item of a list."""
        return [Fields(f"{self.where}.{key}", item, self.faults) for item in self._items(key)]

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts."""
        found = self._items(key)
        if not all(isinstance(item, str) for item in found):
            return self.refused(key, "is no list of texts", ())
        return tuple(map(str, found))

    def _items(self, key: str) -> list[object]:
        value = self.value(key)
        if value is None or isinstance(value, list):
            return value or []
        return self.refused(key, "is no list", [])
