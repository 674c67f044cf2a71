"""Choose the proxy from the environment, by the rules of Go's net/http and so of kubectl."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping


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
