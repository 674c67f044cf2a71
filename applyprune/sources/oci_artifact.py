"""Artifacts in a registry: find one, pull its files, push files as one."""

from __future__ import annotations

import hashlib
import io
import json
import struct
import tarfile
import tempfile
import zlib
from collections.abc import Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import IO, TYPE_CHECKING
from urllib.parse import urlencode

from msgspec import Struct, field

from applyprune.errors import InputError, UsageError
from applyprune.model.live import items, mapping, text, whole_number
from applyprune.model.problem import Origin
from applyprune.sources.address import (
    DEFAULT_TAG,
    NEWEST,
    ArtifactReference,
    OciRef,
    best_version,
    is_artifact_digest,
    is_tag,
    joined,
    parse_reference,
)
from applyprune.sources.archive import TarNames, read_tar
from applyprune.sources.oci_registry import (
    PULL,
    PULL_AND_PUSH,
    Registry,
    next_page,
    read_json,
    registry_login,
    unexpected_status,
)
from applyprune.sources.tree import (
    ANONYMOUS,
    FetchFailed,
    FileTree,
    PathNotFound,
    SourceCredentials,
    SourceTooLarge,
    TreeLimits,
    VerificationFailed,
    clean_path,
    shown_path,
)
from applyprune.sources.web import located, open_web, shown_size
from applyprune.values import hiding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from applyprune.addresses import AddressRules
    from applyprune.http import Patience
    from applyprune.sources.address import OciAddress
    from applyprune.sources.web import Reply


FLUX_CONFIG = "application/vnd.cncf.flux.config.v1+json"
FLUX_LAYER = "application/vnd.cncf.flux.content.v1.tar+gzip"


class OciSource(Struct, frozen=True):
    """Where an artifact is, and how it is pulled or pushed."""

    url: str
    """``oci://HOST/NAME``, which may have a tag and a digest if ``ref`` has nothing."""
    ref: OciRef = NEWEST
    credentials: SourceCredentials = ANONYMOUS
    timeout: float = 60.0
    """Seconds for all of it."""
    addresses: AddressRules | None = None
    """Which addresses may be connected to; None for every one."""
    limits: TreeLimits = field(default_factory=TreeLimits)
    """Each holds for the compressed size and for the files."""


def artifact_source(address: OciAddress, environ: Mapping[str, str]) -> OciSource:
    """Return the source of an address, with the user's credentials for its registry.

    Raises AuthenticationFailed if the credentials cannot be read.
    """
    login = registry_login(address.host, environ, address.shown)
    return OciSource(address.name, address.ref, login)


def fetch_artifact(
    source: OciSource,
    found: FoundArtifact | None = None,
    *,
    verify: Callable[[Registry, ArtifactManifest], None] | None = None,
) -> FileTree:
    """Return every file of the artifact, by its path from the artifact's root.

    With ``found``, that manifest is fetched whatever the tag means now. ``verify`` gets the
    manifest before anything else is fetched, and raises VerificationFailed if it is not trusted.

    Raises PathNotFound, SourceTooLarge, VerificationFailed if one byte is not what a digest says,
    AuthenticationFailed, FetchFailed for everything else that is wrong with the registry or the
    artifact, and UsageError for an invalid source.
    """
    with open_registry(source) as registry, _open_spool() as file:
        if found is None:
            wanted = _resolve_reference(registry, source)
            manifest = _require_manifest(registry, wanted.digest or wanted.tag)
            found = FoundArtifact(wanted.tag, manifest.digest)
        else:
            manifest = _require_manifest(registry, found.digest)
        if verify is not None:
            verify(registry, manifest)
        layer = _only_layer(manifest)
        fetch_blob(registry, layer, file, source.limits.size)
        file.seek(0)
        files = read_tar(file, source.limits, registry.check_time)
        if not files:
            # Otherwise everything would be pruned.
            raise PathNotFound("the source has no files")
        return FileTree(MappingProxyType(files), found.revision)


_IN_MEMORY = 8 * 2**20
"""Bytes of what is transferred that are kept in memory; more are in a file without a name."""


@contextmanager
def _open_spool() -> Iterator[IO[bytes]]:
    """Yield a temporary file for what is transferred; it has no name that others could open."""
    with tempfile.SpooledTemporaryFile(_IN_MEMORY, prefix="applyprune-") as file:
        yield file


