"""The options of ``applyprune controller`` are checked before it connects."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import applyprune


@pytest.mark.parametrize(
    ("network", "fault"),
    [
        ("10.0.0.1/8", "10.0.0.1/8 has host bits set, as in 127.0.0.0/8"),
        ("here", "'here' does not appear to be an IPv4 or IPv6 network, as in 127.0.0.0/8"),
    ],
)
def test_invalid_network_is_refused(network: str, fault: str) -> None:
    """Otherwise it would allow another one, or nothing."""
    reply = applyprune("controller", "--allow-network", network, kubeconfig=Path("none"))
    assert reply.code == 2
    assert fault in " ".join(reply.err.split())
