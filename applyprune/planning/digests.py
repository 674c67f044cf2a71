"""One way to turn JSON data into a digest: canonical text, SHA-256, its first 128 bits in hex."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

SECRET_PARTS = ("data", "stringData")
"""The fields of a Secret that hold its values."""


def canonical(value: object) -> str:
    """Return the JSON text of a value with sorted keys and no blanks."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(value: object) -> str:
    """Return the digest of JSON data, 32 hex digits."""
    return hashlib.sha256(canonical(value).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def manifest_digest(body: Mapping[str, Any]) -> str:
    """Return the digest that stands for a manifest in the inventory.

    Of a Secret only the keys of its data count: no digest of a secret value ever leaves the
    process, because a short value can be found again by trying.
    """
    if is_secret(body):
        body = {
            key: sorted(value) if key in SECRET_PARTS and isinstance(value, dict) else value
            for key, value in body.items()
        }
    return digest(body)


def is_secret(body: Mapping[str, Any]) -> bool:
    """Return whether this is a core Secret."""
    return body.get("kind") == "Secret" and body.get("apiVersion") == "v1"
