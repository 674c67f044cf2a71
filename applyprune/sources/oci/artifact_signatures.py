"""Read the signatures of an artifact from its registry, and verify them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.sources.oci.artifact_manifest import fetch_manifest
from applyprune.sources.oci.cosign import (
    BUNDLE,
    CERTIFICATE,
    SIGNATURE,
    SimpleSignature,
    verify,
)
from applyprune.sources.oci.public_keys import public_keys
from applyprune.sources.oci.referrers import referrers, signature_manifest, small_blob

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from applyprune.sources.oci.artifact_manifest import Manifest
    from applyprune.sources.oci.public_keys import PublicKey
    from applyprune.sources.oci.registry import Registry

MOST_SIGNATURES = 50
"""How many are read in each form; an artifact that is signed by a few has a few."""

# Registries list no type, or the one of the config instead.
_NOT_SAID = frozenset({"", "application/vnd.oci.empty.v1+json"})


def verification(secret: Mapping[str, bytes]) -> Callable[[Registry, Manifest], None]:
    """Return what verifies an artifact before it is read, by the keys ``*.pub`` of a Secret.

    Raises VerificationFailed for keys that cannot be used, before the registry is asked.
    """
    keys = public_keys(secret)
    return lambda registry, manifest: verify_artifact(registry, manifest.digest, keys)


def verify_artifact(registry: Registry, digest: str, keys: Sequence[PublicKey]) -> None:
    """Return if one of the keys has signed the artifact with the digest.

    Takes two requests for a signature in the tag form, and two more for each bundle. Raises
    VerificationFailed, and what ``fetch_manifest`` and ``fetch_blob`` raise.
    """
    verify(
        digest,
        keys,
        signatures=_signatures(registry, digest),
        bundles=_bundles(registry, digest),
    )


def _signatures(registry: Registry, digest: str) -> Iterator[SimpleSignature]:
    manifest = signature_manifest(registry, digest)
    for layer in manifest.layers[:MOST_SIGNATURES] if manifest else ():
        if signature := layer.annotations.get(SIGNATURE):
            payload = small_blob(registry, layer)
            yield SimpleSignature(payload, signature, is_keyless=CERTIFICATE in layer.annotations)


def _bundles(registry: Registry, digest: str) -> Iterator[bytes]:
    named = [
        one
        for one in referrers(registry, digest)
        if one.artifact_type in _NOT_SAID or one.artifact_type.startswith(BUNDLE)
    ]
    for one in named[:MOST_SIGNATURES]:
        manifest = fetch_manifest(registry, one.digest)
        for layer in manifest.layers[:1] if manifest else ():
            if layer.media_type.startswith(BUNDLE):
                yield small_blob(registry, layer)
