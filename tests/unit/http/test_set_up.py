"""What libcurl does not take: a mistake of the user's, with its place; or a bug, told as one."""

from __future__ import annotations

import errno
from contextlib import closing
from typing import TYPE_CHECKING

import pycurl
import pytest

from applyprune.cluster.access import ClusterAccess
from applyprune.cluster.credentials import FixedCredentials
from applyprune.cluster.failures import connection_failure
from applyprune.cluster.messages import ApiRequest, ClientContext
from applyprune.cluster.transport import Transport
from applyprune.errors import AccessError
from applyprune.http import (
    ConnectionFailed,
    Connections,
    Fault,
    Route,
    Sent,
    Trust,
    _failure,
    one_try,
)
from applyprune.sources.address import GitSource
from applyprune.sources.git_server import find_ref
from applyprune.sources.tree import FetchFailed
from applyprune.sources.web import connection_failed, open_web
from tests.support.tls_site import Answer, Site, site
from tests.support.waiting import HANG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

GET = ApiRequest("GET", "/version", timeout=HANG)
SENT = Sent("GET", "https://h", "/")
OURS = {
    "URL": (pycurl.E_URL_MALFORMAT, ""),
    "option": (pycurl.E_UNKNOWN_OPTION, ""),
    "value of an option": (49, "Couldn't parse CURLOPT_RESOLVE entry 'fd00::1:443:[fd00::1]'"),
    "argument": (pycurl.E_BAD_FUNCTION_ARGUMENT, ""),
    "not built in": (pycurl.E_NOT_BUILT_IN, ""),
    "interface": (pycurl.E_INTERFACE_FAILED, ""),
    "cipher": (pycurl.E_SSL_CIPHER, ""),
    "scheme": (pycurl.E_UNSUPPORTED_PROTOCOL, 'Protocol "gopher" not supported'),
}
OTHERS = {
    "what a server sends": (
        (pycurl.E_UNSUPPORTED_PROTOCOL, "Received HTTP/0.9 when not allowed", 0),
        Fault.NOT_HTTP,
    ),
    "nobody listens": ((pycurl.E_COULDNT_CONNECT, "", errno.ECONNREFUSED), Fault.REFUSED),
    "no way": ((pycurl.E_COULDNT_CONNECT, "", errno.ENETUNREACH), Fault.UNREACHABLE),
    "no such host": ((pycurl.E_COULDNT_CONNECT, "", errno.EHOSTUNREACH), Fault.UNREACHABLE),
    "cut": ((pycurl.E_RECV_ERROR, "", errno.ECONNRESET), Fault.BROKEN),
}


@pytest.mark.parametrize("what", OURS)
def test_mistake_of_ours_is_reported_as_a_bug(what: str) -> None:
    """It is not repeated, and no cluster or source gets the blame."""
    code, text = OURS[what]
    error = _failure(code, text, 0, SENT, has_begun=False)
    assert error.fault is Fault.SET_UP
    client = ClientContext("", "", "https://h")
    found = connection_failure(GET, error, sent=False, seconds=1.0, client=client)
    of_source = connection_failed(error, "h", 1.0)
    for told in (found.error, of_source):
        assert "a bug of applyprune" in f"{told.message}: {told.reason}"
        assert f"error {code} of libcurl" in str(told)
        assert "report" in told.hint
    assert not found.passing
    assert found.error.exit_code == 7


@pytest.mark.parametrize("what", OTHERS)
def test_trouble_of_the_network_is_no_bug(what: str) -> None:
    (code, text, number), fault = OTHERS[what]
    assert _failure(code, text, number, SENT, has_begun=False).fault is fault


@pytest.mark.parametrize(
    ("server", "proxy"),
    [
        ("https://fd00::1:443", ""),
        ("https://h:99999", ""),
        ("https://bücher.example", ""),
        ("https://h", "http://h:port"),
        ("https://h", "http://[h"),
    ],
)
def test_host_that_nobody_has_refused_before_is_a_bug(server: str, proxy: str) -> None:
    """Not an exception that ends a worker of the controller."""
    with (
        closing(Connections(Route())) as connections,
        one_try(HANG),
        pytest.raises(ConnectionFailed) as caught,
    ):
        connections.send(Sent("GET", server, "/", proxy=proxy))
    assert caught.value.fault is Fault.SET_UP


# The system's authorities.


@pytest.fixture(scope="module")
def web() -> Iterator[Site]:
    with site(lambda _: Answer(200, b"{}")) as running:
        yield running


def ask_server(web: Site, **more: str) -> str:
    access = ClusterAccess(web.url, "", "prod", "", FixedCredentials(), **more)  # type: ignore[arg-type]
    with (
        closing(Transport(access, retry_budget=0.0)) as transport,
        pytest.raises(AccessError) as caught,
    ):
        transport.send(GET)
    return str(caught.value)


def ask_proxy(web: Site) -> str:
    """An https:// proxy is trusted by the system's authorities, whatever the server's are."""
    return ask_server(web, proxy=web.url, trust=Trust(web.ca.decode()))  # type: ignore[arg-type]


def read_document(web: Site) -> str:
    with (
        open_web(web.url, timeout=HANG) as client,
        pytest.raises(FetchFailed) as caught,
        client.request("GET", web.url),
    ):
        pass
    return str(caught.value)


def read_git(web: Site) -> str:
    with pytest.raises(FetchFailed) as caught:
        find_ref(GitSource(f"{web.url}/web.git"))
    return str(caught.value)


@pytest.mark.parametrize("ask", [ask_server, ask_proxy, read_document, read_git])
@pytest.mark.parametrize("file", ["none.pem", "."])
def test_missing_file_of_authorities_is_named(
    ask: Callable[[Site], str],
    file: str,
    web: Site,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And its variable, not a kubeconfig or a Secret that have none."""
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / file))
    text = ask(web)
    assert f"SSL_CERT_FILE names '{tmp_path / file}': " in text
    assert "Check SSL_CERT_FILE" in text
    assert "kubeconfig" not in text
    assert "Secret" not in text


@pytest.mark.parametrize("ask", [ask_server, ask_proxy, read_document])
def test_file_without_a_certificate_is_named(
    ask: Callable[[Site], str], web: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty.pem").write_text("\n")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "empty.pem"))
    assert f"SSL_CERT_FILE names '{tmp_path / 'empty.pem'}', which has no certificate" in ask(web)


def test_file_that_is_not_used_is_not_missed(
    web: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kubeconfig with an authority of its own needs none of the system's."""
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    access = ClusterAccess(web.url, "", "", "", FixedCredentials(), trust=Trust(web.ca.decode()))
    with closing(Transport(access, retry_budget=0.0)) as transport:
        assert transport.send(GET).status == 200
