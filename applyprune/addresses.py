"""Which proxy a connection goes through, and which addresses it may go to."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias
from urllib.parse import urlsplit

from applyprune.values import dataclass

# The proxy, by the rules of Go's net/http, which kubectl follows.


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
        _matches_no_proxy(pattern, host, port) for pattern in excluded.lower().split(",")
    ):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_loopback(host: str) -> bool:
    address = _ip_address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _matches_no_proxy(pattern: str, host: str, port: int) -> bool:
    """Return whether a NO_PROXY item covers the host: ``*``, CIDR, address or domain, with port."""
    pattern = pattern.strip()
    if not pattern:
        return False
    if pattern == "*":
        return True
    address = _ip_address(host)
    if "/" in pattern:
        try:
            return address is not None and address in ipaddress.ip_network(pattern, strict=False)
        except ValueError:
            return False
    name, colon, wanted_port = pattern.rpartition(":")
    if colon and wanted_port.isdecimal() and _ip_address(pattern) is None:
        if int(wanted_port) != port:
            return False
        pattern = name
    if address is not None:
        return _ip_address(pattern.strip("[]")) == address
    pattern = pattern.removeprefix("*")
    return host == pattern or host.endswith(pattern if pattern.startswith(".") else f".{pattern}")


def _ip_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


# Which addresses a connection may go to if somebody else has named the server.
#
# Loopback addresses lead to the machine itself, and link-local ones to the metadata of a cloud,
# which hand out credentials. Private networks are where clusters usually are.


IPAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
IPNetwork: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
_REFUSED_NETWORKS: dict[str, tuple[str, ...]] = {
    "a loopback address": ("127.0.0.0/8", "::1/128"),
    "an address of this machine": ("0.0.0.0/8", "::/128"),
    "a link-local address": ("169.254.0.0/16", "fe80::/10"),
    # Outside link-local networks: AWS, Google Cloud, Oracle Cloud (2), Alibaba Cloud, Azure.
    "the address of a cloud's metadata": (
        "fd00:ec2::254/128",
        "fd20:ce::254/128",
        "fd00:c1::a9fe:a9fe/128",
        "192.0.0.192/32",
        "100.100.100.200/32",
        "168.63.129.16/32",
    ),
    "a multicast address": ("224.0.0.0/4", "ff00::/8"),
    "a reserved address": ("240.0.0.0/4",),
}
_REFUSED: Sequence[tuple[IPNetwork, str]] = tuple(
    (ipaddress.ip_network(network), words)
    for words, networks in _REFUSED_NETWORKS.items()
    for network in networks
)
# An IPv6 address in these networks ends with the IPv4 address that it leads to.
_TRANSLATED = tuple(
    map(ipaddress.IPv6Network, ("::/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48"))
)
_LAST_BITS = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class AddressRules:
    """Which addresses may be connected to."""

    allowed: tuple[IPNetwork, ...] = ()
    """Networks that may be, whatever is said about them here."""
    denied: tuple[IPNetwork, ...] = ()
    """Networks that may not be, even if they are allowed."""

    def fault(self, address: str) -> str:
        """Return what forbids a connection to an address; empty if nothing does."""
        meant = tuple(_embedded_addresses(ipaddress.ip_address(address.partition("%")[0])))
        if any(one in network for one in meant for network in self.denied):  # guard: denied-network
            return "an address of a denied network"
        if any(one in network for one in meant for network in self.allowed):
            return ""
        # guard: refused-address
        return next((words for network, words in _REFUSED for one in meant if one in network), "")


def _embedded_addresses(address: IPAddress) -> Iterator[IPAddress]:
    """Yield an address, and the IPv4 address in it."""
    yield address
    if isinstance(address, ipaddress.IPv4Address):
        return
    for inner in (address.ipv4_mapped, address.sixtofour, *(address.teredo or ())):
        if inner is not None:
            yield inner
    if any(address in network for network in _TRANSLATED):
        yield ipaddress.IPv4Address(int(address) & _LAST_BITS)


def is_ip_address(host: str) -> bool:
    """Return whether a host is an address, not a name."""
    return _ip_address(host) is not None
