"""The versions of Kubernetes whose control plane can be built: one ``.mod`` and ``.sum`` for each.

All are built from the same Go program, the one of the default version. ``derive`` writes the files.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from applyprune.localplane import Binaries, ensure_built
from applyprune.localplane.build import built, kubernetes_version, source_of
from applyprune.localplane.wheel import CONTROL_PLANE, KUBECTL

if TYPE_CHECKING:
    from applyprune.localplane import Progress

MODULES = Path(__file__).parent / "modules"


def releases() -> tuple[str, ...]:
    """Return the versions, the oldest first, with the default one: ``v1.35.4``."""
    others = (path.stem for path in MODULES.glob("*.mod"))
    return tuple(sorted({kubernetes_version(), *others}, key=_numbers))


def release_named(named: str) -> str:
    """Return the version that a user has named, with or without ``v``; the default if empty.

    Raises ValueError with the known versions if it is none of them.
    """
    if not named:
        return kubernetes_version()
    version = f"v{named.removeprefix('v')}"
    if version not in releases():
        raise ValueError(
            f"the control plane of Kubernetes {version} cannot be built: only those of"
            f" {', '.join(releases())}; python -m tests.versions.derive {version} adds it"
        )
    return version


def ensure_release(version: str, progress: Progress) -> Binaries:
    """Return the control plane of a version.

    The default one is taken from where applyprune takes it from. A package holds that one only:
    every other one is in the cache, or is built.
    """
    if version == kubernetes_version():
        return ensure_built(progress)
    folder = built(source_of(go_mod_of(version)), progress)
    return Binaries(folder / CONTROL_PLANE, folder / KUBECTL)


def go_mod_of(version: str) -> Path:
    """Return the go.mod of a version that is not the default one."""
    return MODULES / f"{version}.mod"


def is_older(version: str, first: str) -> bool:
    """Return whether a version is older than the first one with something: ``v1.36``."""
    return _numbers(version) < _numbers(first)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.removeprefix("v").split("."))
