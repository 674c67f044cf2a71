"""Read the JSON of the API server, fast where that gives the same data as the standard library."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from applyprune.values import decode


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


# Made once: one costs as much as parsing a small body.
_DECODER = json.JSONDecoder(parse_constant=_refuse)
_PARTS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])


def json_value(raw: bytes) -> Any:
    """Parse bytes as JSON; raise ValueError or RecursionError."""
    try:
        return decode(raw)
    except (msgspec.DecodeError, ValueError):
        # It is stricter: a half of a surrogate pair and a number beyond all floats are invalid.
        return _DECODER.decode(raw.decode("utf-8"))


def json_object(raw: bytes) -> dict[str, Any] | None:
    """Parse bytes as a JSON object; None when they are not one."""
    try:
        body = json_value(raw)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def json_list(raw: bytes) -> dict[str, Any] | None:
    """Parse bytes as a JSON object whose ``items`` are for ``item_of``; None when they are not one.

    A page of 500 objects takes several megabytes when it is parsed, and its text a tenth of that.
    """
    try:
        parts = _PARTS.decode(raw)
        items = parts.pop("items", None)
        body = {key: decode(bytes(part)) for key, part in parts.items()}
        if items is not None:
            is_list = bytes(memoryview(items)[:1]) == b"["
            body["items"] = _ITEMS.decode(items) if is_list else decode(bytes(items))
    except (msgspec.DecodeError, ValueError, RecursionError):
        return json_object(raw)
    return body


def item_of(item: object) -> Any:
    """Return an item of ``json_list``, parsed now; raise ValueError or RecursionError."""
    return json_value(bytes(item)) if isinstance(item, msgspec.Raw) else item
