"""A manifest's body as it is sent: what the API server would make of it, made here first."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from applyprune.planning.digests import is_secret
from applyprune.planning.field_paths import from_pointer, left_out
from applyprune.planning.tracking import LAST_APPLIED, PART_OF

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
