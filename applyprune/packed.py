"""Plain JSON data in little memory: kept as its text, and parsed again when somebody reads it.

A parsed manifest takes ten times the bytes of its text, and a set may have 100,000 of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, TypeVar, TypeVarTuple

from msgspec import EncodeError

from applyprune.fast_json import decode, encode
from applyprune.values import dataclass, field

Ts = TypeVarTuple("Ts")
R = TypeVar("R")

_LARGE = 64 * 1024
# As many as the threads of a run read at the same time.
_read = lru_cache(64)(decode)
_read_large = lru_cache(4)(decode)


@dataclass(frozen=True, slots=True)
class Packed:
    """JSON data that is kept as text; two are equal if their data is."""

    kept: Any = field(repr=False)
    """The text as bytes, or the data itself."""

    @property
    def value(self) -> Any:
        """Return the data; another read may return the same object, so nobody changes it."""
        kept = self.kept
        if type(kept) is not bytes:
            return kept
        return _read(kept) if len(kept) < _LARGE else _read_large(kept)

    def mentions(self, key: str) -> bool:
        """Return False only if no mapping in the data has this key; nothing is parsed for that."""
        return type(self.kept) is not bytes or b'"%b":' % key.encode() in self.kept

    def __eq__(self, other: object) -> bool:
        """Return whether the data is equal: the order of keys makes no difference."""
        if not isinstance(other, Packed):
            return NotImplemented
        return self.kept == other.kept or bool(self.value == other.value)

    __hash__ = None  # type: ignore[assignment]  # as of the data


def packed(value: Any) -> Packed:
    """Pack JSON data; what no JSON text says exactly stays as it is, as half a surrogate pair."""
    try:
        text = encode(value)
    except (EncodeError, TypeError, ValueError, RecursionError):
        return Packed(value)
    # NaN and the infinite numbers become null.
    is_exact = b"null" not in text or decode(text) == value
    return Packed(text) if is_exact else Packed(value)


_first = lru_cache(1024)(Packed)


def shared(one: Packed) -> Packed:
    """Return the same data; its text exists once, however many have it."""
    return _first(one.kept) if type(one.kept) is bytes else one


def remembered(call: Callable[[Any, *Ts], R]) -> Callable[[Packed, *Ts], R]:
    """Let a function of JSON data take packed data, and remember its results for many texts.

    It is for data that many objects have in common, and for a pure function.
    """

    @lru_cache(256)
    def of_text(text: bytes, *more: *Ts) -> R:
        return call(decode(text), *more)

    @wraps(call)
    def of_packed(one: Packed, /, *more: *Ts) -> R:
        kept = one.kept
        return of_text(kept, *more) if type(kept) is bytes else call(kept, *more)

    return of_packed
