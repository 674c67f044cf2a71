"""A manifest's body as it is sent: what the API server would make of it, made here first.

One way to turn JSON data into a digest: canonical text, SHA-256, its first 128 bits in hex.
"""

from __future__ import annotations

import base64
import hashlib
import json
from typing import TYPE_CHECKING, Any

from applyprune.planning.applyset import LAST_APPLIED, PART_OF
from applyprune.planning.fields.path import from_pointer, left_out

if TYPE_CHECKING:
    from collections.abc import Mapping

    from applyprune.model.manifest import JSONObject
    from applyprune.model.plan import Desired


def normalize(body: Mapping[str, Any], *, namespace: str, set_id: str) -> JSONObject:
    """Return a new body with its namespace, the set's label, and no ``stringData``.

    The server folds ``stringData`` into ``data`` without owning it, so a key that leaves the
    manifest would stay in the Secret for ever (failures of server-side apply, verified on 1.36).
    """
    metadata = {key: value for key, value in body["metadata"].items() if key != "namespace"}
    if namespace:
        metadata["namespace"] = namespace
    if LAST_APPLIED in (annotations := metadata.get("annotations") or {}):
        # kubectl's own note, in a manifest that was copied from a live object: never written.
        metadata["annotations"] = {
            key: value for key, value in annotations.items() if key != LAST_APPLIED
        }
    metadata["labels"] = {**(metadata.get("labels") or {}), PART_OF: set_id}
    sent: JSONObject = {**body, "metadata": metadata}
    if is_secret(body) and "stringData" in body:
        plain = sent.pop("stringData") or {}
        encoded = {
            key: base64.b64encode(str(value).encode()).decode() for key, value in plain.items()
        }
        sent["data"] = {**(body.get("data") or {}), **encoded}
    return sent


def sent(one: Desired) -> Mapping[str, Any]:
    """Return what an object that exists is sent: the body without what the manifest ignores."""
    return left_out(one.body, map(from_pointer, one.ignored)) if one.ignored else one.body


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
