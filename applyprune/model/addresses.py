"""Which addresses a connection may go to if somebody else has named the server.

Loopback addresses lead to the machine itself, and link-local ones to the metadata of a cloud, which
hand out credentials. Private networks are where clusters usually are.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from applyprune.values import dataclass

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


_WORDS: dict[str, tuple[str, ...]] = {
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
_REFUSED: Sequence[tuple[Network, str]] = tuple(
    (ipaddress.ip_network(network), words)
    for words, networks in _WORDS.items()
    for network in networks
)
_LAST_BITS = 0xFFFFFFFF
# An IPv6 address in these networks ends with the IPv4 address that it leads to.
_TRANSLATED = tuple(
    map(ipaddress.IPv6Network, ("::/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48"))
)


@dataclass(frozen=True, slots=True)
class AddressRules:
    """Which addresses may be connected to."""

    allowed: tuple[Network, ...] = ()
    """Networks that may be, whatever is said about them here."""
    denied: tuple[Network, ...] = ()
    """Networks that may not be, even if they are allowed."""

    def fault(self, address: str) -> str:
        """Return what forbids a connection to an address; empty if nothing does."""
        meant = tuple(_meant(ipaddress.ip_address(address.partition("%")[0])))
        if any(one in network for one in meant for network in self.denied):  # guard: denied-network
            return "an address of a denied network"
        if any(one in network for one in meant for network in self.allowed):
            return ""
        # guard: refused-address
        return next((words for network, words in _REFUSED for one in meant if one in network), "")


def is_address(host: str) -> bool:
    """Return whether a host is an address, not a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _meant(address: Address) -> Iterator[Address]:
    """Yield an address, and the IPv4 address in it."""
    yield address
    if isinstance(address, ipaddress.IPv4Address):
        return
    for inner in (address.ipv4_mapped, address.sixtofour, *(address.teredo or ())):
        if inner is not None:
            yield inner
    if any(address in network for network in _TRANSLATED):
        yield ipaddress.IPv4Address(int(address) & _LAST_BITS)
