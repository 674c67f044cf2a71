"""Real registries, sops and age-keygen for tests: a Go module, built once and cached."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from applyprune.localplane.build import ALL_PACKAGES, GoModule, built
from applyprune.localplane.cache import Silence

if TYPE_CHECKING:
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
