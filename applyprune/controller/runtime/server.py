"""Serve ``/livez``, ``/healthz``, ``/readyz`` and ``/metrics`` over plain HTTP.

``/livez`` fails where only a restart helps, ``/healthz`` wherever Bundles are not served. A probe
says in its text what is wrong.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING, TypeAlias
from wsgiref.simple_server import WSGIRequestHandler

from prometheus_client import make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

from applyprune.controller.runtime.metrics import Metrics
from applyprune.errors import UsageError

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment


_TIMEOUT = 5.0

Probes: TypeAlias = "Mapping[str, Callable[[], str]]"
"""By the path of each probe, what returns why it fails; empty if it does not."""


def application(metrics: Metrics, probes: Probes) -> WSGIApplication:
    """Return the WSGI application; prometheus_client's own one serves the metrics."""
    exposition: WSGIApplication = make_wsgi_app(metrics.registry)

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path == "/metrics":
            return exposition(environ, start_response)
        status, body = "404 Not Found", b"not found\n"
        if path in probes and environ.get("REQUEST_METHOD") != "GET":
            status, body = "405 Method Not Allowed", b"use GET\n"
        elif path in probes:
            wrong = probes[path]()
            status = "503 Service Unavailable" if wrong else "200 OK"
            body = f"{wrong or 'ok'}\n".encode("utf-8", "replace")
        # A new list each time: the server adds headers to it.
        start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
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
    probes: Probes,
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
    server.set_app(application(metrics, probes))
    thread = Thread(target=server.serve_forever, args=(0.1,), name="applyprune-health", daemon=True)
    thread.start()
    try:
        host, port = str(server.server_address[0]), server.server_address[1]
        yield f"[{host}]" if ":" in host else host, port
    finally:
        server.shutdown()
        server.server_close()
