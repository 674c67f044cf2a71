"""The proxy itself: TLS on both sides, a thread for each connection, HTTP/1.1 with keep-alive."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import select
import socket
import ssl
import sys
import threading
from http.client import HTTPException, HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from applyprune.localplane.plane import Layout
from tests.support.fault_proxy.exchange import Exchange, ServerReply
from tests.support.fault_proxy.faults import head

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from types import TracebackType

    from applyprune.localplane.plane import Plane
    from tests.support.fault_proxy.exchange import Rule

_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "host"}


class FaultProxy:
    """A proxy in front of a plane's API server, with the same certificate, on another port.

    ``rule`` picks the fault of each request. The hooks run in the connection's thread:
    ``before_forward`` before the server gets the request, ``before_reply`` when the server has
    processed it and the client does not know yet, ``after_reply`` when the client has the reply.
    """

    def __init__(self, plane: Plane, *others: Plane) -> None:
        """Listen on a free port of 127.0.0.1; with ``others``, take turns between the servers."""
        self.plane = plane
        self._servers = [one.server for one in (plane, *others)]
        self._turns = itertools.count()
        layout = Layout(plane.folder)
        self._server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._server_side.load_cert_chain(layout.certificate("server"), layout.key("server"))
        self._client_side = ssl.create_default_context(cafile=plane.ca_file)
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._connections = itertools.count(1)
        self._open: set[socket.socket] = set()
        self._upstreams: set[HTTPSConnection] = set()
        self._closing = threading.Event()
        self.rule: Rule = lambda _exchange: None
        self.before_forward: Callable[[Exchange], None] = _nothing
        self.before_reply: Callable[[Exchange], None] = _nothing
        self.after_reply: Callable[[Exchange], None] = _nothing
        self.exchanges: list[Exchange] = []
        self.surprises: list[BaseException] = []
        self._server = _listen(self, 0)
        self.port: int = self._server.server_address[1]

    @property
    def server(self) -> str:
        """Return the URL that clients talk to."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def open_connections(self) -> int:
        """Return how many connections of clients are open."""
        return len(self._open)

    def kubeconfig(
        self, folder: Path, *, user: dict[str, Any] | None = None, namespace: str = "default"
    ) -> Path:
        """Write a kubeconfig that leads to the proxy; ``user`` replaces the admin's token."""
        cluster = {
            "server": self.server,
            "certificate-authority-data": base64.b64encode(self.plane.ca_file.read_bytes()),
        }
        context = {"cluster": "proxied", "user": "admin", "namespace": namespace}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "proxied",
            "clusters": [{"name": "proxied", "cluster": cluster}],
            "users": [{"name": "admin", "user": user or {"token": self.plane.token}}],
            "contexts": [{"name": "proxied", "context": context}],
        }
        path = folder / "kubeconfig-through-proxy"
        path.write_text(json.dumps(config, default=bytes.decode))
        return path

    def __enter__(self) -> Self:
        """Return the proxy, which is listening already."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        """Close every connection; raise any error of the proxy itself."""
        self._closing.set()
        self._stop_listening()
        if self.surprises and kind is None:
            raise self.surprises[0]

    def before_first(
        self, where: Callable[[Exchange], bool], act: Callable[[], object]
    ) -> Sequence[int]:
        """Do something before the first such request is forwarded; return its number, once it is.

        It takes the place of ``before_forward``.
        """
        happened: list[int] = []

        def before(seen: Exchange) -> None:
            if not happened and where(seen):
                happened.append(seen.number)
                act()

        self.before_forward = before
        return happened

    def refuse_connections(self) -> None:
        """Close every connection and refuse new ones, until ``accept_connections``."""
        self._stop_listening()

    def accept_connections(self) -> None:
        """Listen again on the same port."""
        self._server = _listen(self, self.port)

    def _stop_listening(self) -> None:
        self._server.shutdown()
        self._server.socket.close()
        with self._lock:
            opened, upstreams = list(self._open), list(self._upstreams)
        for connection in opened:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(connection, socket.SHUT_RDWR)
        for upstream in upstreams:
            if upstream.sock is not None:
                with contextlib.suppress(OSError):
                    socket.socket.shutdown(upstream.sock, socket.SHUT_RDWR)
        self._server.server_close()

    # The rest is for the connections' threads.

    def connected(self) -> int:
        """Return the number of a new connection."""
        return next(self._connections)

    def secured(self, connection: socket.socket) -> ssl.SSLSocket:
        """Return the TLS side of an accepted connection, before its handshake."""
        secured = self._server_side.wrap_socket(
            connection, server_side=True, do_handshake_on_connect=False
        )
        with self._lock:
            self._open.add(secured)
        return secured

    def disconnected(self, connection: socket.socket, upstreams: Sequence[HTTPSConnection]) -> None:
        """Remove a connection and close those behind it."""
        for upstream in upstreams:
            upstream.close()
        with self._lock:
            self._open.discard(connection)
            self._upstreams.difference_update(upstreams)

    def upstreams(self) -> Sequence[HTTPSConnection]:
        """Return a connection to each of the real servers."""
        upstreams = [
            HTTPSConnection(
                urlsplit(server).hostname or "",
                urlsplit(server).port,
                context=self._client_side,
                timeout=120,
            )
            for server in self._servers
        ]
        with self._lock:
            self._upstreams.update(upstreams)
        return upstreams

    def turn(self, upstreams: Sequence[HTTPSConnection]) -> HTTPSConnection:
        """Return a connection for the next request: the servers that listen take turns."""
        for _ in upstreams:
            upstream = upstreams[next(self._turns) % len(upstreams)]
            try:
                if upstream.sock is None:
                    upstream.connect()
            except ConnectionRefusedError:
                continue
            return upstream
        raise ConnectionRefusedError("no server listens")

    def received(self, exchange: dict[str, Any]) -> Exchange:
        """Record a request."""
        with self._lock:
            recorded = Exchange(number=next(self._numbers), **exchange)
            self.exchanges.append(recorded)
        return recorded

    def wait(self, seconds: float) -> bool:
        """Wait; return False at once when the proxy closes."""
        return not self._closing.wait(seconds)


def _nothing(_exchange: Exchange) -> None:
    """Do nothing: the hook that is not set."""


class _Listener(ThreadingHTTPServer):
    """Accepts connections; raises errors at exit, except those of clients that go away."""

    request_queue_size = 128
    daemon_threads = False

    def __init__(self, proxy: FaultProxy, port: int) -> None:
        self.proxy = proxy
        super().__init__(("127.0.0.1", port), _Connection)

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        return self.proxy.secured(connection), address

    def handle_error(self, _request: object, _address: object) -> None:
        error = sys.exc_info()[1]
        if error is not None and not isinstance(error, OSError | HTTPException):
            self.proxy.surprises.append(error)


def _listen(proxy: FaultProxy, port: int) -> _Listener:
    listener = _Listener(proxy, port)
    threading.Thread(
        target=listener.serve_forever, args=(0.01,), name="fault-proxy", daemon=True
    ).start()
    return listener


class _Connection(BaseHTTPRequestHandler):
    """One connection of a client: its requests, one after the other, each with its rule."""

    protocol_version = "HTTP/1.1"
    server: _Listener
    connection: ssl.SSLSocket

    def setup(self) -> None:
        self.proxy = self.server.proxy
        self.number = self.proxy.connected()
        self.upstreams = self.proxy.upstreams()
        try:
            self.request.do_handshake()
        except OSError:
            self.proxy.disconnected(self.request, self.upstreams)
            raise
        super().setup()

    def finish(self) -> None:
        self.proxy.disconnected(self.connection, self.upstreams)
        super().finish()

    def log_message(self, *_arguments: object) -> None:
        """Log nothing."""

    def _exchange(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        if len(body) < length:  # the client is gone: to a server this is no request
            self.close()
            return
        self.exchange = self.proxy.received(
            {
                "connection": self.number,
                "method": self.command,
                "target": self.path,
                "headers": list(self.headers.items()),
                "body": body,
            }
        )
        fault = self.proxy.rule(self.exchange)
        if fault is not None:
            fault(self)
        elif self.exchange.query.get("watch") in {"1", "true"}:
            self.stream()
        else:
            self.reply(self.forward())

    # The names are those of http.server.
    do_GET = _exchange  # noqa: N815
    do_POST = _exchange  # noqa: N815
    do_PUT = _exchange  # noqa: N815
    do_PATCH = _exchange  # noqa: N815
    do_DELETE = _exchange  # noqa: N815

    def forward(self, *, is_trial: bool = False) -> ServerReply:
        """Send the request to the server, perhaps as a dry run, and return its whole reply."""
        response = self._forwarded(is_trial=is_trial)
        body = response.read()
        self.exchange.server_status = response.status
        self.exchange.reply = body
        self.proxy.before_reply(self.exchange)
        return ServerReply(response.status, response.getheaders(), body)

    def _forwarded(self, *, is_trial: bool = False) -> Any:
        exchange = self.exchange
        self.proxy.before_forward(exchange)
        exchange.forwarded = True
        target, body = exchange.target, exchange.body
        if is_trial:
            target += f"{'&' if '?' in target else '?'}dryRun=All"
            if exchange.method == "DELETE":  # where there is a body, the query does not count
                body = json.dumps({**json.loads(body), "dryRun": ["All"]}).encode()
        upstream = self.proxy.turn(self.upstreams)
        upstream.putrequest(exchange.method, target, skip_accept_encoding=True)
        for name, value in exchange.headers:
            if name.lower() not in _HOP_BY_HOP:
                upstream.putheader(name, value)
        if body or exchange.header("Content-Length"):
            upstream.putheader("Content-Length", str(len(body)))
        upstream.endheaders(body or None)
        return upstream.getresponse()

    def stream(self) -> None:
        """Pass on a watch as it arrives; its end ends the connection."""
        response = self._forwarded()
        self.exchange.server_status = self.exchange.status = response.status
        kept = [item for item in response.getheaders() if item[0].lower() not in _HOP_BY_HOP]
        self.send(head(response.status, [*kept, ("Connection", "close")]))
        while data := response.read1(65536):
            self.send(data)
        self.close()

    def reply(self, reply: ServerReply) -> None:
        """Send a whole reply."""
        kept = [item for item in reply.headers if item[0].lower() not in _HOP_BY_HOP]
        self.exchange.status = reply.status
        if reply.status != 304:
            kept.append(("Content-Length", str(len(reply.body))))
        self.send(head(reply.status, kept) + reply.body)
        self.proxy.after_reply(self.exchange)

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.connection.sendall(data)

    def close(self) -> None:
        """Close properly, with TLS's close_notify alert."""
        self.close_connection = True
        with contextlib.suppress(OSError, ValueError):
            self.connection.unwrap()

    def reset(self) -> None:
        """Reset the connection."""
        self.close_connection = True
        linger_for_nothing = b"\x01\x00\x00\x00\x00\x00\x00\x00"
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger_for_nothing)
        self.rfile.close()
        self.connection.close()

    def wait(self, seconds: float) -> bool:
        """Wait; return False at once if the client or the proxy is gone."""
        step = 0.05
        while seconds > 0:
            if not self.proxy.wait(min(step, seconds)):
                return False
            seconds -= step
            if select.select([self.connection], [], [], 0)[0]:
                return False
        return True
