"""Plain requests to a plane, and its audit log: oracles that share no code with the package."""

from __future__ import annotations

import json
import secrets
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import urllib3

from tests.support.waiting import HANG

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from applyprune.localplane import Plane

DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
"""What to accept of ``/apis``, which is then the list of kinds."""


class Api:
    """Plain requests to a plane as admin: an oracle that shares no code with the package."""

    def __init__(self, plane: Plane, user_agent: str = "applyprune-tests") -> None:
        """Connect to the plane; ``user_agent`` marks these requests in the audit log."""
        self._server = plane.server
        headers = {"Authorization": f"Bearer {plane.token}", "User-Agent": user_agent}
        self._pool = urllib3.PoolManager(
            ca_certs=str(plane.ca_file), headers=headers, retries=False
        )

    def __call__(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Any]:
        """Return the HTTP status and the reply, parsed if it is JSON."""
        reply = self._pool.request(
            method,
            f"{self._server}{path}",
            body=None if body is None else json.dumps(body).encode(),
            headers={**self._pool.headers, "Content-Type": content_type, **(headers or {})},
        )
        is_json = "json" in reply.headers.get("Content-Type", "")
        return reply.status, reply.json() if is_json else reply.data.decode()

    def get(self, path: str) -> Any:
        """Return the object at the path; it must exist."""
        status, reply = self("GET", path)
        assert status == 200, reply
        return reply

    def find(self, path: str) -> Any:
        """Return the object at the path, or None; fail for any status but 200 and 404."""
        status, reply = self("GET", path)
        assert status in {200, 404}, reply
        return reply if status == 200 else None

    def exists(self, path: str) -> bool:
        """Return whether an object exists at the path; fail for any status but 200 and 404."""
        return self.find(path) is not None

    def create(self, path: str, body: object, *, by: str = "") -> Any:
        """Create an object in a collection; return it as stored."""
        status, reply = self("POST", _by(path, by), body)
        assert status == 201, reply
        return reply

    def patch(self, path: str, change: object, *, by: str = "") -> Any:
        """Change an object as a field manager: a list is a JSON patch, a mapping is merged."""
        how = "json" if isinstance(change, list) else "merge"
        kind = f"application/{how}-patch+json"
        status, reply = self("PATCH", _by(path, by), change, content_type=kind)
        assert status == 200, reply
        return reply

    def apply(self, path: str, body: object, *, by: str, force: bool = False) -> Any:
        """Apply a manifest as a field manager, who may take fields of others by force."""
        where = _by(path, by) + ("&force=true" if force else "")
        kind = "application/apply-patch+yaml"
        status, reply = self("PATCH", where, body, content_type=kind)
        assert status in {200, 201}, reply
        return reply

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()


def _by(path: str, manager: str) -> str:
    """Return a path with the name of the field manager; the server finds one if there is none."""
    if not manager:
        return path
    return f"{path}{'&' if '?' in path else '?'}fieldManager={quote(manager, safe='')}"


class UserApi(Api):
    """Plain requests to a plane as a user, by impersonation."""

    def __init__(self, plane: Plane, user: str) -> None:
        """Connect to the plane."""
        super().__init__(plane, f"user-{user}")
        self._pool.headers = {**self._pool.headers, "Impersonate-User": user}


@contextmanager
def temporary_namespace(api: Api) -> Iterator[str]:
    """Create a namespace and yield its name; its deletion is not waited for."""
    name = f"test-{secrets.token_hex(4)}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    status, reply = api("POST", "/api/v1/namespaces", body)
    assert status == 201, reply
    yield name
    api("DELETE", f"/api/v1/namespaces/{name}")


class AuditTrail:
    """The audit events of a plane since the creation of this value, or the last ``restart``."""

    def __init__(self, plane: Plane, api: Api) -> None:
        """Start at the end of the plane's audit log, which the plane's spec must enable."""
        assert plane.audit_log is not None, "the plane was started without an audit log"
        self._log = plane.audit_log
        self._api = api
        # What is there already may be long, and nobody asks for it.
        self._start = self._log.stat().st_size
        self.restart()

    def restart(self) -> None:
        """Skip the events of all requests that have been answered so far."""
        self._start += len(self._read_until_now())

    def events(self) -> list[dict[str, Any]]:
        """Return the events of all requests answered so far, oldest first; keep them."""
        events = [json.loads(line) for line in self._read_until_now().splitlines()]
        return [event for event in events if "/version?marker=" not in event["requestURI"]]

    def ours(self) -> list[dict[str, Any]]:
        """Return those of applyprune's requests."""
        return [one for one in self.events() if one["userAgent"].startswith("applyprune/")]

    def _read_until_now(self) -> bytes:
        """Return all complete lines since the start."""
        # A reply may arrive just before its line is in the log. So send one more request and wait
        # for its line: it comes after those of all requests answered before.
        marker = f"/version?marker={secrets.token_hex(8)}"
        self._api("GET", marker)
        deadline = time.monotonic() + HANG
        while True:
            with self._log.open("rb") as file:
                file.seek(self._start)
                content = file.read()
            complete = content[: content.rfind(b"\n") + 1]
            if marker.encode() in complete:
                return complete
            assert time.monotonic() < deadline, f"{self._log} does not show {marker}"
            time.sleep(0.01)


WRITES = {"create", "update", "patch", "delete", "deletecollection"}


REVIEWS = "/apis/authorization.k8s.io/v1/selfsubject"
"""Where the reviews of one's own rights are: a POST there stores nothing."""


def writes(audit: AuditTrail, *, dry_runs: bool = False) -> list[str]:
    """Return applyprune's requests that would have changed something, as the server saw them."""
    return [
        f"{event['verb']} {event['requestURI']}"
        for event in audit.events()
        if event["userAgent"].startswith("applyprune/")
        and event["verb"] in WRITES
        and not event["requestURI"].startswith(REVIEWS)
        and (dry_runs or "dryRun=All" not in event["requestURI"])
        and (dry_runs or not _options(event).get("dryRun"))
    ]


def _options(event: dict[str, Any]) -> dict[str, Any]:
    """Return the body of a request; a list of changes has no options in it."""
    body = event.get("requestObject")
    return body if isinstance(body, dict) else {}


def status_writes(audit: AuditTrail, namespace: str) -> int:
    """Return how often applyprune has written a status in a namespace."""
    return sum(
        event["userAgent"].startswith("applyprune/")
        and event["verb"] in {"update", "patch"}
        and event["objectRef"].get("namespace") == namespace
        and event["objectRef"].get("subresource") == "status"
        for event in audit.events()
    )


def events_written(audit: AuditTrail, namespace: str) -> int:
    """Return how many Events applyprune has written in a namespace: the last write of a pass."""
    return sum(
        event["userAgent"].startswith("applyprune/")
        and event["verb"] == "create"
        and event.get("objectRef", {}).get("resource") == "events"
        and event["objectRef"].get("namespace") == namespace
        for event in audit.events()
    )
