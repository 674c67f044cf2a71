"""Signatures by the format that cosign documents, for cases that cosign itself does not make."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

if TYPE_CHECKING:
    from collections.abc import Mapping

SIGN = "https://sigstore.dev/cosign/sign/v1"
INTOTO = "application/vnd.in-toto+json"
MEDIA_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"


@dataclass(frozen=True, slots=True)
class Signer:
    """A private key."""

    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey

    @property
    def public(self) -> bytes:
        """The public key, in PEM."""
        key = self.key.public_key()
        return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def sign(self, message: bytes) -> bytes:
        """Return a signature, with SHA-256 where the kind of key has a choice."""
        match self.key:
            case ec.EllipticCurvePrivateKey():
                return self.key.sign(message, ec.ECDSA(hashes.SHA256()))
            case rsa.RSAPrivateKey():
                return self.key.sign(message, padding.PKCS1v15(), hashes.SHA256())
        return self.key.sign(message)


def signer(kind: str = "p256") -> Signer:
    """Return a new key: ``p256``, ``p384``, ``rsa``, ``ed25519``, and those that
    are refused: ``weak`` (RSA of 1024 bits) and ``k256``.
    """
    match kind:
        case "rsa":
            return Signer(rsa.generate_private_key(65537, 2048))
        case "weak":
            return Signer(rsa.generate_private_key(65537, 1024))  # noqa: S505 - it must be refused
        case "ed25519":
            return Signer(ed25519.Ed25519PrivateKey.generate())
    curves = {"p256": ec.SECP256R1(), "p384": ec.SECP384R1(), "k256": ec.SECP256K1()}
    return Signer(ec.generate_private_key(curves[kind]))


def simple_payload(digest: str, kind: str = "cosign container image signature") -> bytes:
    """Return a simple signing payload for a manifest."""
    critical = {
        "identity": {"docker-reference": "registry.example.com/shop/web"},
        "image": {"docker-manifest-digest": digest},
        "type": kind,
    }
    return json.dumps({"critical": critical, "optional": None}).encode()


def statement(digest: str, predicate: str = SIGN) -> bytes:
    """Return a statement of in-toto about a manifest."""
    subject = {"name": "", "digest": {"sha256": digest.removeprefix("sha256:")}}
    return json.dumps(
        {
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [subject],
            "predicateType": predicate,
            "predicate": {},
        }
    ).encode()


def envelope_bundle(key: Signer, payload: bytes, kind: str = INTOTO, **material: object) -> bytes:
    """Return a bundle with a signed envelope; ``material`` is more of the verification material."""
    signed = b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(payload), payload)
    envelope = {
        "payload": encoded(payload),
        "payloadType": kind,
        "signatures": [{"sig": encoded(key.sign(signed))}],
    }
    return bundle({"dsseEnvelope": envelope}, **material)


def message_bundle(key: Signer, artifact: bytes) -> bytes:
    """Return a bundle with a signature over the artifact itself."""
    digest = {"algorithm": "SHA2_256", "digest": encoded(hashlib.sha256(artifact).digest())}
    message = {"messageDigest": digest, "signature": encoded(key.sign(artifact))}
    return bundle({"messageSignature": message})


def bundle(content: Mapping[str, Any], **material: object) -> bytes:
    """Return a bundle around some content."""
    verification = {"publicKey": {"hint": ""}, "tlogEntries": [], **material}
    body = {"mediaType": MEDIA_TYPE, "verificationMaterial": verification, **content}
    return json.dumps(body).encode()


def encoded(data: bytes) -> str:
    """Return base64."""
    return base64.b64encode(data).decode()
