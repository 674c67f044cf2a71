"""The connections to one API server: its TLS context, which has Go's rules, and their pool."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from applyprune.errors import AccessError
from applyprune.http import open_pools, show_certificate, trust_only
from applyprune.values import dataclass

if TYPE_CHECKING:
    from typing import Any

    from urllib3.connectionpool import HTTPConnectionPool

    from applyprune.cluster.access import ClusterAccess, TLSTrust
    from applyprune.cluster.credentials import Identity


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
    pool = manager.connection_from_url(access.server)
    if access.addresses is not None:
        pool.conn_kw["addresses"] = access.addresses
    return ServerPool(pool, base)


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
    try:
        trust_only(context, authorities)
    except ValueError:
        raise AccessError(
            "the certificate authority is not a PEM certificate",
            hint="Check certificate-authority(-data) of the cluster in the kubeconfig.",
        ) from None


def _show(context: ssl.SSLContext, identity: Identity) -> None:
    try:
        show_certificate(context, identity.certificate, identity.key)
    except ValueError:
        raise AccessError(
            "the client certificate and its key cannot be used",
            reason="they are not PEM, do not belong together, or the key has a password",
            hint="Check client-certificate(-data) and client-key(-data) in the kubeconfig.",
        ) from None
