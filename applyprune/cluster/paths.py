"""Names → URL paths. A name is checked before it becomes part of one (safety rule 10)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote

from applyprune.errors import UsageError

if TYPE_CHECKING:
    from applyprune.model.refs import Ref
    from applyprune.model.resources import Resource

# What an API name may never hold: it would end or leave the segment (apimachinery's
# IsValidPathSegmentName, and every control character besides).
_UNSAFE = re.compile(r"[/%\x00-\x20\x7f]")


def collection_path(resource: Resource, namespace: str = "") -> str:
    """Return the path of a resource; all namespaces when ``namespace`` is empty."""
    group = f"/apis/{segment(resource.group)}" if resource.group else "/api"
    base = f"{group}/{segment(resource.version)}"
    inside = f"/namespaces/{segment(namespace)}" if namespace and resource.namespaced else ""
    return f"{base}{inside}/{segment(resource.plural)}"


def object_path(resource: Resource, ref: Ref) -> str:
    """Return the path of one object; raises UsageError for a name that cannot be in a path."""
    if resource.namespaced and not ref.namespace:
        raise UsageError(f"{ref} has no namespace, and its kind needs one")
    return f"{collection_path(resource, ref.namespace)}/{segment(ref.name)}"


def segment(name: str) -> str:
    """Return a name quoted as one path segment; raises UsageError for one that cannot be."""
    if not name or name in {".", ".."} or _UNSAFE.search(name):
        raise UsageError(f"{name!r} is no name of the Kubernetes API")
    return quote(name, safe="")
