"""Push files as an artifact that Flux, Argo CD and applyprune read: one layer, no time in it."""

from __future__ import annotations

import hashlib
import json
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from applyprune.errors import UsageError
from applyprune.sources.archives.archive import check_digest
from applyprune.sources.oci.artifact import (
    FLUX_CONFIG,
    FLUX_LAYER,
    OciRef,
    OciSource,
    open_registry,
)
from applyprune.sources.oci.artifact_manifest import MANIFEST, stated_digest
from applyprune.sources.oci.layer import write_layer
from applyprune.sources.oci.reference import parse_reference
from applyprune.sources.oci.registry import PULL_AND_PUSH, Registry, refused
from applyprune.sources.remote.fetch_errors import FetchFailed
from applyprune.sources.remote.file_tree import TreeLimits
from applyprune.sources.remote.url import joined
from applyprune.values import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Mapping

_BINARY = {"Content-Type": "application/octet-stream"}


@dataclass(frozen=True, slots=True)
class PackedArtifact:
    """The blobs of an artifact, and its manifest."""

    config: bytes = field(repr=False)
    layer: bytes = field(repr=False)
    manifest: bytes = field(repr=False)

    @property
    def digest(self) -> str:
        """Return the digest of the artifact: ``sha256:…`` of its manifest."""
        return _digest(self.manifest)


def pack(
    files: Mapping[str, bytes],
    annotations: Mapping[str, str] = MappingProxyType({}),
    limits: TreeLimits | None = None,
) -> PackedArtifact:
    """Return the artifact with these files, by their relative paths; send nothing.

    Raises UsageError without files, InputError for a path that cannot be pushed, SourceTooLarge.
    """
    if not files:
        raise UsageError("there are no files to push")
    layer = write_layer(files, limits or TreeLimits())
    config = _json({"architecture": "", "config": {}, "os": "", "rootfs": _root(layer.diff_id)})
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": _descriptor(FLUX_CONFIG, config),
            "layers": [_descriptor(FLUX_LAYER, layer.data)],
            **({"annotations": dict(annotations)} if annotations else {}),
        }
    )
    return PackedArtifact(config, layer.data, manifest)


def push(
    source: OciSource,
    files: Mapping[str, bytes],
    annotations: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Push files, by their relative paths, under the tag in the source's URL; return the digest.

    The same files and annotations always give the same digest: the time of the push is nowhere.
    Raises UsageError for a source without a tag, with a digest, or without files, InputError for a
    path that cannot be pushed, SourceTooLarge, AuthenticationFailed and FetchFailed.
    """
    reference = parse_reference(source.url)
    if not reference.tag or reference.digest or source.ref != OciRef():
        raise UsageError("a push needs a tag, and no digest", hint="Write oci://HOST/NAME:TAG.")
    packed = pack(files, annotations, source.limits)
    manifest, digest = packed.manifest, packed.digest
    with open_registry(source, PULL_AND_PUSH) as registry:
        _upload(registry, packed.config)
        _upload(registry, packed.layer)
        path, kind = f"manifests/{reference.tag}", {"Content-Type": MANIFEST}
        with registry.request("PUT", path, headers=kind, body=manifest) as reply:
            if reply.status not in {200, 201}:
                raise refused(reply)
            check_digest(digest, stated_digest(reply), "the manifest")
    return digest


def _upload(registry: Registry, data: bytes) -> None:
    """Upload a blob in one request, unless the registry has it."""
    digest = _digest(data)
    with registry.request("HEAD", f"blobs/{digest}") as reply:
        if reply.status == 200:
            return
        if reply.status != 404:
            raise refused(reply)
    with registry.request("POST", "blobs/uploads/", body=b"") as reply:
        if reply.status != 202:
            raise refused(reply)
        location = reply.header("Location")
        place = joined(reply.url, location)
    if not location:
        raise FetchFailed("the registry does not say where to upload")
    place += f"{'&' if '?' in place else '?'}{urlencode({'digest': digest})}"
    with registry.request("PUT", place, headers=_BINARY, body=data) as reply:
        if reply.status != 201:
            raise refused(reply)


def _root(diff_id: str) -> dict[str, object]:
    return {"type": "layers", "diff_ids": [diff_id]}


def _descriptor(media_type: str, data: bytes) -> dict[str, object]:
    return {"mediaType": media_type, "digest": _digest(data), "size": len(data)}


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
