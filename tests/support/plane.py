"""What the fixtures of a plane give to a test."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from applyprune.localplane import FULL, Plane, PlaneSpec

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.cluster.transport.transport import Transport


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


class OpenTransport(Protocol):
    """Opens a transport that is closed when the test ends."""

    def __call__(self, kubeconfig: Path | None = None, **settings: Any) -> Transport:
        """Lead through the proxy unless told another kubeconfig; retry for five seconds at most."""


NO_NODES = PlaneSpec(scheduler=False, kwok=False, nodes=0, audit=True)
