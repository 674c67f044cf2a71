"""Serve ``/healthz``, ``/readyz`` and ``/metrics`` over plain HTTP."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIRequestHandler

from prometheus_client import make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

from applyprune.controller.runtime.metrics import Metrics
from applyprune.errors import UsageError

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment


_TIMEOUT = 5.0


def application(
    metrics: Metrics, *, is_well: Callable[[], bool], is_ready: Callable[[], bool]
) -> WSGIApplication:
    """Return the WSGI application; prometheus_client's own one serves the metrics."""
    exposition: WSGIApplication = make_wsgi_app(metrics.registry)
    probes = {"/healthz": is_well, "/readyz": is_ready}

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path == "/metrics":
            return exposition(environ, start_response)
        status, body = "404 Not Found", b"not found\n"
        if path in probes and environ.get("REQUEST_METHOD") != "GET":
            status, body = "405 Method Not Allowed", b"use GET\n"
        elif path in probes:
            good = probes[path]()
            status = "200 OK" if good else "503 Service Unavailable"
            body = b"ok\n" if good else b"not ok\n"
        # A new list each time: the server adds headers to it.
        start_response(status, [("Content-Type", "text/plain")])
        return [body]

    return answer


class _Handler(WSGIRequestHandler):
    timeout = _TIMEOUT

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's
        """Log nothing: a probe arrives every few seconds."""


@contextmanager
def serving(
    address: tuple[str, int],
    metrics: Metrics,
    *,
    is_well: Callable[[], bool],
    is_ready: Callable[[], bool],
) -> Iterator[tuple[str, int]]:
    """Serve until the block ends; yield the address, with the real port instead of port 0.

    An empty host means every IPv4 and IPv6 address. Raises UsageError if the address cannot be
    used.
    """
    dual = not address[0] and socket.has_dualstack_ipv6()

    class Server(ThreadingWSGIServer):
        address_family = socket.AF_INET6 if dual or ":" in address[0] else socket.AF_INET

        def server_bind(self) -> None:
            if dual:
                # Probes arrive over IPv4 or IPv6, depending on the cluster.
                self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            super().server_bind()

    try:
        server = Server(address, _Handler)
    except (OSError, OverflowError) as error:
        raise UsageError(
            f"cannot listen on {address[0]}:{address[1]}",
            reason=getattr(error, "strerror", None) or str(error),
            hint="Choose another address with --listen.",
        ) from error
    server.set_app(application(metrics, is_well=is_well, is_ready=is_ready))
    thread = Thread(target=server.serve_forever, args=(0.1,), name="applyprune-health", daemon=True)
    thread.start()
    try:
        host, port = str(server.server_address[0]), server.server_address[1]
        yield f"[{host}]" if ":" in host else host, port
    finally:
        server.shutdown()
        server.server_close()
