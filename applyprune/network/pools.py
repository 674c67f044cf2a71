"""Pools of connections with deadlines, direct or through a proxy."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote, urlsplit

from urllib3 import PoolManager, ProxyManager
from urllib3.util import make_headers

from applyprune.errors import AccessError
from applyprune.network.deadline import (
    DeadlineHTTPConnectionPool,
    DeadlineHTTPSConnectionPool,
    socket_options,
)


def open_pools(proxy: str, **options: Any) -> PoolManager:
    """Return pools for any server, through ``proxy`` unless it is empty; nothing is connected yet.

    ``options`` are urllib3's. Use the pools inside ``deadline.one_try``. Raises AccessError for an
    invalid proxy.
    """
    options["socket_options"] = socket_options()
    manager = _through(proxy, options) if proxy else PoolManager(1, **options)
    manager.pool_classes_by_scheme = {
        "http": DeadlineHTTPConnectionPool,
        "https": DeadlineHTTPSConnectionPool,
    }
    return manager


def _through(proxy: str, options: dict[str, Any]) -> ProxyManager:
    parts = urlsplit(proxy)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise AccessError(
            f"proxies of the kind {parts.scheme[:20]!a} are not supported",
            hint="proxy-url and HTTPS_PROXY must be an http:// or https:// URL.",
        )
    headers = None
    if parts.username:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers = make_headers(proxy_basic_auth=login)
    bare = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    return ProxyManager(bare, 1, proxy_headers=headers, **options)
