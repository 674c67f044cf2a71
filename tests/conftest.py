"""Fixtures that stand on a real control plane: one for the whole run, or a fresh one for a test."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol

import pytest
import urllib3

from applyprune.localplane import FULL, Binaries, Plane, PlaneSpec, ensure_built, progress_on, start

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path


# A user's Python keeps its bytecode; without it each command that a test starts would compile the
# whole program first.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


class Kubectl(Protocol):
    """Runs the embedded kubectl as admin; returns its standard output."""

    def __call__(
        self, *arguments: str | Path, stdin: str | None = None, plane: Plane | None = None
    ) -> str:
        """Raise AssertionError with standard error unless the exit code is 0."""


class FreshPlane(Protocol):
    """Starts a plane of the test's own; it is stopped when the test ends."""

    def __call__(self, spec: PlaneSpec = FULL) -> Plane:
        """Take 3 to 5 seconds; fewer components start sooner."""


class Api:
    """Plain requests to a plane as admin: an oracle that shares no code with what is tested."""

    def __init__(self, plane: Plane, user_agent: str = "applyprune-tests") -> None:
        """Take the plane; ``user_agent`` tells these requests apart in the audit log."""
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
        """Return the HTTP status and the reply, parsed when it is JSON."""
        reply = self._pool.request(
            method,
            f"{self._server}{path}",
            body=None if body is None else json.dumps(body).encode(),
            headers={**self._pool.headers, "Content-Type": content_type, **(headers or {})},
        )
        is_json = "json" in reply.headers.get("Content-Type", "")
        return reply.status, reply.json() if is_json else reply.data.decode()

    def get(self, path: str) -> Any:
        """Return the object at the path; it must be there."""
        status, reply = self("GET", path)
        assert status == 200, reply
        return reply

    def exists(self, path: str) -> bool:
        """Say whether there is an object at the path; anything but 200 and 404 is a failure."""
        status, reply = self("GET", path)
        assert status in {200, 404}, reply
        return status == 200

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()


class AuditTrail:
    """The audit events of a plane since this was made, or since the last ``restart``."""

    def __init__(self, plane: Plane, api: Api) -> None:
        """Start at the end of the plane's audit log, which its spec must have asked for."""
        assert plane.audit_log is not None, "the plane was started without an audit log"
        self._log = plane.audit_log
        self._api = api
        self._start = 0
        self.restart()

    def restart(self) -> None:
        """Forget every event of requests that have been answered by now."""
        self._read_until_now()

    def events(self) -> list[dict[str, Any]]:
        """Return the events of all requests answered by now, oldest first; forgets none."""
        start = self._start
        events = self._read_until_now()
        self._start = start
        return events

    def _read_until_now(self) -> list[dict[str, Any]]:
        # A reply may overtake its own line in the log by a hair: one more request, whose line is
        # waited for, comes after all that were answered before it.
        marker = f"/version?marker={secrets.token_hex(8)}"
        self._api("GET", marker)
        deadline = time.monotonic() + 10
        while True:
            with self._log.open("rb") as file:
                file.seek(self._start)
                content = file.read()
            complete = content[: content.rfind(b"\n") + 1]
            if marker.encode() in complete:
                self._start += len(complete)
                events = [json.loads(line) for line in complete.splitlines()]
                return [event for event in events if "/version?marker=" not in event["requestURI"]]
            assert time.monotonic() < deadline, f"{self._log} does not show {marker}"
            time.sleep(0.01)


@pytest.fixture(scope="session")
def binaries(request: pytest.FixtureRequest) -> Binaries:
    """The built control plane; building it, once, takes minutes and shows that it goes on."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    assert capture is not None
    with capture.global_and_fixture_disabled():
        return ensure_built(progress_on(sys.stderr))


@pytest.fixture(scope="session")
def plane(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """The run's plane, with everything, one node and an audit log; keep it clean for others."""
    with start(binaries, FULL, tmp_path_factory.mktemp("planes") / "shared") as running:
        yield running


@pytest.fixture
def fresh_plane(binaries: Binaries, tmp_path: Path) -> Iterator[FreshPlane]:
    """A factory of planes that a test may poison: CRDs, webhooks, APIServices."""
    with ExitStack() as planes:

        def start_one(spec: PlaneSpec = FULL) -> Plane:
            name = f"fresh-{secrets.token_hex(3)}"
            return planes.enter_context(start(binaries, spec, tmp_path / name))

        yield start_one


@pytest.fixture(scope="session")
def api(plane: Plane) -> Iterator[Api]:
    """Plain requests to the run's plane."""
    with_plane = Api(plane)
    yield with_plane
    with_plane.close()


@pytest.fixture
def audit(plane: Plane, api: Api) -> AuditTrail:
    """The audit events of the run's plane since the test began."""
    return AuditTrail(plane, api)


@pytest.fixture
def namespace(api: Api) -> Iterator[str]:
    """A new namespace on the run's plane; its deletion is not waited for."""
    name = f"test-{secrets.token_hex(4)}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    status, reply = api("POST", "/api/v1/namespaces", body)
    assert status == 201, reply
    yield name
    api("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
def kubectl(request: pytest.FixtureRequest) -> Kubectl:
    """The embedded kubectl, on the run's plane unless told ``plane=``."""

    def run(*arguments: str | Path, stdin: str | None = None, plane: Plane | None = None) -> str:
        # The run's plane is started only for a test that needs it.
        where: Plane = plane or request.getfixturevalue("plane")
        command: Sequence[str | Path] = (
            where.kubectl,
            "--kubeconfig",
            where.kubeconfig,
            *arguments,
        )
        reply = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
        assert reply.returncode == 0, f"kubectl {' '.join(map(str, arguments))}: {reply.stderr}"
        return reply.stdout

    return run
