"""Objects in URLs and in responses: build their paths, and read them from items of responses.

Each name is checked before it becomes part of a path (safety rule 10).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from sys import intern
from typing import Any
from urllib.parse import quote

from applyprune.errors import Unavailable, UsageError
from applyprune.model.identity import Ref
from applyprune.model.live import LiveObject
from applyprune.model.resources import Resource
from applyprune.values import pattern, replace

METADATA = "application/json;as=PartialObjectMetadata{list};g=meta.k8s.io;v=v1"
"""The Accept header for metadata only; ``list`` is ``List`` for a list, else empty."""


def is_secret(resource: Resource) -> bool:
    """Return whether responses about the resource hold values that are never shown."""
    return (resource.group, resource.kind) == ("", "Secret")


def matches(labels: Mapping[str, str], selector: str) -> bool:
    """Return whether labels are selected by ``key`` or ``key=value``, separated by commas."""
    for part in filter(None, selector.split(",")):
        key, equals, value = part.partition("=")
        if key not in labels or (equals and labels[key] != value):
            return False
    return True


def live_object(resource: Resource, item: object, *, full: bool) -> LiveObject | None:
    """Return an item as an object; None if it cannot be in a set (it has no name or no UID)."""
    metadata = item.get("metadata") if isinstance(item, dict) else None
    if not isinstance(metadata, dict) or not metadata.get("name") or not metadata.get("uid"):
        return None
    namespace = intern(str(metadata.get("namespace") or ""))
    ref = Ref(resource.group, resource.kind, namespace, metadata["name"])
    # Items of a list have no apiVersion and kind.
    type_ = {"apiVersion": resource.gvk.api_version, "kind": resource.kind}
    return LiveObject.of(
        ref=ref,
        uid=str(metadata["uid"]),
        resource_version=str(metadata.get("resourceVersion", "")),
        metadata=metadata,
        body={**type_, **item} if full and isinstance(item, dict) else None,
    )


def object_in(
    resource: Resource,
    ref: Ref,
    body: Mapping[str, Any],
    *,
    full: bool = False,
    partial: bool = False,
    any_name: bool = False,
) -> LiveObject:
    """Return the object of a reply; raises Unavailable when it is not the requested one.

    With ``any_name``, its metadata may have another name: see ``LiveObject.other_name``.
    """
    kind = "PartialObjectMetadata" if partial else resource.kind
    live = live_object(resource, body, full=full)
    if live is not None and any_name:
        live = replace(live, ref=replace(live.ref, name=ref.name))
    if live is None or live.ref != ref or body.get("kind") != kind:
        raise invalid_response(str(ref), "it is about something else")
    return live


def tests_hold(operations: Sequence[Mapping[str, Any]], live: LiveObject) -> bool:
    """Return whether the tests of a patch hold for an object's present state."""
    # Imported here: few runs ever patch, and fewer are refused.
    from jsonpatch import JsonPatchException, JsonPointerException, apply_patch

    tests = [operation for operation in operations if operation["op"] == "test"]
    try:
        apply_patch({"metadata": live.whole_metadata}, tests)
    except (JsonPatchException, JsonPointerException):
        return False
    return True


def invalid_response(what: str, why: str) -> Unavailable:
    """Return the error for a success whose body is not what was asked for."""
    return Unavailable(f"{what}: invalid response from the server", code=200, reason=why)


# Characters that would end or leave a path segment (apimachinery's IsValidPathSegmentName), and
# control characters.
_UNSAFE = pattern(r"[/%\x00-\x20\x7f]")


def collection_path(resource: Resource, namespace: str = "") -> str:
    """Return the path of a resource; all namespaces when ``namespace`` is empty."""
    base = f"/{_version_path(resource)}"
    inside = f"/namespaces/{segment(namespace)}" if namespace and resource.namespaced else ""
    return f"{base}{inside}/{segment(resource.plural)}"


def schemas_path(resource: Resource) -> str:
    """Return the path of the OpenAPI document of a resource's group version."""
    return f"/openapi/v3/{_version_path(resource)}"


def _version_path(resource: Resource) -> str:
    group = f"apis/{segment(resource.group)}" if resource.group else "api"
    return f"{group}/{segment(resource.version)}"


def object_path(resource: Resource, ref: Ref) -> str:
    """Return the path of one object; raises UsageError for an invalid name."""
    if resource.namespaced and not ref.namespace:
        raise UsageError(f"{ref} needs a namespace: its kind is namespaced")
    return f"{collection_path(resource, ref.namespace)}/{segment(ref.name)}"


def segment(name: str) -> str:
    """Return a name quoted as one path segment; raises UsageError for an invalid name."""
    if not name or name in {".", ".."} or _UNSAFE.search(name):
        raise UsageError(f"{name!r} is not a valid Kubernetes name")
    return quote(name, safe="")
