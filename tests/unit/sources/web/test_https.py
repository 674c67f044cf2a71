"""Input by URL, from a real HTTPS server: complete and from where the user said, or an error."""

from __future__ import annotations

import gzip
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, ClassVar

import pytest
import trustme

from applyprune.errors import InputError, UsageError
from applyprune.sources import inputs, read
from applyprune.sources import web as download
from tests.support.listening import silent_port
from tests.support.source_text import config_map

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from applyprune.model.problem import Problem

GOOD = config_map("a").encode()


class _Site(BaseHTTPRequestHandler):
    """Answers as the test's ``replies`` say, by path."""

    protocol_version = "HTTP/1.1"
    replies: ClassVar[dict[str, Callable[[_Site], None]]] = {}
    seen: ClassVar[list[tuple[str, str]]] = []

    def do_GET(self) -> None:
        self.seen.append((self.path, self.headers.get("Authorization", "")))
        self.replies[self.path.partition("?")[0]](self)

    def reply(self, code: int, body: bytes, **headers: str) -> None:
        self.send_response(code)
        for key, value in {"Content_Length": str(len(body)), **headers}.items():
            if value:
                self.send_header(key.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def log_message(self, *_arguments: object) -> None:
        """Log nothing."""


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that does not trust us, or has had enough, is no error of the site."""


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def trusted(authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's trust store, as OpenSSL lets one name it."""
    file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(file))
    monkeypatch.setenv("SSL_CERT_FILE", str(file))