def find_artifact(source: OciSource, patience: Patience | None = None) -> FoundArtifact:
    """Return what the source means now, with one HEAD; a range of versions needs the tags too.

    A digest needs no request. The registry only states the digest; ``fetch_artifact`` proves it.
    Raises PathNotFound, AuthenticationFailed, FetchFailed and UsageError.
    """
    with open_registry(source, patience=patience) as registry:
        wanted = _resolve_reference(registry, source)
        if wanted.digest:
            return FoundArtifact(wanted.tag, wanted.digest)
        with registry.request("HEAD", f"manifests/{wanted.tag}", headers=ACCEPTED) as reply:
            if reply.status == 404:
                raise _no_such_version(wanted.tag)
            if reply.status not in {200, 405}:
                raise unexpected_status(reply)
            digest = stated_digest(reply) if reply.status == 200 else ""
        if not digest:
            digest = _require_manifest(registry, wanted.tag).digest
        return FoundArtifact(wanted.tag, digest)


class FoundArtifact(Struct, frozen=True):
    """The manifest that a reference means now."""

    name: str
    """The tag; empty if only a digest was given."""
    digest: str
    """``sha256:…`` of the manifest."""

    @property
    def revision(self) -> str:
        """Return what ``status.lastAppliedRevision`` shows: ``1.4.0@sha256:…``."""
        return f"{self.name}@{self.digest}" if self.name else self.digest


@contextmanager
def open_registry(
    source: OciSource, actions: str = PULL, *, patience: Patience | None = None
) -> Iterator[Registry]:
    """Yield the repository of a source; all that is done in the block has its timeout.

    Errors in the block name the source. Raises UsageError for an invalid source.
    """
    reference = parse_reference(source.url)
    shown = ArtifactReference(reference.host, reference.repository)
    with (
        located(Origin(str(shown))),
        open_web(
            f"https://{reference.host}/",
            timeout=source.timeout,
            credentials=source.credentials,
            addresses=source.addresses,
            patience=patience,
        ) as web,
    ):
        yield Registry(web, reference, source.credentials, actions)


def _resolve_reference(registry: Registry, source: OciSource) -> ArtifactReference:
    """Return the source's reference with a tag or a digest; raises as ``find_artifact``."""
    reference, ref = parse_reference(source.url), source.ref
    if (reference.tag or reference.digest) and ref != NEWEST:
        raise UsageError("the URL and ref both name a version", hint="Name it in ref only.")
    tag, digest = reference.tag or ref.tag, reference.digest or ref.digest
    if ref.semver and not digest:
        tag = best_version(ref.semver, list_tags(registry)) or ""
        if not tag:
            raise PathNotFound(f"the repository has no version in the range {ref.semver}")
    if not tag and not digest:
        tag = DEFAULT_TAG
    return ArtifactReference(reference.host, reference.repository, tag, digest)


def _require_manifest(registry: Registry, name: str) -> ArtifactManifest:
    manifest = fetch_manifest(registry, name)
    if manifest is None:
        raise _no_such_version(name)
    return manifest


def _no_such_version(name: str) -> PathNotFound:
    return PathNotFound(
        f"the registry has no version {name}",
        hint="Check the name. Some registries hide what they would refuse.",
    )


_LAYERS = frozenset(
    {
        FLUX_LAYER,
        "application/vnd.oci.image.layer.v1.tar+gzip",
        "application/vnd.docker.image.rootfs.diff.tar.gzip",
    }
)


_CHART = "application/vnd.cncf.helm.chart."


def _only_layer(manifest: ArtifactManifest) -> Descriptor:
    """Return the only layer; raises FetchFailed for none, several, another type, or a chart."""
    if any(layer.media_type.startswith(_CHART) for layer in manifest.layers):
        # A chart that is signed has a layer for its provenance as well.
        raise FetchFailed(
            "the artifact is a Helm chart, not manifests",
            hint="Render it first: helm template NAME oci://HOST/CHART --version VERSION | "
            "applyprune apply NAME -f -",
        )
    if len(manifest.layers) != 1:
        raise FetchFailed(
            f"the artifact has {len(manifest.layers)} layers", reason="exactly one is read"
        )
    (layer,) = manifest.layers
    if layer.media_type not in _LAYERS:
        raise FetchFailed(
            f"unknown type of layer: {shown_path(layer.media_type[:100])}",
            hint=f"A layer is a tar archive with gzip: {FLUX_LAYER}",
        )
    return layer


