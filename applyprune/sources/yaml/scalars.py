"""Read one scalar as Kubernetes does: by the rules of sigs.k8s.io/yaml, in part YAML 1.1.

``y`` and ``on`` are booleans and ``0777`` is 511, but ``1:30`` and ``2001-01-01`` are text.
``fixtures/yaml/go-parity.jsonl`` checks this against Go.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
from typing import TypeAlias

from applyprune.sources.yaml.error import YAMLFault
from applyprune.values import pattern

Scalar: TypeAlias = "str | int | float | bool | None"

_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "off", "Off", "OFF"), False),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}

_INTEGER = pattern(
    r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0(?:[oO]([0-7]+)|([0-7]*))|([1-9][0-9]*))"
)
# A bug in Go's reader: the sign may also follow the 0b.
_SIGNED_BINARY = pattern(r"0b[-+][01]{1,63}")
_BASES = (16, 2, 8, 8, 10)
_DIGITS = pattern(r"[-+]?[0-9]+")
_FLOAT = pattern(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_POINT_FLOAT = pattern(r"\.[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+(?:_[0-9]+)*)?")

_TAG = "tag:yaml.org,2002:"
_STANDARD_TAGS = frozenset(
    {"binary", "bool", "float", "int", "map", "null", "omap", "pairs", "seq", "set", "str"}
    | {"timestamp", "merge", "value", "yaml"}
)
_INT64_MIN, _INT64_MAX, _UINT64_MAX = -(2**63), 2**63 - 1, 2**64 - 1
# The largest literal that fits has 64 binary digits; longer literals need no conversion.
_LONGEST_LITERAL = 66
# A float holds every integer up to here exactly.
_EXACT = 2**53
# From here on, Go also writes a float with an exponent.
_WRITTEN_OUT = 1e21
# Where Go's shortest "%g" changes from 0.0001 to 1e-05, and from 100000 to 1e+06.
_LEAST_PLAIN, _LEAST_SCIENTIFIC = -4, 6
_FLOAT32 = struct.Struct("f")
_LOSSY_KEY = "a float used as a key would lose digits"


def resolve_scalar(text: str) -> Scalar:
    """Return the value of a plain scalar without a tag; raise YAMLFault where JSON has no value."""
    value = _read(text)
    return shape(value) if isinstance(value, float) else value


def resolve_key(text: str) -> str:
    """Return the JSON key for a plain scalar; raise YAMLFault where it cannot be a key."""
    return key_text(_read(text))


def resolve_tagged(tag: str, text: str) -> Scalar:
    """Return the value of a scalar with an explicit ``tag``, with or without quotes.

    Raises YAMLFault where text and tag disagree, and for every tag that is not a JSON type: Go
    ignores such tags, but the author meant something by them.
    """
    if tag in {"!", f"{_TAG}str"}:
        return text
    if tag == f"{_TAG}binary":
        return _decode(text)
    value = _read(text)
    if tag == f"{_TAG}float" and isinstance(value, int | float) and not isinstance(value, bool):
        return shape(float(value))
    kinds: dict[str, type] = {"int": int, "bool": bool, "null": type(None)}
    name = tag.removeprefix(_TAG)
    if not tag.startswith(_TAG) or name not in {*kinds, "float"}:
        raise _unknown_tag(tag)
    if type(value) is not kinds.get(name):
        raise YAMLFault(f"the value does not match its tag !!{name}")
    return value


def check_collection_tag(tag: str, expected: str) -> None:
    """Raise YAMLFault unless ``tag`` fits the collection: ``expected`` is ``map`` or ``seq``."""
    if tag not in {"!", f"{_TAG}{expected}"}:
        raise _unknown_tag(tag)


def shape(number: float) -> int | float:
    """Return ``number`` as Go's JSON writes it: an integral value below 1e21 as an integer."""
    if not math.isfinite(number):
        raise YAMLFault("JSON cannot represent infinity or NaN")
    if not number.is_integer() or abs(number) >= _WRITTEN_OUT:
        return number
    if abs(number) < _EXACT:
        return int(number)
    # The shortest digits that mean this number, padded with zeros: Go writes 1e19 + 2048 this way.
    mantissa, _, exponent = repr(number).partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = fraction.rstrip("0")
    scale: int = 10 ** (int(exponent or 0) - len(fraction))
    return int(whole + fraction) * scale


