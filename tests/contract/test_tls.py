"""Reaching the server, or a clear word on why not: TLS, names, proxies, and nothing there."""

from __future__ import annotations

import re
import socket
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.cluster.access import ClusterAccess, cluster_access
from applyprune.cluster.credentials import FixedCredentials, Identity
from applyprune.cluster.messages import ApiRequest
from applyprune.cluster.transport import FIRST_CONTACT_BUDGET, Transport
from applyprune.errors import AccessError, ApiError, Unreachable
from applyprune.http import Trust
from applyprune.values import replace
from tests.support.clocks import ManualClock
from tests.support.listening import listening, tunnel

if TYPE_CHECKING:
    from applyprune.localplane import Plane

VERSION = ApiRequest("GET", "/version", timeout=20)


@pytest.fixture
def access(plane: Plane) -> ClusterAccess:
    """The run's plane, without any proxy."""
    return cluster_access(kubeconfig=str(plane.kubeconfig), environ={})


def send(access: ClusterAccess, request: ApiRequest = VERSION, **settings: Any) -> int:
    transport = Transport(access, **settings)
    try:
        return transport.send(request).status
    finally:
        transport.close()


def silence(connection: socket.socket) -> None:
    while connection.recv(65536):
        pass


# Nothing there.


def test_unreachable_server_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    access = ClusterAccess(f"https://127.0.0.1:{port}", "", "prod", "", FixedCredentials())
    clock = ManualClock()

    with pytest.raises(Unreachable) as caught:
        send(access, clock=clock)
    assert 0 < clock.passed <= FIRST_CONTACT_BUDGET
    assert f"connection refused by https://127.0.0.1:{port}" in str(caught.value)
    assert "context 'prod'" in caught.value.hint
    assert "local up" not in caught.value.hint  # a named context is meant


def test_unresolvable_name_is_reported() -> None:
    access = ClusterAccess("https://no-such-host.invalid", "", "", "", FixedCredentials())

    with pytest.raises(Unreachable, match="the name of https://no-such-host"):
        send(access, retry_budget=0)


def test_silent_server_times_out() -> None:
    with listening(silence) as port:
        access = ClusterAccess(f"https://127.0.0.1:{port}", "", "", "", FixedCredentials())
        with pytest.raises(Unreachable, match=r"and the TLS handshake took longer than 0\.\d+ s"):
            send(access, ApiRequest("GET", "/version", timeout=0.5), retry_budget=0)


def test_slow_reader_of_a_large_body_times_out() -> None:
    clock = ManualClock()

    def sip(connection: socket.socket) -> None:
        while connection.recv(4096):
            clock.advance(1)

    body = b" " * 20_000_000
    with listening(sip) as port:
        access = ClusterAccess(f"http://127.0.0.1:{port}", "", "", "", FixedCredentials())
        request = ApiRequest("PUT", "/x", body=body, timeout=30)
        with pytest.raises(Unreachable, match=r"no complete response in time.* in 30 s"):
            send(access, request, retry_budget=0, clock=clock)


# TLS.


def test_system_authorities_are_not_trusted_for_the_cluster(access: ClusterAccess) -> None:
    clock = ManualClock()

    with pytest.raises(Unreachable, match=r"certificate .* cannot be trusted"):
        send(replace(access, trust=Trust()), clock=clock)
    assert clock.waits == []


def test_certificate_check_can_be_skipped(access: ClusterAccess) -> None:
    assert send(replace(access, trust=Trust(skip_verify=True))) == 200


def test_certificate_name_must_match(access: ClusterAccess) -> None:
    wrong = replace(access.trust, server_name="elsewhere.example")

    with pytest.raises(Unreachable, match="'elsewhere"):
        send(replace(access, trust=wrong))
    for right in ("kubernetes.default.svc", "localhost"):
        assert send(replace(access, trust=replace(access.trust, server_name=right))) == 200


def test_server_is_reached_by_name(access: ClusterAccess) -> None:
    assert send(replace(access, server=access.server.replace("127.0.0.1", "localhost"))) == 200


