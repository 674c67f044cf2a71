"""The control plane's programs: from a mirror, the cache, an installed wheel, or built here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from applyprune.localplane.program.atomic_folder import is_whole
from applyprune.localplane.program.go_build import built, built_folder
from applyprune.localplane.program.go_module import GoModule
from applyprune.localplane.program.installed_wheel import installed
from applyprune.localplane.program.mirror import fetched, fetched_folder
from applyprune.localplane.program.plane_wheel import CONTROL_PLANE, KUBECTL, PROGRAMS
from applyprune.localplane.program.step_progress import Silence
from applyprune.localplane.supported import require_supported_system
from applyprune.values import dataclass, replace

if TYPE_CHECKING:
    from applyprune.localplane.program.mirror import PlaneOrigin
    from applyprune.localplane.program.step_progress import Progress

MODULE = Path(__file__).parent / "gomodule"
_KUBERNETES = r"k8s\.io/kubernetes (v\S+)"

_CONTROL_PLANE = GoModule(
    folder=MODULE,
    cache="controlplane",
    name="the control plane",
    duration="4:16 on 2 cores of an AMD EPYC, 498 CPU seconds",
    hint="install the built one: pip install 'applyprune[plane]'; or set KUBECONFIG to your own"
    " cluster",
    programs=PROGRAMS,
)


@dataclass(frozen=True, slots=True)
class Binaries:
    """The programs of a control plane."""

    program: Path
    """The control plane: ``program COMPONENT …`` runs a component."""
    kubectl: Path
    """kubectl, of the same version."""


def ensure_built(
    progress: Progress | None = None, *, origin: PlaneOrigin | None = None
) -> Binaries:
    """Return the control plane from ``origin``, the cache, the installed wheel, or a build.

    Without ``origin``, the first of the others that has it. Raises AccessError if the origin does
    not have it, if there is no Go, or if the build fails. Several processes may call it at the
    same time: the first fetches or builds, the others wait.
    """
    require_supported_system()
    progress = progress or Silence()
    try:
        folder = _folder(progress, origin)
    finally:
        progress.clear()
    return Binaries(folder / CONTROL_PLANE, folder / KUBECTL)


def source_of(go_mod: Path | None = None) -> GoModule:
    """Return what the control plane is built from; ``go_mod`` pins another Kubernetes."""
    module = replace(_CONTROL_PLANE, other_go_mod=go_mod)
    version = module.pinned(_KUBERNETES)
    return replace(
        module,
        # A build of the one is never taken for a build of the other, nor its time.
        cache=f"{module.cache}-{version}" if go_mod else module.cache,
        version=f"Kubernetes {version}",
        linker_flags=_linker_flags(version),
    )


def module_digest() -> str:
    """Return the cache key of a build: a digest of the sources and the platform."""
    return _CONTROL_PLANE.digest()


def kubernetes_version() -> str:
    """Return the version of Kubernetes that go.mod pins, for example ``v1.36.3``."""
    return _CONTROL_PLANE.pinned(_KUBERNETES)


def _folder(progress: Progress, origin: PlaneOrigin | None) -> Path:
    module = module_digest()
    if origin is not None:
        return fetched(origin, module, progress)
    cached = _cached(module)
    if cached is not None:
        progress.step(f"using the control plane in the cache: {cached}")
        return cached
    package = installed(module, progress)
    if package is not None:
        return package
    return built(source_of(), progress)


def _cached(module: str) -> Path | None:
    """Return the folder of the cache with these programs, built here or fetched; None if absent."""
    fetched_ones = fetched_folder(module)
    names = sorted(fetched_ones.iterdir()) if fetched_ones.is_dir() else []
    # A folder that is being made has a dot in its name.
    folders = (built_folder(_CONTROL_PLANE), *(path for path in names if "." not in path.name))
    return next((folder for folder in folders if is_whole(folder, PROGRAMS)), None)


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