def whole_number(text: str) -> int:
    """Return the value of a decimal literal; YAMLFault beyond 64 bits: Go would lose digits."""
    if len(text) <= _LONGEST_LITERAL and _INT64_MIN <= (value := int(text)) <= _UINT64_MAX:
        return value
    raise YAMLFault(
        "an integer beyond 64 bits would lose digits", hint="Quote it if it is a string."
    )


def key_text(value: Scalar) -> str:
    """Return the JSON key that Go writes for ``value``; YAMLFault where Go or we reject it."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        raise YAMLFault("null cannot be a key")
    if isinstance(value, float):
        return _float_key(value)
    if value > _INT64_MAX:
        raise YAMLFault("an integer beyond 63 bits cannot be a key", hint="Quote it.")
    return str(value)


def _read(text: str) -> Scalar:
    """Resolve a plain scalar; keep an integral float as a float, and infinities and NaN."""
    if text in _WORDS:
        return _WORDS[text]
    first = text[0]
    if first in "0123456789+-":
        return _number(text)
    if first == "." and _POINT_FLOAT.fullmatch(text):
        number = float(text)
        return number if math.isfinite(number) else text
    return text


def _number(text: str) -> Scalar:
    """Read a scalar that begins like a number; it is text if it is not a number."""
    plain = text.replace("_", "")
    if match := _INTEGER.fullmatch(plain):
        sign = match[1]
        for digits, base in zip(match.groups()[1:], _BASES, strict=True):
            if digits is not None and len(digits) <= _LONGEST_LITERAL:
                value = int(digits or "0", base)
                value = -value if sign == "-" else value
                # Go tries an unsigned integer only without a sign.
                if _INT64_MIN <= value <= (_INT64_MAX if sign else _UINT64_MAX):
                    return value
    if _SIGNED_BINARY.fullmatch(plain):
        return int(plain.removeprefix("0b"), base=2)
    if _DIGITS.fullmatch(plain):
        # 08 and 0899 are not octal: Go reads them as floats, with the values 8 and 899.
        value = whole_number(plain)
        if abs(value) > _EXACT:
            raise YAMLFault(
                "an integer that Go reads as a float would lose digits", hint="Quote it."
            )
        return float(value)
    if _FLOAT.fullmatch(plain):
        number = float(plain)
        return number if math.isfinite(number) else text
    return text


def _decode(text: str) -> str:
    """Return the text of a ``!!binary``; reject bytes that are not UTF-8: they would be lost."""
    try:
        raw = base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True)
        return raw.decode()
    except (binascii.Error, ValueError):
        raise YAMLFault("!!binary must be the base64 of UTF-8 text") from None


def _float_key(value: float) -> str:
    """Format a float as Go's ``strconv.FormatFloat(value, 'g', -1, 32)`` does.

    sigs.k8s.io/yaml uses 32 bits. A key that would lose digits is rejected.
    """
    if not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    try:
        single = _as_float32(value)
    except OverflowError:
        raise YAMLFault(_LOSSY_KEY, hint="Quote it.") from None
    # The fewest digits that identify this number among the 32-bit floats; nine always suffice.
    digits = next(n for n in range(9) if _as_float32(float(f"{single:.{n}e}")) == single)
    scientific = f"{single:.{digits}e}"
    if float(scientific) != value:
        raise YAMLFault(_LOSSY_KEY, hint="Quote it.")
    exponent = int(scientific.partition("e")[2])
    if _LEAST_PLAIN <= exponent < _LEAST_SCIENTIFIC:
        return f"{value:.{max(0, digits - exponent)}f}"
    return scientific


def _as_float32(value: float) -> float:
    """Round to the nearest 32-bit float; raise OverflowError beyond the largest."""
    rounded: float = _FLOAT32.unpack(_FLOAT32.pack(value))[0]
    return rounded


def _unknown_tag(tag: str) -> YAMLFault:
    # An unquoted value that begins with !, such as a password, is read as a tag: so the message
    # contains only YAML's own names.
    name = tag.removeprefix(_TAG)
    which = f" !!{name}" if tag.startswith(_TAG) and name in _STANDARD_TAGS else ""
    return YAMLFault(f"unsupported tag{which}", hint="Quote a string that begins with !.")