def test_comments_in_the_authorities_are_ignored(access: ClusterAccess) -> None:
    chatty = f"# Müllers Zertifikat\n{access.trust.authorities}\nund mehr\n"

    assert send(replace(access, trust=Trust(chatty))) == 200


def test_certificate_can_be_its_own_authority(access: ClusterAccess, plane: Plane) -> None:
    # As Go does: kubeconfigs exist that trust the server's own certificate and no more.
    leaf = (plane.folder / "pki" / "server.crt").read_text()

    assert send(replace(access, trust=Trust(leaf))) == 200


@pytest.mark.parametrize(
    "pem", ["no pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", " "]
)
def test_invalid_authority_is_reported(access: ClusterAccess, pem: str) -> None:
    with pytest.raises(AccessError, match="authority is not a PEM certificate"):
        send(replace(access, trust=Trust(pem)))


def test_certificate_with_another_key_is_reported(access: ClusterAccess, plane: Plane) -> None:
    certificate = plane.client_cert_file.read_bytes()
    other_key = (plane.folder / "pki" / "server.key").read_bytes()

    for key in (other_key, b"no key"):
        credentials = FixedCredentials(Identity("", certificate, key))
        with pytest.raises(AccessError, match="certificate and its key cannot be used"):
            send(replace(access, credentials=credentials))


def test_plain_http_to_a_tls_port_is_reported(access: ClusterAccess) -> None:
    with pytest.raises(ApiError) as caught:
        send(replace(access, server=access.server.replace("https://", "http://")))
    assert "expects https://" in caught.value.hint


def test_tls_to_a_plain_http_port_is_reported() -> None:
    def answer(connection: socket.socket) -> None:
        connection.recv(1)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        silence(connection)

    with listening(answer) as port:
        access = ClusterAccess(f"https://127.0.0.1:{port}", "", "", "", FixedCredentials())
        with pytest.raises(Unreachable, match="does not speak TLS"):
            send(access)


# Proxies.


@pytest.mark.holds("head-of-a-tunnel")
def test_proxy_tunnels_the_connection(access: ClusterAccess) -> None:
    """Its answer to CONNECT is not taken for the server's."""
    with listening(tunnel(access.server)) as port:
        through = Transport(replace(access, proxy=f"http://u:pass@127.0.0.1:{port}"))
        with closing(through):
            response = through.send(VERSION)
    assert response.status == 200
    assert "json" in response.headers.get("Content-Type")


def test_refusing_proxy_is_reported(access: ClusterAccess) -> None:
    with (
        listening(tunnel(access.server)) as port,
        pytest.raises(Unreachable, match="407 Proxy Authentication Required") as caught,
    ):
        send(replace(access, proxy=f"http://u:s3cr3t@127.0.0.1:{port}"))
    assert "s3cr3t" not in str(caught.value)
    assert "HTTPS_PROXY" in caught.value.hint


def test_stalled_proxy_times_out(access: ClusterAccess) -> None:
    with listening(silence) as port:
        request = ApiRequest("GET", "/version", timeout=0.5)
        with pytest.raises(Unreachable, match=r"no complete response in time.* in 0\.5 s"):
            send(replace(access, proxy=f"http://127.0.0.1:{port}"), request, retry_budget=0)


def test_unknown_proxy_scheme_is_reported(access: ClusterAccess) -> None:
    with pytest.raises(AccessError, match="unsupported proxy scheme 'socks5'"):
        send(replace(access, proxy="socks5://127.0.0.1:1"))


# The trace.


def test_trace_has_a_line_per_attempt_and_no_secrets(access: ClusterAccess) -> None:
    lines: list[str] = []
    transport = Transport(access, trace=lines.append)
    transport.send(ApiRequest("GET", "/api/v1/namespaces", query=(("limit", "1"),)))
    transport.close()

    assert len(lines) == 1
    assert re.fullmatch(r"GET /api/v1/namespaces\?limit=1 200 in \d+\.\d{3} s", lines[0])
    assert access.credentials.current().token not in lines[0]
