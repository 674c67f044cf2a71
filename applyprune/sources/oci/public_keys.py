"""The public keys of a Secret, and whether one of them has made a signature."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from applyprune.sources.remote.fetch_errors import VerificationFailed
from applyprune.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
    from cryptography.hazmat.primitives.hashes import HashAlgorithm

    Usable: TypeAlias = EllipticCurvePublicKey | Ed25519PublicKey | RSAPublicKey

PUBLIC = ".pub"
_FEWEST_BITS = 2048
_CURVES = frozenset({"secp256r1", "secp384r1", "secp521r1"})


@dataclass(frozen=True, slots=True)
class PublicKey:
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
            hint='Install it: pip install "applyprune[controller]".',
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


KEYLESS = "Keyless signatures are not supported: sign with a key (cosign sign --key …)."


def _unusable(name: str) -> VerificationFailed:
    return VerificationFailed(
        f"the key {name} of the Secret cannot be used",
        reason=f"it is not a public key in PEM: ECDSA, Ed25519, or RSA of {_FEWEST_BITS} bits",
        hint="Write what cosign generate-key-pair has written to cosign.pub.",
    )