# The manifest of an artifact: which blobs it has, proved by its digest.


MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
_DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
_DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
# Indexes too: without them, a registry hides an index behind a 404.
ACCEPTED: Mapping[str, str] = MappingProxyType(
    {"Accept": f"{MANIFEST}, {_DOCKER_MANIFEST}, {INDEX}, {_DOCKER_LIST}"}
)
_MOST_MANIFEST = 4 * 2**20


class ArtifactManifest(Struct, frozen=True):
    """A manifest whose bytes have been checked against its digest."""

    digest: str
    media_type: str
    raw: bytes
    config: Descriptor | None
    layers: tuple[Descriptor, ...]
    annotations: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    artifact_type: str = ""

    __repr__ = hiding("raw")


class Descriptor(Struct, frozen=True):
    """What a manifest or an index says about a blob or a manifest."""

    media_type: str
    digest: str
    """``sha256:…``."""
    size: int
    """Bytes."""
    annotations: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    artifact_type: str = ""


def fetch_manifest(registry: Registry, name: str) -> ArtifactManifest | None:
    """Return the manifest with a tag or a digest; None if the repository has no such one.

    Raises VerificationFailed if its digest is another one than the wanted or the stated one, and
    FetchFailed for an index and for what is not a manifest.
    """
    with registry.request("GET", f"manifests/{name}", headers=ACCEPTED) as reply:
        if reply.status == 404:
            return None
        if reply.status != 200:
            raise unexpected_status(reply)
        raw = reply.read(_MOST_MANIFEST)
        stated = stated_digest(reply)
        content_type = reply.header("Content-Type").partition(";")[0].strip()
    digest = f"sha256:{hashlib.sha256(raw).hexdigest()}"
    _check_digest(digest, name if is_artifact_digest(name) else "", "the manifest")
    _check_digest(digest, stated, "the manifest")
    return parse_manifest(raw, digest, content_type)


def _check_digest(found: str, wanted: str, what: str) -> None:
    """Raise VerificationFailed if a digest was given, and is another one."""
    # guard: checked-digest never
    if wanted and found != wanted:
        raise VerificationFailed(f"{what} has another digest", reason=f"{found}, not {wanted}")


def stated_digest(reply: Reply) -> str:
    """Return the digest that a registry states; empty if there is none that is checked here."""
    stated = reply.header("Docker-Content-Digest").strip()
    return stated if is_artifact_digest(stated) else ""


