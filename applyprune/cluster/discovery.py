"""What the API server serves: its kinds and their schemas, kept by their ETags."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import platformdirs
from msgspec import Struct

from applyprune.cluster.messages import item_of, parts_of
from applyprune.cluster.requests import JSON, for_document, schemas_path
from applyprune.errors import AccessError, Unavailable, Unreachable
from applyprune.model.live import Resource, ResourceMap, items, mapping
from applyprune.planning.schemas import KEYWORDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from applyprune.cluster.transport import Transport
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


def _groups(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    groups = document.get("items")
    if document.get("kind") != "APIGroupDiscoveryList" or not isinstance(groups, list):
        raise Unreachable(
            "the server does not support aggregated discovery",
            reason=f"it responded with kind {document.get('kind')!r}",
            hint="applyprune needs Kubernetes 1.27 or newer.",
        )
    yield from groups


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


def server_version(transport: Transport) -> str:
    """Return the server's version, ``v1.36.3`` for example; raises AccessError."""
    return str(transport.send(for_document("/version")).body.get("gitVersion", ""))


def is_ready(transport: Transport, within: float) -> bool:
    """Return whether the server says that it is ready; ``within`` is in seconds."""
    try:
        transport.send(for_document("/readyz", accept="text/plain", expected=b"ok", within=within))
    except AccessError:
        return False
    return True


# The OpenAPI v3 document of a group version, in a compact form: a check of fields needs a tenth of
# it. Each is asked for by its ETag, not by the index of all: that is a second behind a changed CRD.


_WITHIN = 10.0
_OF_CRDS = "Kubernetes CRD Swagger"
"""The title of what kube-apiserver writes for CRDs (apiextensions-apiserver's openapi/builder)."""


class GroupVersionDocument(Struct, frozen=True):
    """What the server publishes of one group version; empty if it publishes nothing."""

    schemas: Mapping[str, Any]
    """The schemas by name, with the keywords of the check."""
    is_of_crds: bool
    """Whether kube-apiserver itself serves it, by CRDs; otherwise an aggregated API may."""
    dry_runs: frozenset[str]
    """The plurals whose PATCH lists ``dryRun`` among its parameters."""


class _Form(Struct, frozen=True):
    """A form in which documents are kept."""

    name: str
    unread: tuple[str, ...]
    """The members of a document whose own members it reads one by one."""
    of: Callable[[Mapping[str, Any]], Mapping[str, Any]]


def read_openapi(
    transport: Transport, server: str, cache: Path | None, resource: Resource
) -> GroupVersionDocument:
    """Return the document of a resource's group version; raises AccessError."""
    path = schemas_path(resource)
    try:
        found = read_document(transport, server, path, cache, form=_COMPACT, within=_WITHIN)
    except RecursionError:
        raise Unavailable(f"{path} is nested too deeply", code=200) from None
    except ValueError:
        raise Unavailable(f"{path} has a part that is not JSON", code=200) from None
    dry_runs = found.get("dryRuns")
    return GroupVersionDocument(
        mapping(found.get("schemas")),
        found.get("isOfCrds") is True,
        frozenset(map(str, dry_runs)) if isinstance(dry_runs, list) else frozenset(),
    )


def _compact(document: Mapping[str, Any]) -> Mapping[str, Any]:
    # One after the other: parsed, a whole document takes ten times the memory of its text.
    schemas = mapping(parts_of(mapping(document.get("components")).get("schemas")))
    return {
        "schemas": {name: _reduced(item_of(schema)) for name, schema in schemas.items()},
        "isOfCrds": mapping(document.get("info")).get("title") == _OF_CRDS,
        "dryRuns": sorted(set(_dry_runs(mapping(document.get("paths"))))),
    }


_COMPACT = _Form("fields-2", ("components", "paths"), _compact)
"""The name must change with the keywords."""


def _dry_runs(paths: Mapping[str, Any]) -> Iterator[str]:
    """Yield the plural of each path of an object whose PATCH lists ``dryRun``."""
    for path, methods in paths.items():
        plural, _, name = path.rpartition("/")
        if name != "{name}":
            continue
        given = items(mapping(item_of(methods)), "patch", "parameters")
        if any(map(_is_dry_run, given)):
            yield plural.rpartition("/")[2]


def _is_dry_run(parameter: object) -> bool:
    given = mapping(parameter)
    return given.get("name") == "dryRun" or "/dryRun" in str(given.get("$ref"))


_PARTS = frozenset({"additionalProperties", "items"})
_LISTS = frozenset({"allOf", "anyOf", "oneOf"})


def _reduced(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    small = {key: schema[key] for key in schema.keys() & KEYWORDS}
    for key in small.keys() & _PARTS:
        small[key] = _reduced(small[key])
    for key in small.keys() & _LISTS:
        if isinstance(small[key], list):
            small[key] = [_reduced(part) for part in small[key]]
    if isinstance(known := small.get("properties"), dict):
        small["properties"] = {name: _reduced(part) for name, part in known.items()}
    return small


# Documents, the last response for each URL. An ETag is a hash of the content, so a 304 means that
# the content is the same. A broken file of the cache counts as missing.


def read_document(
    transport: Transport,
    server: str,
    path: str,
    cache: Path | None,
    *,
    accept: str = JSON,
    form: _Form | None = None,
    within: float | None = None,
) -> Mapping[str, Any]:
    """Return a document as the server publishes it now; raises AccessError.

    ``cache`` is a folder for earlier responses; None means no cache. With a ``form``, only that is
    kept and returned. ``within`` is in seconds and limits all tries together.
    """
    kept = _CachedDocument(cache, " ".join((server, path, *([form.name] if form else []))))
    etag, before = kept.read()
    headers = (("If-None-Match", etag),) if etag else ()
    unread = form.unread if form else ()
    request = for_document(path, accept=accept, headers=headers, within=within, unread=unread)
    reply = transport.send(request)
    if reply.status == 304 and before is not None:
        return before
    document = form.of(reply.body) if form else reply.body
    kept.write(reply.headers.get("ETag", ""), document)
    return document


_LARGEST = 64 * 1024 * 1024
"""The bytes of the largest file that is read: the largest real ones have 1 MB."""


class _CachedDocument:
    """One document in the cache folder."""

    def __init__(self, folder: Path | None, key: str) -> None:
        name = hashlib.sha256(key.encode()).hexdigest()[:32]
        self._file = folder / f"{name}.json" if folder else None

    def read(self) -> tuple[str, Mapping[str, Any] | None]:
        if self._file is None:
            return "", None
        try:
            with self._file.open("rb") as file:
                # A read of the most that it may be would allocate so much.
                raw = file.read() if os.fstat(file.fileno()).st_size <= _LARGEST else b"{}"
            kept = json.loads(raw)
            etag, document = kept["etag"], kept["document"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return "", None
        is_header = isinstance(etag, str) and etag.isascii() and etag.isprintable()
        return (etag, document) if is_header and isinstance(document, dict) else ("", None)

    def write(self, etag: str, document: Mapping[str, Any]) -> None:
        if self._file is None or not etag:
            return
        text = json.dumps({"etag": etag, "document": document}, separators=(",", ":"))
        # Without a cache, only time is lost.
        with suppress(OSError), ExitStack() as unless_moved:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self._file.parent, delete=False) as fresh:
                unless_moved.callback(Path(fresh.name).unlink)
                fresh.write(text.encode())
            Path(fresh.name).replace(self._file)
            unless_moved.pop_all()


def cache_folder() -> Path:
    """Return the user's folder for the documents."""
    return platformdirs.user_cache_path("applyprune", appauthor=False) / "discovery"
