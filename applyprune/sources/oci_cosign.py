"""Cosign's signatures of artifacts: read from the registry, verified by a Secret's public keys.

Transparency logs and certificates are not consulted.
"""

from __future__ import annotations

import base64
import binascii
import json
from enum import IntEnum
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from applyprune._version import pip_install
from applyprune.sources.oci_artifact import (
    fetch_manifest,
    referrers,
    signature_manifest,
    small_blob,
)
from applyprune.sources.tree import VerificationFailed
from applyprune.values import hiding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
    from cryptography.hazmat.primitives.hashes import HashAlgorithm

    from applyprune.sources.oci_artifact import ArtifactManifest
    from applyprune.sources.oci_registry import Registry

    Usable: TypeAlias = EllipticCurvePublicKey | Ed25519PublicKey | RSAPublicKey


def verification(secret: Mapping[str, bytes]) -> Callable[[Registry, ArtifactManifest], None]:
    """Return what verifies an artifact before it is read, by the keys ``*.pub`` of a Secret.

    Raises VerificationFailed for keys that cannot be used, before the registry is asked. What is
    returned raises it if none of the keys has signed the artifact, and what ``fetch_manifest`` and
    ``fetch_blob`` raise. It takes two requests for a signature in the tag form, and two for each
    bundle.
    """
    keys = public_keys(secret)

    def verify(registry: Registry, manifest: ArtifactManifest) -> None:
        digest = manifest.digest
        signatures, bundles = _signatures(registry, digest), _bundles(registry, digest)
        verify_signatures(digest, keys, signatures=signatures, bundles=bundles)

    return verify


MOST_SIGNATURES = 50
"""How many are read in each form; an artifact that is signed by a few has a few."""


def _signatures(registry: Registry, digest: str) -> Iterator[SimpleSignature]:
    manifest = signature_manifest(registry, digest)
    for layer in manifest.layers[:MOST_SIGNATURES] if manifest else ():
        if signature := layer.annotations.get(SIGNATURE):
            payload = small_blob(registry, layer)
            yield SimpleSignature(payload, signature, is_keyless=CERTIFICATE in layer.annotations)


# Registries list no type, or the one of the config instead.
_UNSTATED_TYPES = frozenset({"", "application/vnd.oci.empty.v1+json"})


def _bundles(registry: Registry, digest: str) -> Iterator[bytes]:
    named = [
        one
        for one in referrers(registry, digest)
        if one.artifact_type in _UNSTATED_TYPES or one.artifact_type.startswith(BUNDLE)
    ]
    for one in named[:MOST_SIGNATURES]:
        manifest = fetch_manifest(registry, one.digest)
        for layer in manifest.layers[:1] if manifest else ():
            if layer.media_type.startswith(BUNDLE):
                yield small_blob(registry, layer)


# Verify signatures by key, in both of cosign's forms.
#
# A signature is made over a small text that names the digest of the artifact: a simple signing
# payload, or a statement of in-toto in an envelope (DSSE) in a bundle of Sigstore. A bundle may
# also have a signature over the artifact itself.


BUNDLE = "application/vnd.dev.sigstore.bundle"
"""How the media type of every version of a bundle begins."""
SIGNATURE = "dev.cosignproject.cosign/signature"
"""The annotation of a payload's layer with its signature, in base64."""
CERTIFICATE = "dev.sigstore.cosign/certificate"
"""The annotation that a keyless signature has as well."""
_SIGNED = "https://sigstore.dev/cosign/sign/v1"
_TYPES = frozenset({"cosign container image signature", _SIGNED})
_INTOTO = "application/vnd.in-toto+json"
_ALPHABET = str.maketrans("-_", "+/")


class SimpleSignature(Struct, frozen=True):
    """A signature in the tag form: a layer of the manifest with the tag ``sha256-….sig``."""

    payload: bytes
    signature: str
    """The annotation SIGNATURE."""
    is_keyless: bool = False
    """Whether there is the annotation CERTIFICATE."""

    __repr__ = hiding("payload")


class _Proof(IntEnum):
    """What a signature proves; the highest one of an artifact counts."""

    NOTHING = 0
    KEYLESS = 1
    OTHER_KEY = 2
    OTHER_ARTIFACT = 3
    SIGNED = 4


