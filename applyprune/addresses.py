"""Hosts and ports in URLs, which proxy a connection goes through, which addresses it may go to."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from applyprune.values import pattern

IPAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
IPNetwork: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


# The host and the port of a URL: read here and nowhere else, so that the host that was checked is
# the one that is connected to.


class InvalidHost(ValueError):
    """A URL whose host or port cannot be used; the text says why, and quotes nothing of the URL."""


class Endpoint(Struct, frozen=True):
    """What a connection goes to, as a URL names it."""

    scheme: str
    host: str
    """As a certificate has it: in lower case, an address without brackets and zone and written in
    one way, a name without its last dot."""
    port: int
    zone: str = ""
    """The network interface of a link-local address; empty for none."""
    ends_with_dot: bool = False
    """Whether the name is complete: the resolver adds no search domain."""

    @property
    def is_address(self) -> bool:
        """Return whether the host is an address: then there is nothing to resolve."""
        return is_ip_address(self.host)

    @property
    def dialed(self) -> str:
        """Return the host as the resolver gets it."""
        zone = f"%{self.zone}" if self.zone else ""
        return f"{self.host}{zone}{'.' if self.ends_with_dot else ''}"

    @property
    def place(self) -> str:
        """Return ``HOST:PORT``."""
        return f"{bracketed(self.host)}:{self.port}"


_PORTS = {"http": 80, "https": 443, "oci": 443, "ssh": 22}
_OF_OTHERS = 1080
"""The port of a proxy of another scheme, such as socks5."""
_URL = pattern(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)")
_IN_BRACKETS = pattern(r"\[([^\[\]]*)\](?::(.*))?")
_HOST_NAME = pattern(r"(?!-)[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?")
_PORT = pattern(r"[0-9]{1,5}")
_ZONE = pattern(r"25([A-Za-z0-9_.-]{1,15})")
_HIGHEST_PORT = 65535
_LOCALHOST = "localhost"
_AS_ADDRESS = "an IPv6 address is written in brackets, as in [fd00::1]:6443"


def endpoint_of(url: str) -> Endpoint:
    """Return the host and the port of a URL, or those that its scheme implies.

    Raises InvalidHost for what is not one name or one address, with a port or without.
    """
    found = _URL.match(url)
    login, _, place = found[2].rpartition("@") if found is not None else ("", "", "")
    if found is None or not place:
        raise InvalidHost("it has no host")
    if "[" in login or "]" in login:
        raise InvalidHost("a bracket in its user or password is written as %5B or %5D")
    if not place.isascii():
        raise InvalidHost("a name that is not ASCII is written in its form with xn--")
    scheme = found[1].lower()
    if (literal := _IN_BRACKETS.fullmatch(place)) is not None:
        host, zone = _literal(literal[1])
        return Endpoint(scheme, host, _port(literal[2], scheme), zone)
    if place.count(":") > 1 or "[" in place or "]" in place:
        raise InvalidHost(_AS_ADDRESS)
    name, port = place.partition(":")[::2]
    if not name:
        raise InvalidHost("it has no host")
    if _HOST_NAME.fullmatch(name.lower()) is None:
        raise InvalidHost("its host is not a name or an address")
    host = name.lower().removesuffix(".")
    # A resolver finds no name with a dot in /etc/hosts, where this one is.
    is_complete = name.endswith(".") and host != _LOCALHOST and not is_ip_address(host)
    return Endpoint(scheme, host, _port(port, scheme), ends_with_dot=is_complete)


def endpoint_anywhere(url: str) -> Endpoint:
    """Return what a URL leads to that means the same on every machine; raises InvalidHost."""
    end = endpoint_of(url)
    if end.zone:
        raise InvalidHost("its address has a zone, which names a network interface of one machine")
    return end


def http_endpoint(url: str) -> Endpoint:
    """Return what an HTTP or HTTPS URL leads to; raises InvalidHost."""
    end = endpoint_of(url)
    if end.scheme not in {"http", "https"}:
        raise InvalidHost("it does not begin with http:// or https://")
    return end


def _literal(text: str) -> tuple[str, str]:
    """Return the address between brackets, and its zone."""
    host, percent, rest = text.partition("%")
    try:
        address = ipaddress.IPv6Address(host)
    except ValueError:
        raise InvalidHost("what is in brackets is not an IPv6 address") from None
    zone = _ZONE.fullmatch(rest) if percent else None
    if percent and zone is None:
        raise InvalidHost("a zone is written after %25, as in [fe80::1%25eth0]")
    return str(address), zone[1] if zone is not None else ""


def _port(text: str | None, scheme: str) -> int:
    if not text:
        return _PORTS.get(scheme, _OF_OTHERS)
    port = int(text) if _PORT.fullmatch(text) else 0
    if not 0 < port <= _HIGHEST_PORT:
        raise InvalidHost("its port is not a number from 1 to 65535")
    return port


def bracketed(host: str) -> str:
    """Return a host as it stands before a port."""
    return f"[{host}]" if ":" in host else host


def is_ip_address(host: str) -> bool:
    """Return whether a host is an address, not a name."""
    return _ip_address(host) is not None


def _ip_address(host: str) -> IPAddress | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


# The proxy, by the rules of Go's net/http, which kubectl follows.


PROXY_FORM = "It must be a URL such as http://proxy:3128 or http://[fd00::1]:3128."


class InvalidProxy(InvalidHost):
    """A variable of the environment whose proxy cannot be used; ``variable`` is its name."""

    def __init__(self, variable: str, reason: str) -> None:
        super().__init__(reason)
        self.variable = variable


def proxy_for(server: str, environ: Mapping[str, str]) -> str:
    """Return the URL of the proxy for ``server``, empty for none; loopback never has one.

    Raises InvalidProxy for one that cannot be used, and InvalidHost for such a server.
    """
    end = endpoint_of(server)
    names = (
        ("HTTPS_PROXY", "https_proxy") if end.scheme == "https" else ("HTTP_PROXY", "http_proxy")
    )
    variable = next((name for name in names if environ.get(name)), "")
    if not variable:
        return ""
    excluded = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    if _is_loopback(end.host) or any(
        _matches_no_proxy(item.strip(), end) for item in excluded.lower().split(",")
    ):
        return ""
    proxy = environ[variable]
    try:
        return _with_port(proxy if "://" in proxy else f"http://{proxy}")
    except InvalidHost as error:
        raise InvalidProxy(variable, str(error)) from None


def _with_port(proxy: str) -> str:
    """Return the URL of a proxy with its port: programs differ in the one that is implied."""
    end = endpoint_of(proxy)
    found = _URL.match(proxy)
    login, at, _ = found[2].rpartition("@") if found is not None else ("", "", "")
    host = bracketed(f"{end.host}%25{end.zone}" if end.zone else end.host)
    return f"{end.scheme}://{login}{at}{host}:{end.port}"


def _is_loopback(host: str) -> bool:
    address = _reached(host)
    return host == _LOCALHOST or (address is not None and address.is_loopback)


def _matches_no_proxy(item: str, end: Endpoint) -> bool:
    """Return whether a NO_PROXY item covers a host: ``*``, CIDR, address or domain, with port."""
    if not item:
        return False
    if item == "*":
        return True
    address = _reached(end.host)
    if "/" in item:
        network = _network(item)
        return address is not None and network is not None and address in network
    name, colon, port = item.rpartition(":")
    if colon and port.isdecimal() and _ip_address(item) is None:
        if int(port) != end.port:
            return False
        item = name
    if address is not None:
        name, _, zone = item.strip("[]").partition("%")
        return _reached(name) == address and zone.removeprefix("25") in {"", end.zone.lower()}
    item = item.removeprefix("*").removesuffix(".")
    return end.host == item or end.host.endswith(item if item.startswith(".") else f".{item}")


def _reached(host: str) -> IPAddress | None:
    """Return the address that a host is: the IPv4 address in an IPv6 address that maps it."""
    address = _ip_address(host)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return address if mapped is None else mapped


_MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")


def _network(text: str) -> IPNetwork | None:
    """Return a network in CIDR; None for an invalid one."""
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None
    if isinstance(network, ipaddress.IPv6Network) and network.subnet_of(_MAPPED):
        inner = ipaddress.IPv4Address(int(network.network_address) & _LAST_BITS)
        return ipaddress.IPv4Network((inner, network.prefixlen - _MAPPED.prefixlen))
    return network


# Which addresses a connection may go to if somebody else has named the server.
#
# Loopback addresses lead to the machine itself, and link-local ones to the metadata of a cloud,
# which hand out credentials. Private networks are where clusters usually are.


_REFUSED_NETWORKS: dict[str, tuple[str, ...]] = {
    "a loopback address": ("127.0.0.0/8", "::1/128"),
    "an address of this machine": ("0.0.0.0/8", "::/128"),
    "a link-local address": ("169.254.0.0/16", "fe80::/10"),
    # Outside link-local networks: AWS, Google Cloud, Oracle Cloud, Scaleway, Oracle Cloud, Alibaba
    # Cloud, Azure.
    "the address of a cloud's metadata": (
        "fd00:ec2::254/128",
        "fd20:ce::254/128",
        "fd00:c1::a9fe:a9fe/128",
        "fd00:42::42/128",
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


class AddressRules(Struct, frozen=True):
    """Which addresses may be connected to."""

    allowed: tuple[IPNetwork, ...] = ()
    """Networks that may be, whatever is said about them here."""
    denied: tuple[IPNetwork, ...] = ()
    """Networks that may not be, even if they are allowed."""

    def fault(self, address: str) -> str:
        """Return what forbids a connection to an address; empty if nothing does."""
        meant = tuple(_embedded_addresses(ipaddress.ip_address(address.partition("%")[0])))
        # guard: denied-network never
        if any(one in network for one in meant for network in self.denied):
            return "an address of a denied network"
        if self._allows(meant[0]):
            return ""
        # guard: every-embedded-address -> [one for one in meant if False]
        left = [one for one in meant if not self._allows(one)]
        # guard: refused-address -> ""
        return next((words for network, words in _REFUSED for one in left if one in network), "")

    def _allows(self, address: IPAddress) -> bool:
        return any(address in network for network in self.allowed)


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
