"""The pool of connections to one API server, directly or through a proxy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from urllib3 import PoolManager, ProxyManager
from urllib3.util import make_headers

from applyprune.cluster.deadline import (
    DeadlineHTTPConnectionPool,
    DeadlineHTTPSConnectionPool,
    socket_options,
)
from applyprune.cluster.server_text import shown
from applyprune.cluster.tls import tls_context
from applyprune.errors import AccessError

if TYPE_CHECKING:
    from urllib3.connectionpool import HTTPConnectionPool

    from applyprune.cluster.access import ClusterAccess
    from applyprune.cluster.credentials import Identity


@dataclass(frozen=True, slots=True)
class ServerPool:
    """Open connections to the server; ``base`` goes before the path of every request."""

    pool: HTTPConnectionPool
    base: str


def open_pool(access: ClusterAccess, identity: Identity, size: int) -> ServerPool:
    """Return a pool of at most ``size`` connections; none is opened yet. Raises AccessError.

    The client certificate is part of a connection: another certificate needs another pool.
    """
    options: dict[str, Any] = {
        "maxsize": size,
        "block": True,
        "socket_options": socket_options(),
    }
    parts = urlsplit(access.server)
    if parts.scheme == "https":
        options["ssl_context"] = tls_context(access.trust, identity)
        if access.trust.server_name:
            options["server_hostname"] = access.trust.server_name
    manager = _through(access.proxy, options) if access.proxy else PoolManager(1, **options)
    manager.pool_classes_by_scheme = {
        "http": DeadlineHTTPConnectionPool,
        "https": DeadlineHTTPSConnectionPool,
    }
    # A proxy is given the whole URL of a plain server; it tunnels to one that speaks TLS.
    whole = bool(access.proxy) and parts.scheme == "http"
    base = access.server if whole else parts.path.rstrip("/")
    return ServerPool(manager.connection_from_url(access.server), base)


def _through(proxy: str, options: dict[str, Any]) -> ProxyManager:
    parts = urlsplit(proxy)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise AccessError(
            f"proxies of the kind {shown(parts.scheme, 20)!r} are not supported",
            hint="proxy-url and HTTPS_PROXY must be an http:// or https:// URL.",
        )
    headers = None
    if parts.username:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers = make_headers(proxy_basic_auth=login)
    bare = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    return ProxyManager(bare, 1, proxy_headers=headers, **options)
