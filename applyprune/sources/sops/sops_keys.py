"""The keys of a Secret with which SOPS decrypts; their names are those of Flux."""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING

from applyprune.values import dataclass, field, pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

AGE = ".agekey"
OPENPGP = ".asc"

# One of a plugin (AGE-PLUGIN-…) would run a program.
_AGE_KEY = pattern(r"^AGE-SECRET-KEY-[A-Z0-9-]+$", re.MULTILINE)
_ARMOR = pattern(
    rb"-----BEGIN PGP PRIVATE KEY BLOCK-----[ \t\r]*\n(?:[^\n:]+:[^\n]*\n)*(?P<body>.*?)"
    rb"-----END PGP PRIVATE KEY BLOCK-----",
    re.DOTALL,
)
_CHECKSUM = pattern(rb"\n=[^\n]{4}\s*\Z")


class UnusableKeys(Exception):
    """A key of the Secret cannot be used, or it has none; ``hint`` says what to do."""

    def __init__(self, message: str, hint: str) -> None:
        """Store both; they have no part of a key."""
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class SopsKeys:
    """What can decrypt, as sops reads it."""

    age: str = field(default="", repr=False)
    """Identities, each on a line."""
    openpgp: bytes = field(default=b"", repr=False)
    """A ring of private keys, not armored."""


def sops_keys(secret: Mapping[str, bytes]) -> SopsKeys:
    """Return the keys ``*.agekey`` and ``*.asc`` of a Secret's data; others are ignored.

    Raises UnusableKeys for a key that is not one, or if there is none.
    """
    age: list[str] = []
    openpgp = b""
    for name, content in sorted(secret.items()):
        if name.endswith(AGE):
            found = _AGE_KEY.findall(content.decode("utf-8", "replace").replace("\r", ""))
            if not found:
                raise _unusable(name, "an age identity (AGE-SECRET-KEY-…)")
            age += found
        elif name.endswith(OPENPGP):
            openpgp += _unarmored(name, content)
    if not age and not openpgp:
        raise UnusableKeys(
            "the Secret has no key for decryption",
            hint=f"Add an age identity as NAME{AGE}, or an OpenPGP private key as NAME{OPENPGP}.",
        )
    return SopsKeys("\n".join(age), openpgp)


def _unarmored(name: str, content: bytes) -> bytes:
    ring = b""
    for block in _ARMOR.finditer(content.replace(b"\r", b"")):
        try:
            ring += base64.b64decode(_CHECKSUM.sub(b"", block["body"]), validate=False)
        except binascii.Error:
            raise _unusable(name, "an armored OpenPGP private key") from None
    if not ring:
        raise _unusable(name, "an armored OpenPGP private key")
    return ring


def _unusable(name: str, what: str) -> UnusableKeys:
    return UnusableKeys(
        f"the key {name} of the Secret is not {what}",
        hint="Write the key into the Secret again, without a passphrase.",
    )
