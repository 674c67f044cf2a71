"""Parse and match label selectors by the rules of Kubernetes: every requirement must match.

The grammar is that of ``k8s.io/apimachinery/pkg/labels``: ``a=b``, ``a==b``, ``a!=b``, ``a``,
``!a``, ``a in (b,c)``, ``a notin (b,c)``, ``a>1``, ``a<1``, separated by commas.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from applyprune.model.text.names import is_dns_subdomain
from applyprune.values import dataclass, pattern


class Operator(StrEnum):
    """The operator of a requirement; ``=`` and ``!=`` are IN and NOT_IN with a single value."""

    IN = "in"
    NOT_IN = "notin"
    EXISTS = "exists"
    ABSENT = "absent"
    GREATER = ">"
    LESS = "<"


@dataclass(frozen=True, slots=True)
class Requirement:
    """A requirement for one label; GREATER and LESS have a single value, a whole number."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels match; a missing label matches only NOT_IN and ABSENT."""
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
    """A label selector: all requirements must match."""

    text: str
    """The selector as the user wrote it."""
    requirements: tuple[Requirement, ...]
    """At least one requirement."""

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether an object with these labels is selected."""
        return all(requirement.matches(labels) for requirement in self.requirements)


_WORD = pattern(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_LARGEST = 2**63 - 1
# A comma inside parentheses separates values.
_SEPARATOR = pattern(r",(?![^(]*\))")
_SET = pattern(r"(?P<key>[^\s=!<>(),]+)\s+(?P<word>in|notin)\s*\((?P<values>[^()]*)\)")
_COMPARED = pattern(r"(?P<key>[^\s=!<>(),]+)\s*(?P<sign>==|=|!=|<|>)\s*(?P<value>[^\s=!<>(),]*)")
_BARE = pattern(r"(?P<not>!?)\s*(?P<key>[^\s=!<>(),]+)")
_SIGNS = {
    "=": Operator.IN,
    "==": Operator.IN,
    "!=": Operator.NOT_IN,
    ">": Operator.GREATER,
    "<": Operator.LESS,
}


def parse_selector(text: str) -> Selector:
    """Return the selector; raises ValueError with the reason if it is invalid.

    An empty text means everything to Kubernetes, but is invalid here: in a script it probably comes
    from an unset variable.
    """
    if not text.strip(" \t\r\n"):
        raise ValueError("the selector is empty; check for an unset variable in the script")
    parts = _SEPARATOR.split(text)
    return Selector(text.strip(), tuple(_requirement(part.strip(" \t\r\n")) for part in parts))


def _requirement(part: str) -> Requirement:
    if found := _SET.fullmatch(part):
        values = frozenset(value.strip(" \t\r\n") for value in found["values"].split(","))
        operator = Operator.IN if found["word"] == "in" else Operator.NOT_IN
        return _checked(Requirement(found["key"], operator, values))
    if found := _COMPARED.fullmatch(part):
        sign = found["sign"]
        return _checked(Requirement(found["key"], _SIGNS[sign], frozenset({found["value"]})))
    if found := _BARE.fullmatch(part):
        operator = Operator.ABSENT if found["not"] else Operator.EXISTS
        return _checked(Requirement(found["key"], operator))
    raise ValueError(f"invalid requirement {part!r}" if part else "empty requirement")


def _checked(requirement: Requirement) -> Requirement:
    prefix, slash, name = requirement.key.rpartition("/")
    if not _WORD.fullmatch(name) or (slash and not is_dns_subdomain(prefix)):
        raise ValueError(f"invalid label key {requirement.key!r}")
    for value in sorted(requirement.values):
        if value and not _WORD.fullmatch(value):
            raise ValueError(f"invalid label value {value!r}")
        if requirement.operator in {Operator.GREATER, Operator.LESS} and not _is_number(value):
            raise ValueError(f"{value!r} is not a whole number")
    return requirement


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and int(text) <= _LARGEST
