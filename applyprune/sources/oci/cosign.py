"""Verify cosign's signatures by key, in both of its forms. This module reads nothing.

A signature is made over a small text that names the digest of the artifact: a simple signing
payload, or a statement of in-toto in an envelope (DSSE) in a bundle of Sigstore. A bundle may also
have a signature over the artifact itself. Transparency logs and certificates are not consulted.
"""

from __future__ import annotations

import base64
import binascii
import json
from enum import IntEnum
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any

from applyprune.sources.oci.public_keys import KEYLESS
from applyprune.sources.remote.fetch_errors import VerificationFailed
from applyprune.values import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from applyprune.sources.oci.public_keys import PublicKey

BUNDLE = "application/vnd.dev.sigstore.bundle"
"""How the media type of every version of a bundle begins."""
SIGNATURE = "dev.cosignproject.cosign/signature"
"""The annotation of a payload's layer with its signature, in base64."""
CERTIFICATE = "dev.sigstore.cosign/certificate"
"""The annotation that a keyless signature has as well."""

_SIGNED = "https://sigstore.dev/cosign/sign/v1"
_TYPES = frozenset({"cosign container image signature", _SIGNED})
_INTOTO = "application/vnd.in-toto+json"


@dataclass(frozen=True, slots=True)
class SimpleSignature:
    """A signature in the tag form: a layer of the manifest with the tag ``sha256-….sig``."""

    payload: bytes = field(repr=False)
    signature: str
    """The annotation SIGNATURE."""
    is_keyless: bool = False
    """Whether there is the annotation CERTIFICATE."""


class _Found(IntEnum):
    """What a signature proves; the highest one of an artifact counts."""

    NOTHING = 0
    KEYLESS = 1
    OTHER_KEY = 2
    OTHER_ARTIFACT = 3
    SIGNED = 4


_MESSAGES = {
    _Found.NOTHING: "the artifact has no signature of cosign",
    _Found.KEYLESS: "the artifact has keyless signatures only",
    _Found.OTHER_KEY: "no key of the Secret has signed the artifact",
    _Found.OTHER_ARTIFACT: "its signature is for another artifact",
}


def verify(
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
    best = _Found.NOTHING
    found = chain(
        (_simple(one, digest, keys) for one in signatures),
        (_bundle(one, digest, keys) for one in bundles),
    )
    for best in accumulate(found, max):
        if best is _Found.SIGNED:
            return
    raise VerificationFailed(
        _MESSAGES[best],
        reason=digest,
        hint=KEYLESS if best is _Found.KEYLESS else "Sign it: cosign sign --key KEY IMAGE@DIGEST",
    )


def _simple(signature: SimpleSignature, digest: str, keys: Sequence[PublicKey]) -> _Found:
    made = _decoded(signature.signature)
    if made is None:
        return _Found.NOTHING
    if not any(key.has_signed(made, signature.payload) for key in keys):
        return _Found.KEYLESS if signature.is_keyless else _Found.OTHER_KEY
    critical = _part(_json(signature.payload), "critical")
    if _part(critical, "type") not in _TYPES:
        return _Found.OTHER_ARTIFACT
    named = _part(_part(critical, "image"), "docker-manifest-digest")
    return _Found.SIGNED if named == digest else _Found.OTHER_ARTIFACT


def _bundle(bundle: bytes, digest: str, keys: Sequence[PublicKey]) -> _Found:
    body = _json(bundle)
    if not str(_part(body, "mediaType")).startswith(BUNDLE):
        return _Found.NOTHING
    material = _part(body, "verificationMaterial")
    is_keyless = bool(_part(material, "certificate") or _part(material, "x509CertificateChain"))
    envelope, message = _part(body, "dsseEnvelope"), _part(body, "messageSignature")
    if envelope is not None:
        found = _envelope(envelope, digest, keys)
    elif message is not None:
        found = _message(message, digest, keys)
    else:
        found = _Found.NOTHING
    return _Found.KEYLESS if is_keyless and found is _Found.OTHER_KEY else found


def _envelope(envelope: Any, digest: str, keys: Sequence[PublicKey]) -> _Found:
    payload = _decoded(_part(envelope, "payload"))
    kind = _part(envelope, "payloadType")
    if payload is None or kind != _INTOTO:
        return _Found.NOTHING
    signed = _pre_authentication(str(kind), payload)
    made = [_decoded(_part(one, "sig")) for one in _list(envelope, "signatures")]
    if not any(key.has_signed(one, signed) for one in made if one is not None for key in keys):
        return _Found.OTHER_KEY
    statement = _json(payload)
    # Other statements, such as those of a scanner, may be about the artifact and by the same key.
    if _part(statement, "predicateType") != _SIGNED:
        return _Found.NOTHING
    named = [_part(_part(one, "digest"), "sha256") for one in _list(statement, "subject")]
    return _Found.SIGNED if digest.removeprefix("sha256:") in named else _Found.OTHER_ARTIFACT


def _message(message: Any, digest: str, keys: Sequence[PublicKey]) -> _Found:
    made = _decoded(_part(message, "signature"))
    stated = _part(message, "messageDigest")
    if made is None or _part(stated, "algorithm") not in {None, "SHA2_256"}:
        return _Found.NOTHING
    artifact = bytes.fromhex(digest.removeprefix("sha256:"))
    if any(key.has_signed_digest(made, artifact) for key in keys):
        return _Found.SIGNED
    other = _decoded(_part(stated, "digest"))
    if other is not None and any(key.has_signed_digest(made, other) for key in keys):
        return _Found.OTHER_ARTIFACT
    return _Found.OTHER_KEY


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


def _part(value: Any, name: str) -> Any:
    """Return a field of an object; None if there is none, or no object."""
    return value.get(name) if isinstance(value, dict) else None


def _list(value: Any, name: str) -> list[Any]:
    """Return a list in an object; empty if there is none."""
    found = _part(value, name)
    return found if isinstance(found, list) else []


def _decoded(text: Any) -> bytes | None:
    """Return the bytes of base64, in either alphabet; None if it is not base64."""
    try:
        return base64.b64decode(str(text).translate(_ALPHABET), validate=True) if text else None
    except (binascii.Error, ValueError):
        return None


_ALPHABET = str.maketrans("-_", "+/")
