"""The connections to one API server: its TLS context, which has Go's rules, and their pool."""

from __future__ import annotations

import re
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from applyprune.errors import AccessError
from applyprune.http.pool import open_pools

if TYPE_CHECKING:
    from urllib3.connectionpool import HTTPConnectionPool

    from applyprune.cluster.auth.credentials import Identity
    from applyprune.cluster.auth.kubeconfig import ClusterAccess, TLSTrust

_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


def tls_context(trust: TLSTrust, identity: Identity) -> ssl.SSLContext:
    """Return a context that follows ``trust`` and presents the identity's certificate.

    The system's authorities are loaded (20 ms) only when the kubeconfig has none. Raises
    AccessError for invalid certificates and keys.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # As Go does: trust every certificate given as an authority, self-signed or not, and ignore the
    # common name of a server's certificate.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.hostname_checks_common_name = False
    if trust.skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif trust.authorities:
        _trust_only(context, trust.authorities)
    else:
        context.load_default_certs()
    if identity.certificate:
        _show(context, identity)
    return context


def _trust_only(context: ssl.SSLContext, authorities: str) -> None:
    # Only the PEM blocks: ssl refuses comments that are not ASCII.
    blocks = _CERTIFICATE.findall(authorities)
    try:
        context.load_verify_locations(cadata="\n".join(blocks) if blocks else "none")
    except (ssl.SSLError, ValueError):
        raise AccessError(
            "the certificate authority is not a PEM certificate",
            hint="Check certificate-authority(-data) of the cluster in the kubeconfig.",
        ) from None


def _show(context: ssl.SSLContext, identity: Identity) -> None:
    """Load certificate and key: ssl needs a file, so write a private one for a moment."""
    with tempfile.TemporaryDirectory(prefix="applyprune-") as folder:
        pair = Path(folder) / "client.pem"
        pair.touch(mode=0o600)
        pair.write_bytes(identity.certificate + b"\n" + identity.key)
        try:
            # Without a password OpenSSL would ask for one on the terminal.
            context.load_cert_chain(pair, password=_no_password)
        except (ssl.SSLError, ValueError):
            raise AccessError(
                "the client certificate and its key cannot be used",
                reason="they are not PEM, do not belong together, or the key has a password",
                hint="Check client-certificate(-data) and client-key(-data) in the kubeconfig.",
            ) from None


def _no_password() -> str:
    raise ValueError("the key has a password")


@dataclass(frozen=True, slots=True)
class ServerPool:
    """Connections to the server."""

    pool: HTTPConnectionPool
    base: str
    """The prefix of every request's path."""


def open_pool(access: ClusterAccess, identity: Identity, size: int) -> ServerPool:
    """Return a pool of at most ``size`` connections, not opened yet. Raises AccessError.

    A connection is bound to its client certificate: another certificate needs another pool.
    """
    options: dict[str, Any] = {"maxsize": size, "block": True}
    parts = urlsplit(access.server)
    if parts.scheme == "https":
        options["ssl_context"] = tls_context(access.trust, identity)
        if access.trust.server_name:
            options["server_hostname"] = access.trust.server_name
    manager = open_pools(access.proxy, **options)
    # A proxy gets the whole URL of a plain HTTP server; to an HTTPS server it opens a tunnel.
    whole = bool(access.proxy) and parts.scheme == "http"
    base = access.server if whole else parts.path.rstrip("/")
    return ServerPool(manager.connection_from_url(access.server), base)
