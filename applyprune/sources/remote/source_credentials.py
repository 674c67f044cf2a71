"""The credentials of one source; the names in a Secret are those of Flux."""

from __future__ import annotations

from applyprune.values import dataclass, field


@dataclass(frozen=True, slots=True)
class Credentials:
    """What is known about who reads a source, and about the server that may be trusted.

    Each field is empty if it is not given. No field is ever shown, logged, or put on a command
    line.
    """

    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    """For HTTPS; for SSH, the passphrase of ``identity``."""
    bearer_token: str = field(default="", repr=False)
    identity: bytes = field(default=b"", repr=False)
    """A private key for SSH."""
    known_hosts: bytes = field(default=b"", repr=False)
    """The host keys of an SSH server, as in ``known_hosts`` of OpenSSH."""
    ca: bytes = field(default=b"", repr=False)
    """Certificates, in PEM, of the only CAs that are trusted for the server; empty for those of the
    system."""
    certificate: bytes = field(default=b"", repr=False)
    """A client certificate for TLS, in PEM."""
    key: bytes = field(default=b"", repr=False)
    """The private key of ``certificate``, in PEM."""
    docker_config: bytes = field(default=b"", repr=False)
    """The content of ``.dockerconfigjson``: credentials for registries, by their host."""


ANONYMOUS = Credentials()
