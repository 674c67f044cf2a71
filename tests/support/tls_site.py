"""An HTTPS server on loopback for files, in front of which a test puts what servers do wrong."""

from __future__ import annotations

import contextlib
import datetime as dt
import socket
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import trustme
from msgspec import Struct, field

from tests.support.waiting import HANG

if TYPE_CHECKING:
    from collections.abc import Iterator

TEN_YEARS_AGO = dt.datetime(2016, 1, 1, tzinfo=dt.UTC)
_OF_ONE_CONNECTION = {"connection", "transfer-encoding", "content-length", "date", "server"}


class Call(Struct, frozen=True):
    """One request, as the server got it."""

    method: str
    path: str
    """With its query."""
    headers: Mapping[str, str]
    body: bytes = b""
    certificate: str = ""
    """The name in the client's certificate; empty for none."""
    port: int = 0
    """The port of the client: another one for each connection."""


class Answer(Struct, frozen=True):
    """One reply; what it lacks is filled in."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    length: str | None = None
    """The Content-Length; None for the right one, empty for none."""
    cut: int | None = None
    """How many bytes of the body are sent before the connection is cut."""
    pause: float = 0.0
    """Seconds before each byte of the body."""
    before_byte: Callable[[], object] | None = None
    """What happens before each byte of the body."""
    is_last: bool = False
    """Whether the server is killed when it has sent this."""


Answering: TypeAlias = Callable[[Call], Answer]


class Site(Struct):
    """A running server."""

    host: str
    """``localhost`` and its port; the certificate is also for 127.0.0.1."""
    authority: trustme.CA
    answers: dict[str, Answering] = field(default_factory=dict)
    """What replaces the server's own answer, by the path without its query."""
    calls: list[Call] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)
    _server: _Server | None = None

    def start(self, answer: Answering, context: ssl.SSLContext, port: int = 0) -> None:
        """Serve at a port, by default at a free one."""
        self._server = _Server(self, answer, context, port)
        self.host = f"localhost:{self._server.server_port}"

    def restart(self) -> None:
        """Serve again at the port at which it was killed."""
        killed = self._server
        assert killed is not None
        self.start(killed.answer, killed.context, killed.server_port)

    def kill(self) -> None:
        """Listen no more and end every connection, as the kernel does for a killed process."""
        if self._server is not None:
            self._server.kill()

    @property
    def is_killed(self) -> bool:
        """Return whether it was killed and has not started again."""
        return self._server is not None and self._server.is_killed

    @property
    def url(self) -> str:
        """Return the root of the site."""
        return f"https://{self.host}"

    @property
    def other_url(self) -> str:
        """Return the same root by another host name."""
        return self.url.replace("localhost", "127.0.0.1")

    @property
    def ca(self) -> bytes:
        """Return the certificate of its CA, in PEM."""
        return self.authority.cert_pem.bytes()


def files_of(folder: Path) -> Answering:
    """Return answers that are the files of a folder."""

    def answer(call: Call) -> Answer:
        path = folder / call.path.partition("?")[0].lstrip("/")
        return Answer(200, path.read_bytes()) if path.is_file() else Answer(404, b"not found")

    return answer


def passed_on(host: str, ca: Path) -> Answering:
    """Return answers that are those of another server, which gets each request unchanged."""
    context = ssl.create_default_context(cafile=str(ca))

    def answer(call: Call) -> Answer:
        connection = HTTPSConnection(host, context=context, timeout=HANG)
        with contextlib.closing(connection):
            headers = {**call.headers, "Host": host}
            connection.request(call.method, call.path, call.body or None, headers)
            reply = connection.getresponse()
            kept = {
                name: value
                for name, value in reply.getheaders()
                if name.lower() not in _OF_ONE_CONNECTION
            }
            length = reply.getheader("Content-Length") if call.method == "HEAD" else None
            return Answer(reply.status, reply.read(), kept, length)

    return answer


@contextlib.contextmanager
def site(
    answer: Answering,
    *,
    authority: trustme.CA | None = None,
    expired: bool = False,
    clients: trustme.CA | None = None,
    names: Sequence[str] = (),
) -> Iterator[Site]:
    """Run a server whose own answers are those of ``answer``.

    With ``expired``, its certificate is; with ``clients``, it asks for a certificate of that CA.
    Its certificate is for ``names`` too.
    """
    authority = authority or trustme.CA()
    times: dict[str, Any] = {}
    if expired:
        times = {
            "not_before": TEN_YEARS_AGO,
            "not_after": TEN_YEARS_AGO + dt.timedelta(days=1),
        }
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    every = ("localhost", "127.0.0.1", "127.0.0.2", *names)
    authority.issue_cert(*every, **times).configure_cert(context)
    if clients is not None:
        clients.configure_trust(context)
        context.verify_mode = ssl.CERT_OPTIONAL
    running = Site("", authority)
    running.start(answer, context)
    try:
        yield running
    finally:
        running.ended.set()
        running.kill()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, site: Site, answer: Answering, context: ssl.SSLContext, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.site, self.answer, self.context = site, answer, context
        self.is_killed = False
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self.socket = context.wrap_socket(
            self.socket, server_side=True, do_handshake_on_connect=False
        )
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,))
        self._thread.start()

    def kill(self) -> None:
        with self._lock:
            if self.is_killed:
                return
            self.is_killed = True
        self.shutdown()
        self._thread.join()
        self.server_close()
        for one in list(self._open):
            with contextlib.suppress(OSError):
                # Without a word of TLS.
                socket.socket.shutdown(one, socket.SHUT_RDWR)

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        self._open.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that does not trust us, or has had enough, is no error of the site."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def _answer(self) -> None:
        site = self.server.site
        size = int(self.headers.get("Content-Length", "0"))
        assert isinstance(self.connection, ssl.SSLSocket)
        shown: Any = self.connection.getpeercert() or {}
        names = [value for kind, value in shown.get("subjectAltName", ())]
        call = Call(
            self.command,
            self.path,
            dict(self.headers.items()),
            self.rfile.read(size),
            ",".join(names),
            self.client_address[1],
        )
        site.calls.append(call)
        answering = site.answers.get(self.path.partition("?")[0], self.server.answer)
        self._send(answering(call))

    def _send(self, answer: Answer) -> None:
        self.send_response_only(answer.status)
        self.send_header("Date", answer.headers.get("Date") or self.date_time_string())
        for name, value in answer.headers.items():
            if name != "Date":
                self.send_header(name, value)
        length = str(len(answer.body)) if answer.length is None else answer.length
        if length and answer.status != 304:
            self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self._send_body(answer)
        if self.command != "HEAD" and (not length or length != str(len(answer.body))):
            self.close_connection = True
        if answer.is_last:
            self.server.site.kill()

    def _send_body(self, answer: Answer) -> None:
        if answer.before_byte is not None:
            for at in range(len(answer.body)):
                answer.before_byte()
                self.wfile.write(answer.body[at : at + 1])
        elif answer.pause:
            for at in range(len(answer.body)):
                if self.server.site.ended.wait(answer.pause):
                    break
                self.wfile.write(answer.body[at : at + 1])
        elif answer.cut is not None:
            self.wfile.write(answer.body[: answer.cut])
            self.close_connection = True
        else:
            self.wfile.write(answer.body)

    def log_message(self, *_arguments: object) -> None:
        """Log nothing."""