@pytest.fixture(scope="module")
def host(authority: trustme.CA) -> Iterator[str]:
    """A site at localhost; its host and port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost", "127.0.0.1").configure_cert(context)
    server = _Quiet(("127.0.0.1", 0), _Site)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield f"localhost:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def site(host: str, trusted: None) -> str:
    _Site.replies = {}
    _Site.seen = []
    return f"https://{host}"


def serve(path: str, reply: Callable[[_Site], None]) -> None:
    _Site.replies[path] = reply


def message(url: str) -> str:
    with pytest.raises(InputError) as caught:
        read([url])
    return str(caught.value)


def test_manifest_is_downloaded(site: str) -> None:
    """Once, whatever type the server gives it; its place is the URL without the query."""
    serve("/a.yaml", lambda one: one.reply(200, GOOD, Content_Type="text/plain"))
    (manifest,) = read([f"{site}/a.yaml?token=hunter2", f"{site}/a.yaml?token=hunter2"])
    assert str(manifest.origin) == f"{site}/a.yaml?…:1"
    assert _Site.seen == [("/a.yaml?token=hunter2", "")]


def test_chunks_are_read_to_their_end(site: str) -> None:
    def chunked(one: _Site) -> None:
        one.send_response(200)
        one.send_header("Transfer-Encoding", "chunked")
        one.end_headers()
        for part in (GOOD[:20], GOOD[20:]):
            one.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
        one.wfile.write(b"0\r\n\r\n")

    serve("/", chunked)
    assert [one.name for one in read([site])] == ["a"]


def test_redirects_are_followed_and_reported(site: str) -> None:
    """Also relative ones; where they lead is shown without what may be a signature."""
    serve("/a", lambda one: one.reply(302, b"", Location="/b?signature=hunter2"))
    serve("/b", lambda one: one.reply(301, b"", Location=f"{site}/c"))
    serve("/c", lambda one: one.reply(200, GOOD))
    said: list[Problem] = []
    (manifest,) = read([f"{site}/a"], warn=said.append)
    assert manifest.origin.path == f"{site}/a"
    assert [one.message for one in said] == [
        f"redirected to {site}/b?…",
        f"redirected to {site}/c",
    ]


def test_url_credentials_stay_with_their_host_and_are_never_shown(site: str, host: str) -> None:
    elsewhere = f"https://{host.replace('localhost', '127.0.0.1')}"
    serve("/a", lambda one: one.reply(302, b"", Location=f"{elsewhere}/b"))
    serve("/b", lambda one: one.reply(200, b"a: [hunter2"))
    text = message(f"https://me:hunter2@{host}/a")
    assert [bool(login) for _, login in _Site.seen] == [True, False]
    assert "hunter2" not in text
    assert "me" not in text.replace("name", "").partition("\n")[0].split("/")[2]


def _endless(one: _Site) -> None:
    one.reply(302, b"", Location=f"/{int(one.path[1:]) + 1}")


@pytest.mark.parametrize(
    ("reply", "expected"),
    {
        "a redirect to http": (
            lambda one: one.reply(302, b"", Location="http://x/y"),
            "redirected to http://x/y: only redirects to https:// are followed",
        ),
        "a redirect to a file": (
            lambda one: one.reply(302, b"", Location="file:///etc/passwd"),
            "only redirects to https:// are followed",
        ),
        "a redirect to itself": (
            lambda one: one.reply(302, b"", Location="/1"),
            "redirect loop",
        ),
        "a redirect to nowhere": (
            lambda one: one.reply(302, b""),
            "redirect loop",
        ),
        "not found": (lambda one: one.reply(404, GOOD), "the server answered 404 Not Found"),
        "partial": (lambda one: one.reply(206, GOOD), "the server answered 206"),
        "no content": (lambda one: one.reply(204, b""), "the server answered 204"),
        "broken": (lambda one: one.reply(500, GOOD), "the server answered 500"),
        "empty": (lambda one: one.reply(200, b" \n"), "the response is empty"),
        "a page": (
            lambda one: one.reply(200, b"\n<!DOCTYPE html><html>"),
            "the response is a web page, not YAML",
        ),
        "a page by its type": (
            lambda one: one.reply(200, b"a: b", Content_Type="text/html; charset=utf-8"),
            "the response is a web page, not YAML",
        ),
        "compressed": (
            lambda one: one.reply(200, gzip.compress(GOOD), Content_Encoding="gzip"),
            "the reply is compressed, and that was not asked for",
        ),
        "without a length": (
            lambda one: one.reply(200, GOOD, Content_Length=""),
            "the server does not send the length of its response",
        ),
        "cut off": (
            lambda one: one.reply(200, GOOD, Content_Length=str(len(GOOD) + 1)),
            "was cut off",
        ),
        "cut off between chunks": (
            lambda one: one.reply(
                200,
                b"%x\r\n%s\r\n" % (len(GOOD), GOOD),
                Transfer_Encoding="chunked",
                Content_Length="",
            ),
            "was cut off",
        ),
        "in a coding of two": (
            lambda one: one.reply(
                200, GOOD, Transfer_Encoding="identity, chunked", Content_Length=""
            ),
            "the server does not send the length of its response",
        ),
        "in another coding": (
            lambda one: one.reply(200, GOOD, Transfer_Encoding="gzip"),
            "the server does not send the length of its response",
        ),
        "no reply": (
            lambda one: setattr(one, "close_connection", True),
            "closed the connection without a response",
        ),
        "too many redirects": (_endless, "more than 5 redirects"),
    }.values(),
)
def test_failed_download_is_refused(
    site: str, reply: Callable[[_Site], None], expected: str
) -> None:
    """Each with the URL, none as an empty or smaller set."""
    for number in range(1, 8):
        serve(f"/{number}", reply)
    text = message(f"{site}/1")
    assert text.startswith(f"{site}/1: ")
    assert expected in text


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://x/y.yaml", "unsupported URL: http://x/y.yaml: content sent over plain http"),
        ("HTTP://me:hunter2@x/y?t=hunter2", "unsupported URL: http://x/y?…"),
        (
            "file:///etc/passwd",
            "file:///etc/passwd: only https:// and oci:// are supported",
        ),
        ("ftp://x/y", "unsupported URL: ftp://x/y"),
        (
            "https://x/y.yaml#digest=sha256:0",
            "unsupported URL: https://x/y.yaml: it has a fragment",
        ),
        ("git+http://me:hunter2@x/y", "Clone it and name the folder"),
        ("git@x:y", "Clone it and name the folder"),
        ("docker://x/y", "Write oci://HOST/REPO:TAG."),
        ("https://", "has no host"),
        ("https:///x", "has no host"),
        ("https://x:port/y", "its port is not a number from 1 to 65535"),
        ("https://[x/y?hunter2", "invalid URL: https://[x/y: an IPv6 address is written in"),
    ],
)
def test_other_urls_are_not_read(url: str, expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        read([url])
    assert expected in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_dripping_server_times_out(site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time is for all of it: a byte now and then does not begin it anew."""
    stop = threading.Event()

    def drip(one: _Site) -> None:
        one.send_response(200)
        one.send_header("Content-Length", "1000")
        one.end_headers()
        while not stop.wait(0.1):
            one.wfile.write(b"#")

    serve("/a", drip)
    monkeypatch.setattr(download, "DOWNLOAD_TIMEOUT", 0.7)
    text = message(f"{site}/a")
    stop.set()
    assert "cannot be read" in text


def test_endless_reply_is_refused(site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    serve("/a", lambda one: one.reply(200, b"#" * 10_000_000))
    monkeypatch.setattr(inputs, "MAX_BYTES", 1000)
    assert "the input is larger than" in message(f"{site}/a")


def test_untrusted_certificate_is_refused(host: str) -> None:
    text = message(f"https://{host}/a")
    assert f"the certificate of {host} is not trusted: " in text
    assert "SSL_CERT_FILE" in text


def test_unreachable_server_is_reported(trusted: None) -> None:
    with silent_port() as port:
        text = message(f"https://localhost:{port}/a")
    assert f"connection refused by localhost:{port}" in text


def test_environment_proxy_is_used(trusted: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loopback is never proxied, so the name is another one."""
    with silent_port() as port:
        monkeypatch.setenv("HTTPS_PROXY", f"http://localhost:{port}")
        text = message("https://manifests.example/a")
    assert "cannot be read" in text
    assert "manifests.example cannot be resolved" not in text