_MESSAGES = {
    _Proof.NOTHING: "the artifact has no signature of cosign",
    _Proof.KEYLESS: "the artifact has keyless signatures only",
    _Proof.OTHER_KEY: "no key of the Secret has signed the artifact",
    _Proof.OTHER_ARTIFACT: "its signature is for another artifact",
}


def verify_signatures(
    digest: str,
    keys: Sequence[PublicKey],
    *,
    signatures: Iterable[SimpleSignature] = (),
    bundles: Iterable[bytes] = (),
) -> None:
    """Return if one of the keys has signed the artifact; raise VerificationFailed if none has.

    ``digest`` is that of the artifact's manifest, ``sha256:…``. Signatures that cannot be read
    count as missing: anybody who may push can add some. No more of them are taken than needed.
    """
    best = _Proof.NOTHING
    found = chain(
        (_simple_proof(one, digest, keys) for one in signatures),
        (_bundle_proof(one, digest, keys) for one in bundles),
    )
    for best in accumulate(found, max):
        if best is _Proof.SIGNED:
            return
    raise VerificationFailed(
        _MESSAGES[best],
        reason=digest,
        hint=KEYLESS if best is _Proof.KEYLESS else "Sign it: cosign sign --key KEY IMAGE@DIGEST",
    )


def _simple_proof(signature: SimpleSignature, digest: str, keys: Sequence[PublicKey]) -> _Proof:
    made = _decoded(signature.signature)
    if made is None:
        return _Proof.NOTHING
    if not any(key.has_signed(made, signature.payload) for key in keys):
        return _Proof.KEYLESS if signature.is_keyless else _Proof.OTHER_KEY
    critical = _field(_json(signature.payload), "critical")
    if _field(critical, "type") not in _TYPES:
        return _Proof.OTHER_ARTIFACT
    named = _field(_field(critical, "image"), "docker-manifest-digest")
    return _Proof.SIGNED if named == digest else _Proof.OTHER_ARTIFACT


def _bundle_proof(bundle: bytes, digest: str, keys: Sequence[PublicKey]) -> _Proof:
    body = _json(bundle)
    if not str(_field(body, "mediaType")).startswith(BUNDLE):
        return _Proof.NOTHING
    material = _field(body, "verificationMaterial")
    is_keyless = bool(_field(material, "certificate") or _field(material, "x509CertificateChain"))
    envelope, message = _field(body, "dsseEnvelope"), _field(body, "messageSignature")
    if envelope is not None:
        found = _envelope_proof(envelope, digest, keys)
    elif message is not None:
        found = _message_proof(message, digest, keys)
    else:
        found = _Proof.NOTHING
    return _Proof.KEYLESS if is_keyless and found is _Proof.OTHER_KEY else found


def _envelope_proof(envelope: Any, digest: str, keys: Sequence[PublicKey]) -> _Proof:
    payload = _decoded(_field(envelope, "payload"))
    kind = _field(envelope, "payloadType")
    if payload is None or kind != _INTOTO:
        return _Proof.NOTHING
    signed = _pre_authentication(str(kind), payload)
    made = [_decoded(_field(one, "sig")) for one in _list(envelope, "signatures")]
    if not any(key.has_signed(one, signed) for one in made if one is not None for key in keys):
        return _Proof.OTHER_KEY
    statement = _json(payload)
    # Other statements, such as those of a scanner, may be about the artifact and by the same key.
    if _field(statement, "predicateType") != _SIGNED:
        return _Proof.NOTHING
    named = [_field(_field(one, "digest"), "sha256") for one in _list(statement, "subject")]
    return _Proof.SIGNED if digest.removeprefix("sha256:") in named else _Proof.OTHER_ARTIFACT


def _message_proof(message: Any, digest: str, keys: Sequence[PublicKey]) -> _Proof:
    made = _decoded(_field(message, "signature"))
    stated = _field(message, "messageDigest")
    if made is None or _field(stated, "algorithm") not in {None, "SHA2_256"}:
        return _Proof.NOTHING
    artifact = bytes.fromhex(digest.removeprefix("sha256:"))
    if any(key.has_signed_digest(made, artifact) for key in keys):
        return _Proof.SIGNED
    other = _decoded(_field(stated, "digest"))
    if other is not None and any(key.has_signed_digest(made, other) for key in keys):
        return _Proof.OTHER_ARTIFACT
    return _Proof.OTHER_KEY


