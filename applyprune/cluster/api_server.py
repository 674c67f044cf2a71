"""Reading and writing objects: the engine's port to the API server.

Every reply is checked to be about what was asked for before it is believed (safety rule 9).
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from applyprune.cluster.discovery import discover
from applyprune.cluster.objects import (
    METADATA,
    is_secret,
    live_object,
    matches,
    named,
    unbelievable,
)
from applyprune.cluster.openapi import schemas_of
from applyprune.cluster.paths import collection_path, object_path
from applyprune.cluster.request import Request
from applyprune.cluster.watching import Selection, watch
from applyprune.errors import (
    AlreadyExists,
    Conflict,
    Expired,
    Invalid,
    NotFound,
    NotServed,
    Unavailable,
)
from applyprune.model.builtin import NAMESPACES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from applyprune.cluster.request import Reply
    from applyprune.cluster.transport import Transport
    from applyprune.model.live import Change, Live
    from applyprune.model.options import Propagation
    from applyprune.model.refs import Ref
    from applyprune.model.resources import Catalogue, Resource

_PAGE = 500
_TIMEOUT = 30.0
_RESTARTS = 5


class ApiServer:
    """One API server; thread-safe."""

    def __init__(self, transport: Transport, server: str, *, cache: Path | None = None) -> None:
        """Take a transport; ``cache`` is the folder for discovery documents."""
        self._transport = transport
        self._server = server
        self._cache = cache
        self.schema = schemas_of(transport)

    def catalogue(self) -> Catalogue:
        """Return what the server serves now."""
        return discover(self._transport, self._server, self._cache)

    def list(
        self, resource: Resource, *, namespace: str = "", selector: str = "", full: bool = False
    ) -> Sequence[Live]:
        """Return all objects of a resource, by pages; a list that broke off is never returned.

        ``selector`` is a label selector; objects that do not match it are dropped here as well:
        some aggregated APIs ignore it.
        """
        return self.list_at(resource, namespace=namespace, selector=selector, full=full)[0]

    def list_at(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        selector: str = "",
        name: str = "",
        full: bool = False,
    ) -> tuple[Sequence[Live], str]:
        """Return what ``list`` does, and the resourceVersion from which to watch on.

        That is the first page's; an aggregated API may give none, then it is empty. With a ``name``
        it is the list of that one object.
        """
        for _ in range(_RESTARTS):
            try:
                pages = [*self._pages(resource, namespace, selector, name, full=full)]
                return [live for lives, _ in pages for live in lives], pages[0][1]
            except Expired:
                continue  # the token ran out: begin again, from the first page
        raise Unavailable(
            f"the list of {resource.full_plural} could not be completed",
            code=410,
            why="its continue token expired each time",
        )

    def _pages(
        self, resource: Resource, namespace: str, selector: str, name: str, *, full: bool
    ) -> Iterator[tuple[Sequence[Live], str]]:
        token = ""
        while True:
            query = [("limit", str(_PAGE))]
            if selector:
                query.append(("labelSelector", selector))
            if name:
                query.append(named(name))
            if token:
                query.append(("continue", token))
            reply = self._transport.send(
                Request(
                    "GET",
                    collection_path(resource, namespace),
                    query=tuple(query),
                    accept="application/json" if full else METADATA.format(list="List"),
                    secret=is_secret(resource),
                )
            )
            items = reply.body.get("items")
            kind = str(reply.body.get("kind", ""))
            # An empty list of metadata comes as null.
            if "items" not in reply.body or not isinstance(items, list | None):
                raise unbelievable(f"the list of {resource.full_plural}", f"its kind is {kind!r}")
            lives = (live_object(resource, item, full=full) for item in items or ())
            metadata = reply.body.get("metadata") or {}
            yield (
                [
                    live
                    for live in lives
                    if live is not None and matches(live, selector) and name in {"", live.ref.name}
                ],
                str(metadata.get("resourceVersion") or ""),
            )
            token = str(metadata.get("continue") or "")
            if not token:
                return

    def watch(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        selector: str = "",
        name: str = "",
        full: bool = True,
        resource_version: str,
        stop: Callable[[], bool],
        seconds: float,
    ) -> Iterator[Change]:
        """Yield what happens to the objects of a resource after a resourceVersion, in order.

        It ends when ``seconds`` are over, when ``stop`` says so, which is asked several times a
        second in the caller's thread, and when the server ends it, as it is asked to after half a
        minute: whoever wants more watches on from the last resourceVersion.

        Raises Expired when the server does not know that resourceVersion any more, Unreachable or
        Unavailable when the connection or what came over it was broken: then list again. With a
        ``selector`` a DELETED object may be one that has left the selection.
        """
        return watch(
            self._transport,
            resource,
            Selection(namespace, selector, name, full),
            resource_version=resource_version,
            stop=stop,
            seconds=seconds,
        )

    def get(self, resource: Resource, ref: Ref, *, full: bool = False) -> Live:
        """Return one object, by a consistent read; NotFound is the proof that there is none."""
        accept = "application/json" if full else METADATA.format(list="")
        reply = self._transport.send(self._about("GET", resource, ref, accept=accept))
        return _believe(resource, ref, reply, full=full, partial=not full)

    def apply(
        self,
        resource: Resource,
        ref: Ref,
        body: Mapping[str, Any],
        *,
        manager: str,
        force: bool,
        dry_run: bool,
    ) -> tuple[Live, bool]:
        """Send a server-side apply; return the object as replied, and whether it was created."""
        query = [
            ("fieldManager", manager),
            ("force", "true" if force else "false"),
            ("fieldValidation", "Strict"),
        ]
        request = self._about(
            "PATCH",
            resource,
            ref,
            query=(*query, ("dryRun", "All")) if dry_run else tuple(query),
            body=json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(),
            content_type="application/apply-patch+yaml",
        )
        reply = self._transport.send(request)
        return _believe(resource, ref, reply, full=True), reply.status == 201

    def delete(
        self,
        resource: Resource,
        ref: Ref,
        *,
        uid: str,
        resource_version: str,
        propagation: Propagation,
        dry_run: bool,
        timeout: float,
    ) -> bool:
        """Delete this very object in this very state; return whether it is gone already.

        ``timeout`` in seconds bounds all tries together. Raises Conflict when the object is
        another one or has changed, NotFound when it is gone.
        """
        if not (uid and resource_version):
            raise ValueError(f"a delete without preconditions: {ref}")
        options: dict[str, Any] = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "propagationPolicy": str(propagation),
            "preconditions": {"uid": uid, "resourceVersion": resource_version},
        }
        if dry_run:
            options["dryRun"] = ["All"]
        reply = self._transport.send(
            self._about("DELETE", resource, ref, body=json.dumps(options).encode(), within=timeout)
        )
        body = reply.body
        if body.get("kind") == "Status":
            details = body.get("details") or {}
            if body.get("status") == "Success" and details.get("uid", uid) == uid:
                return True
            raise unbelievable(f"the delete of {ref}", "the reply is about another object")
        # Some kinds answer with the object, gone or not: only a look can tell.
        _believe(resource, ref, reply)
        return False

    def patch(self, resource: Resource, ref: Ref, operations: Sequence[Mapping[str, Any]]) -> Live:
        """Apply a JSON patch (RFC 6902), guarded by its own test operations.

        Raises Conflict when one of these does not hold any more: the server says 422 to that, as
        it does to a patch that is wrong.
        """
        try:
            reply = self._transport.send(
                self._about(
                    "PATCH",
                    resource,
                    ref,
                    body=json.dumps(operations).encode(),
                    content_type="application/json-patch+json",
                )
            )
        except Invalid as error:
            if _hold(operations, self.get(resource, ref)):
                raise
            raise Conflict(f"{ref} has changed since it was read", code=409) from error
        return _believe(resource, ref, reply)

    def serves(self, resource: Resource) -> bool:
        """Return whether the endpoint of a resource answers a list."""
        try:
            self._transport.send(
                Request(
                    "GET",
                    collection_path(resource),
                    query=(("limit", "1"),),
                    accept=METADATA.format(list="List"),
                    secret=is_secret(resource),
                )
            )
        except (NotServed, NotFound):
            return False
        return True

    def create_namespace(self, name: str) -> None:
        """Create a namespace that belongs to no set; it may exist already."""
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        try:
            self._transport.send(
                Request("POST", collection_path(NAMESPACES), body=json.dumps(body).encode())
            )
        except AlreadyExists:
            return

    def _about(
        self,
        method: str,
        resource: Resource,
        ref: Ref,
        *,
        query: tuple[tuple[str, str], ...] = (),
        body: bytes | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        within: float | None = None,
    ) -> Request:
        return Request(
            method,
            object_path(resource, ref),
            query=query,
            body=body,
            content_type=content_type,
            accept=accept,
            about=(resource.group, resource.plural, ref.name),
            secret=is_secret(resource),
            timeout=within or _TIMEOUT,
            expires=time.monotonic() + within if within else None,
        )


def _hold(operations: Sequence[Mapping[str, Any]], live: Live) -> bool:
    """Return whether the tests of a patch hold for an object as it is now."""
    # Imported here: few runs ever patch, and fewer are refused.
    from jsonpatch import JsonPatchException, JsonPointerException, apply_patch

    tests = [operation for operation in operations if operation["op"] == "test"]
    try:
        apply_patch({"metadata": live.metadata}, tests)
    except (JsonPatchException, JsonPointerException):
        return False
    return True


def _believe(
    resource: Resource, ref: Ref, reply: Reply, *, full: bool = False, partial: bool = False
) -> Live:
    """Return the object of a reply; raises Unavailable when it is not the one asked for."""
    kind = "PartialObjectMetadata" if partial else resource.kind
    live = live_object(resource, reply.body, full=full)
    if live is None or live.ref != ref or reply.body.get("kind") != kind:
        raise unbelievable(str(ref), "the reply is about something else")
    return live
