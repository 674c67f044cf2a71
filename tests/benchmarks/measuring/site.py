"""A control plane to measure on, the environment of every call, and what exists there."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from applyprune.localplane import API_SERVER_ONLY, start
from applyprune.values import replace
from tests.benchmarks.bare_client import PLURALS
from tests.support.api import Api, AuditTrail

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from applyprune.localplane import Binaries, Plane

_METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


@dataclass(frozen=True, slots=True)
class Site:
    """A plane with an audit log, and a folder for manifests and the caches of all programs."""

    plane: Plane
    folder: Path
    api: Api
    audit: AuditTrail
    environment: Mapping[str, str] = field(repr=False)

    def count(self, prefix: str) -> int:
        """Return how many objects exist in the namespaces that begin so, Namespaces included."""
        return sum(
            (item["metadata"].get("namespace") or item["metadata"]["name"]).startswith(prefix)
            for root, plural in PLURALS.values()
            for item in self._items(f"{root}/{plural}")
        )

    def changed(self, prefix: str) -> int:
        """Return how many ConfigMaps in these namespaces have the value of ``change``."""
        reply = self.api.get("/api/v1/configmaps")
        return sum(
            item["metadata"]["namespace"].startswith(prefix)
            and (item.get("data") or {}).get("LOG_LEVEL") == "debug"
            for item in reply["items"]
        )

    def _items(self, path: str) -> list[dict[str, dict[str, str]]]:
        status, reply = self.api("GET", path, headers={"Accept": _METADATA})
        assert status == 200, reply
        # It may be parsed already, or not: the type of the reply has parameters.
        found: list[dict[str, dict[str, str]]] = (
            json.loads(reply) if isinstance(reply, str) else reply
        )["items"]
        return found


@contextmanager
def site_in(folder: Path, binaries: Binaries, caches: Path) -> Iterator[Site]:
    """Start a plane of the API server and etcd only; it ends with the block."""
    spec = replace(API_SERVER_ONLY, audit=True)
    with start(binaries, spec, folder / "plane") as plane:
        api = Api(plane)
        try:
            yield Site(plane, folder, api, AuditTrail(plane, api), environment(plane, caches))
        finally:
            api.close()


def environment(plane: Plane, caches: Path, kubeconfig: Path | None = None) -> dict[str, str]:
    """Return the environment of every call: without Python's settings, with caches."""
    kept = {key: os.environ[key] for key in os.environ if not key.startswith("PYTHON")}
    # `python -m` finds the package where the benchmark itself has found it.
    path = {"PYTHONPATH": os.environ["PYTHONPATH"]} if "PYTHONPATH" in os.environ else {}
    return {
        **kept,
        **path,
        "TERM": "xterm-256color",
        "KUBECONFIG": str(kubeconfig or plane.kubeconfig),
        "KUBECACHEDIR": str(caches),
        "XDG_CACHE_HOME": str(caches),
        # An installed package has its bytecode; here the warming up writes it.
        "PYTHONPYCACHEPREFIX": str(caches),
    }
