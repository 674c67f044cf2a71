"""The `KubernetesClient`: all that a run reads, watches and writes goes through it.

Every response is checked to be about what was asked for before it is used (safety rule 9).
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from datetime import timedelta
from threading import Lock
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct
from msgspec import field as struct_field

from applyprune.clock import CLOCK, Clock, Lease
from applyprune.cluster.discovery import (
    GroupVersionDocument,
    discover,
    is_ready,
    read_openapi,
    server_version,
)
from applyprune.cluster.messages import (
    MAX_REPLY,
    ApiRequest,
    Response,
    RetryBudget,
    http_date,
    item_of,
)
from applyprune.cluster.requests import (
    APPLY_PATCH,
    JSON,
    JSON_PATCH,
    MERGE_PATCH,
    METADATA,
    NO_TERMS,
    WarningSink,
    WriteTerms,
    for_collection,
    for_delete,
    for_log,
    for_object,
    for_page,
    for_patch,
    for_refused_delete,
    invalid_response,
    live_object,
    object_in,
    selection,
)
from applyprune.cluster.transport import Transport
from applyprune.cluster.watch import Selection, matches, watch
from applyprune.errors import (
    AccessError,
    AlreadyExists,
    ApiError,
    Conflict,
    DryRunUnsupported,
    Expired,
    Forbidden,
    Invalid,
    InvalidKubeConfig,
    NotFound,
    NotServed,
    ReplyTooLarge,
    RunFailed,
    Unauthorized,
    Unavailable,
)
from applyprune.model.identity import Ref
from applyprune.model.live import (
    API_SERVICES,
    CONFIG_MAPS,
    DEFINITIONS,
    NAMESPACES,
    Absent,
    LiveObject,
    Registrations,
    Resource,
    ResourceMap,
    WatchEvent,
    field,
    items,
    mapping,
    namespace_ref,
)
from applyprune.model.plan import Access, AccessRule, ApplyRequest, DeleteRequest, PatchRequest
from applyprune.planning.order import is_built_in
from applyprune.planning.served_kinds import defined_resources, is_established
from applyprune.values import replace

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path
    from typing import TypeVar

    from applyprune.cluster.shared_reads import SharedReads
    from applyprune.planning.secrets import KnownSecrets

    _Read = TypeVar("_Read")


_DRY_RUN = ("dryRun", "All")
_READY_WITHIN = 2.0
_LOOK_WITHIN = 5.0
# An API server that has just started lists its kinds completely after 0.3 to 6 seconds.
_PATIENCE = 8.0


class _KnownServers(Struct):
    """What one run knows of the servers behind the groups that are not built in; thread-safe."""

    documents: dict[tuple[str, str], GroupVersionDocument] = struct_field(default_factory=dict)
    """By group and version; without the schemas."""
    definitions: dict[str, bool] = struct_field(default_factory=dict)
    """Whether there is a CRD of a name."""
    proved: set[str] = struct_field(default_factory=set)
    """The groups whose server keeps to the preconditions of a DELETE."""
    proving: Lock = struct_field(default_factory=Lock)
    other_versions: dict[Resource, Resource] = struct_field(default_factory=dict)
    """By which resource objects were read whose own version was not served."""


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
        terms: WriteTerms = NO_TERMS,
        *,
        memory: Memory | None = None,
        run: str = "",
    ) -> None:
        """Keep the transport; ``cache`` is the folder for discovery and OpenAPI documents.

        Without a ``memory``, nothing is remembered from one call to the next. Without ``run``, the
        run has a new ID.
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
        self._memory = memory
        self._shared: SharedReads | None = None
        self._user = ""
        self._registry: KubernetesClient | None = None
        self._known = _KnownServers()

    def as_user(self, user: str) -> KubernetesClient:
        """Return a client for another user, over the same connections and with the same memory.

        The CRDs and APIServices are read as the user of this one.
        """
        other = KubernetesClient(
            self._transport.as_user(user), self.server, cache=self._cache, memory=self._memory
        )
        other._user, other._registry = user, self
        return other

    def remembering(self) -> Self:
        """Return the same client; it remembers what the server serves, for many runs."""
        other = self._under(self._terms, self.run)
        other._memory = Memory()  # noqa: SLF001
        return other

    def sharing(self, reads: SharedReads) -> Self:
        """Return the same client; it gets from ``reads`` what several runs have read together."""
        other = self._under(self._terms, self.run)
        other._shared = reads  # noqa: SLF001
        return other

    def forget(self) -> None:
        """Forget the kinds and their schemas: something has failed, perhaps for that reason."""
        if self._memory is not None:
            self._memory.forget_kinds()

    @property
    def patience(self) -> float:
        """Return for how many seconds a read may be repeated that shows too little."""
        return min(_PATIENCE, self._transport.retry_budget)

    def under_lease(self, lease: Lease) -> Self:
        """Return the same client; no write is sent, or sent again, after the lease's end.

        Its writes share one budget for retries.
        """
        budget = RetryBudget(self._transport.retry_budget)
        return self._under(replace(self._terms, lease=lease, budget=budget), self.run)

    def warning_to(self, sink: WarningSink | None) -> Self:
        """Return the same client; ``sink`` gets what the server warns about in replies to writes.

        It is called from any thread.
        """
        return self._under(replace(self._terms, sink=sink), self.run)

    def hiding(self, secrets: KnownSecrets) -> Self:
        """Return the same client; no text that it reads of others has a value of these Secrets."""
        other = self._under(self._terms, self.run)
        other._transport = other._transport.hiding(secrets)  # noqa: SLF001
        return other

    def masked(self, text: str) -> str:
        """Return a text of others without the values of these Secrets."""
        return self._transport.masked(text)

    def for_run(self) -> Self:
        """Return the same client for the requests of a new run."""
        return self._under(self._terms, "")

    def _under(self, terms: WriteTerms, run: str) -> Self:
        other = copy(self)
        if not run:
            other._known = _KnownServers()  # noqa: SLF001
        other.run = run or uuid.uuid4().hex[:12]
        other._terms, other._transport = terms, self._transport.for_run(other.run)  # noqa: SLF001
        return other

    def _write(self, write: ApiRequest, ref: Ref) -> Response:
        """Send what changes the cluster."""
        return self._transport.send(self._terms.on(write, ref))

    @property
    def server_time(self) -> datetime | None:
        """Return the time of the server's last reply, by its own clock; None if it gave none."""
        return http_date(self._transport.date)

    def time_now(self) -> str:
        """Return the present time by the server's clock, RFC 3339; empty if it has told none.

        It is that of its last reply and what has passed since: the machine's own time is not used.
        """
        told, age = self.server_time, self._transport.date_age
        return "" if told is None else f"{told + timedelta(seconds=int(age)):%Y-%m-%dT%H:%M:%SZ}"

    def resource_map(self, *, remembered: bool = False) -> ResourceMap:
        """Return what the server serves now; if ``remembered``, at most a minute ago."""
        memory = self._memory
        if memory is None:
            return discover(self._transport, self.server, self._cache)
        kept = memory.kinds
        if remembered and kept is not None and memory.is_fresh(kept[0]):
            return kept[1]
        asked = memory.clock.now()
        found = discover(self._transport, self.server, self._cache)
        memory.kinds = asked, replace(found, remembered=True)
        return found

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
        """Return the OpenAPI v3 schemas of a resource's group version, by name.

        Those of built-in kinds may be remembered.
        """
        memory, key = self._memory, (resource.group, resource.version)
        if memory is None or not is_built_in(resource.group):
            return self._openapi(resource).schemas
        kept = memory.schemas.get(key)
        if kept is not None and memory.is_fresh(kept[0]):
            return kept[1]
        asked = memory.clock.now()
        found = self._openapi(resource).schemas
        memory.schemas[key] = asked, found
        return found

    def _openapi(self, resource: Resource) -> GroupVersionDocument:
        found = read_openapi(self._transport, self.server, self._cache, resource)
        self._known.documents[resource.group, resource.version] = replace(found, schemas={})
        return found

    def _refuse_dry_run(self, resource: Resource, ref: Ref, *, by_put: bool = False) -> None:
        """Raise DryRunUnsupported where ``dryRun`` may not be understood, and the request be done.

        kube-apiserver understands it, for its own kinds and those of CRDs. An aggregated API gets
        an apply if its OpenAPI lists ``dryRun``, and never a PUT.
        """
        if is_built_in(resource.group):
            return
        document = self._known.documents.get((resource.group, resource.version))
        if document is None:
            with suppress(ApiError):
                document = self._openapi(resource)
        lists = document is not None and resource.plural in document.dry_runs
        if (lists and not by_put) or self._is_served_by_kube(resource):
            return
        raise DryRunUnsupported(  # guard: dry-run-understood
            f"{ref} cannot be tried by a dry run",
            reason=f"nothing says that the server of {resource.gvk.api_version} supports dry "
            "runs: it could write what it should only try",
        )

    def _is_served_by_kube(self, resource: Resource) -> bool:
        """Return whether kube-apiserver itself serves a resource, and no aggregated API.

        Its document says so, which a plan has read anyway; otherwise its CRD does.
        """
        if is_built_in(resource.group):
            return True
        document = self._known.documents.get((resource.group, resource.version))
        if document is not None and document.is_of_crds:
            return True
        ref = _definition_of(resource)
        if ref.name not in self._known.definitions:
            reader, is_there = self._registry or self, False
            with suppress(ApiError):
                is_there = isinstance(reader.read(DEFINITIONS, ref), LiveObject)
            # Only now: another thread believes what it finds here.
            self._known.definitions[ref.name] = is_there
        return self._known.definitions[ref.name]

    def _prove_preconditions(self, request: DeleteRequest, timeout: float | None) -> None:
        """Raise RunFailed unless the server of an aggregated API keeps to a DELETE's preconditions.

        It is asked once for each group, by a dry run that must fail.
        """
        resource, ref = request.resource, request.ref
        if self._is_served_by_kube(resource):
            return
        with self._known.proving:
            if resource.group in self._known.proved:
                return
            uid = str(uuid.uuid4())
            answer = "it accepted a UID that nothing has"
            try:
                self._write(for_refused_delete(request, uid, within=timeout), ref)
            except Conflict as error:
                if uid in error.message:
                    self._known.proved.add(resource.group)
                    return
                answer = f"it answered {error.message}"
            raise RunFailed(  # guard: preconditions-proved
                f"{ref} was not deleted",
                reason=f"the server of {resource.gvk.api_version} may delete another object of its "
                f"name: to a dry run with a wrong UID {answer}",
                hint="Delete it with kubectl.",
            )

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
        remembered: bool = False,
    ) -> Sequence[LiveObject]:
        """Return all objects of a resource, read in pages of ``page``; never an incomplete list.

        With ``remembered``, a refusal for the whole cluster counts for some minutes.
        """
        if self._shared is not None and not namespace:
            shared = self._shared.objects(resource, selector, full=full)
            if shared is not None:
                return shared
        refusal = None
        # guard: search-asks-again -> resource.namespaced and not namespace
        if remembered and resource.namespaced and not namespace:
            refusal = self._refusal(resource)
        if refusal is not None and (message := _read_refusal(refusal)):
            raise Forbidden(message, code=403)
        # What does not match is dropped here as well: some aggregated APIs ignore the selector.
        wanted = Selection(namespace, selector, "", full)

        def listed(served: Resource) -> Sequence[LiveObject]:
            return _paged_list(self._transport, served, wanted, page, timeout=timeout)[0]

        try:
            return self._in_served_version(resource, listed)
        except Forbidden as error:
            if refusal is not None:
                _write_refusal(refusal, error.message)
            raise

    def is_read(self, resource: Resource, selector: str, *, full: bool) -> bool:
        """Return whether ``list`` in the whole cluster would send no request."""
        return self._shared is not None and self._shared.has(resource, selector, full=full)

    def list_among(
        self, resource: Resource, key: str, values: Collection[str], *, full: bool = False
    ) -> Sequence[LiveObject]:
        """Return all objects of a resource whose label has one of some values; never a part."""
        wanted = Selection("", key, "", full, frozenset(values))

        def listed(served: Resource) -> Sequence[LiveObject]:
            return _paged_list(self._transport, served, wanted)[0]

        return self._in_served_version(resource, listed)

    def inventory(self, ref: Ref, *, timeout: float | None = None) -> LiveObject:
        """Return the ConfigMap of an inventory in full; raises NotFound when it does not exist."""
        shared = None if self._shared is None else self._shared.inventory(ref)
        return shared or self.get(CONFIG_MAPS, ref, full=True, timeout=timeout)

    def _refusal(self, resource: Resource) -> Path | None:
        """Return the file with the refusal of a list; all processes that share the cache see it."""
        if self._memory is None or self._cache is None:
            return None
        which = f"{self.server}\n{self._user}\n{resource.full_plural}"
        return self._cache / "refused" / hashlib.sha256(which.encode()).hexdigest()

    def list_at(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        selector: str = "",
        name: str = "",
        full: bool = False,
        slim: Callable[[LiveObject], LiveObject] | None = None,
    ) -> tuple[Sequence[LiveObject], str]:
        """Return what ``list`` returns, and the resourceVersion from which to watch.

        That is the first page's; an aggregated API may give none, then it is empty. With a
        ``name``, only that object is listed. ``slim`` reduces each object to what is needed.
        """
        wanted = Selection(namespace, selector, name, full)
        return _paged_list(self._transport, resource, wanted, slim=slim)

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

        def got(served: Resource) -> LiveObject:
            body = self._transport.send(
                for_object("GET", served, ref, accept=accept, within=timeout)
            ).body
            return object_in(served, ref, body, full=full, partial=not full, any_name=any_name)

        return self._in_served_version(resource, got)

    def _in_served_version(self, resource: Resource, read: Callable[[Resource], _Read]) -> _Read:
        """Return what a read returns; in another version if that of ``resource`` is not served.

        An object is the same in each version of its kind. What is written has a version.
        """
        try:
            return read(resource)
        except NotServed:
            other = self._known.other_versions.get(resource) or self._other_version(resource)
            if other is None:
                raise
            found = read(other)
            self._known.other_versions[resource] = other
            return found

    def _other_version(self, resource: Resource) -> Resource | None:
        """Return the same resource in the version that the server prefers; None if it is this."""
        other = self.resource_map().find_kind(resource.group_kind)
        is_same = other is not None and replace(other, version=resource.version) == resource
        return other if is_same and other != resource else None

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
        if dry_run:
            self._refuse_dry_run(resource, ref)
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
        the stored ones. Only the query says ``dry_run``: send one only after an apply dry run of
        the same object was answered in the same run, which fails without its query.
        """
        if dry_run:
            self._refuse_dry_run(resource, ref, by_put=True)
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
            if _tests_hold(operations, self.get(resource, ref)):
                raise
            raise Conflict(f"{ref} has changed since it was read", code=409) from error
        return object_in(resource, ref, response.body, full=True)

    def delete(self, request: DeleteRequest, *, timeout: float | None = None) -> bool:
        """Delete exactly this object in exactly this state; return whether that is confirmed.

        If it is not, only a GET can tell whether the object is gone: finalizers may keep it. Raises
        Conflict when the object was changed or replaced by another of the same name. NotFound
        proves nothing: an admission webhook may answer with it.
        """
        resource, ref, uid = request.resource, request.ref, request.precondition.uid
        self._prove_preconditions(request, timeout)
        body = self._write(for_delete(request, within=timeout), ref).body
        if body.get("kind") == "Status":
            named = field(body, "details", "uid") or ""
            if body.get("status") == "Success" and named in {"", uid}:
                return bool(named)  # guard: deletion-names-uid -> True
            raise invalid_response(f"the delete of {ref}", "it is about another object")
        replied = object_in(resource, ref, body)
        # For example a Service. The API server marks what it keeps, and then answers (Store.Delete
        # in its registry/generic); the core group is always its own.
        is_unmarked = replied.uid == uid and not replied.terminating
        return (
            is_unmarked  # guard: deletion-without-mark
            and resource.group == ""  # guard: deletion-by-another-server
        )

    def log(self, pod: Ref, container: str, *, previous: bool, lines: int, size: int) -> str:
        """Return the last lines of a container's log, or of its ``previous`` instance.

        It is asked for once: a node that does not answer now would not answer soon.
        """
        log = self._transport.send(for_log("GET", pod, container, previous, lines, size)).text
        return self.masked(log)

    def serves(self, resource: Resource) -> bool:
        """Return whether the endpoint of a resource is there; it may answer a list with an error.

        Only a 404 says that it is not. A 403 says nothing, because authorization comes before
        routing. After it, and after an error of the server, such as that of a conversion webhook,
        the list of kinds and the CRD decide. Raises the latter if they do not say that it is there.
        """
        try:
            self._transport.send(
                for_collection(
                    "GET",
                    resource,
                    query=(("limit", "1"),),
                    accept=METADATA.format(list="List"),
                    retry=False,
                    within=_LOOK_WITHIN,
                )
            )
        except (NotServed, NotFound):
            return False
        except (InvalidKubeConfig, Unauthorized):
            raise
        except AccessError as error:
            is_defined = self._is_defined(resource)
            if isinstance(error, Forbidden):
                return is_defined is not False  # guard: forbidden-list -> True
            if not is_defined:
                raise
        return True

    def _is_defined(self, resource: Resource) -> bool | None:
        """Return whether a resource is in the list of kinds, and its CRD is Established.

        Return None if only the former is known: there is no CRD, or it cannot be read.
        """
        if self.resource_map().find(resource.gvk) != resource:
            return False
        try:
            definition = self._definition(resource)
        except Forbidden:
            return None
        return None if definition is None else is_established(definition)

    def defines(self, resource: Resource) -> bool:
        """Return whether a CRD defines a resource: it is served soon if it is not served now.

        Return False if the CRD cannot be read.
        """
        if is_built_in(resource.group):
            return False
        try:
            definition = self._definition(resource) or {}
        except ApiError:
            return False
        return is_established(definition) and resource in defined_resources(definition)

    def _definition(self, resource: Resource) -> Mapping[str, Any] | None:
        """Return the CRD of a resource; None if there is none."""
        state = (self._registry or self).read(DEFINITIONS, _definition_of(resource), full=True)
        return (state.body or {}) if isinstance(state, LiveObject) else None

    def create_namespace(self, name: str) -> None:
        """Create a namespace that belongs to no set; it may exist already."""
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        with suppress(AlreadyExists):
            self.create(NAMESPACES, namespace_ref(name), body)


def _definition_of(resource: Resource) -> Ref:
    """Return the CRD that defines a resource, if any does."""
    return Ref(DEFINITIONS.group, DEFINITIONS.kind, "", resource.full_plural)


def _tests_hold(operations: Sequence[Mapping[str, Any]], live: LiveObject) -> bool:
    """Return whether the tests of a patch hold for an object's present state."""
    # Imported here: few runs ever patch, and fewer are refused.
    from jsonpatch import JsonPatchException, JsonPointerException, apply_patch

    tests = [operation for operation in operations if operation["op"] == "test"]
    try:
        apply_patch({"metadata": live.whole_metadata}, tests)
    except (JsonPatchException, JsonPointerException):
        return False
    return True


