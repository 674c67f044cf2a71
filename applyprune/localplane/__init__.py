"""The embedded control plane: a real Kubernetes API server on the local machine."""

from applyprune.localplane.build import Binaries, ensure_built
from applyprune.localplane.cache import Progress, progress_on
from applyprune.localplane.plane import API_SERVER_ONLY, FULL, Plane, PlaneSpec
from applyprune.localplane.planes import StartedPlane, start

__all__ = [
    "API_SERVER_ONLY",
    "FULL",
    "Binaries",
    "Plane",
    "PlaneSpec",
    "Progress",
    "StartedPlane",
    "ensure_built",
    "progress_on",
    "start",
]
