"""Values: dataclasses made by msgspec, its JSON, data packed as text, patterns compiled when used.

Every module may import this one: all of it keeps a start short, or a run small.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

from msgspec import EncodeError, json

__all__ = [
    "Packed",
    "as_declared",
    "dataclass",
    "decode",
    "encode",
    "encode_sorted",
    "field",
    "interned",
    "packed",
    "pattern",
    "remembered",
    "replace",
]


# ``dataclass``, ``field`` and ``replace`` of the standard library, made by msgspec.
#
# The standard library compiles the methods of more than 300 classes at every start, 0.6 ms a class;
# msgspec takes 0.02 ms, and makes an object 8 times and a changed copy 19 times as fast. To a type
# checker and to a caller they are dataclasses. A field with ``init=False`` is ``UNSET`` until it is
# set. A class with an ``InitVar`` needs the standard library's own decorator.


T = TypeVar("T")

if TYPE_CHECKING:
    from dataclasses import dataclass, field, replace

    def as_declared(value: T) -> T: ...
else:
    from operator import attrgetter

    from msgspec import NODEFAULT, UNSET, Struct
    from msgspec import field as _own_field
    from msgspec.structs import replace as _own_replace

    def dataclass(*, frozen=False, slots=False, order=False, eq=True):
        """Return a decorator that makes the class, as ``dataclasses.dataclass`` does."""

        def make(described):
            names = dict(vars(described))
            for one in ("__dict__", "__weakref__", "__abstractmethods__", "_abc_impl"):
                names.pop(one, None)
            fields_made = {
                name: value for name, value in names.items() if isinstance(value, _Field)
            }
            for name, value in fields_made.items():
                names[name] = value.own()
            names["__dataclass_fields__"] = _StandardFields(described)
            bases = (Struct, *(base for base in described.__bases__ if base is not object))
            kind = type(Struct)
            if type(described) is not type:
                kind = type("_Kind", (kind, type(described)), {})
            made = kind(
                described.__name__,
                bases,
                names,
                frozen=frozen,
                order=order,
                eq=eq,
                dict=not slots,
                repr_omit_defaults=True,
            )
            if fields_made:
                for name, method in _methods(
                    made.__struct_fields__, fields_made, frozen=frozen
                ).items():
                    if name not in names:
                        setattr(made, name, method)
            return made

        return make

    def _methods(fields, fields_made, *, frozen):
        """The methods that leave a field out; msgspec's own take every field."""
        made = {}
        shown = [name for name in fields if name not in fields_made or fields_made[name].is_shown]
        compared = [
            name for name in fields if name not in fields_made or fields_made[name].is_compared
        ]
        hashed = [name for name in fields if name not in fields_made or fields_made[name].is_hashed]
        if len(shown) < len(fields):
            made["__repr__"] = _shows(shown)
        if len(compared) < len(fields):
            made["__eq__"] = _compares(_values(compared))
            made["__hash__"] = None
        if frozen and len(hashed) < len(fields):
            made["__hash__"] = _hashes(_values(hashed))
        return made

    def _values(fields):
        return attrgetter(*fields) if fields else lambda _: ()

    def _shows(fields):
        def __repr__(self):  # noqa: N807
            values = ", ".join(f"{name}={getattr(self, name)!r}" for name in fields)
            return f"{type(self).__qualname__}({values})"

        return __repr__

    def _compares(values):
        def __eq__(self, other):  # noqa: N807
            return values(self) == values(other) if type(other) is type(self) else NotImplemented

        return __eq__

    def _hashes(values):
        def __hash__(self):  # noqa: N807
            return hash(values(self))

        return __hash__

    def field(*, default=NODEFAULT, default_factory=NODEFAULT, compare=True, **but):
        """Return what one field has beside its type, for :func:`dataclass`."""
        init, is_shown = but.pop("init", True), but.pop("repr", True)
        is_hashed = but.pop("hash", compare)
        if but:
            msg = f"only the standard library's field() has {', '.join(but)}"
            raise TypeError(msg)
        return _Field(
            default,
            default_factory,
            init=init,
            is_shown=is_shown,
            is_hashed=is_hashed,
            is_compared=compare,
        )

    class _Field:
        """What ``field()`` is given, until the class is made."""

        __slots__ = ("default", "default_factory", "init", "is_compared", "is_hashed", "is_shown")

        def __init__(self, default, default_factory, *, init, is_shown, is_hashed, is_compared):
            self.init = init
            self.default = default
            self.default_factory = default_factory
            self.is_shown = is_shown
            self.is_hashed = is_hashed
            self.is_compared = is_compared

        def own(self):
            has_default = self.init or self.default_factory is not NODEFAULT
            default = self.default if has_default or self.default is not NODEFAULT else UNSET
            return _own_field(default=default, default_factory=self.default_factory)

        def standard(self):
            import dataclasses  # noqa: PLC0415 - see the module

            ways = {"default": self.default, "default_factory": self.default_factory}
            return dataclasses.field(
                **{way: value for way, value in ways.items() if value is not NODEFAULT},
                init=self.init,
                repr=self.is_shown,
                hash=None if self.is_hashed == self.is_compared else self.is_hashed,
                compare=self.is_compared,
            )

    def replace(value, /, **changes):
        """Return a copy with other values, of these classes and of the standard library's."""
        if isinstance(value, Struct):
            return _own_replace(value, **changes)
        import dataclasses  # noqa: PLC0415 - see the module

        return dataclasses.replace(value, **changes)

    def as_declared(value):
        """Return options with each part of its declared type; raise TypeError for another one.

        Every field has a default. A text becomes the enum that it is the value of, for example.
        """
        if _is_like(value, type(value)()):
            return value
        from msgspec import ValidationError, convert, to_builtins  # noqa: PLC0415 - rarely needed

        try:
            return convert(to_builtins(value), type(value))
        except ValidationError as error:
            what, _, where = str(error).partition(" - at `$.")
            raise TypeError(": ".join(filter(None, (where.rstrip("`"), what)))) from None

    def _is_like(value, plain):
        """Whether each part has just the type of the default; most options are so."""
        names = plain.__struct_fields__
        return type(value) is type(plain) and all(
            type(one) is type(other) and (not isinstance(other, Struct) or _is_like(one, other))
            for one, other in ((getattr(value, name), getattr(plain, name)) for name in names)
        )

    class _StandardFields:
        """What the functions of ``dataclasses`` ask a class for, made when the first one asks."""

        def __init__(self, described):
            self.described = described
            self.made = None

        def __get__(self, instance, owner):
            if self.made is None:
                self.made = self._standard()
            return self.made

        def _standard(self):
            import dataclasses  # noqa: PLC0415 - see the module

            names = {
                "__annotations__": self.described.__annotations__,
                "__module__": self.described.__module__,
            }
            for name in names["__annotations__"].keys() & vars(self.described).keys():
                value = vars(self.described)[name]
                names[name] = value.standard() if isinstance(value, _Field) else value
            return dataclasses.dataclass(type("_", (), names)).__dataclass_fields__


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
