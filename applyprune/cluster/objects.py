"""Turn items of responses into objects; refuse responses that are not what was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.errors import Unavailable
from applyprune.model.identity import Ref
from applyprune.model.live import LiveObject

if TYPE_CHECKING:
    from applyprune.model.resources import Resource


METADATA = "application/json;as=PartialObjectMetadata{list};g=meta.k8s.io;v=v1"
"""The Accept header for metadata only; ``list`` is ``List`` for a list, else empty."""


def is_secret(resource: Resource) -> bool:
    """Return whether responses about the resource hold values that are never shown."""
    return (resource.group, resource.kind) == ("", "Secret")


def matches(live: LiveObject, selector: str) -> bool:
    """Return whether an object has the label; selectors here are ``key`` or ``key=value``."""
    key, equals, value = selector.partition("=")
    if not key:
        return True
    return key in live.labels and (not equals or live.labels[key] == value)


def live_object(resource: Resource, item: object, *, full: bool) -> LiveObject | None:
    """Return an item as an object; None if it cannot be in a set (it has no name or no UID)."""
    metadata = item.get("metadata") if isinstance(item, dict) else None
    if not isinstance(metadata, dict) or not metadata.get("name") or not metadata.get("uid"):
        return None
    ref = Ref(resource.group, resource.kind, str(metadata.get("namespace") or ""), metadata["name"])
    # Items of a list have no apiVersion and kind.
    type_ = {"apiVersion": resource.gvk.api_version, "kind": resource.kind}
    return LiveObject(
        ref=ref,
        uid=str(metadata["uid"]),
        resource_version=str(metadata.get("resourceVersion", "")),
        metadata=metadata,
        body={**type_, **item} if full and isinstance(item, dict) else None,
    )


def invalid_response(what: str, why: str) -> Unavailable:
    """Return the error for a success whose body is not what was asked for."""
    return Unavailable(f"{what}: invalid response from the server", code=200, why=why)
