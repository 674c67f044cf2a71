"""Build URL paths from names. Each name is checked first (safety rule 10)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote

from applyprune.errors import UsageError

if TYPE_CHECKING:
    from applyprune.model.identity import Ref
    from applyprune.model.resources import Resource

# Characters that would end or leave a path segment (apimachinery's IsValidPathSegmentName), and
# control characters.
_UNSAFE = re.compile(r"[/%\x00-\x20\x7f]")


def collection_path(resource: Resource, namespace: str = "") -> str:
    """Return the path of a resource; all namespaces when ``namespace`` is empty."""
    group = f"/apis/{segment(resource.group)}" if resource.group else "/api"
    base = f"{group}/{segment(resource.version)}"
    inside = f"/namespaces/{segment(namespace)}" if namespace and resource.namespaced else ""
    return f"{base}{inside}/{segment(resource.plural)}"


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
