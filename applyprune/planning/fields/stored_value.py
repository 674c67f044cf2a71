"""Decide whether the server has stored a value as it was sent, perhaps in another form.

The server writes a quantity, a duration or a time in one form (``1000m`` as ``1``), leaves out
what is empty, and fills in what is left out. In doubt, a value counts as stored.
"""

from __future__ import annotations

import base64
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from applyprune.model.fieldset import MISSING
from applyprune.model.options import seconds_of
from applyprune.model.text import time_of
from applyprune.values import pattern

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

_QUANTITY = pattern(
    r"(?P<number>[+-]?(?:\d+\.?\d*|\.\d+))"
    r"(?:(?P<two>[KMGTPE])i|(?P<ten>[numkMGTPE])|[eE](?P<e>[+-]?\d{1,2}))?"
)
_POWERS = {"n": -3, "u": -2, "m": -1, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
# 0 means "choose one" here; elsewhere it is a value.
_CHOSEN_FOR_ZERO = frozenset(
    {
        "failureThreshold",
        "healthCheckNodePort",
        "hostPort",
        "matchingPrecedence",
        "nodePort",
        "periodSeconds",
        "successThreshold",
        "targetPort",
        "timeoutSeconds",
    }
)
# The server completes these lists itself.
_COMPLETED = frozenset({"clusterIPs", "finalizers", "ipFamilies"})


def is_stored(wanted: object, stored: object, name: str = "") -> bool:
    """Return whether ``stored`` is the value of a field ``name`` after ``wanted`` was sent.

    Both may be missing. Whatever the server adds to mappings, to their lists, and to what is empty
    does not count.
    """
    if wanted is MISSING or wanted is None or wanted in ("", [], {}):
        return True
    if isinstance(wanted, dict):
        there: dict[str, Any] = stored if isinstance(stored, dict) else {}
        return all(is_stored(value, there.get(key), key) for key, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(stored, list) and _is_list_stored(wanted, stored, name)
    if isinstance(wanted, bool) or isinstance(stored, bool):
        return wanted is stored or (wanted is False and stored in (None, MISSING))
    if wanted == 0 and (stored in (None, MISSING) or name in _CHOSEN_FOR_ZERO):
        return True
    return wanted == stored or any(
        (form := read(wanted)) is not None and form == read(stored) for read in _FORMS
    )


def _is_list_stored(wanted: list[Any], stored: list[Any], name: str) -> bool:
    """Return whether all items are stored in their order, perhaps among others if mappings."""
    if name not in _COMPLETED and not all(isinstance(item, dict) for item in wanted):
        return len(wanted) == len(stored) and all(map(is_stored, wanted, stored))
    rest = iter(stored)
    return all(any(is_stored(item, other) for other in rest) for item in wanted)


def _time(value: object) -> datetime | None:
    return time_of(value) if isinstance(value, str) else None


def _quantity(value: object) -> Decimal | None:
    """Return the number that a quantity means; None for anything else."""
    found = _QUANTITY.fullmatch(str(value)) if isinstance(value, str | int | float) else None
    if found is None:
        return None
    number = Decimal(found["number"])
    if found["two"]:
        return number * Decimal(1024) ** _POWERS[found["two"]]
    return number.scaleb(int(found["e"] or 0) + 3 * _POWERS.get(found["ten"] or "", 0))


def _duration(value: object) -> float | None:
    try:
        return seconds_of(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _bytes(value: object) -> bytes | None:
    """Return what a text in base64 means; it may have several lines."""
    try:
        text = "".join(value.split()) if isinstance(value, str) else "?"
        return base64.b64decode(text, validate=True)
    except ValueError:
        return None


_FORMS: tuple[Callable[[object], object], ...] = (_quantity, _duration, _time, _bytes)
