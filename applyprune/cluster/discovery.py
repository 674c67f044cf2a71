"""Aggregated discovery (KEP-3352) of what the API server serves: two requests, cached by ETag."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from applyprune.cluster.kept_documents import read_document
from applyprune.cluster.object_requests import for_document
from applyprune.errors import AccessError, Unreachable
from applyprune.model.resources import Resource, ResourceMap

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from applyprune.cluster.transport.transport import Transport
    from applyprune.model.identity import GVK, GroupKind

_ACCEPT = ",".join(
    f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
    for version in ("v2", "v2beta1")
)


def discover(transport: Transport, server: str, cache: Path | None) -> ResourceMap:
    """Return what the server serves now; raises AccessError.

    ``cache`` is a folder for earlier responses; None means no cache.
    """
    served: dict[GVK, Resource] = {}
    preferred: dict[GroupKind, Resource] = {}
    stale: set[str] = set()
    versions: set[tuple[str, str]] = set()
    for path in ("/api", "/apis"):
        for group in _groups(read_document(transport, server, path, cache, accept=_ACCEPT)):
            name = str(group.get("metadata", {}).get("name", ""))
            for version in group.get("versions") or ():
                versions.add((name, str(version.get("version", ""))))
                if version.get("freshness") == "Stale":
                    stale.add(name)
                # The server lists versions in its order of preference.
                for resource in _resources(name, version):
                    served[resource.gvk] = resource
                    preferred.setdefault(resource.group_kind, resource)
    return ResourceMap(served, preferred, frozenset(stale), frozenset(versions))


def server_version(transport: Transport) -> str:
    """Return the server's version, ``v1.36.3`` for example; raises AccessError."""
    return str(transport.send(for_document("/version")).body.get("gitVersion", ""))


def is_ready(transport: Transport, within: float) -> bool:
    """Return whether the server says that it is ready; ``within`` is in seconds."""
    try:
        transport.send(for_document("/readyz", accept="text/plain", whole=b"ok", within=within))
    except AccessError:
        return False
    return True


def _groups(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    items = document.get("items")
    if document.get("kind") != "APIGroupDiscoveryList" or not isinstance(items, list):
        raise Unreachable(
            "the server does not support aggregated discovery",
            reason=f"it responded with kind {document.get('kind')!r}",
            hint="applyprune needs Kubernetes 1.27 or newer.",
        )
    yield from items


def _resources(group: str, version: Mapping[str, Any]) -> Iterator[Resource]:
    for item in version.get("resources") or ():
        kind = item.get("responseKind") or {}
        plural, verbs = item.get("resource"), item.get("verbs") or ()
        # A resource that cannot be read or deleted, like a review, cannot be in a set.
        if not plural or not {"get", "list", "delete"} <= set(verbs):
            continue
        yield Resource(
            # A resource may return a kind of another group (scale subresources do); its path
            # needs the endpoint's own group and version.
            group=group,
            version=str(version.get("version", "")),
            kind=str(kind.get("kind", "")),
            plural=str(plural),
            namespaced=item.get("scope") == "Namespaced",
            singular=str(item.get("singularResource") or ""),
            short_names=tuple(map(str, item.get("shortNames") or ())),
            has_status=any(
                below.get("subresource") == "status" for below in item.get("subresources") or ()
            ),
        )
