"""Which addresses a server may have that somebody else has named."""

from __future__ import annotations

import ipaddress

import pytest

from applyprune.addresses import AddressRules

REFUSED = {
    "127.0.0.1": "loopback",
    "127.255.0.9": "loopback",
    "::1": "loopback",
    "0.0.0.0": "of this machine",  # noqa: S104 -- it is refused
    "::": "of this machine",
    "169.254.169.254": "link-local",
    "169.254.0.1": "link-local",
    "fe80::1": "link-local",
    "fe80::1%lo": "link-local",
    "febf::1": "link-local",
    "fd00:ec2::254": "metadata",
    "fd20:ce::254": "metadata",
    "fd00:c1::a9fe:a9fe": "metadata",
    "fd00:42::42": "metadata",
    "FD00:0EC2:0:0:0:0:0:254": "metadata",
    "192.0.0.192": "metadata",
    "100.100.100.200": "metadata",
    "168.63.129.16": "metadata",
    "224.0.0.1": "multicast",
    "ff02::1": "multicast",
    "255.255.255.255": "reserved",
    "240.0.0.1": "reserved",
    # The same addresses inside of others.
    "::ffff:127.0.0.1": "loopback",
    "::ffff:169.254.169.254": "link-local",
    "::ffff:0:169.254.169.254": "link-local",
    "::127.0.0.1": "loopback",
    "64:ff9b::169.254.169.254": "link-local",
    "64:ff9b:1::7f00:1": "loopback",
    "2002:7f00:1::": "loopback",
    "2001:0:a9fe:a9fe::": "link-local",
}


@pytest.mark.holds("refused-address", row="169.254.169.254")
@pytest.mark.parametrize("address", REFUSED)
def test_address_of_a_machine_or_of_a_cloud_is_refused(address: str) -> None:
    """In each way to write it; the reason says what kind it is."""
    assert REFUSED[address] in AddressRules().fault(address)


@pytest.mark.parametrize(
    "address",
    ["10.0.0.1", "172.16.5.4", "192.168.1.1", "100.64.0.1", "fd12::1", "8.8.8.8", "2600::1"],
)
def test_private_and_public_addresses_are_allowed(address: str) -> None:
    """Clusters are usually in private networks."""
    assert AddressRules().fault(address) == ""


def test_network_can_be_allowed() -> None:
    """By whoever runs the controller; what is next to it stays refused."""
    rules = AddressRules((ipaddress.ip_network("127.0.0.0/8"),))
    assert rules.fault("127.0.0.1") == rules.fault("::ffff:127.0.0.1") == ""
    assert rules.fault("::1")
    assert rules.fault("169.254.169.254")


@pytest.mark.holds("every-embedded-address")
def test_address_within_another_one_is_allowed_for_itself_only() -> None:
    """One of two embedded addresses may be in an allowed network, and lead elsewhere."""
    rules = AddressRules((ipaddress.ip_network("10.0.0.0/8"),))
    # Teredo: the server is 10.0.0.1, the client 127.0.0.1.
    assert "loopback" in rules.fault("2001:0:a00:1:0:0:80ff:fffe")
    allowed = AddressRules((ipaddress.ip_network("2001::/32"),))
    assert allowed.fault("2001:0:a00:1:0:0:80ff:fffe") == ""


@pytest.mark.holds("denied-network")
def test_denied_networks_come_first() -> None:
    """Even where a larger network is allowed; the reason names no network."""
    allowed, denied = ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("10.96.0.0/12")
    rules = AddressRules((allowed,), (denied,))
    assert rules.fault("10.1.2.3") == ""
    assert rules.fault("10.96.0.1") == "an address of a denied network"
    assert rules.fault("::ffff:10.96.0.1") == "an address of a denied network"
