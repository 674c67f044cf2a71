"""Open connection pools with deadlines, choose the proxy, and describe connection errors.

The proxy comes from the environment, by the rules of Go's net/http, which kubectl follows.
"""

from __future__ import annotations

import http.client
import ipaddress
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from urllib3 import PoolManager, ProxyManager
from urllib3.exceptions import (
    ConnectTimeoutError,
    EmptyPoolError,
    NameResolutionError,
    NewConnectionError,
    ReadTimeoutError,
)
from urllib3.util import make_headers

from applyprune.errors import AccessError
from applyprune.http.connection import (
    DeadlineHTTPConnectionPool,
    DeadlineHTTPSConnectionPool,
    LeaseEnded,
    socket_options,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def open_pools(proxy: str, **options: Any) -> PoolManager:
    """Return pools for any server, through ``proxy`` unless it is empty; do not connect yet.

    ``options`` are those of urllib3. Use the pools inside ``connection.one_try``. Raises
    AccessError for an invalid proxy.
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
            f"unsupported proxy scheme {parts.scheme[:20]!a}",
            hint="proxy-url and HTTPS_PROXY must be an http:// or https:// URL.",
        )
    headers = None
    if parts.username:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers = make_headers(proxy_basic_auth=login)
    bare = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    return ProxyManager(bare, 1, proxy_headers=headers, **options)


def proxy_for(server: str, environ: Mapping[str, str]) -> str:
    """Return the URL of the proxy for ``server``, empty for none; loopback never has one."""
    parts = urlsplit(server)
    names = (
        ("HTTPS_PROXY", "https_proxy") if parts.scheme == "https" else ("HTTP_PROXY", "http_proxy")
    )
    proxy = next((environ[name] for name in names if environ.get(name)), "")
    host = (parts.hostname or "").rstrip(".")
    if not proxy or not host:
        return ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    excluded = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    if _is_loopback(host) or any(
        _matches(pattern, host, port) for pattern in excluded.lower().split(",")
    ):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_loopback(host: str) -> bool:
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _matches(pattern: str, host: str, port: int) -> bool:
    """Return whether a NO_PROXY item covers the host: ``*``, CIDR, address or domain, with port."""
    pattern = pattern.strip()
    if not pattern:
        return False
    if pattern == "*":
        return True
    address = _address(host)
    if "/" in pattern:
        try:
            return address is not None and address in ipaddress.ip_network(pattern, strict=False)
        except ValueError:
            return False
    name, colon, wanted_port = pattern.rpartition(":")
    if colon and wanted_port.isdecimal() and _address(pattern) is None:
        if int(wanted_port) != port:
            return False
        pattern = name
    if address is not None:
        return _address(pattern.strip("[]")) == address
    pattern = pattern.removeprefix("*")
    return host == pattern or host.endswith(pattern if pattern.startswith(".") else f".{pattern}")


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


IN_TIME = "in time"
"""The end of a message about a time limit that it does not name."""
# Transient errors. The first one that matches an error or one of its causes gives the message, and
# whether the server seems to be unreachable.
_TRANSIENT: tuple[tuple[type[Exception] | tuple[type[Exception], ...], str, bool], ...] = (
    (LeaseEnded, "the lock on the inventory had to be renewed first", False),
    (NameResolutionError, "the name of {server} cannot be resolved", True),
    (ConnectTimeoutError, "{server} cannot be reached: the connection timed out", True),
    (ConnectionRefusedError, "connection refused by {server}", True),
    (EmptyPoolError, "no connection to {server} became free {limit}", False),
    ((ReadTimeoutError, TimeoutError), "{server} sent no complete response {limit}", False),
    (http.client.IncompleteRead, "the response of {server} was cut off", False),
    (http.client.RemoteDisconnected, "{server} closed the connection without a response", False),
    (http.client.HTTPException, "{server} does not speak HTTP", True),
)


def causes(error: BaseException) -> tuple[BaseException, ...]:
    """Return the error and its causes, outermost first."""
    return tuple(_causes(error))


def describe_error(
    error: BaseException, *, server: str, seconds: float | None = None
) -> tuple[str, bool]:
    """Return a message for the error, and whether the server seems to be unreachable.

    ``seconds`` is the time limit of the response; None leaves it out.
    """
    limit = IN_TIME if seconds is None else f"in {seconds:.3g} s"
    # A refused connection is also a NewConnectionError, which is a kind of ConnectTimeoutError.
    found = [cause for cause in _causes(error) if type(cause) is not NewConnectionError]
    for kinds, message, unreachable in _TRANSIENT:
        if any(isinstance(cause, kinds) for cause in found):
            return message.format(server=server, limit=limit), unreachable
    for cause in found:
        if isinstance(cause, OSError) and cause.strerror:
            return f"the connection to {server} broke: {cause.strerror}", False
    return f"the connection to {server} broke: {type(error).__name__}", False


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: list[BaseException] = []
    pending: list[BaseException] = [error]
    while pending:
        current = pending.pop(0)
        if any(current is known for known in seen):
            continue
        seen.append(current)
        yield current
        wrapped = [item for item in current.args if isinstance(item, BaseException)]
        pending += [*wrapped, *([current.__cause__] if current.__cause__ else [])]
