"""Where the controller answers: an address of either kind, or every one that there is."""

from __future__ import annotations

import socket

import pytest
import urllib3

from applyprune.controller.runtime.metrics import Metrics
from applyprune.controller.runtime.server import answering

IPV6 = pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")


@pytest.mark.parametrize(
    ("listen", "asked"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("", "127.0.0.1"),
        pytest.param("", "[::1]", marks=IPV6),
        pytest.param("::1", "[::1]", marks=IPV6),
    ],
)
def test_health_endpoint_answers(listen: str, asked: str) -> None:
    """A probe comes by the address that the cluster gives to its Pods."""
    well = {"healthz": True, "readyz": False}
    with answering(
        (listen, 0), Metrics(), is_well=lambda: well["healthz"], is_ready=lambda: well["readyz"]
    ) as (host, port):
        assert port > 0
        assert host in {listen, f"[{listen}]", "[::]", "0.0.0.0"}  # noqa: S104 - what it said
        found = {
            path: urllib3.request("GET", f"http://{asked}:{port}/{path}", retries=False).status
            for path in well
        }
    assert found == {"healthz": 200, "readyz": 503}
