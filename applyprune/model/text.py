r"""Text: what is foreign made safe to print, times, DNS names, label selectors.

Names, annotations, server messages and file names may contain control characters (C0, C1, DEL and
escape sequences) or misleading characters (bidi controls, characters without width). Each is shown
as an escape: ``\x1b``, ``\u202e``. Beyond C0, which JSON escapes anyway, the escapes are those of
JSON, so that JSON stays valid.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum

from msgspec import Struct

from applyprune.values import pattern


def visible(text: str) -> str:
    """Return the text on one line, with escapes for what is not printable."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape(char) for char in text)


def _escape(char: str) -> str:
    if char < " ":
        return ascii(char)[1:-1]
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def visible_lines(text: str) -> str:
    """Return the text with its line ends, and escapes for what else is not printable."""
    return "\n".join(visible(line) for line in text.split("\n"))


# The runner of a pipeline obeys a line that begins with ``::NAME::``, also behind spaces and our
# own colours, and one that contains ``##[NAME]`` (GitHub) or ``##vso[NAME]`` (Azure, TeamCity).
_COMMAND = pattern(r"^((?:\s|\x1b\w+m)*):(?=:.*::)|#(?=#\w*\[)", re.MULTILINE)


def without_commands(text: str) -> str:
    """Return lines of which the runner of a pipeline obeys none; shown as an escape."""
    if "::" not in text and "##" not in text:
        return text
    return _COMMAND.sub(lambda found: f"{found[1] or ''}\\x{ord(found[0][-1]):x}", text)


def counted(count: int, noun: str, verb: str = "", verbs: str = "") -> str:
    """Return ``1 object has`` or ``2 objects have``; without verbs only the number and the noun."""
    words = (str(count), noun if count == 1 else plural(noun), verb if count == 1 else verbs)
    return " ".join(filter(None, words))


def plural(noun: str) -> str:
    """Return the plural of a noun, such as a kind."""
    if noun.endswith(("s", "x", "ch", "sh")):
        return f"{noun}es"
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}s"


def and_more(things: Sequence[object], limit: int, separator: str = ", ") -> str:
    """Return the first things and the number of the others: ``a, b and 3 more``.

    A separator that begins with a line end also precedes the number of the others.
    """
    first, others = separator.join(str(thing) for thing in things[:limit]), len(things) - limit
    if others <= 0:
        return first
    glue = separator if separator.startswith("\n") else " "
    return f"{first}{glue}and {others} more"


def time_of(text: object) -> datetime | None:
    """Return the time of an RFC 3339 text, in UTC by default; None if the text is invalid."""
    try:
        time = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def seconds_since(text: object, now: datetime) -> float | None:
    """Return the seconds since an RFC 3339 time, at least 0; None if the text is invalid.

    The clock that wrote the text may be ahead of the clock of ``now``.
    """
    time = time_of(text)
    return None if time is None else max(0.0, (now - time).total_seconds())


def age(seconds: float | None) -> str:
    """Return ``45s``, ``90m`` or ``3d``: at least 2 of the unit, except seconds; ``-`` for None."""
    if seconds is None:
        return "-"
    for length, unit in _UNITS:
        if seconds >= 2 * length:
            return f"{int(seconds // length)}{unit}"
    return f"{int(seconds)}s"


_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"))


def age_of(text: str) -> str:
    """Return the age of an RFC 3339 time by the local clock; the text itself if it is invalid."""
    seconds = seconds_since(text, datetime.now(UTC))
    return text if seconds is None else age(seconds)


DNS_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
"""The pattern of an RFC 1123 label."""


_LABEL = pattern(DNS_LABEL)


def is_dns_label(text: str) -> bool:
    """Return whether a text can name a namespace or a set: an RFC 1123 label."""
    return _LABEL.fullmatch(text) is not None


# Only the length of the whole subdomain is limited: a label may have 200 letters.
_PART = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = pattern(rf"{_PART}(?:\.{_PART})*")


def is_dns_subdomain(text: str) -> bool:
    """Return whether a text can name most objects: an RFC 1123 subdomain."""
    return len(text) <= 253 and _SUBDOMAIN.fullmatch(text) is not None


# Label selectors, by the grammar of ``k8s.io/apimachinery/pkg/labels``.


class Selector(Struct, frozen=True):
    """A label selector: all requirements must match."""

    text: str
    """The selector as the user wrote it."""
    requirements: tuple[Requirement, ...]
    """At least one requirement."""

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether an object with these labels is selected."""
        return all(requirement.matches(labels) for requirement in self.requirements)


class Requirement(Struct, frozen=True):
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


class Operator(StrEnum):
    """The operator of a requirement; ``=`` and ``!=`` are IN and NOT_IN with a single value."""

    IN = "in"
    NOT_IN = "notin"
    EXISTS = "exists"
    ABSENT = "absent"
    GREATER = ">"
    LESS = "<"


_WORD = pattern(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
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
    return text.isascii() and text.isdecimal() and int(text) < 2**63
