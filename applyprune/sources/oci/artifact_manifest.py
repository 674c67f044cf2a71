"""The manifest of an artifact: which blobs it has, proved by its digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import IO, TYPE_CHECKING

from applyprune.model.json_access import items, mapping, text, whole_number
from applyprune.sources.archives.archive import check_digest
from applyprune.sources.oci.reference import is_digest
from applyprune.sources.oci.registry import refused
from applyprune.sources.remote.fetch_errors import (
    FetchFailed,
    SourceTooLarge,
    VerificationFailed,
)
from applyprune.sources.source import shown_path
from applyprune.values import dataclass, field

if TYPE_CHECKING:
    from applyprune.sources.oci.registry import Registry
    from applyprune.sources.remote.web_reply import Reply

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
_DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
_DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
_INDEXES = frozenset({INDEX, _DOCKER_LIST})

# Indexes too: without them, a registry hides an index behind a 404.
ACCEPTED: Mapping[str, str] = MappingProxyType(
    {"Accept": f"{MANIFEST}, {_DOCKER_MANIFEST}, {INDEX}, {_DOCKER_LIST}"}
)
_MOST_MANIFEST = 4 * 2**20


@dataclass(frozen=True, slots=True)
class Descriptor:
    """What a manifest or an index says about a blob or a manifest."""

    media_type: str
    digest: str
    """``sha256:…``."""
    size: int
    """Bytes."""
    annotations: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), hash=False)
    artifact_type: str = ""


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest whose bytes have been checked against its digest."""

    digest: str
    media_type: str
    raw: bytes = field(repr=False)
    config: Descriptor | None
    layers: tuple[Descriptor, ...]
    annotations: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), hash=False)
    artifact_type: str = ""


def fetch_manifest(registry: Registry, name: str) -> Manifest | None:
    """Return the manifest with a tag or a digest; None if the repository has no such one.

    Raises VerificationFailed if its digest is another one than the wanted or the stated one, and
    FetchFailed for an index and for what is not a manifest.
    """
    with registry.request("GET", f"manifests/{name}", headers=ACCEPTED) as reply:
        if reply.status == 404:
            return None
        if reply.status != 200:
            raise refused(reply)
        raw = reply.read(_MOST_MANIFEST)
        stated = stated_digest(reply)
        content_type = reply.header("Content-Type").partition(";")[0].strip()
    digest = f"sha256:{hashlib.sha256(raw).hexdigest()}"
    check_digest(digest, name if is_digest(name) else "", "the manifest")
    check_digest(digest, stated, "the manifest")
    return read_manifest(raw, digest, content_type)


def stated_digest(reply: Reply) -> str:
    """Return the digest that a registry states; empty if there is none that is checked here."""
    stated = reply.header("Docker-Content-Digest").strip()
    return stated if is_digest(stated) else ""


def read_manifest(raw: bytes, digest: str, content_type: str) -> Manifest:
    """Return the manifest in some bytes; raises FetchFailed for an index and what is invalid."""
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        raise FetchFailed("the manifest is not JSON") from None
    if not isinstance(body, dict) or body.get("schemaVersion") != 2:
        raise FetchFailed("the manifest is not one of schema version 2")
    media_type = text(body, "mediaType") or content_type
    if media_type in _INDEXES or "manifests" in body:
        raise FetchFailed(
            "this is an index of several artifacts, not an artifact",
            hint="Name one of its manifests by its digest.",
        )
    if media_type not in {MANIFEST, _DOCKER_MANIFEST}:
        raise FetchFailed(f"unknown type of manifest: {shown_path(media_type[:100])}")
    if not isinstance(body.get("layers"), list):
        raise FetchFailed("the manifest has no layers")
    return Manifest(
        digest=digest,
        media_type=media_type,
        raw=raw,
        config=read_descriptor(body["config"]) if "config" in body else None,
        layers=tuple(read_descriptor(one) for one in items(body, "layers")),
        annotations=_annotations(body),
        artifact_type=text(body, "artifactType"),
    )


def read_descriptor(value: object) -> Descriptor:
    """Return a descriptor; raises FetchFailed for one without a digest or a size."""
    body = mapping(value)
    digest, size = text(body, "digest"), whole_number(body, "size")
    if not is_digest(digest) or size is None or size < 0:
        raise FetchFailed(
            "a descriptor has no valid digest or size", reason="only sha256 digests are checked"
        )
    return Descriptor(
        text(body, "mediaType"), digest, size, _annotations(body), text(body, "artifactType")
    )


def fetch_blob(registry: Registry, blob: Descriptor, file: IO[bytes], limit: int) -> None:
    """Write a blob to a file.

    Raises SourceTooLarge if it is said to have more than ``limit`` bytes, VerificationFailed if it
    is not what its descriptor says, and FetchFailed if it is missing.
    """
    if blob.size > limit:
        raise SourceTooLarge(f"a blob of {blob.size} bytes is too large", reason=f"limit {limit}")
    with registry.request("GET", f"blobs/{blob.digest}") as reply:
        if reply.status == 404:
            raise FetchFailed("the registry lacks a blob of the artifact", reason=blob.digest)
        if reply.status != 200:
            raise refused(reply)
        try:
            digest = reply.save(file, blob.size)
        except SourceTooLarge:
            message = "a blob is longer than its manifest says"
            raise VerificationFailed(message, reason=blob.digest) from None
    check_digest(digest, blob.digest, "a blob")


def _annotations(body: Mapping[str, object]) -> Mapping[str, str]:
    found = mapping(body.get("annotations")).items()
    return MappingProxyType({key: value for key, value in found if isinstance(value, str)})
