"""``/healthz``, ``/readyz`` and ``/metrics`` over plain HTTP."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING

from applyprune.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from applyprune.controller.runtime.metrics import Metrics

_TIMEOUT = 5.0


@contextmanager
def answering(
    address: tuple[str, int],
    metrics: Metrics,
    *,
    is_well: Callable[[], bool],
    is_ready: Callable[[], bool],
) -> Iterator[tuple[str, int]]:
    """Answer until the block ends; yield the address, with the port that port 0 came to.

    An empty host is every address, of IPv4 and IPv6.

    Raises UsageError when the address cannot be had.
    """

    class Handler(BaseHTTPRequestHandler):
        timeout = _TIMEOUT

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/metrics":
                self._answer(200, metrics.text(), "text/plain; version=0.0.4; charset=utf-8")
            elif path in {"/healthz", "/readyz"}:
                good = is_well() if path == "/healthz" else is_ready()
                self._answer(200 if good else 503, b"ok\n" if good else b"not ok\n", "text/plain")
            else:
                self._answer(404, b"not found\n", "text/plain")

        def _answer(self, code: int, body: bytes, kind: str) -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's
            """Probes are no news."""

    dual = not address[0] and socket.has_dualstack_ipv6()

    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if dual or ":" in address[0] else socket.AF_INET
        daemon_threads = True

        def server_bind(self) -> None:
            if dual:
                # Whatever the cluster gives to its Pods, a probe gets here.
                self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            super().server_bind()

    try:
        server = Server(address, Handler)
    except (OSError, OverflowError) as error:
        raise UsageError(
            f"cannot listen on {address[0]}:{address[1]}",
            reason=getattr(error, "strerror", None) or str(error),
            hint="Choose another address with --listen.",
        ) from error
    thread = Thread(target=server.serve_forever, name="applyprune-health", daemon=True)
    thread.start()
    try:
        host, port = str(server.server_address[0]), server.server_address[1]
        yield f"[{host}]" if ":" in host else host, port
    finally:
        server.shutdown()
        server.server_close()
