"""A plane with the Bundle CRD, namespaces with an account each, and Bundles of four objects."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import urllib3

from applyprune.localplane import API_SERVER_ONLY, start
from applyprune.sources import read
from applyprune.values import replace
from tests.support.api import Api
from tests.support.controller import BUNDLE_CRD, Tenant
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from applyprune.localplane import Binaries, Plane

BUNDLES = "/apis/applyprune.dev/v1alpha1/bundles"
OBJECTS = 4
_AT_ONCE = 8

Key = tuple[str, str]


def manifests(name: str, value: str = "info") -> str:
    """Return four objects of four kinds."""
    labels = {"app.kubernetes.io/name": name}
    container = {
        "name": "app",
        "image": "registry.example.com/team/app:1.4.2",
        "ports": [{"name": "http", "containerPort": 8080}],
        "envFrom": [{"configMapRef": {"name": name}}],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
    }
    template = {
        "metadata": {"labels": labels},
        "spec": {"serviceAccountName": name, "containers": [container]},
    }
    bodies: list[dict[str, Any]] = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "labels": labels},
            "data": {"LOG_LEVEL": value, "UPSTREAM": f"http://{name}:8080"},
        },
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name, "labels": labels},
            "spec": {"selector": labels, "ports": [{"name": "http", "port": 80}]},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "labels": labels},
            "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
        },
    ]
    return "\n---\n".join(map(json.dumps, bodies))


@dataclass(slots=True)
class Site:
    """A plane and the Bundles on it."""

    plane: Plane
    api: Api
    keys: list[Key] = field(default_factory=list)

    def make_namespaces(self, count: int) -> list[str]:
        """Create namespaces with an account that may do everything in its own."""
        names = [f"team-{number}" for number in range(count)]
        for name in names:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            assert self.api("POST", "/api/v1/namespaces", body)[0] == 201
            Tenant(self.api, name).account("deployer")
        return names

    def make_bundles(
        self,
        count: int,
        namespaces: list[str],
        interval: str = "10m",
        source: Callable[[int], dict[str, Any]] | None = None,
    ) -> None:
        """Create Bundles, spread over the namespaces; ``source`` makes the source of each."""
        first = len(self.keys)
        new = [
            (namespaces[number % len(namespaces)], f"app-{number}")
            for number in range(first, first + count)
        ]
        self.keys += new

        def make(key: Key) -> None:
            spec = {
                "serviceAccountName": "deployer",
                "interval": interval,
                "source": {"inline": manifests(key[1])}
                if source is None
                else source(int(key[1].rpartition("-")[2])),
            }
            body = {
                "apiVersion": "applyprune.dev/v1alpha1",
                "kind": "Bundle",
                "metadata": {"name": key[1]},
                "spec": spec,
            }
            path = f"/apis/applyprune.dev/v1alpha1/namespaces/{key[0]}/bundles"
            status, reply = self.api("POST", path, body)
            assert status == 201, reply

        self.each(make, new)

    def each(self, call: Callable[[Key], None], keys: list[Key] | None = None) -> None:
        """Call it for each Bundle, some at a time."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(call, self.keys if keys is None else keys))

    def annotate(self, key: Key, value: str) -> None:
        """Ask for a reconcile of a Bundle."""
        patch = {"metadata": {"annotations": {"applyprune.dev/reconcile-now": value}}}
        path = f"/apis/applyprune.dev/v1alpha1/namespaces/{key[0]}/bundles/{key[1]}"
        kind = "application/merge-patch+json"
        assert self.api("PATCH", path, patch, content_type=kind)[0] == 200


@contextmanager
def audited_site(binaries: Binaries, folder: Path) -> Iterator[Site]:
    """Start a plane with an audit log, and install the CRD on it."""
    with start(binaries, replace(API_SERVER_ONLY, audit=True), folder) as plane:
        api = Api(plane)
        (crd,) = read([str(BUNDLE_CRD)])
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        status, reply = api("POST", path, crd.body)
        assert status == 201, reply
        eventually(lambda: api("GET", BUNDLES)[0] == 200, lambda: "the CRD")
        yield Site(plane, api)
        api.close()


@contextmanager
def watching(plane: Plane, path: str, found: Callable[[dict[str, Any]], None]) -> Iterator[None]:
    """Call ``found`` with every object at a path, now and whenever it changes."""
    over = Event()
    pool = urllib3.PoolManager(
        ca_certs=str(plane.ca_file),
        headers={"Authorization": f"Bearer {plane.token}", "User-Agent": "applyprune-tests"},
        retries=False,
    )

    def session() -> None:
        join = "&" if "?" in path else "?"
        reply = pool.request(
            "GET", f"{plane.server}{path}{join}watch=true", preload_content=False, timeout=900
        )
        rest = b""
        for chunk in reply.stream(65536):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                event = json.loads(line)
                if event["type"] in {"ADDED", "MODIFIED"}:
                    found(event["object"])
            if over.is_set():
                return

    def run() -> None:
        while not over.is_set():
            with suppress(urllib3.exceptions.HTTPError, OSError, ValueError):
                session()

    Thread(target=run, daemon=True).start()
    try:
        yield
    finally:
        over.set()


class Running:
    """A controller process that is measured; unlike that of the tests, it logs only failures."""

    def __init__(self, plane: Plane, log: Path, *arguments: str) -> None:
        """Start it."""
        command = [
            *(sys.executable, "-m", "applyprune", "controller", "--listen", "127.0.0.1:0"),
            *("--log-level", "warning", *arguments),
        ]
        self.log = log.open("w")
        self.process = subprocess.Popen(
            command, env=_environment(plane), stdout=subprocess.DEVNULL, stderr=self.log
        )

    @property
    def pid(self) -> int:
        """Return the process ID of its main process."""
        return self.process.pid

    def stop(self) -> None:
        """Ask it to end, and wait."""
        self.process.terminate()
        self.process.wait(60)
        self.log.close()


def _environment(plane: Plane) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "KUBECONFIG": str(plane.kubeconfig)}


def seconds_until(done: Callable[[], bool], *, within: float, began: float) -> float:
    """Wait, and return the seconds since ``began``; end the benchmark if it takes too long."""
    while not done():
        if time.monotonic() - began > within:
            sys.exit(f"not done within {within:.0f} s")
        time.sleep(0.05)
    return time.monotonic() - began
