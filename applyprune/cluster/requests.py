"""Requests to the API server and their paths, and the objects in the replies.

No other module calls ``ApiRequest`` or builds a path, and a law test keeps it so: the check of a
name, the preconditions of a delete and what may hold a Secret are right in one place.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from sys import intern
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from msgspec import Struct

from applyprune.clock import Lease
from applyprune.cluster.failures import without_values
from applyprune.cluster.messages import ApiRequest, RetryBudget
from applyprune.errors import Unavailable, UsageError
from applyprune.model.identity import Ref
from applyprune.model.live import PODS, LiveObject, Resource
from applyprune.planning.normalize import may_be_secret
from applyprune.values import pattern, replace

if TYPE_CHECKING:
    from applyprune.model.plan import DeleteRequest

    Query = tuple[tuple[str, str], ...]


JSON = "application/json"
METADATA = "application/json;as=PartialObjectMetadata{list};g=meta.k8s.io;v=v1"
"""The Accept header for metadata only; ``list`` is ``List`` for a list, else empty."""
APPLY_PATCH = "application/apply-patch+yaml"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
_TIMEOUT = 30.0
"""Seconds for one try, where the caller sets no limit."""


def for_object(
    method: str,
    resource: Resource,
    ref: Ref,
    *,
    subresource: str = "",
    query: Query = (),
    body: object = None,
    accept: str = JSON,
    within: float | None = None,
) -> ApiRequest:
    """Return a request about one object; raises UsageError for a name that cannot be in a path.

    ``within`` is in seconds and limits all tries together.
    """
    return ApiRequest(
        method,
        object_path(resource, ref) + (f"/{subresource}" if subresource else ""),
        query=query,
        body=_encoded(body),
        accept=accept,
        about=(resource.group, resource.plural, ref.name),
        secret=_is_secret(resource) or (isinstance(body, Mapping) and may_be_secret(body)),
        timeout=within or _TIMEOUT,
        within=within or None,
    )


def for_patch(
    resource: Resource,
    ref: Ref,
    content_type: str,
    patch: object,
    *,
    query: Query = (),
    within: float | None = None,
) -> ApiRequest:
    """Return a PATCH of one object; its content type says which kind of patch it is."""
    request = for_object("PATCH", resource, ref, query=query, body=patch, within=within)
    return replace(request, content_type=content_type)


def for_delete(request: DeleteRequest, *, within: float | None) -> ApiRequest:
    """Return a DELETE of exactly this object in exactly this state.

    Its options are in the body and in the query. HTTP lets a gateway drop the body of a DELETE, and
    without a body kube-apiserver reads the query (``Convert_url_Values_To_v1_DeleteOptions``).
    """
    state = request.precondition
    preconditions = {
        "uid": state.uid,  # guard: delete-uid
        "resourceVersion": state.resource_version,  # guard: delete-version
    }
    query = (
        ("propagationPolicy", str(request.propagation)),  # guard: query-propagation
        ("uid", state.uid),  # guard: query-uid
        ("resourceVersion", state.resource_version),  # guard: query-version
    )
    return _delete(request, preconditions, query, {}, within)


def for_refused_delete(request: DeleteRequest, uid: str, *, within: float | None) -> ApiRequest:
    """Return the dry run of a DELETE that must fail, for its body names a UID that nothing has.

    The UID is not in the query: a reply that names it proves that the server reads the body.
    """
    query = (("propagationPolicy", str(request.propagation)), ("dryRun", "All"))
    return _delete(request, {"uid": uid}, query, {"dryRun": ["All"]}, within)


def _delete(
    request: DeleteRequest,
    preconditions: Mapping[str, str],
    query: Query,
    more: Mapping[str, object],
    within: float | None,
) -> ApiRequest:
    body = {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "propagationPolicy": str(request.propagation),
        "preconditions": preconditions,
        **more,
    }
    return for_object(
        "DELETE", request.resource, request.ref, query=query, body=body, within=within
    )


def for_collection(
    method: str,
    resource: Resource,
    namespace: str = "",
    *,
    query: Query = (),
    body: object = None,
    accept: str = JSON,
    retry: bool = True,
    within: float | None = None,
) -> ApiRequest:
    """Return a request about a resource, in one namespace or, if ``namespace`` is empty, in all.

    With ``retry`` off, it is sent again only when it is certain that the server has not seen it.
    """
    return ApiRequest(
        method,
        collection_path(resource, namespace),
        query=query,
        body=_encoded(body),
        accept=accept,
        secret=_is_secret(resource) or (isinstance(body, Mapping) and may_be_secret(body)),
        retry=retry,
        timeout=within or _TIMEOUT,
        within=within or None,
    )


def for_page(
    resource: Resource,
    namespace: str,
    query: Query,
    *,
    accept: str,
    max_bytes: int,
    within: float | None = None,
) -> ApiRequest:
    """Return a request for a page of a list, which may have ``max_bytes``."""
    page = for_collection("GET", resource, namespace, query=query, accept=accept, within=within)
    return replace(page, max_bytes=max_bytes, unread=("items",))


_LOG_WITHIN = 10.0
"""Seconds: the API server asks the node, which may be gone."""


def for_log(
    method: str, pod: Ref, container: str, previous: bool, lines: int, size: int
) -> ApiRequest:
    """Return a request for the last lines of a container's log."""
    query = (
        ("container", container),
        ("previous", "true" if previous else "false"),
        ("tailLines", str(lines)),
        ("limitBytes", str(size)),
    )
    request = for_object(method, PODS, pod, subresource="log", query=query, within=_LOG_WITHIN)
    return replace(request, accept="*/*", retry=False, is_text=True)


