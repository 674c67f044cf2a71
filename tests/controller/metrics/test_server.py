"""The address that the controller serves on: IPv4, IPv6, or every address."""

from __future__ import annotations

import socket

import pytest
import urllib3

from applyprune.controller.metrics import Metrics, serving

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
    wrong = {"healthz": "", "livez": "", "readyz": "not yet"}
    probes = {f"/{name}": lambda reason=reason: reason for name, reason in wrong.items()}
    with serving((listen, 0), Metrics(), probes) as (host, port):
        assert port > 0
        assert host in {listen, f"[{listen}]", "[::]", "0.0.0.0"}  # noqa: S104 - what it said
        found = {
            path: urllib3.request("GET", f"http://{asked}:{port}/{path}", retries=False)
            for path in wrong
        }
    assert {path: one.status for path, one in found.items()} == {
        "healthz": 200,
        "livez": 200,
        "readyz": 503,
    }
    assert found["readyz"].data == b"not yet\n"


@pytest.mark.parametrize(
    ("method", "path", "code", "word"),
    [
        ("GET", "/healthz", 200, "ok"),
        ("GET", "/healthz?verbose", 200, "ok"),
        ("GET", "/metrics", 200, "# TYPE applyprune_leader gauge"),
        ("GET", "/metrics?name[]=applyprune_leader", 200, "applyprune_leader 0.0"),
        ("GET", "/", 404, "not found"),
        ("GET", "/metrics/more", 404, "not found"),
        ("POST", "/readyz", 405, "use GET"),
        ("POST", "/metrics", 405, "GET"),
    ],
)
def test_health_endpoint_answers_each_path(method: str, path: str, code: int, word: str) -> None:
    """Only the metrics are the library's business."""
    with serving(("127.0.0.1", 0), Metrics(), {"/healthz": str, "/readyz": str}) as (host, port):
        answer = urllib3.request(method, f"http://{host}:{port}{path}", retries=False)
    assert answer.status == code
    assert word in answer.data.decode()


def test_health_endpoint_is_closed_at_the_end() -> None:
    """The port is free again, so that another process can have it."""
    with serving(("127.0.0.1", 0), Metrics(), {}) as (host, port):
        pass
    with serving((host, port), Metrics(), {}) as again:
        assert again == (host, port)
