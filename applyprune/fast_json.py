"""msgspec's JSON, but a lack of memory is a MemoryError: msgspec 0.22 itself ends the process then.

A worker of the controller has a limit of memory, and must be able to say that it has reached it.
"""

from __future__ import annotations

from typing import Any

from msgspec import json

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


def decode(text: bytes) -> Any:
    """Return the value of a JSON text; raises as msgspec's ``decode``, and MemoryError."""
    if len(text) > _LARGE:
        # If there is no room for the strings of a large text, Python says so here.
        bytearray(2 * len(text))
    return _DECODER.decode(text)


def _encoded(encoder: json.Encoder, value: object) -> bytes:
    # Not ``encode``: it does not look whether its own buffer could grow.
    buffer = bytearray()
    encoder.encode_into(value, buffer)
    return bytes(buffer)
