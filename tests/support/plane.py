"""The control plane of the tests, and the types that its fixtures give to a test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from applyprune.localplane import FULL, Plane, PlaneSpec
from tests.support.api import Api

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from applyprune.cluster.transport import Transport


def server_version(plane: Plane) -> str:
    """Return the version of the plane's API server, as it says: ``v1.36.3``."""
    api = Api(plane)
    try:
        return str(api.get("/version")["gitVersion"])
    finally:
        api.close()


class Kubectl(Protocol):
    """Runs the embedded kubectl as admin; returns its standard output."""

    def __call__(
        self,
        *arguments: str | Path,
        stdin: str | None = None,
        plane: Plane | None = None,
        env: Mapping[str, str] | None = None,
    ) -> str:
        """Raise AssertionError with standard error unless the exit code is 0."""


class FreshPlane(Protocol):
    """Starts a plane for one test, and stops it when the test ends."""

    def __call__(self, spec: PlaneSpec = FULL) -> Plane:
        """Start a plane in 3 to 5 seconds; fewer components start faster."""


class OpenTransport(Protocol):
    """Opens a transport and closes it when the test ends."""

    def __call__(self, kubeconfig: Path | None = None, **settings: Any) -> Transport:
        """Connect through the proxy, or by another kubeconfig; retry for at most five seconds."""


NO_NODES = PlaneSpec(scheduler=False, kwok=False, nodes=0, audit=True)
