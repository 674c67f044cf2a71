"""The requests that check whether a plane is ready."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import urllib3

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class ServerProbe:
    """Send requests to one API server as admin; no response counts as not ready."""

    def __init__(self, server: str, ca_file: Path, token: str) -> None:
        """Take the server's URL, its CA and the admin's token."""
        self._server = server
        self._pool = urllib3.PoolManager(
            ca_certs=str(ca_file),
            cert_reqs="CERT_REQUIRED",
            headers={
                "Authorization": f"Bearer {token}",
                "Content-Type": "application/json",
                # Tests read audit logs and filter out these requests.
                "User-Agent": "applyprune-localplane",
            },
            retries=False,
            # Short: no signal is handled during a request.
            timeout=urllib3.Timeout(connect=1.0, read=3.0),
        )

    def is_ready(self) -> bool:
        """Return whether the API server reports that it is ready."""
        return self._get("/readyz") is not None

    def has_default_namespace(self) -> bool:
        """Return whether the API server has created the objects that every cluster has."""
        return self._get("/api/v1/namespaces/default") is not None

    def has_default_account(self) -> bool:
        """Return whether the controller manager works: it creates this account first."""
        return self._get("/api/v1/namespaces/default/serviceaccounts/default") is not None

    def ready_nodes(self, *, untainted: bool) -> int:
        """Return how many nodes are Ready; with ``untainted`` only those that accept pods.

        The controller manager removes the taint of a new node; without it, the taint stays.
        """
        nodes = (self._get("/api/v1/nodes") or {}).get("items", [])
        return sum(
            any(
                condition["type"] == "Ready" and condition["status"] == "True"
                for condition in node["status"].get("conditions", ())
            )
            and not (untainted and node["spec"].get("taints"))
            for node in nodes
        )

    def create(self, path: str, body: Mapping[str, object]) -> bool:
        """POST an object; return whether it exists now. Safe to repeat."""
        return self._request("POST", path, json.dumps(body).encode(), fine=409) is not None

    def _get(self, path: str) -> dict[str, Any] | None:
        return self._request("GET", path, None)

    def _request(
        self, method: str, path: str, body: bytes | None, fine: int = 200
    ) -> dict[str, Any] | None:
        try:
            reply = self._pool.request(method, f"{self._server}{path}", body=body)
            if not (200 <= reply.status < 300 or reply.status == fine):
                return None
            content = reply.json() if "json" in reply.headers.get("Content-Type", "") else {}
        except (urllib3.exceptions.HTTPError, ValueError):
            return None
        return content if isinstance(content, dict) else {}