def for_document(
    path: str,
    *,
    accept: str = JSON,
    headers: tuple[tuple[str, str], ...] = (),
    expected: bytes = b"",
    within: float | None = None,
    unread: tuple[str, ...] = (),
) -> ApiRequest:
    """Return a GET of a document that the server publishes: version, discovery, OpenAPI, health.

    ``expected`` is the text that is a valid reply, if that is not JSON.
    """
    return ApiRequest(
        "GET",
        path,
        accept=accept,
        headers=headers,
        expected=expected,
        timeout=within or _TIMEOUT,
        within=within or None,
        unread=unread,
    )


def selection(selector: str, name: str = "", among: Collection[str] = ()) -> Query:
    """Return the parameters that select objects by label or by name; RBAC understands the name.

    ``among`` are values of the label ``selector``.
    """
    query: list[tuple[str, str]] = []
    if among:
        query.append(("labelSelector", f"{selector} in ({','.join(sorted(among))})"))
    elif selector:
        query.append(("labelSelector", selector))
    if name:
        query.append(("fieldSelector", f"metadata.name={name}"))
    return tuple(query)


# json.dumps would make a new encoder for each call.
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def _encoded(body: object) -> bytes | None:
    if body is None:
        return None
    return _ENCODER.encode(body).encode()


def _is_secret(resource: Resource) -> bool:
    """Return whether responses about the resource hold values that are never shown."""
    return (resource.group, resource.kind) == ("", "Secret")


# Paths: each name is checked before it becomes part of one (safety rule 10).


def object_path(resource: Resource, ref: Ref) -> str:
    """Return the path of one object; raises UsageError for an invalid name."""
    if resource.namespaced and not ref.namespace:
        raise UsageError(f"{ref} needs a namespace: its kind is namespaced")
    return f"{collection_path(resource, ref.namespace)}/{segment(ref.name)}"


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


# Characters that would end or leave a path segment (apimachinery's IsValidPathSegmentName), and
# control characters.
_UNSAFE = pattern(r"[/%\x00-\x1f\x7f]")


@lru_cache(1024)  # every request of a run names the same few kinds and namespaces
def segment(name: str) -> str:
    """Return a name quoted as one path segment; raises UsageError for an invalid name."""
    if not name or name in {".", ".."} or _UNSAFE.search(name):
        raise UsageError(f"{name!r} is not a valid Kubernetes name")
    return quote(name, safe="")


# What holds for every write of a client: its lease, its retries, and who gets its warnings.


WarningSink = Callable[[Ref, str], None]
"""Gets an object and a warning of the server about it; thread-safe."""


class WriteTerms(Struct, frozen=True):
    """The terms of the writes of one client."""

    lease: Lease | None = None
    """What must last while a write is sent."""
    budget: RetryBudget | None = None
    """The time for retries that all of them share; None if each has its own."""
    sink: WarningSink | None = None
    """Gets what the server warns about; the text of a Secret is empty if it may hold a value."""

    def on(self, write: ApiRequest, ref: Ref) -> ApiRequest:
        """Return a write of an object under these terms."""
        handler = None
        if self.sink is not None:
            handler = _warning_handler(self.sink, ref, is_secret=write.secret)
        return replace(
            write,
            on_warnings=handler,
            budget=self.budget,
            lease=self.lease,  # guard: write-lease
        )


NO_TERMS = WriteTerms()


def _warning_handler(
    sink: WarningSink, ref: Ref, *, is_secret: bool
) -> Callable[[Sequence[str]], None]:
    def take(texts: Sequence[str]) -> None:
        for text in texts:
            # guard: secret-in-warning -> sink(ref, text)
            sink(ref, without_values(text) if is_secret else text)

    return take


# The objects in replies.


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
    if live is not None and any_name and live.ref.name != ref.name:
        live = replace(live, ref=replace(live.ref, name=ref.name))
    if live is None or live.ref != ref or body.get("kind") != kind:
        raise invalid_response(str(ref), "it is about something else")
    return live


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


def invalid_response(what: str, reason: str) -> Unavailable:
    """Return the error for a success whose body is not what was asked for."""
    return Unavailable(f"{what}: invalid response from the server", code=200, reason=reason)
