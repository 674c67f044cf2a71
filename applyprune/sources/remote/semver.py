"""Ranges of versions, as Flux reads them (the constraints of Masterminds/semver).

No library fits: those for npm's ranges accept a prerelease only beside one of the same version.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from applyprune.errors import UsageError
from applyprune.sources.source import shown_path
from applyprune.values import pattern

_Key: TypeAlias = tuple[tuple[int, int, int], tuple[int, tuple[tuple[int, int, str], ...]]]
"""What orders versions: the numbers, then whether it is a release, and the prerelease."""
_Check: TypeAlias = Callable[[_Key], bool]

_IDENTIFIERS = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_NUMBER = r"(?:0|[1-9]\d{0,17})"
_VERSION = pattern(
    rf"v?({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_IDENTIFIERS}))?(?:\+{_IDENTIFIERS})?",
    re.ASCII,
)
_PART = rf"(?:{_NUMBER}|[xX*])"
_ANY = rf"v?({_PART})(?:\.({_PART}))?(?:\.({_PART}))?(?:-({_IDENTIFIERS}))?(?:\+{_IDENTIFIERS})?"
_COMPARATOR = pattern(rf"\s*(=|==|!=|>|<|>=|=>|<=|=<|~|~>|\^|)\s*{_ANY}(?=[\s,]|$)", re.ASCII)
_HYPHEN = pattern(rf"\s*(?P<low>{_ANY})\s+-\s+(?P<high>{_ANY})\s*", re.ASCII)
_LONGEST = 256


def best_version(wanted: str, tags: Iterable[str]) -> str | None:
    """Return the tag with the highest version in a range; None if none is in it.

    A tag is a whole version, which may begin with v. A prerelease counts only if the range names
    one. Raises UsageError for an invalid range.
    """
    alternatives = _parse(wanted)
    found = []
    for tag in tags:
        key = _key(tag)
        if key is not None and any(_fits(key, one) for one in alternatives):
            found.append((key, tag))
    return max(found)[1] if found else None


def check_range(wanted: str) -> None:
    """Raise UsageError for an invalid range of versions."""
    _parse(wanted)


def _key(text: str) -> _Key | None:
    if len(text) > _LONGEST or (found := _VERSION.fullmatch(text)) is None:
        return None
    major, minor, patch, prerelease = found.groups()
    return (int(major), int(minor), int(patch)), _order(prerelease)


def _order(prerelease: str | None) -> tuple[int, tuple[tuple[int, int, str], ...]]:
    """Return what orders prereleases: before the release, numbers first and by their value."""
    if not prerelease:
        return 1, ()
    parts = prerelease.split(".")
    return 0, tuple((0, int(one), "") if one.isdigit() else (1, 0, one) for one in parts)


def _fits(key: _Key, alternative: tuple[Sequence[_Check], bool]) -> bool:
    checks, names_prerelease = alternative
    is_release = bool(key[1][0])
    return (is_release or names_prerelease) and all(check(key) for check in checks)


def _parse(wanted: str) -> list[tuple[Sequence[_Check], bool]]:
    if len(wanted) > _LONGEST:
        raise UsageError("the range of versions is too long")
    return [_alternative(one, wanted) for one in wanted.split("||")]


def _alternative(text: str, wanted: str) -> tuple[Sequence[_Check], bool]:
    """Return the checks that all must hold, and whether one of them names a prerelease."""
    if (found := _HYPHEN.fullmatch(text)) is not None:
        text = f">={found['low']} <={found['high']}"
    checks, at, names_prerelease = [], 0, False
    text = text.strip()
    while at < len(text):
        comparator = _COMPARATOR.match(text, at)
        if comparator is None:
            break
        operator, *numbers, prerelease = comparator.groups()
        checks.append(_check(operator, numbers, prerelease))
        names_prerelease = names_prerelease or bool(prerelease)
        at = comparator.end()
        at += len(text[at:]) - len(text[at:].lstrip().removeprefix(",").lstrip())
    if at < len(text) or not checks or text.endswith(","):
        raise UsageError(
            f"invalid range of versions: {shown_path(wanted)}",
            hint="For example: >=1.0.0 <2.0.0, ~1.2, ^1 or 1.x",
        )
    return checks, names_prerelease


def _check(operator: str, parts: Sequence[str | None], prerelease: str | None) -> _Check:
    numbers = []
    for part in parts:
        if part is None or part in "xX*":
            break
        numbers.append(int(part))
    known = len(numbers)
    low = _three(numbers)
    first: _Key = (low, _order(prerelease))
    # What follows all versions that begin with these numbers.
    after = _after(numbers)
    if operator in {"~", "~>"}:
        after = _after(numbers[:2])
    elif operator == "^":
        # Up to the first number that is not zero.
        zeros = next((at for at, number in enumerate(numbers) if number), known - 1)
        after = _after(numbers[: zeros + 1])
    is_whole = known == 3
    checks: dict[str, _Check] = {
        ">": (lambda key: key > first) if is_whole else (lambda key: _not_before(key, after)),
        ">=": lambda key: key >= first,
        "<": lambda key: key < first,
        "<=": (lambda key: key <= first) if is_whole else (lambda key: _before(key, after)),
        "!=": (lambda key: key != first)
        if is_whole
        else (lambda key: not (key >= first and _before(key, after))),
        "=": (lambda key: key == first)
        if is_whole
        else (lambda key: key >= first and _before(key, after)),
        "^": lambda key: key >= first and _before(key, after),
    }
    same = {"=>": ">=", "=<": "<=", "==": "=", "": "=", "~": "^", "~>": "^"}
    return checks[same.get(operator, operator)]


def _three(numbers: Sequence[int]) -> tuple[int, int, int]:
    major, minor, patch = (*numbers, 0, 0, 0)[:3]
    return major, minor, patch


def _after(numbers: Sequence[int]) -> tuple[int, int, int] | None:
    """Return the first version behind all that begin with these numbers; None if none is."""
    return _three((*numbers[:-1], numbers[-1] + 1)) if numbers else None


def _before(key: _Key, after: tuple[int, int, int] | None) -> bool:
    # By the numbers alone: a prerelease of the next version is not in the range.
    return after is None or key[0] < after


def _not_before(key: _Key, after: tuple[int, int, int] | None) -> bool:
    return after is not None and key[0] >= after
