"""A source on another host, as a Bundle names it and its ServiceAccount may read it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import astuple
from types import MappingProxyType
from typing import TypeAlias

from applyprune.sources.address import GitSource
from applyprune.sources.archive import ArchiveSource
from applyprune.sources.oci_artifact import OciSource
from applyprune.values import dataclass, field

Transport: TypeAlias = GitSource | OciSource | ArchiveSource


@dataclass(frozen=True, slots=True)
class Verification:
    """Whose signatures a source must have."""

    mode: str
    """``HEAD``, ``Tag`` or ``TagAndHEAD`` for Git, ``cosign`` for OCI."""
    keys: Mapping[str, bytes] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    """The public keys, by their names in the Secret."""


@dataclass(frozen=True, slots=True)
class RemoteSource:
    """Where a source is, who reads it, and whom it must be from."""

    transport: Transport
    verification: Verification | None = None
    """None if no signature is needed."""

    def place(self, secret: bytes) -> str:
        """Return the name of what is kept of its host.

        It is the same for the same URL, credentials and rules only: tenants with other credentials
        share nothing. ``secret`` is the controller's, so the name tells nothing about these.
        """
        transport = self.transport
        addresses = transport.addresses
        return _name(secret, transport.url, astuple(transport.credentials), addresses)

    def check(self, secret: bytes) -> str:
        """Return the name of one look at its reference, for all Bundles that need the same one."""
        verification = self.verification
        keys = sorted(verification.keys.items()) if verification is not None else []
        mode = verification.mode if verification is not None else ""
        return _name(secret, self.place(secret), _version(self.transport), mode, keys)


def _version(transport: Transport) -> object:
    return transport.digest if isinstance(transport, ArchiveSource) else astuple(transport.ref)


def _name(secret: bytes, *parts: object) -> str:
    return hashlib.blake2b(repr(parts).encode(), key=secret, digest_size=20).hexdigest()
