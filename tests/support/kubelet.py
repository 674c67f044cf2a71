"""The log endpoint of a kubelet: an HTTPS server that the plane's API server asks for logs.

The nodes of the plane have no kubelet. A node of this one is registered with its address and port,
so a request for a log goes through the real API server, as it would on a cluster.
"""

from __future__ import annotations

import ssl
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Self
from urllib.parse import parse_qs, urlsplit

from applyprune.localplane.plane import Layout
from tests.support.waiting import eventually
from tests.support.workloads import MERGE

if TYPE_CHECKING:
    from types import TracebackType

    from applyprune.localplane import Plane
    from tests.support.api import Api

_PREFIX = "/containerLogs/"


@dataclass(slots=True)
class Kubelet:
    """A node whose containers have logs; ``logs`` is by container and previous instance."""

    plane: Plane
    api: Api
    node: str
    logs: dict[tuple[str, bool], bytes]
    gone: str = "no such container instance"
    """What it says of a log that it has not."""
    asked: list[dict[str, str]] = field(default_factory=list)
    """The query of each request."""
    _server: ThreadingHTTPServer | None = None

    def __enter__(self) -> Self:
        """Listen, and register the node."""
        kubelet = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                url = urlsplit(self.path)
                query = {key: values[0] for key, values in parse_qs(url.query).items()}
                kubelet.asked.append(query)
                *_, container = url.path.split("/")
                log = kubelet.logs.get((container, query.get("previous") == "true"))
                found = log is not None and url.path.startswith(_PREFIX)
                body = log if log is not None and found else kubelet.gone.encode()
                lines = body.splitlines(keepends=True)[-int(query.get("tailLines", 10)) :]
                body = b"".join(lines)[: int(query.get("limitBytes", len(body)))]
                self.send_response(200 if found else 400)
                self.send_header("Content-Type", "text/plain")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_arguments: object) -> None:
                """Log nothing."""

        server = self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        layout = Layout(self.plane.folder)
        secured = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        secured.load_cert_chain(layout.certificate("server"), layout.key("server"))
        server.socket = secured.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.node},
            "spec": {"taints": [{"key": "test", "effect": "NoSchedule"}]},
        }
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": server.server_port}},
        }
        code, reply = self.api("POST", "/api/v1/nodes", body)
        assert code == 201, reply
        path = f"/api/v1/nodes/{self.node}"
        patch = {"status": status}

        # kwok makes the node ready first, with an address and a port of its own.
        eventually(lambda: "conditions" in self.api.get(path)["status"], lambda: "kwok's node")
        code, reply = self.api("PATCH", f"{path}/status", patch, content_type=MERGE)
        assert code == 200, reply
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        """Remove the node, and stop listening."""
        self.api("DELETE", f"/api/v1/nodes/{self.node}")
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()
