"""The versions of the client and of the server."""

from __future__ import annotations

from applyprune.values import dataclass


@dataclass(frozen=True, slots=True)
class VersionReport:
    """The versions of the client and the server."""

    client: str
    python: str
    platform: str
    server: str = ""
    """The version of the server; empty if it was not requested, or did not answer."""
