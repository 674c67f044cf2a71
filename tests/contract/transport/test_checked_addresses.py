"""Where a name leads decides, not how it is written: nothing connects to a refused address."""

from __future__ import annotations

import ipaddress
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from applyprune.addresses import AddressRules
from applyprune.cluster.access import ClusterAccess
from applyprune.cluster.credentials import FixedCredentials, Identity
from applyprune.cluster.messages import ApiRequest
from applyprune.cluster.transport import Transport
from applyprune.errors import Unreachable
from tests.support.canaries import TOKEN, TRACES
from tests.support.namespaces import PROVED, own_namespaces

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A port of this machine that nobody may connect to."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        one.settimeout(0.05)
        yield one


def refusal(host: str, port: int, rules: AddressRules) -> Unreachable:
    """Return the error of a request to a server of somebody else."""
    access = ClusterAccess(
        f"https://{host}:{port}",
        "default",
        "",
        "",
        FixedCredentials(Identity(TOKEN)),
        shown="the cluster of secret/a",
        hidden=(TOKEN,),
        addresses=rules,
    )
    transport = Transport(access, retry_budget=0.0)
    try:
        with pytest.raises(Unreachable) as caught:
            transport.send(ApiRequest("GET", "/version", timeout=3.0))
    finally:
        transport.close()
    return caught.value


def is_called(listener: socket.socket) -> bool:
    """Return whether somebody has connected."""
    try:
        listener.accept()[0].close()
    except TimeoutError:
        return False
    return True


@pytest.mark.parametrize(
    "host",
    [
        pytest.param("localhost", marks=pytest.mark.holds("checked-connection")),
        "127.1",
        "2130706433",
        "0x7f.1",
        "0177.0.0.1",
        "127.0.0.1",
        "[::1]",
    ],
)
def test_name_of_a_refused_address_is_not_connected_to(host: str, listener: socket.socket) -> None:
    """The resolver reads addresses in ways in which ours does not."""
    error = refusal(host, listener.getsockname()[1], AddressRules())
    assert error.message == (
        "the name of the cluster of secret/a means a loopback address; nothing was sent"
    )
    assert "tried" not in error.reason
    assert not is_called(listener)


@pytest.mark.parametrize("host", ["2852039166", "0xa9fea9fe", "169.254.43518"])
def test_name_of_a_cloud_metadata_address_is_not_connected_to(host: str) -> None:
    """However it is written."""
    assert "means a link-local address" in refusal(host, 443, AddressRules()).message


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_allowed_network_is_connected_to(host: str, listener: socket.socket) -> None:
    """Nobody listens there any more."""
    port = listener.getsockname()[1]
    listener.close()
    error = refusal(host, port, AddressRules(LOOPBACK))
    assert error.message == "connection refused by the cluster of secret/a"


def test_name_that_does_not_exist_is_not_shown() -> None:
    """It may be a token that was pasted at the wrong place."""
    error = refusal(f"{TOKEN}.invalid", 443, AddressRules())
    assert error.message == "the name of the cluster of secret/a cannot be resolved"
    assert [trace for trace in TRACES if trace in repr(error)] == []


HOSTS = """127.0.0.1 localhost
169.254.169.254 metadata.example
10.255.255.1 both.example
127.0.0.1 both.example
"""
ASK = """
import sys
from applyprune.cluster.credentials import FixedCredentials
from applyprune.cluster.access import ClusterAccess
from applyprune.cluster.messages import ApiRequest
from applyprune.cluster.transport import Transport
from applyprune.errors import Unreachable
from applyprune.addresses import AddressRules

for host in sys.argv[1:]:
    server = f"https://{host}:443"
    access = ClusterAccess(
        server, "default", "", "", FixedCredentials(), shown="it", addresses=AddressRules()
    )
    try:
        Transport(access, retry_budget=0.0).send(ApiRequest("GET", "/version", timeout=3.0))
    except Unreachable as error:
        print(error.message)
"""


@pytest.mark.parametrize("proof", PROVED)
def test_name_in_dns_is_judged_by_all_its_addresses(proof: bool, tmp_path: Path) -> None:
    """One refused address is enough: nothing says which one is connected to."""
    hosts = tmp_path / "hosts"
    hosts.write_text(HOSTS)
    mounts = (f"mount --bind {hosts} /etc/hosts",)
    within = own_namespaces("--mount", proof=proof, mounts=mounts)
    command = [*within, sys.executable, "-c", ASK, "metadata.example", "both.example"]
    reply = subprocess.run(command, capture_output=True, text=True, check=False)
    assert reply.stdout.splitlines() == [
        "the name of it means a link-local address; nothing was sent",
        "the name of it means a loopback address; nothing was sent",
    ], reply.stderr
