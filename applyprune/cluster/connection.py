"""The pool of connections to one API server, direct or through a proxy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from applyprune.cluster.tls import tls_context
from applyprune.http.pool import open_pools

if TYPE_CHECKING:
    from urllib3.connectionpool import HTTPConnectionPool

    from applyprune.cluster.access import ClusterAccess
    from applyprune.cluster.credentials import Identity


@dataclass(frozen=True, slots=True)
class ServerPool:
    """Connections to the server; ``base`` is the prefix of every request's path."""

    pool: HTTPConnectionPool
    base: str


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
