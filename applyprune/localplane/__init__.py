"""The embedded control plane: a real Kubernetes API server on the local machine."""

from applyprune.localplane.plane import API_SERVER_ONLY, FULL, Plane, PlaneSpec
from applyprune.localplane.program.build import Binaries, ensure_built
from applyprune.localplane.program.mirror import PlaneOrigin
from applyprune.localplane.program.step_progress import Progress, progress_on
from applyprune.localplane.starter import StartedPlane, start

__all__ = [
    "API_SERVER_ONLY",
    "FULL",
    "Binaries",
    "Plane",
    "PlaneOrigin",
    "PlaneSpec",
    "Progress",
    "StartedPlane",
    "ensure_built",
    "progress_on",
    "start",
]
