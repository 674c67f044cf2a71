"""Normalize a manifest's body before it is sent, as the API server would do, and digest it.

A digest is the first 128 bits, in hex, of the SHA-256 of the canonical JSON text.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from applyprune.model.fieldset import from_pointer, left_out
from applyprune.model.plan import Desired
from applyprune.planning.applyset import LAST_APPLIED, MANIFEST_DIGEST, OWNED_BY, PART_OF
from applyprune.values import encode_sorted

if TYPE_CHECKING:
    from applyprune.model.problem import JSONObject


# Annotations of live objects that come along if a manifest is copied from one: never sent as such.
_COPIED = frozenset({LAST_APPLIED, MANIFEST_DIGEST, OWNED_BY})

_KEYED = frozenset({("v1", "ConfigMap"), ("v1", "Secret")})
_DATA = frozenset({"binaryData", "data"})
# A node registers itself with its status; the server takes it at the creation.
_REGISTERED_WITH_STATUS = ("v1", "Node")
# Of these kinds, the server stores no empty list, but counts a new generation whenever one is sent.
# Null is the same value, owned as the list is, and counts nothing (tried, with all kinds).
_COUNTS_EMPTY = frozenset(
    {
        ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"),
        ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
        ("networking.k8s.io/v1", "NetworkPolicy"),
    }
)


def normalize(
    body: Mapping[str, Any], *, namespace: str, set_id: str, has_status: bool = False
) -> JSONObject:
    """Return a new body with its namespace and the set's label, without ``stringData``.

    The server merges ``stringData`` into ``data`` without ownership, so a key that is removed from
    the manifest would stay in the Secret permanently (verified on 1.36). An empty map of keys says
    nothing, but would conflict with whoever applies a key. With ``has_status``, the server drops
    the status.
    """
    metadata = {
        key: value
        for key, value in body["metadata"].items()
        if key != "namespace" and value not in ({}, [])
    }
    if namespace:
        metadata["namespace"] = namespace
    annotations = metadata.get("annotations") or {}
    if not _COPIED.isdisjoint(annotations):
        metadata["annotations"] = {
            key: value for key, value in annotations.items() if key not in _COPIED
        }
    metadata["labels"] = {**(metadata.get("labels") or {}), PART_OF: set_id}
    sent: JSONObject = {**body, "metadata": metadata}
    if is_secret(body) and "stringData" in body:
        plain = sent.pop("stringData") or {}
        encoded = {
            key: base64.b64encode(str(value).encode()).decode() for key, value in plain.items()
        }
        sent["data"] = {**(body.get("data") or {}), **encoded}
    kind = (str(body.get("apiVersion")), str(body.get("kind")))
    if has_status and kind != _REGISTERED_WITH_STATUS:
        sent.pop("status", None)
    if kind in _KEYED:
        sent = {key: value for key, value in sent.items() if key not in _DATA or value}
    if kind in _COUNTS_EMPTY:
        sent = {key: value if key == "metadata" else _nulled(value) for key, value in sent.items()}
    return sent


def _nulled(value: Any) -> Any:
    """Return a value with null for each empty list in it."""
    if isinstance(value, dict):
        return {key: _nulled(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_nulled(item) for item in value] or None
    return value


def sent(desired: Desired) -> Mapping[str, Any]:
    """Return the body to send for an existing object: without the fields that it ignores."""
    return (
        left_out(desired.body, map(from_pointer, desired.ignored))
        if desired.ignored
        else desired.body
    )


SECRET_PARTS = ("data", "stringData")
"""The fields of a Secret that contain its values."""


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def canonical(value: object) -> bytes:
    """Return the JSON text of a value with sorted keys and no spaces."""
    try:
        return encode_sorted(value)
    except UnicodeEncodeError:
        # A half of a surrogate pair.
        return _ENCODER.encode(value).encode("utf-8", "surrogatepass")


def canonical_text(value: object) -> str:
    """Return what ``canonical`` does, as text."""
    return canonical(value).decode("utf-8", "surrogatepass")


def digest(value: object) -> str:
    """Return the digest of JSON data: 32 hex digits."""
    return hashlib.sha256(canonical(value)).hexdigest()[:32]


def manifest_digest(body: Mapping[str, Any]) -> str:
    """Return the digest of a manifest for the inventory.

    For a Secret, also one of a mistyped kind, only the keys of its data count. No digest of a
    secret value ever leaves the process, because a short value could be guessed from it.
    """
    if may_be_secret(body):
        body = {
            key: value
            if key not in SECRET_PARTS
            else sorted(value)
            if isinstance(value, dict)
            else None
            for key, value in body.items()
        }
    return digest(body)


def with_manifest_digest(
    body: Mapping[str, Any], manifest: Mapping[str, Any], *, but: Collection[str] = ()
) -> JSONObject:
    """Return a body with the annotation that has the digest of its manifest, as the user wrote it.

    On the live object it proves what was applied last: no rule, option or record changes it, nor
    the annotations ``but``.
    """
    metadata = manifest["metadata"]
    annotations = metadata.get("annotations") or {}
    hidden = _COPIED.union(but)
    written = {key: value for key, value in annotations.items() if key not in hidden}
    as_written = {**manifest, "metadata": {**metadata, "annotations": written}}
    annotations = body["metadata"].get("annotations") or {}
    told = {**annotations, MANIFEST_DIGEST: manifest_digest(as_written)}
    return {**body, "metadata": {**body["metadata"], "annotations": told}}


def ruled_digest(manifest: str, pointers: Sequence[str]) -> str:
    """Return the digest for a manifest of which rules leave fields to others.

    It is another one as soon as a rule comes or goes: then the manifest must be sent again.
    """
    return digest([manifest, *pointers]) if pointers else manifest


def is_secret(body: Mapping[str, Any]) -> bool:
    """Return whether an object is a core Secret."""
    return body.get("kind") == "Secret" and body.get("apiVersion") == "v1"


def may_be_secret(body: Mapping[str, Any]) -> bool:
    """Return whether an object is a core Secret, or may be one whose kind is mistyped.

    No other built-in kind has ``stringData``.
    """
    return is_secret(body) or "stringData" in body  # guard: mistyped-secret