# Lists, page by page; a page that is too large is asked for again with fewer objects.


_PAGE = 500
_RESTARTS = 5


def _paged_list(
    transport: Transport,
    resource: Resource,
    wanted: Selection,
    page: int | None = None,
    slim: Callable[[LiveObject], LiveObject] | None = None,
    *,
    timeout: float | None = None,
) -> tuple[Sequence[LiveObject], str]:
    """Return all objects of a selection, never an incomplete list, and where to watch from.

    It is read in pages of at most ``page`` objects. ``slim`` reduces each object to what is needed,
    page by page. Each page must arrive within ``timeout`` seconds.
    """
    for _ in range(_RESTARTS):
        try:
            pages = [
                ([slim(live) for live in lives] if slim else lives, version)
                for lives, version in _pages(transport, resource, wanted, page or _PAGE, timeout)
            ]
            return [live for lives, _ in pages for live in lives], pages[0][1]
        except Expired:
            continue  # the continue token expired: start again with the first page
    raise Unavailable(
        f"the list of {resource.full_plural} could not be completed",
        code=410,
        reason="its continue token expired each time",
    )


_SMALLER = 8


def _pages(
    transport: Transport,
    resource: Resource,
    wanted: Selection,
    page: int,
    timeout: float | None,
) -> Iterator[tuple[Sequence[LiveObject], str]]:
    selector, name, full = wanted.selector, wanted.name, wanted.full
    token = ""
    while True:
        query = (("limit", str(page)), *selection(selector, name, wanted.among))
        request = for_page(
            resource,
            wanted.namespace,
            (*query, ("continue", token)) if token else query,
            accept=JSON if full else METADATA.format(list="List"),
            # A single object is taken as it is: some aggregated APIs ignore the limit.
            max_bytes=MAX_REPLY if page == 1 else _PAGE_BYTES if full else _PAGE_BYTES_METADATA,
            within=timeout,
        )
        try:
            response = transport.send(request)
        except ReplyTooLarge:
            if page == 1:
                raise
            page = max(1, page // _SMALLER)  # guard: smaller-page -> 1
            continue
        items = response.body.get("items")
        kind = str(response.body.get("kind", ""))
        # An empty list of metadata comes as null.
        if "items" not in response.body or not isinstance(items, list | None):
            raise invalid_response(f"the list of {resource.full_plural}", f"its kind is {kind!r}")
        metadata = response.body.get("metadata") or {}
        lives = list(_selected(resource, items or (), wanted))
        yield lives, str(metadata.get("resourceVersion") or "")
        token = str(metadata.get("continue") or "")
        if not token:
            return


def _selected(
    resource: Resource, items: Iterable[object], wanted: Selection
) -> Iterator[LiveObject]:
    """Yield what a page has of a selection, one object after the other: a parsed page is large."""
    for text in items:
        try:
            item = item_of(text)
        except (ValueError, RecursionError):
            what = f"the list of {resource.full_plural}"
            raise invalid_response(what, "an item is not JSON") from None
        labels = mapping(field(item, "metadata", "labels"))
        if not matches(labels, wanted.selector):
            continue
        if wanted.among and labels[wanted.selector] not in wanted.among:
            continue
        live = live_object(resource, item, full=wanted.full)
        if live is not None and wanted.name in {"", live.ref.name}:
            yield live


# Bytes of a page of objects, and of a page of metadata. In memory it may take twenty times as much,
# and whoever may create objects decides how large they are.
_PAGE_BYTES = 32 * 1024 * 1024
_PAGE_BYTES_METADATA = 8 * 1024 * 1024


# What the account of this connection may do. A review is a POST that stores nothing.


_GROUP = "authorization.k8s.io"
_ACCESS = Resource(
    _GROUP, "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False
)

_RULES = Resource(
    _GROUP, "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", namespaced=False
)

_RULE_KEYS = ("verbs", "apiGroups", "resources", "resourceNames")


class AccessReviews(Struct, frozen=True):
    """Reviews of one account; thread-safe, and nothing is cached."""

    transport: Transport

    def rules(self, namespace: str) -> Sequence[AccessRule]:
        """Return rules that allow something in a namespace; others may exist.

        The server's list is incomplete by contract: what it lacks may be allowed too. It says
        nothing of cluster scope: a rule of a Role does not hold there.
        """
        status = self._review(_RULES, {"namespace": namespace})
        return [
            AccessRule(*(_texts(rule, key) for key in _RULE_KEYS))
            for rule in items(status, "resourceRules")
        ]

    def is_allowed(self, access: Access) -> bool:
        """Return whether the server would authorize a request."""
        attributes = {
            "verb": access.verb,
            "group": access.group,
            "resource": access.plural,
            "namespace": access.namespace,
            "name": access.name,
        }
        return self._review(_ACCESS, {"resourceAttributes": attributes}).get("allowed") is True

    def _review(self, resource: Resource, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        body = {"apiVersion": resource.gvk.api_version, "kind": resource.kind, "spec": spec}
        response = self.transport.send(for_collection("POST", resource, body=body))
        return mapping(response.body.get("status"))


def _texts(rule: Mapping[str, Any], key: str) -> frozenset[str]:
    values = rule.get(key)
    return frozenset(map(str, values)) if isinstance(values, list) else frozenset()


# What many short runs remember. None of it proves anything: kinds and rights may have changed.


# What the clients of a controller remember of one API server.


_KINDS_LAST = 60.0
"""Seconds for which kinds and schemas are remembered."""


class Memory(Struct):
    """What the clients of one process remember of one API server; thread-safe."""

    kinds: tuple[float, ResourceMap] | None = None
    schemas: dict[tuple[str, str], tuple[float, Mapping[str, Any]]] = struct_field(
        default_factory=dict
    )
    """The schemas of group versions, each with the time of the read."""
    clock: Clock = CLOCK

    def is_fresh(self, asked: float) -> bool:
        """Return whether what was read at that time still counts."""
        return self.clock.now() - asked < _KINDS_LAST

    def forget_kinds(self) -> None:
        """Forget the kinds and their schemas: something has failed, perhaps for that reason."""
        self.kinds = None
        self.schemas.clear()


_REFUSAL_LASTS = 300.0
"""Seconds for which it is remembered that an account may not list a kind in the whole cluster."""


def _read_refusal(refusal: Path) -> str:
    """Return why a list was refused; empty if it was not lately."""
    try:
        age = time.time() - refusal.stat().st_mtime
        return refusal.read_text() if 0 <= age < _REFUSAL_LASTS else ""
    except (OSError, ValueError):
        return ""


def _write_refusal(refusal: Path, message: str) -> None:
    # Without it, only a request is lost.
    with suppress(OSError):
        refusal.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        refusal.write_text(message)
