"""``python -m tests.benchmarks.bare_client REQUESTS``: the floor of an apply, or of deletes.

It sends prepared requests on 16 connections, reads each reply, and does nothing else.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPSConnection
from pathlib import Path
from ssl import create_default_context
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ruamel.yaml import YAML

if TYPE_CHECKING:
    from collections.abc import Sequence

CONNECTIONS = 16
PLURALS = {
    "Namespace": ("/api/v1", "namespaces"),
    "ConfigMap": ("/api/v1", "configmaps"),
    "Secret": ("/api/v1", "secrets"),
    "ServiceAccount": ("/api/v1", "serviceaccounts"),
    "Service": ("/api/v1", "services"),
    "Deployment": ("/apis/apps/v1", "deployments"),
    "Role": ("/apis/rbac.authorization.k8s.io/v1", "roles"),
    "RoleBinding": ("/apis/rbac.authorization.k8s.io/v1", "rolebindings"),
}
"""Where the API has each kind of the workload."""
AGENT = "bare-client"
_LATE = ("RoleBinding",)
_APPLY = "?fieldManager=bare&force=false&fieldValidation=Strict"
_EXPECTED = {"PATCH": 201, "DELETE": 200}
_TYPES = {"PATCH": "application/apply-patch+yaml", "DELETE": "application/json"}

Call = tuple[str, str, str]
"""A method, a path and a body."""


def prepare_applies(manifests: Path, requests: Path) -> None:
    """Write the applies of a folder's manifests as JSON, in three groups."""
    bodies = _bodies(manifests)
    first = [body for body in bodies if body["kind"] == "Namespace"]
    last = [body for body in bodies if body["kind"] in _LATE]
    middle = [body for body in bodies if body["kind"] not in {"Namespace", *_LATE}]
    groups = [
        [("PATCH", f"{_path(body)}{_APPLY}", json.dumps(body)) for body in group]
        for group in (first, middle, last)
    ]
    requests.write_text(json.dumps(groups), encoding="utf-8")


def prepare_deletes(manifests: Path, requests: Path) -> None:
    """Write the deletes of a folder's manifests as JSON, in one group."""
    options = json.dumps({"propagationPolicy": "Background"})
    group = [("DELETE", _path(body), options) for body in _bodies(manifests)]
    requests.write_text(json.dumps([group]), encoding="utf-8")


def _bodies(manifests: Path) -> list[dict[str, Any]]:
    return [
        body
        for path in sorted(manifests.glob("*.yaml"))
        for body in YAML(typ="safe").load_all(path.read_text(encoding="utf-8"))
    ]


def _path(body: dict[str, Any]) -> str:
    root, plural = PLURALS[body["kind"]]
    metadata = body["metadata"]
    inside = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    return f"{root}{inside}/{plural}/{metadata['name']}"


def send(groups: Sequence[Sequence[Call]], kubeconfig: Path) -> None:
    """Send the requests; raise SystemExit if one of them has another reply than a first one."""
    config = YAML(typ="safe").load(kubeconfig.read_text(encoding="utf-8"))
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    context = create_default_context(
        cadata=base64.b64decode(cluster["certificate-authority-data"]).decode()
    )
    server = urlsplit(cluster["server"])
    headers = {"Authorization": f"Bearer {user['token']}", "User-Agent": AGENT}
    local = threading.local()

    def one(call: Call) -> bool:
        if not hasattr(local, "connection"):
            local.connection = HTTPSConnection(server.hostname or "", server.port, context=context)
        method, path, body = call
        local.connection.request(method, path, body, {**headers, "Content-Type": _TYPES[method]})
        reply = local.connection.getresponse()
        reply.read()
        return int(reply.status) == _EXPECTED[method]

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        for group in groups:
            wrong = list(pool.map(one, group)).count(False)
            if wrong:
                sys.exit(f"{wrong} of {len(group)} requests had another reply")


if __name__ == "__main__":
    send(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), Path(os.environ["KUBECONFIG"]))
