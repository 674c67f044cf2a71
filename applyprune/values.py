"""Values: what msgspec's Structs lack, its JSON, data packed as text, patterns compiled when used.

Every module may import this one: all of it keeps a start short, or a run small.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

from msgspec import EncodeError, Struct, json

__all__ = [
    "Packed",
    "as_declared",
    "decode",
    "encode",
    "encode_sorted",
    "hiding",
    "interned",
    "packed",
    "pattern",
    "remembered",
    "replace",
]


# What msgspec's Structs lack: a copy that a type checker checks, a field that repr() leaves out,
# and a check of the types in what a program has built.


T = TypeVar("T")

if TYPE_CHECKING:
    # It takes a Struct to a type checker, and has the names and the types of its fields.
    from dataclasses import replace
else:
    from msgspec.structs import replace


def hiding(*hidden: str) -> Callable[[object], str]:
    """Return a ``__repr__`` for a Struct without these fields: a password must not reach a log."""

    def __repr__(self: Any) -> str:  # noqa: N807 - it becomes that method
        shown = [name for name in self.__struct_fields__ if name not in hidden]
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{type(self).__qualname__}({values})"

    return __repr__


def as_declared(value: T) -> T:
    """Return options with each part of its declared type; raise TypeError for another one.

    Every field has a default. A text becomes the enum that it is the value of, for example.
    """
    if _is_like(value, type(value)()):
        return value
    from msgspec import ValidationError, convert, to_builtins  # noqa: PLC0415 - rarely needed

    try:
        return convert(to_builtins(value), type(value))
    except ValidationError as error:
        what, _, place = str(error).partition(" - at `$.")
        where = place.rstrip("`")
        valid = _valid_values(value, where)
        raise TypeError(": ".join(filter(None, (where, what, valid)))) from None


def _valid_values(value: Any, where: str) -> str:
    """Return the words of the enum at a place of options; empty where there is none."""
    found = type(value)()
    for part in where.split("."):
        found = getattr(found, part, None)
    return f"use {', '.join(map(str, type(found)))}" if isinstance(found, Enum) else ""


def _is_like(value: Any, plain: Any) -> bool:
    """Whether each part has just the type of the default; most options are so."""
    names = plain.__struct_fields__
    return type(value) is type(plain) and all(
        type(one) is type(other) and (not isinstance(other, Struct) or _is_like(one, other))
        for one, other in ((getattr(value, name), getattr(plain, name)) for name in names)
    )


# msgspec's JSON, but a lack of memory is a MemoryError: msgspec 0.22 itself ends the process then.
#
# A worker of the controller has a limit of memory, and must be able to say that it has reached it.


_ENCODER = json.Encoder()
_SORTED_ENCODER = json.Encoder(order="sorted")
_DECODER = json.Decoder()
_LARGE = 64 * 1024


def encode(value: object) -> bytes:
    """Return the JSON text of a value; raises as msgspec's ``encode``, and MemoryError."""
    return _encoded(_ENCODER, value)


def encode_sorted(value: object) -> bytes:
    """Return the JSON text of a value with sorted keys.

    Where there is no room to sort the keys of one mapping, msgspec still ends the process: that
    takes a mapping of thousands of keys.
    """
    return _encoded(_SORTED_ENCODER, value)


def _encoded(encoder: json.Encoder, value: object) -> bytes:
    # Not ``encode``: it does not look whether its own buffer could grow.
    buffer = bytearray()
    encoder.encode_into(value, buffer)
    return bytes(buffer)


def decode(text: bytes) -> Any:
    """Return the value of a JSON text; raises as msgspec's ``decode``, and MemoryError."""
    if len(text) > _LARGE:
        # If there is no room for the strings of a large text, Python says so here.
        bytearray(2 * len(text))
    return _DECODER.decode(text)


# Plain JSON data in little memory: a parsed manifest takes ten times the bytes of its text.


# As many as the threads of a run read at the same time.
_read = lru_cache(64)(decode)
_read_large = lru_cache(4)(decode)


class Packed(Struct, frozen=True):
    """JSON data that is kept as text; two are equal if their data is."""

    kept: Any
    """The text as bytes, or the data itself."""

    __repr__ = hiding("kept")

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

    def may_contain(self, *texts: str) -> bool:
        """Return False only if none of these is in the JSON text, which never escapes them."""
        return type(self.kept) is not bytes or any(text.encode() in self.kept for text in texts)

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


def interned(one: Packed) -> Packed:
    """Return the same data; its text exists once, however many have it."""
    return _first(one.kept) if type(one.kept) is bytes else one


Ts = TypeVarTuple("Ts")
R = TypeVar("R")


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


# The package has 170 patterns, most for messages that a run never sees: to compile all takes 10 ms.


if TYPE_CHECKING:
    from re import compile as pattern
else:

    class pattern:  # noqa: N801 - it stands for a function
        """A compiled regular expression, once it is asked for something."""

        def __init__(self, text, flags=0):
            self._described = text, flags

        def __getattr__(self, name):
            """Return what the compiled pattern has, and keep it: this is called once a name."""
            value = getattr(re.compile(*self._described), name)
            setattr(self, name, value)
            return value
