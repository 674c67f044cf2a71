"""What refers to an artifact: by the API of a registry that has it, by tags of one that has not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from applyprune.sources.oci_artifact import (
    INDEX,
    MANIFEST,
    MOST_BLOB,
    MOST_REFERRERS,
    open_registry,
    push,
    referrers,
    signature_manifest,
    small_blob,
)
from applyprune.sources.tree import SourceTooLarge, VerificationFailed
from tests.support.artifacts import FILES, described, manifest_of, put, source_of

if TYPE_CHECKING:
    from tests.support.registries import Registry

BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"


def about(subject: str, blob: bytes) -> dict[str, object]:
    """Return a manifest that refers to another one."""
    named = {"mediaType": MANIFEST, "digest": subject, "size": 1}
    return manifest_of(described(blob, BUNDLE), subject=named, artifactType=BUNDLE)


def test_signature_by_tag_is_found(any_registry: Registry) -> None:
    source = source_of(any_registry, "shop/web:1")
    digest = push(source, FILES)
    with open_registry(source) as registry:
        assert signature_manifest(registry, digest) is None
    tag = f"{digest.replace(':', '-')}.sig"
    signature = manifest_of({**described(b"signed"), "annotations": {"a": "b"}})
    put(source, signature, b"signed", tag=tag)
    with open_registry(source) as registry:
        found = signature_manifest(registry, digest)
        assert found is not None
        (layer,) = found.layers
        assert (small_blob(registry, layer), layer.annotations) == (b"signed", {"a": "b"})


def test_referrers_of_the_api_are_listed(with_referrers: Registry) -> None:
    source = source_of(with_referrers, "shop/web:1")
    digest = push(source, FILES)
    with open_registry(source) as registry:
        assert list(referrers(registry, digest)) == []
    referrer = put(source, about(digest, b"bundle"), b"bundle", tag="bundle")
    with open_registry(source) as registry:
        (found,) = referrers(registry, digest)
        assert (found.digest, found.media_type) == (referrer, MANIFEST)


@pytest.mark.usefixtures("components")
@pytest.mark.parametrize("kind", ["registry", "with_tokens"])
def test_referrers_of_the_tag_are_listed(request: pytest.FixtureRequest, kind: str) -> None:
    """Where the registry has no such API."""
    running: Registry = request.getfixturevalue(kind)
    source = source_of(running, "shop/web:1")
    digest = push(source, FILES)
    with open_registry(source) as registry:
        assert list(referrers(registry, digest)) == []
    referrer = put(source, about(digest, b"bundle"), b"bundle", tag="bundle")
    size = len(running.blob(referrer).read_bytes())
    listed = {"mediaType": MANIFEST, "digest": referrer, "size": size, "artifactType": BUNDLE}
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [listed]}
    put(source, index, media_type=INDEX, tag=digest.replace(":", "-"))
    with open_registry(source) as registry:
        (found,) = referrers(registry, digest)
        assert (found.digest, found.artifact_type) == (referrer, BUNDLE)


def test_too_many_referrers_are_refused(registry: Registry) -> None:
    source = source_of(registry, "shop/pointed:1")
    digest = push(source, FILES)
    referrer = put(source, about(digest, b"bundle"), b"bundle", tag="bundle")
    size = len(registry.blob(referrer).read_bytes())
    listed = [{"mediaType": MANIFEST, "digest": referrer, "size": size}] * (MOST_REFERRERS + 1)
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": listed}
    put(source, index, media_type=INDEX, tag=digest.replace(":", "-"))
    with open_registry(source) as session, pytest.raises(SourceTooLarge):
        referrers(session, digest)


def test_small_blob_is_small_and_checked(registry: Registry) -> None:
    large = bytes(MOST_BLOB + 1)
    source = source_of(registry, "shop/blobs:1")
    signature = manifest_of(described(large), described(b"right"))
    digest = push(source, FILES)
    put(source, signature, large, b"right", tag=f"{digest.replace(':', '-')}.sig")
    with open_registry(source) as session:
        found = signature_manifest(session, digest)
        assert found is not None
        with pytest.raises(SourceTooLarge):
            small_blob(session, found.layers[0])
        registry.blob(found.layers[1].digest).write_bytes(b"wrong")
        with pytest.raises(VerificationFailed):
            small_blob(session, found.layers[1])
