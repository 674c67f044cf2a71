"""Build the requests of the `KubernetesClient`: the only module that makes a request.

A law test keeps it so: a path, the preconditions of a delete and the marks of a Secret are then
right in one place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from applyprune.cluster.objects import collection_path, is_secret, object_path
from applyprune.cluster.transport.message import Request
from applyprune.model.identity import Ref
from applyprune.model.resources import PODS, Resource
from applyprune.planning.fields.normalize import may_be_secret
from applyprune.values import replace

if TYPE_CHECKING:
    from applyprune.model.request import DeleteRequest

    Query = tuple[tuple[str, str], ...]

JSON = "application/json"
APPLY_PATCH = "application/apply-patch+yaml"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
TIMEOUT = 30.0
"""Seconds for one try, where the caller sets no limit."""
_LOG_WITHIN = 10.0
"""Seconds: the API server asks the node, which may be gone."""


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
) -> Request:
    """Return a request about one object; raises UsageError for a name that cannot be in a path.

    ``within`` is in seconds and limits all tries together.
    """
    return Request(
        method,
        object_path(resource, ref) + (f"/{subresource}" if subresource else ""),
        query=query,
        body=_encoded(body),
        accept=accept,
        about=(resource.group, resource.plural, ref.name),
        secret=is_secret(resource) or (isinstance(body, Mapping) and may_be_secret(body)),
        timeout=within or TIMEOUT,
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
) -> Request:
    """Return a PATCH of one object; its content type says which kind of patch it is."""
    request = for_object("PATCH", resource, ref, query=query, body=patch, within=within)
    return replace(request, content_type=content_type)


def for_delete(request: DeleteRequest, *, dry_run: bool, within: float | None) -> Request:
    """Return a DELETE of exactly this object in exactly this state.

    Its options are in the body and in the query. HTTP lets a gateway drop the body of a DELETE, and
    without a body kube-apiserver reads the query (``Convert_url_Values_To_v1_DeleteOptions``).
    """
    state = request.precondition
    options: dict[str, object] = {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "propagationPolicy": str(request.propagation),
        "preconditions": {
            "uid": state.uid,  # guard: delete-uid
            "resourceVersion": state.resource_version,  # guard: delete-version
        },
    }
    query = [
        ("propagationPolicy", str(request.propagation)),  # guard: query-propagation
        ("uid", state.uid),  # guard: query-uid
        ("resourceVersion", state.resource_version),  # guard: query-version
    ]
    if dry_run:
        options["dryRun"] = ["All"]
        query.append(("dryRun", "All"))  # guard: query-dry-run
    return for_object(
        "DELETE", request.resource, request.ref, query=tuple(query), body=options, within=within
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
) -> Request:
    """Return a request about a resource, in one namespace or, if ``namespace`` is empty, in all.

    With ``retry`` off, it is sent again only when it is certain that the server has not seen it.
    """
    return Request(
        method,
        collection_path(resource, namespace),
        query=query,
        body=_encoded(body),
        accept=accept,
        secret=is_secret(resource) or (isinstance(body, Mapping) and may_be_secret(body)),
        retry=retry,
        timeout=within or TIMEOUT,
        within=within or None,
    )


def for_page(
    resource: Resource,
    namespace: str,
    query: Query,
    *,
    accept: str,
    most: int,
    within: float | None = None,
) -> Request:
    """Return a request for a page of a list, which may have ``most`` bytes."""
    page = for_collection("GET", resource, namespace, query=query, accept=accept, within=within)
    return replace(page, most=most, lists=True)


def for_log(
    method: str, pod: Ref, container: str, previous: bool, lines: int, size: int
) -> Request:
    """Return a request for the last lines of a container's log."""
    query = (
        ("container", container),
        ("previous", "true" if previous else "false"),
        ("tailLines", str(lines)),
        ("limitBytes", str(size)),
    )
    request = for_object(method, PODS, pod, subresource="log", query=query, within=_LOG_WITHIN)
    return replace(request, accept="*/*", retry=False, is_text=True)


def for_log_stream(pod: Ref, container: str, *, follow: bool, since: int | None) -> Request:
    """Return a request for a container's log, at most of the last ``since`` seconds."""
    query = (
        ("container", container),
        ("follow", "true" if follow else "false"),
        *((("sinceSeconds", str(since)),) if since is not None else ()),
    )
    request = for_object("GET", PODS, pod, subresource="log", query=query)
    return replace(request, accept="*/*", retry=False, is_text=True)


def for_document(
    path: str,
    *,
    accept: str = JSON,
    headers: tuple[tuple[str, str], ...] = (),
    whole: bytes = b"",
    within: float | None = None,
) -> Request:
    """Return a GET of a document that the server publishes: version, discovery, OpenAPI, health.

    ``whole`` is the text that is a valid reply, if that is not JSON.
    """
    return Request(
        "GET",
        path,
        accept=accept,
        headers=headers,
        whole=whole,
        timeout=within or TIMEOUT,
        within=within or None,
    )


def selection(selector: str, name: str = "") -> Query:
    """Return the parameters that select objects by label or by name; RBAC understands the name."""
    query: list[tuple[str, str]] = []
    if selector:
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
