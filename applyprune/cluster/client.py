"""Read and write objects: every request to the API server goes through the `KubernetesClient`.

Every response is checked to be about what was asked for before it is used (safety rule 9).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from typing import TYPE_CHECKING, Any, Self

from applyprune.clock import Lease
from applyprune.cluster.access_reviews import AccessReviews
from applyprune.cluster.discovery import discover, is_ready, server_version
from applyprune.cluster.object_requests import (
    APPLY_PATCH,
    JSON,
    JSON_PATCH,
    MERGE_PATCH,
    for_collection,
    for_delete,
    for_log,
    for_object,
    for_patch,
)
from applyprune.cluster.objects import METADATA, invalid_response, object_in, tests_hold
from applyprune.cluster.paged_lists import paged_list
from applyprune.cluster.pod_logs import log_lines
from applyprune.cluster.schemas import read_schemas
from applyprune.cluster.transport.message import Request, Response, http_date
from applyprune.cluster.transport.transport import Transport
from applyprune.cluster.transport.unanswered import RetryBudget
from applyprune.cluster.watch import Selection, watch
from applyprune.cluster.write_terms import PLAIN, WarningSink, WriteTerms
from applyprune.errors import AlreadyExists, Conflict, Invalid, NotFound, NotServed
from applyprune.model.identity import Ref
from applyprune.model.live import Absent, LiveObject, WatchEvent
from applyprune.model.request import ApplyRequest, DeleteRequest, PatchRequest
from applyprune.model.resources import (
    API_SERVICES,
    DEFINITIONS,
    NAMESPACES,
    Registrations,
    Resource,
    ResourceMap,
    namespace_ref,
)
from applyprune.values import replace

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path


_DRY_RUN = ("dryRun", "All")
_READY_WITHIN = 2.0
# An API server that has just started lists its kinds completely after 0.3 to 6 seconds.
_PATIENCE = 8.0


class KubernetesClient:
    """A client of one API server; thread-safe.

    A method that takes ``timeout``, in seconds, limits all its tries together.
    """

    def __init__(
        self,
        transport: Transport,
        server: str,
        context: str = "",
        cache: Path | None = None,
        terms: WriteTerms = PLAIN,
        *,
        registry: KubernetesClient | None = None,
        run: str = "",
    ) -> None:
        """Keep the transport; ``cache`` is the folder for discovery and OpenAPI documents.

        ``registry`` reads the CRDs and APIServices, if that takes other rights. Without ``run``,
        the run has a new ID.
        """
        self.run = run or uuid.uuid4().hex[:12]
        """The ID of the run that the requests are for; it is in their User-Agent."""
        self._transport = transport.for_run(self.run)
        self._terms = terms
        self.server = server
        """The URL of the API server."""
        self.context = context
        """The context of the kubeconfig; empty if unknown."""
        self._cache = cache
        self._registry = registry

    @property
    def patience(self) -> float:
        """Return for how many seconds a read may be repeated that shows too little."""
        return min(_PATIENCE, self._transport.retry_budget)

    def under_lease(self, lease: Lease) -> Self:
        """Return the same client; no write is sent, or sent again, after the lease's end.

        Its writes share one budget for retries.
        """
        leases, budget = (*self._terms.leases, lease), RetryBudget(self._transport.retry_budget)
        return self._under(replace(self._terms, leases=leases, budget=budget), self.run)

    def warning_to(self, sink: WarningSink | None) -> Self:
        """Return the same client; ``sink`` gets what the server warns about in replies to writes.

        It is called from any thread. Its text is not safe to print yet.
        """
        return self._under(replace(self._terms, sink=sink), self.run)

    def for_run(self) -> Self:
        """Return the same client for the requests of a new run."""
        return self._under(self._terms, "")

    def _under(self, terms: WriteTerms, run: str) -> Self:
        other = copy(self)
        other.run = run or uuid.uuid4().hex[:12]
        other._terms, other._transport = terms, self._transport.for_run(other.run)  # noqa: SLF001
        return other

    def _write(self, write: Request, ref: Ref) -> Response:
        """Send what changes the cluster."""
        return self._transport.send(self._terms.on(write, ref))

    @property
    def server_time(self) -> datetime | None:
        """Return the time of the server's last reply, by its own clock; None if it gave none."""
        return http_date(self._transport.date)

    def resource_map(self, *, remembered: bool = False) -> ResourceMap:  # noqa: ARG002
        """Return what the server serves now; this client has not ``remembered`` anything."""
        return discover(self._transport, self.server, self._cache)

    def registrations(self) -> Registrations:
        """Return the CRDs and APIServices, by which the list of kinds is proved complete."""
        reader = self._registry or self
        return Registrations(
            tuple(reader.list(DEFINITIONS, full=True)),
            tuple(reader.list(API_SERVICES, full=True)),
        )

    @property
    def access(self) -> AccessReviews:
        """Return what asks the server for the rights of this account."""
        return AccessReviews(self._transport)

    def is_ready(self) -> bool:
        """Return whether the server says that it is ready, which it is not just after a start."""
        return is_ready(self._transport, _READY_WITHIN)

    def schemas(self, resource: Resource) -> Mapping[str, Any]:
        """Return the OpenAPI v3 schemas of a resource's group version, by name."""
        return read_schemas(self._transport, self.server, self._cache, resource)

    def version(self) -> str:
        """Return the server's version, ``v1.36.3`` for example."""
        return server_version(self._transport)

    def list(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        selector: str = "",
        full: bool = False,
        page: int | None = None,
        timeout: float | None = None,
        remembered: bool = False,  # noqa: ARG002
    ) -> Sequence[LiveObject]:
        """Return all objects of a resource, read in pages of ``page``; never an incomplete list."""
        # What does not match is dropped here as well: some aggregated APIs ignore the selector.
        wanted = Selection(namespace, selector, "", full)
        return paged_list(self._transport, resource, wanted, page, timeout=timeout)[0]

    def list_at(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        selector: str = "",
        name: str = "",
        full: bool = False,
        keep: Callable[[LiveObject], LiveObject] | None = None,
    ) -> tuple[Sequence[LiveObject], str]:
        """Return what ``list`` returns, and the resourceVersion from which to watch.

        That is the first page's; an aggregated API may give none, then it is empty. With a
        ``name``, only that object is listed. ``keep`` reduces each object to what is needed.
        """
        wanted = Selection(namespace, selector, name, full)
        return paged_list(self._transport, resource, wanted, keep=keep)

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
    ) -> Iterator[WatchEvent]:
        """Yield the changes after a resourceVersion, as ``cluster.watch.watch`` describes."""
        wanted = Selection(namespace, selector, name, full)
        version = resource_version
        return watch(
            self._transport, resource, wanted, resource_version=version, stop=stop, seconds=seconds
        )

    def get(
        self,
        resource: Resource,
        ref: Ref,
        *,
        full: bool = False,
        timeout: float | None = None,
        any_name: bool = False,
    ) -> LiveObject:
        """Return one object, by a consistent read; raises NotFound when it does not exist.

        With ``any_name``, its metadata may have another name: see ``LiveObject.other_name``.
        """
        accept = JSON if full else METADATA.format(list="")
        body = self._transport.send(
            for_object("GET", resource, ref, accept=accept, within=timeout)
        ).body
        return object_in(resource, ref, body, full=full, partial=not full, any_name=any_name)

    def read(self, resource: Resource, ref: Ref, *, full: bool = False) -> LiveObject | Absent:
        """Return one object, by a consistent read, or the proof that it does not exist.

        Its metadata may have another name: see ``LiveObject.other_name``.
        """
        try:
            return self.get(resource, ref, full=full, any_name=True)
        except NotFound:
            return Absent()

    def apply(self, request: ApplyRequest, *, dry_run: bool = False) -> tuple[LiveObject, bool]:
        """Send a server-side apply; return the object as stored, and whether it was created.

        Its metadata may have another name: see ``LiveObject.other_name``.
        """
        query = (
            ("fieldManager", request.manager),
            ("force", "true" if request.force else "false"),
            ("fieldValidation", "Strict"),
        )
        resource, ref = request.resource, request.ref
        response = self._write(
            for_patch(
                resource,
                ref,
                APPLY_PATCH,
                request.guarded_body,
                query=(*query, _DRY_RUN) if dry_run else query,
            ),
            ref,
        )
        live = object_in(resource, ref, response.body, full=True, any_name=True)
        return live, response.status == 201

    def create(
        self,
        resource: Resource,
        ref: Ref,
        body: Mapping[str, Any],
        *,
        retry: bool = True,
        timeout: float | None = None,
    ) -> LiveObject:
        """Create an object and return it as stored; raises AlreadyExists.

        With ``retry`` off, it is sent again only when it is certain that the server has not seen
        it, so AlreadyExists never means an object that this very call has created.
        """
        response = self._write(
            for_collection("POST", resource, ref.namespace, body=body, retry=retry, within=timeout),
            ref,
        )
        return object_in(resource, ref, response.body, full=True)

    def replace(
        self,
        resource: Resource,
        ref: Ref,
        body: Mapping[str, Any],
        *,
        subresource: str = "",
        timeout: float | None = None,
        dry_run: bool = False,
    ) -> LiveObject:
        """Replace an object, or its ``status`` subresource, and return it as stored.

        Raises Conflict when ``metadata.uid`` or ``metadata.resourceVersion`` of the body are not
        the stored ones.
        """
        response = self._write(
            for_object(
                "PUT",
                resource,
                ref,
                subresource=subresource,
                query=(_DRY_RUN,) if dry_run else (),
                body=body,
                within=timeout,
            ),
            ref,
        )
        return object_in(resource, ref, response.body, full=True)

    def merge_patch(
        self,
        resource: Resource,
        ref: Ref,
        patch: Mapping[str, Any],
        *,
        timeout: float | None = None,
    ) -> LiveObject:
        """Send a JSON merge patch (RFC 7386) and return the object as stored.

        Raises Conflict when the patch has a ``metadata.resourceVersion`` other than the stored one.
        """
        response = self._write(for_patch(resource, ref, MERGE_PATCH, patch, within=timeout), ref)
        return object_in(resource, ref, response.body, full=True)

    def patch(self, request: PatchRequest) -> LiveObject:
        """Apply a JSON patch, guarded by its own test operations; return the object as stored.

        Raises Conflict when one of the tests does not hold any more: the server answers 422 to
        that, as it does to a wrong patch.
        """
        resource, ref, operations = request.resource, request.ref, request.operations
        try:
            response = self._write(for_patch(resource, ref, JSON_PATCH, operations), ref)
        except Invalid as error:
            if tests_hold(operations, self.get(resource, ref)):
                raise
            raise Conflict(f"{ref} has changed since it was read", code=409) from error
        return object_in(resource, ref, response.body, full=True)

    def delete(
        self, request: DeleteRequest, *, dry_run: bool = False, timeout: float | None = None
    ) -> bool:
        """Delete exactly this object in exactly this state; return whether that is confirmed.

        If it is not, only a GET can tell whether the object is gone: finalizers may keep it. Raises
        Conflict when the object was changed or replaced by another of the same name. NotFound
        proves nothing: an admission webhook may answer with it.
        """
        resource, ref, uid = request.resource, request.ref, request.precondition.uid
        body = self._write(for_delete(request, dry_run=dry_run, within=timeout), ref).body
        if body.get("kind") == "Status":
            named = (body.get("details") or {}).get("uid", "")
            if body.get("status") == "Success" and named in {"", uid}:
                return bool(named)  # guard: deletion-names-uid
            raise invalid_response(f"the delete of {ref}", "it is about another object")
        replied = object_in(resource, ref, body)
        # For example a Service. The API server marks what it keeps, and then answers (Store.Delete
        # in its registry/generic); the core group is always its own.
        is_unmarked = replied.uid == uid and not replied.terminating
        return is_unmarked and resource.group == ""  # guard: deletion-without-mark

    def log(self, pod: Ref, container: str, *, previous: bool, lines: int, size: int) -> str:
        """Return the last lines of a container's log, or of its ``previous`` instance.

        It is asked for once: a node that does not answer now would not answer soon.
        """
        return self._transport.send(for_log("GET", pod, container, previous, lines, size)).text

    def log_lines(
        self, pod: Ref, container: str, *, follow: bool, since: int | None, stop: Callable[[], bool]
    ) -> Iterator[str]:
        """Yield the lines of a container's log, as ``cluster.pod_logs.log_lines`` describes."""
        return log_lines(self._transport, pod, container, follow=follow, since=since, stop=stop)

    def serves(self, resource: Resource) -> bool:
        """Return whether the endpoint of a resource answers a list."""
        try:
            self._transport.send(
                for_collection(
                    "GET", resource, query=(("limit", "1"),), accept=METADATA.format(list="List")
                )
            )
        except (NotServed, NotFound):
            return False
        return True

    def create_namespace(self, name: str) -> None:
        """Create a namespace that belongs to no set; it may exist already."""
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        with suppress(AlreadyExists):
            self.create(NAMESPACES, namespace_ref(name), body)
