"""``python -m tests.benchmarks.bare_client REQUESTS``: the floor of an apply.

It sends prepared server-side applies on 16 connections, reads each reply, and does nothing else.
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
_PLURALS = {
    "Namespace": "namespaces",
    "ConfigMap": "configmaps",
    "Secret": "secrets",
    "ServiceAccount": "serviceaccounts",
    "Service": "services",
    "Deployment": "deployments",
    "Role": "roles",
    "RoleBinding": "rolebindings",
}
_LATE = ("RoleBinding",)
_QUERY = "?fieldManager=bare&force=false&fieldValidation=Strict"


def prepare(manifests: Path, requests: Path) -> None:
    """Write the paths and bodies of a folder's manifests as JSON, in three groups."""
    bodies = [
        body
        for path in sorted(manifests.glob("*.yaml"))
        for body in YAML(typ="safe").load_all(path.read_text(encoding="utf-8"))
    ]
    first = [body for body in bodies if body["kind"] == "Namespace"]
    last = [body for body in bodies if body["kind"] in _LATE]
    middle = [body for body in bodies if body not in first and body not in last]
    groups = [
        [(_path(body), json.dumps(body)) for body in group] for group in (first, middle, last)
    ]
    requests.write_text(json.dumps(groups), encoding="utf-8")


def _path(body: dict[str, Any]) -> str:
    group = body["apiVersion"]
    root = f"/apis/{group}" if "/" in group else f"/api/{group}"
    metadata = body["metadata"]
    inside = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    return f"{root}{inside}/{_PLURALS[body['kind']]}/{metadata['name']}{_QUERY}"


def send(groups: Sequence[Sequence[tuple[str, str]]], kubeconfig: Path) -> None:
    """Send the requests; raise SystemExit if one of them is not a create."""
    config = YAML(typ="safe").load(kubeconfig.read_text(encoding="utf-8"))
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    context = create_default_context(
        cadata=base64.b64decode(cluster["certificate-authority-data"]).decode()
    )
    server = urlsplit(cluster["server"])
    headers = {
        "Authorization": f"Bearer {user['token']}",
        "Content-Type": "application/apply-patch+yaml",
    }
    local = threading.local()

    def one(request: tuple[str, str]) -> int:
        if not hasattr(local, "connection"):
            local.connection = HTTPSConnection(server.hostname or "", server.port, context=context)
        local.connection.request("PATCH", request[0], request[1], headers)
        reply = local.connection.getresponse()
        reply.read()
        return int(reply.status)

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        for group in groups:
            wrong = [code for code in pool.map(one, group) if code != 201]
            if wrong:
                sys.exit(f"{len(wrong)} requests were no creates: {wrong[0]}")


if __name__ == "__main__":
    send(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), Path(os.environ["KUBECONFIG"]))
