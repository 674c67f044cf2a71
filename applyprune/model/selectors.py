"""A label selector, as the API server knows it: every requirement must hold."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Operator(StrEnum):
    """What a requirement asks of a label; ``=`` and ``!=`` are IN and NOT_IN with one value."""

    IN = "in"
    NOT_IN = "notin"
    EXISTS = "exists"
    ABSENT = "absent"
    GREATER = ">"
    LESS = "<"


@dataclass(frozen=True, slots=True)
class Requirement:
    """What one label must be; GREATER and LESS have one value, a whole number."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether it holds; a label that is missing satisfies NOT_IN and ABSENT only."""
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return value in self.values
            case Operator.NOT_IN:
                return value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.ABSENT:
                return value is None
        if value is None or not (value.isascii() and value.isdecimal()):
            return False
        (limit,) = self.values
        return (
            int(value) > int(limit)
            if self.operator is Operator.GREATER
            else int(value) < int(limit)
        )


@dataclass(frozen=True, slots=True)
class Selector:
    """Requirements, at least one, that must all hold; ``text`` is how the user wrote them."""

    text: str
    requirements: tuple[Requirement, ...]

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether an object with these labels is selected."""
        return all(one.matches(labels) for one in self.requirements)
