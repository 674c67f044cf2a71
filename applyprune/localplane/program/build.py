"""Build the control plane's program from the Go module in this package, and cache it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from applyprune.localplane.program.go_build import built
from applyprune.localplane.program.go_module import GoModule
from applyprune.localplane.program.step_progress import Silence
from applyprune.localplane.supported import require_supported_system

if TYPE_CHECKING:
    from applyprune.localplane.program.step_progress import Progress

MODULE = Path(__file__).parent / "gomodule"

_CONTROL_PLANE = GoModule(
    folder=MODULE,
    cache="controlplane",
    name="the control plane",
    duration="about 6 minutes on 2 cores",
    hint="set KUBECONFIG to your own cluster",
)


@dataclass(frozen=True, slots=True)
class Binaries:
    """The programs of a finished build."""

    program: Path
    """The control plane: ``program COMPONENT …`` runs a component."""
    kubectl: Path
    """kubectl, of the same version."""


def ensure_built(progress: Progress | None = None) -> Binaries:
    """Return the built control plane; build it if it is not cached (about 6 minutes).

    Raises AccessError if there is no Go, or if the build fails. Several processes may call it at
    the same time: the first builds, the others wait.
    """
    require_supported_system()
    version = kubernetes_version()
    module = replace(
        _CONTROL_PLANE, version=f"Kubernetes {version}", linker_flags=_linker_flags(version)
    )
    folder = built(module, progress or Silence())
    return Binaries(folder / "controlplane", folder / "kubectl")


def module_digest() -> str:
    """Return the cache key of a build: a digest of the sources and the platform."""
    return _CONTROL_PLANE.digest()


def kubernetes_version() -> str:
    """Return the version of Kubernetes that go.mod pins, for example ``v1.36.3``."""
    return _CONTROL_PLANE.pinned(r"k8s\.io/kubernetes (v\S+)")


def _linker_flags(version: str) -> tuple[str, ...]:
    """Return flags that omit debug data and set the version, which `go build` cannot know."""
    major, minor, _ = version.removeprefix("v").split(".", 2)
    facts = {
        "gitVersion": version,
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "clean",
        "gitCommit": "",
    }
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    settings = [
        f"-X {package}.{key}={value}" for package in packages for key, value in facts.items()
    ]
    return ("-s", "-w", *settings)
