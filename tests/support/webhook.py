"""A real admission webhook: an HTTPS server that the plane's API server calls."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self

from applyprune.localplane.plane import Layout
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from applyprune.localplane import Plane
    from tests.support.api import Api

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations"


def missing(request: dict[str, Any]) -> dict[str, Any]:
    """Return the Status with which a validator passes on its own NotFound about the object.

    controller-runtime sends it for any NotFound that a validator returns.
    """
    about = request["resource"]
    return {
        "status": "Failure",
        "reason": "NotFound",
        "code": 404,
        "message": f'{about["resource"]} "{request["name"]}" not found',
        "details": {
            "group": about["group"],
            "kind": about["resource"],
            "name": request["name"],
        },
    }


@dataclass(slots=True)
class Webhook:
    """A webhook for some operations on all objects of one namespace.

    ``reply`` returns the Status of a refusal, or None to allow the request. With ``change``, the
    webhook is a mutating one: ``change`` returns the JSON patch for the object of a request.
    """

    plane: Plane
    api: Api
    namespace: str
    operations: tuple[str, ...]
    reply: Callable[[dict[str, Any]], dict[str, Any] | None] = missing
    change: Callable[[dict[str, Any]], list[dict[str, Any]]] | None = None
    resources: tuple[str, ...] = ("*",)
    """The resources, as in a rule; ``*/*`` includes subresources."""
    warns: Callable[[dict[str, Any]], list[str]] = lambda _request: []
    """What it warns about, whether it allows the request or not."""
    seconds: int = 10
    """How long the server waits for its answer; 30 at most."""
    refused: list[str] = field(default_factory=list)
    """The operation and the name of each request that it has refused."""
    _server: ThreadingHTTPServer | None = None

    def __enter__(self) -> Self:
        """Listen, register the webhook, and wait until the API server calls it."""
        webhook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                answer = json.dumps(webhook.reviewed(json.loads(body))).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_arguments: object) -> None:
                """Log nothing."""

        server = self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        layout = Layout(self.plane.folder)
        secured = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        secured.load_cert_chain(layout.certificate("server"), layout.key("server"))
        server.socket = secured.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        status, reply = self.api("POST", self._path, self._configuration(server.server_port))
        assert status == 201, reply
        self._await_registered()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        """Remove the webhook, wait until it is not called any more, and stop listening."""
        self.api("DELETE", f"{self._path}/{self._name}")
        self._await_registered(calls=False)
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()

    def reviewed(self, review: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to an AdmissionReview."""
        request = review["request"]
        status = self._status(request)
        if status is not None and request["name"] != _PROBE:
            self.refused.append(f"{request['operation']} {request['name']}")
        response = {
            "uid": request["uid"],
            "allowed": status is None,
            "warnings": self.warns(request),
        }
        if status is not None:
            response["status"] = status
        elif self.change is not None:
            patch = json.dumps(self.change(request)).encode()
            response |= {"patchType": "JSONPatch", "patch": base64.b64encode(patch).decode()}
        return {**review, "request": None, "response": response}

    def _status(self, request: dict[str, Any]) -> dict[str, Any] | None:
        if request["name"] == _PROBE:
            return missing(request)
        return self.reply(request) if self.change is None else None

    @property
    def _kind(self) -> str:
        return "Validating" if self.change is None else "Mutating"

    @property
    def _path(self) -> str:
        return CONFIGURATIONS.format(kind=self._kind.lower())

    @property
    def _name(self) -> str:
        return f"missing-{self.namespace}"

    def _configuration(self, port: int) -> dict[str, Any]:
        authority = base64.b64encode(self.plane.ca_file.read_bytes()).decode()
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": f"{self._kind}WebhookConfiguration",
            "metadata": {"name": self._name},
            "webhooks": [
                {
                    "name": "missing.example.com",
                    "clientConfig": {"url": f"https://127.0.0.1:{port}/", "caBundle": authority},
                    "rules": [
                        {
                            "apiGroups": ["*"],
                            "apiVersions": ["*"],
                            "resources": self.resources,
                            "operations": sorted({*self.operations, "CREATE"}),
                            # The selector of a namespace lets all cluster-scoped objects pass.
                            "scope": "Namespaced",
                        }
                    ],
                    "matchConditions": [
                        {
                            "name": "operations",
                            "expression": "request.operation in "
                            f"{json.dumps(self.operations)} || request.name == '{_PROBE}'",
                        }
                    ],
                    "namespaceSelector": {
                        "matchLabels": {"kubernetes.io/metadata.name": self.namespace}
                    },
                    "admissionReviewVersions": ["v1"],
                    "sideEffects": "None",
                    "timeoutSeconds": self.seconds,
                }
            ],
        }

    def _await_registered(self, *, calls: bool = True) -> None:
        """Wait until the API server calls the webhook; its informer needs a moment."""
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": _PROBE}}
        path = f"/api/v1/namespaces/{self.namespace}/configmaps?dryRun=All"
        eventually(
            lambda: (self.api("POST", path, body)[0] == 404) is calls, lambda: "the registration"
        )


_PROBE = "webhook-probe"
