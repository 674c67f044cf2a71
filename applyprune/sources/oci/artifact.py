"""Pull the files of an artifact that Flux, applyprune or an image builder has pushed."""

from __future__ import annotations

from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING

from applyprune.errors import UsageError
from applyprune.model.manifest import Origin
from applyprune.sources.archives.archive import open_spool, subtree
from applyprune.sources.archives.tar_files import read_tar
from applyprune.sources.oci.artifact_manifest import (
    ACCEPTED,
    Manifest,
    fetch_blob,
    fetch_manifest,
    stated_digest,
)
from applyprune.sources.oci.reference import (
    DEFAULT_TAG,
    Reference,
    is_digest,
    is_tag,
    parse_reference,
)
from applyprune.sources.oci.registry import PULL, Registry, refused
from applyprune.sources.oci.tags import newest_in
from applyprune.sources.remote.fetch_errors import FetchFailed, PathNotFound
from applyprune.sources.remote.file_tree import FileTree, TreeLimits
from applyprune.sources.remote.source_credentials import ANONYMOUS, Credentials
from applyprune.sources.remote.web import located, open_web
from applyprune.sources.source import shown_path
from applyprune.values import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from applyprune.http import AddressRules
    from applyprune.sources.oci.artifact_manifest import Descriptor

FLUX_CONFIG = "application/vnd.cncf.flux.config.v1+json"
FLUX_LAYER = "application/vnd.cncf.flux.content.v1.tar+gzip"
_LAYERS = frozenset(
    {
        FLUX_LAYER,
        "application/vnd.oci.image.layer.v1.tar+gzip",
        "application/vnd.docker.image.rootfs.diff.tar.gzip",
    }
)


@dataclass(frozen=True, slots=True)
class OciRef:
    """Which version: a digest wins over a range of versions, and that over a tag; as in Flux."""

    tag: str = ""
    semver: str = ""
    digest: str = ""


@dataclass(frozen=True, slots=True)
class OciSource:
    """Where an artifact is, and how it is pulled or pushed."""

    url: str
    """``oci://HOST/NAME``, which may have a tag and a digest if ``ref`` has nothing."""
    ref: OciRef = field(default_factory=OciRef)
    credentials: Credentials = ANONYMOUS
    timeout: float = 60.0
    """Seconds for all of it."""
    addresses: AddressRules | None = None
    """Which addresses may be connected to; None for every one."""
    limits: TreeLimits = field(default_factory=TreeLimits)
    """Each holds for the compressed size and for the files."""


@dataclass(frozen=True, slots=True)
class FoundArtifact:
    """The manifest that a reference means now."""

    name: str
    """The tag; empty if only a digest was given."""
    digest: str
    """``sha256:…`` of the manifest."""

    @property
    def revision(self) -> str:
        """Return what ``status.lastAppliedRevision`` shows: ``1.4.0@sha256:…``."""
        return f"{self.name}@{self.digest}" if self.name else self.digest


def find_artifact(source: OciSource) -> FoundArtifact:
    """Return what the source means now, with one HEAD; a range of versions needs the tags too.

    A digest needs no request. The registry only states the digest; ``fetch_artifact`` proves it.
    Raises PathNotFound, AuthenticationFailed, FetchFailed and UsageError.
    """
    with open_registry(source) as registry:
        wanted = _wanted(registry, source)
        if wanted.digest:
            return FoundArtifact(wanted.tag, wanted.digest)
        with registry.request("HEAD", f"manifests/{wanted.tag}", headers=ACCEPTED) as reply:
            if reply.status == 404:
                raise _missing(wanted.tag)
            if reply.status not in {200, 405}:
                raise refused(reply)
            digest = stated_digest(reply) if reply.status == 200 else ""
        if not digest:
            digest = _manifest(registry, wanted.tag).digest
        return FoundArtifact(wanted.tag, digest)


def fetch_artifact(
    source: OciSource,
    found: FoundArtifact | None = None,
    path: str = "",
    *,
    verify: Callable[[Registry, Manifest], None] | None = None,
) -> FileTree:
    """Return every file of the artifact, by its path from the artifact's root.

    With ``found``, that manifest is fetched whatever the tag means now. ``path`` is a folder that
    must have a file in it; ``archive.subtree`` gives its files alone. ``verify`` gets the manifest
    before anything else is fetched, and raises VerificationFailed if it is not trusted.

    Raises PathNotFound, SourceTooLarge, VerificationFailed if one byte is not what a digest says,
    AuthenticationFailed, FetchFailed for everything else that is wrong with the registry or the
    artifact, and UsageError for an invalid source.
    """
    with open_registry(source) as registry, open_spool() as file:
        if found is None:
            wanted = _wanted(registry, source)
            manifest = _manifest(registry, wanted.digest or wanted.tag)
            found = FoundArtifact(wanted.tag, manifest.digest)
        else:
            manifest = _manifest(registry, found.digest)
        if verify is not None:
            verify(registry, manifest)
        layer = _layer(manifest)
        fetch_blob(registry, layer, file, source.limits.size)
        file.seek(0)
        files = read_tar(file, source.limits, registry.check_time)
        tree = FileTree(MappingProxyType(files), found.revision)
        subtree(tree, path)
        return tree


@contextmanager
def open_registry(source: OciSource, actions: str = PULL) -> Iterator[Registry]:
    """Yield the repository of a source; all that is done in the block has its timeout.

    Errors in the block name the source. Raises UsageError for an invalid source.
    """
    reference = parse_reference(source.url)
    shown = Reference(reference.host, reference.repository)
    with (
        located(Origin(str(shown))),
        open_web(
            f"https://{reference.host}/",
            timeout=source.timeout,
            credentials=source.credentials,
            addresses=source.addresses,
        ) as web,
    ):
        yield Registry(web, reference, source.credentials, actions)


def _wanted(registry: Registry, source: OciSource) -> Reference:
    """Return the source's reference with a tag or a digest; raises as ``find_artifact``."""
    reference, ref = parse_reference(source.url), source.ref
    if (reference.tag or reference.digest) and ref != OciRef():
        raise UsageError("the URL and ref both name a version", hint="Name it in ref only.")
    if (ref.tag and not is_tag(ref.tag)) or (ref.digest and not is_digest(ref.digest)):
        raise UsageError(f"invalid tag or digest: {shown_path(ref.tag or ref.digest)}")
    tag, digest = reference.tag or ref.tag, reference.digest or ref.digest
    if ref.semver and not digest:
        tag = newest_in(registry, ref.semver)
    if not tag and not digest:
        tag = DEFAULT_TAG
    return Reference(reference.host, reference.repository, tag, digest)


def _manifest(registry: Registry, name: str) -> Manifest:
    manifest = fetch_manifest(registry, name)
    if manifest is None:
        raise _missing(name)
    return manifest


def _missing(name: str) -> PathNotFound:
    return PathNotFound(
        f"the registry has no version {name}",
        hint="Check the name. Some registries hide what they would refuse.",
    )


def _layer(manifest: Manifest) -> Descriptor:
    """Return the only layer; raises FetchFailed for none, several, or another type."""
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
