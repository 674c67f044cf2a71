"""Real programs for tests: registries, sops, cosign, and tools that applyprune is beside.

Each is built by Go from its published module, once, and cached.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from applyprune.localplane.build import ALL_PACKAGES, GoModule, built
from applyprune.localplane.cache import Silence

if TYPE_CHECKING:
    from collections.abc import Mapping

    from applyprune.localplane.cache import Progress

COMPONENTS = GoModule(
    folder=Path(__file__).parent / "gomodule",
    cache="components",
    name="the components of tests",
    duration="about 3 minutes on 2 cores",
    packages=(*ALL_PACKAGES, "tool"),
)

COSIGN = GoModule(
    folder=Path(__file__).parent / "cosign",
    cache="cosign",
    name="cosign",
    duration="about 5 minutes on 2 cores",
    packages=("tool",),
)


@dataclass(frozen=True, slots=True)
class Peer:
    """A tool that applies sets of objects as applyprune does: its build, and what is in it."""

    source: GoModule
    module: str
    program: str
    """What Go calls the program."""

    @property
    def version(self) -> str:
        return self.source.pinned(rf"{self.module} (\S+)(?: // indirect)?")


def _peer(name: str, module: str, program: str, duration: str) -> Peer:
    # A Go module for each, because they need different versions of the same libraries.
    source = GoModule(
        folder=Path(__file__).parent / name,
        cache=name,
        name=name,
        duration=duration,
        packages=("tool",),
    )
    return Peer(source, module, program)


PEERS: Mapping[str, Peer] = {
    "helm3": _peer("helm3", "helm.sh/helm/v3", "helm", "about 1 minute on 2 cores"),
    "helm4": _peer("helm4", "helm.sh/helm/v4", "helm", "about 2 minutes on 2 cores"),
    "helmfile": _peer(
        "helmfile", "github.com/helmfile/helmfile", "helmfile", "about 5 minutes on 2 cores"
    ),
    "kapp": _peer("kapp", "carvel.dev/kapp", "kapp", "about 2 minutes on 2 cores"),
    "kapply": _peer("kapply", "sigs.k8s.io/cli-utils", "cmd", "about 2 minutes on 2 cores"),
}
"""Built only where they are used: by the benchmarks, and by the sweep of other tools."""


@dataclass(frozen=True, slots=True)
class Components:
    """The programs of a finished build."""

    registry: Path
    """The registry of distribution, without its storage in clouds."""
    referrers: Path
    """The registry of go-containerregistry, with the referrers API."""
    sops: Path
    age_keygen: Path


def ensure_components(progress: Progress | None = None) -> Components:
    """Return the built programs; build them if they are not cached.

    Raises AccessError if there is no Go, or if the build fails. Several processes may call it at
    the same time: the first builds, the others wait.
    """
    folder = built(COMPONENTS, progress or Silence())
    names = ("registry", "referrers", "sops", "age-keygen")
    return Components(*(folder / name for name in names))


def ensure_cosign(progress: Progress | None = None) -> Path:
    """Return cosign; build it if it is not cached: a large program, which only sweeps need."""
    return built(COSIGN, progress or Silence()) / "cosign"


def ensure_peer(name: str, progress: Progress | None = None) -> Path:
    """Return the program of a peer; build it if it is not cached."""
    peer = PEERS[name]
    return built(peer.source, progress or Silence()) / peer.program