def parse_manifest(raw: bytes, digest: str, content_type: str) -> ArtifactManifest:
    """Return the manifest in some bytes; raises FetchFailed for an index and what is invalid."""
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        raise FetchFailed("the manifest is not JSON") from None
    if not isinstance(body, dict) or body.get("schemaVersion") != 2:
        raise FetchFailed("the manifest is not one of schema version 2")
    media_type = text(body, "mediaType") or content_type
    if media_type in {INDEX, _DOCKER_LIST} or "manifests" in body:
        raise FetchFailed(
            "this is an index of several artifacts, not an artifact",
            hint="Name one of its manifests by its digest.",
        )
    if media_type not in {MANIFEST, _DOCKER_MANIFEST}:
        raise FetchFailed(f"unknown type of manifest: {shown_path(media_type[:100])}")
    if not isinstance(body.get("layers"), list):
        raise FetchFailed("the manifest has no layers")
    return ArtifactManifest(
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
    if not is_artifact_digest(digest) or size is None or size < 0:
        raise FetchFailed(
            "a descriptor has no valid digest or size", reason="only sha256 digests are checked"
        )
    return Descriptor(
        text(body, "mediaType"), digest, size, _annotations(body), text(body, "artifactType")
    )


def _annotations(body: Mapping[str, object]) -> Mapping[str, str]:
    found = mapping(body.get("annotations")).items()
    return MappingProxyType({key: value for key, value in found if isinstance(value, str)})


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
            raise unexpected_status(reply)
        try:
            digest = reply.save(file, blob.size)
        except SourceTooLarge:
            message = "a blob is longer than its manifest says"
            raise VerificationFailed(message, reason=blob.digest) from None
    _check_digest(digest, blob.digest, "a blob")


# The tags of a repository.


MOST_TAGS = 100_000
_PER_PAGE = 1000
_MOST_PAGES = 1000


def list_tags(registry: Registry) -> Iterator[str]:
    """Yield every tag; raises PathNotFound for no such repository, and SourceTooLarge."""
    page = f"tags/list?n={_PER_PAGE}"
    count = 0
    for _ in range(_MOST_PAGES):
        with registry.request("GET", page) as reply:
            if reply.status == 404:
                raise PathNotFound("the registry has no such repository")
            if reply.status != 200:
                raise unexpected_status(reply)
            found = items(mapping(read_json(reply)), "tags")
            page = next_page(reply)
        count += len(found)
        if count > MOST_TAGS:
            break
        yield from (tag for tag in found if isinstance(tag, str) and is_tag(tag))
        if not page:
            return
    raise SourceTooLarge(f"the repository has more than {MOST_TAGS} tags", hint="Name a tag.")


# What a registry has about an artifact: signatures by tag, and referrers.


MOST_REFERRERS = 500
_MOST_REFERRER_PAGES = 20
# The statuses of registries without the API.
_NO_API = frozenset({400, 404, 405, 406, 415})
MOST_BLOB = 2**20
"""Bytes of a signature or of a bundle."""


def signature_manifest(registry: Registry, digest: str) -> ArtifactManifest | None:
    """Return the manifest with the tag ``sha256-….sig``, where cosign puts signatures; or None.

    Raises as ``fetch_manifest``.
    """
    return fetch_manifest(registry, f"{_fallback_tag(digest)}.sig")


def referrers(registry: Registry, digest: str) -> Sequence[Descriptor]:
    """Return the manifests that refer to an artifact, by the API or by the tag instead of it.

    They are what the registry says: nothing about them is checked yet. Raises SourceTooLarge for
    too many, AuthenticationFailed and FetchFailed.
    """
    found = _list_referrers(registry, f"referrers/{digest}")
    if found is None:
        found = _list_referrers(registry, f"manifests/{_fallback_tag(digest)}")
    return found or ()


def _list_referrers(registry: Registry, page: str) -> list[Descriptor] | None:
    """Return the manifests of an index, page by page; None if there is no such index."""
    found: list[Descriptor] = []
    for _ in range(_MOST_REFERRER_PAGES):
        with registry.request("GET", page, headers={"Accept": INDEX}) as reply:
            if reply.status in _NO_API:
                return None
            if reply.status != 200:
                raise unexpected_status(reply)
            listed = items(mapping(read_json(reply)), "manifests")
            page = next_page(reply)
        found += [read_descriptor(one) for one in listed]
        if len(found) > MOST_REFERRERS:
            break
        if not page:
            return found
    raise SourceTooLarge(f"more than {MOST_REFERRERS} manifests refer to the artifact")


def _fallback_tag(digest: str) -> str:
    return digest.replace(":", "-")


def small_blob(registry: Registry, blob: Descriptor) -> bytes:
    """Return a blob of at most MOST_BLOB bytes, its digest checked; raises as ``fetch_blob``."""
    file = io.BytesIO()
    fetch_blob(registry, blob, file, MOST_BLOB)
    return file.getvalue()


# Push files as an artifact that Flux, Argo CD and applyprune read: one layer, no time in it.


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
    if not reference.tag or reference.digest or source.ref != NEWEST:
        raise UsageError("a push needs a tag, and no digest", hint="Write oci://HOST/NAME:TAG.")
    packed = pack(files, annotations, source.limits)
    manifest, digest = packed.manifest, packed.digest
    with open_registry(source, PULL_AND_PUSH) as registry:
        _upload(registry, packed.config)
        _upload(registry, packed.layer)
        path, kind = f"manifests/{reference.tag}", {"Content-Type": MANIFEST}
        with registry.request("PUT", path, headers=kind, body=manifest) as reply:
            if reply.status not in {200, 201}:
                raise unexpected_status(reply)
            _check_digest(digest, stated_digest(reply), "the manifest")
    return digest


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
    rootfs = {"type": "layers", "diff_ids": [layer.diff_id]}
    config = _json({"architecture": "", "config": {}, "os": "", "rootfs": rootfs})
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


class PackedArtifact(Struct, frozen=True):
    """The blobs of an artifact, and its manifest."""

    config: bytes
    layer: bytes
    manifest: bytes

    __repr__ = hiding("config", "layer", "manifest")

    @property
    def digest(self) -> str:
        """Return the digest of the artifact: ``sha256:…`` of its manifest."""
        return _digest(self.manifest)


def _upload(registry: Registry, data: bytes) -> None:
    """Upload a blob in one request, unless the registry has it."""
    digest = _digest(data)
    with registry.request("HEAD", f"blobs/{digest}") as reply:
        if reply.status == 200:
            return
        if reply.status != 404:
            raise unexpected_status(reply)
    with registry.request("POST", "blobs/uploads/", body=b"") as reply:
        if reply.status != 202:
            raise unexpected_status(reply)
        location = reply.header("Location")
        place = joined(reply.url, location)
    if not location:
        raise FetchFailed("the registry does not say where to upload")
    place += f"{'&' if '?' in place else '?'}{urlencode({'digest': digest})}"
    kind = {"Content-Type": "application/octet-stream"}
    with registry.request("PUT", place, headers=kind, body=data) as reply:
        if reply.status != 201:
            raise unexpected_status(reply)


def _descriptor(media_type: str, data: bytes) -> dict[str, object]:
    return {"mediaType": media_type, "digest": _digest(data), "size": len(data)}


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


# Write files as one layer: the same files always give the same bytes.
#
# The archive has sorted names, no times, no owners. gzip has no name and no time. What zlib makes
# of the same input depends on the library (zlib, zlib-ng, a processor's own) and its version, at
# every level. So the layer is gzip whose blocks are stored, not compressed: the format fixes every
# bit, at the price of a layer as large as its files.


_HEAD = b"\x1f\x8b\x08\x00" + bytes(4) + b"\x00\xff"
"""gzip, deflate, no flags, no time, nothing extra, an unknown system."""
_MOST_STORED = 2**16 - 1
"""Bytes in one stored block."""


class Layer(Struct, frozen=True):
    """One layer of an artifact."""

    data: bytes
    digest: str
    """``sha256:…`` of the data."""
    diff_id: str
    """``sha256:…`` of the tar archive in it."""

    __repr__ = hiding("data")


def write_layer(files: Mapping[str, bytes], limits: TreeLimits) -> Layer:
    """Return the layer with these files, by their relative paths.

    Raises InputError for a path that could not be read again, and SourceTooLarge for what could not
    be pulled with the same limits.
    """
    names = TarNames(limits.files)
    parts = []
    for name in sorted(files):
        if clean_path(name) != name:
            raise InputError(f"invalid path of a file: {shown_path(name)}")
        names.add_file(name)
        info = tarfile.TarInfo(name)
        info.size = len(files[name])
        info.mode = 0o644
        # The defaults: a regular file of user and group 0, without names and time.
        parts += [info.tobuf(tarfile.PAX_FORMAT, "utf-8", "strict"), files[name]]
        parts.append(bytes(-info.size % tarfile.BLOCKSIZE))
    parts.append(bytes(2 * tarfile.BLOCKSIZE))
    archive = b"".join(parts)
    data = stored_gzip(archive)
    if len(data) > limits.size:
        raise SourceTooLarge(f"the layer is larger than {shown_size(limits.size)}")
    return Layer(data, _digest(data), _digest(archive))


def stored_gzip(data: bytes) -> bytes:
    """Return data in the format of gzip, without compression."""
    blocks = [_HEAD]
    for start in range(0, len(data) or 1, _MOST_STORED):
        piece = data[start : start + _MOST_STORED]
        is_last = start + _MOST_STORED >= len(data)
        blocks += [struct.pack("<BHH", is_last, len(piece), len(piece) ^ 0xFFFF), piece]
    blocks.append(struct.pack("<II", zlib.crc32(data), len(data) & 0xFFFFFFFF))
    return b"".join(blocks)