def _pre_authentication(kind: str, payload: bytes) -> bytes:
    """Return what an envelope signs: its type and its payload, each with its length."""
    name = kind.encode()
    return b"DSSEv1 %d %s %d %s" % (len(name), name, len(payload), payload)


def _json(data: bytes) -> Any:
    """Return the value of some JSON; None if it is not JSON."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _field(value: Any, name: str) -> Any:
    """Return a field of an object; None if there is none, or no object."""
    return value.get(name) if isinstance(value, dict) else None


def _list(value: Any, name: str) -> list[Any]:
    """Return a list in an object; empty if there is none."""
    found = _field(value, name)
    return found if isinstance(found, list) else []


def _decoded(text: Any) -> bytes | None:
    """Return the bytes of base64, in either alphabet; None if it is not base64."""
    try:
        return base64.b64decode(str(text).translate(_ALPHABET), validate=True) if text else None
    except (binascii.Error, ValueError):
        return None


# The public keys of a Secret, and whether one of them has made a signature.


PUBLIC = ".pub"
KEYLESS = "Keyless signatures are not supported: sign with a key (cosign sign --key …)."
_FEWEST_BITS = 2048
_CURVES = frozenset({"secp256r1", "secp384r1", "secp521r1"})


def public_keys(secret: Mapping[str, bytes]) -> Sequence[PublicKey]:
    """Return the keys ``*.pub`` of a Secret's data, in PEM: ECDSA, RSA or Ed25519.

    Raises VerificationFailed for one that is something else, and if there is none.
    """
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
        from cryptography.hazmat.primitives.serialization import load_pem_public_key
    except ImportError:
        raise VerificationFailed(
            "signatures cannot be verified: the package cryptography is not installed",
            hint=f"Install it: {pip_install('controller')}",
        ) from None
    found: list[PublicKey] = []
    for name, content in sorted(secret.items()):
        if not name.endswith(PUBLIC):
            continue
        try:
            key = load_pem_public_key(content)
        except (ValueError, UnsupportedAlgorithm):
            raise _unusable(name) from None
        match key:
            case ec.EllipticCurvePublicKey() if key.curve.name in _CURVES:
                found.append(PublicKey(name, key))
            case rsa.RSAPublicKey() if key.key_size >= _FEWEST_BITS:
                found.append(PublicKey(name, key))
            case ed25519.Ed25519PublicKey():
                found.append(PublicKey(name, key))
            case _:
                raise _unusable(name)
    if not found:
        raise VerificationFailed(
            "the Secret has no public key to verify signatures with",
            hint=f"Add the key as NAME{PUBLIC}. {KEYLESS}",
        )
    return tuple(found)


def _unusable(name: str) -> VerificationFailed:
    return VerificationFailed(
        f"the key {name} of the Secret cannot be used",
        reason=f"it is not a public key in PEM: ECDSA, Ed25519, or RSA of {_FEWEST_BITS} bits",
        hint="Write what cosign generate-key-pair has written to cosign.pub.",
    )


class PublicKey(Struct, frozen=True):
    """A key of a Secret that may have signed."""

    name: str
    """Its key in the Secret."""
    key: Usable

    def has_signed(self, signature: bytes, message: bytes) -> bool:
        """Return whether this key has made the signature of the message."""
        from cryptography.hazmat.primitives import hashes

        return any(
            self._verifies(signature, message, algorithm)
            # cosign takes SHA-256 for all curves, newer releases the one of the curve's size.
            for algorithm in (hashes.SHA256(), hashes.SHA384(), hashes.SHA512())
        )

    def has_signed_digest(self, signature: bytes, digest: bytes) -> bool:
        """Return whether this key has signed what has the SHA-256 digest; never for Ed25519."""
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.asymmetric.utils import Prehashed as Digest

        if isinstance(self.key, Ed25519PublicKey):
            return False
        return self._verifies(signature, digest, Digest(hashes.SHA256()))

    def _verifies(
        self, signature: bytes, message: bytes, algorithm: HashAlgorithm | Prehashed
    ) -> bool:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding

        try:
            if isinstance(self.key, ed25519.Ed25519PublicKey):
                self.key.verify(signature, message)
            elif isinstance(self.key, ec.EllipticCurvePublicKey):
                self.key.verify(signature, message, ec.ECDSA(algorithm))
            else:
                self.key.verify(signature, message, padding.PKCS1v15(), algorithm)
        except (InvalidSignature, ValueError):  # ValueError: a digest of another length
            return False
        return True
