"""``python -m tests.benchmarks.bare_client FILE``: the least that an apply or a prune could take.

It sends prepared requests on 16 connections, reads each reply, and does nothing else.
"""

from __future__ import annotations

import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPSConnection
from pathlib import Path
from ssl import create_default_context
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from applyprune.localplane import Plane

AGENT = "bare-client"
_CONNECTIONS = 16
_TYPES = {"PATCH": "application/apply-patch+yaml", "DELETE": "application/json"}
_EXPECTED = {"PATCH": 201, "DELETE": 200}
_TURNS = {"Namespace": 0, "RoleBinding": 2}
"""When objects of a kind are applied; all others in between."""


def prepare(manifests: Path, file: Path, plane: Plane, method: str) -> None:
    """Write the requests that create the objects of a folder, or delete them."""
    # Not for those who only send.
    from applyprune.sources import read  # noqa: PLC0415
    from tests.benchmarks.workload import COLLECTIONS  # noqa: PLC0415

    groups: list[list[tuple[str, str]]] = [[], [], []]
    for manifest in read([str(manifests)]):
        body: dict[str, Any] = dict(manifest.body)
        root, _, plural = COLLECTIONS[body["kind"]].rpartition("/")
        inside = f"namespaces/{manifest.namespace}/" if manifest.namespace else ""
        path = f"{root}/{inside}{plural}/{manifest.name}"
        if method == "PATCH":
            turn = _TURNS.get(body["kind"], 1)
            query = "?fieldManager=bare&force=false&fieldValidation=Strict"
            groups[turn].append((path + query, json.dumps(body)))
        else:
            groups[0].append((path, json.dumps({"propagationPolicy": "Background"})))
    told = {"server": plane.server, "ca": str(plane.ca_file), "token": plane.token}
    file.write_text(json.dumps({**told, "method": method, "groups": groups}), encoding="utf-8")


def send(told: dict[str, Any]) -> None:
    """Send the requests; raise SystemExit if one of them has another reply than a first one."""
    context = create_default_context(cafile=told["ca"])
    server, method = urlsplit(told["server"]), told["method"]
    headers = {
        "Authorization": f"Bearer {told['token']}",
        "User-Agent": AGENT,
        "Content-Type": _TYPES[method],
    }
    local = threading.local()

    def is_done(call: tuple[str, str]) -> bool:
        if not hasattr(local, "connection"):
            local.connection = HTTPSConnection(server.hostname or "", server.port, context=context)
        local.connection.request(method, *call, headers)
        reply = local.connection.getresponse()
        reply.read()
        return bool(reply.status == _EXPECTED[method])

    with ThreadPoolExecutor(_CONNECTIONS) as pool:
        for group in told["groups"]:
            if wrong := list(pool.map(is_done, group)).count(False):
                sys.exit(f"{wrong} of {len(group)} requests had another reply")


if __name__ == "__main__":
    send(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
