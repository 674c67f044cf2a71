"""Build the control plane's program from the Go module in this package, and cache it."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from applyprune.errors import AccessError
from applyprune.localplane.folders import cache_folder
from applyprune.localplane.program.atomic_folder import make_once
from applyprune.localplane.program.kill_group import guarded
from applyprune.localplane.program.step_progress import Silence, clock
from applyprune.localplane.program.toolchain import Toolchain, find_go

if TYPE_CHECKING:
    from applyprune.localplane.program.step_progress import Progress

MODULE = Path(__file__).parent / "gomodule"

# These override a user's GOFLAGS. -modcacherw: our own module cache must be easy to remove.
FLAGS = ("-mod=readonly", "-trimpath", "-buildvcs=false", "-modcacherw")


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
    progress = progress or Silence()
    folder = cache_folder() / "controlplane" / module_digest()
    try:
        make_once(
            folder, lambda making: _build(making, progress), "building the control plane", progress
        )
    finally:
        progress.clear()
    return Binaries(folder / "controlplane", folder / "kubectl")


def module_digest() -> str:
    """Return the cache key of a build: a digest of the sources and the platform."""
    digest = hashlib.sha256(f"{platform.system()}/{platform.machine()}".encode())
    for path in sorted(MODULE.rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            digest.update(f"\n{path.relative_to(MODULE).as_posix()} {len(content)}\n".encode())
            digest.update(content)
    return digest.hexdigest()[:20]


def kubernetes_version() -> str:
    """Return the version of Kubernetes that go.mod pins, for example ``v1.36.3``."""
    return _pinned(r"k8s\.io/kubernetes (v\S+)")


def _pinned(pattern: str) -> str:
    match = re.search(
        rf"^\s*(?:require )?{pattern}$", (MODULE / "go.mod").read_text(), re.MULTILINE
    )
    if match is None:
        raise AccessError(
            "the control plane cannot be built",
            location=str(MODULE / "go.mod"),
            reason=f"no line matches {pattern}",
            hint="Reinstall applyprune: this file was changed after the installation.",
        )
    return match[1]


def _build(folder: Path, progress: Progress) -> None:
    start = time.monotonic()
    go = find_go(_pinned(r"go (\S+)"), progress)
    env = go.environment(os.environ)
    progress.step(
        f"building the control plane (Kubernetes {kubernetes_version()}, Go {go.version}):"
        " this happens once and takes about 6 minutes on 2 cores"
    )
    if not (MODULE / "go.sum").is_file():
        raise _failure("go.sum is missing", "")
    total = _count_packages(go, env, progress)
    # -v prints each package before it is compiled: this measures the progress of the build.
    command = [str(go.go), "build", "-v", *FLAGS]
    command += ["-ldflags", _linker_flags(), "-o", f"{folder}/", "./..."]
    tail: list[str] = []
    compiled = 0
    with guarded(command, env=env, cwd=MODULE) as (process, output):
        for line in output:
            tail = [*tail[-19:], line.rstrip()]
            compiled += not line.startswith("go: ")
            progress.tick(
                f"building the control plane: {compiled} of at most {total} packages,"
                f" {clock(time.monotonic() - start)}"
            )
        code = process.wait()
    if code != 0:
        raise _failure(f"go build exited with code {code}", "\n".join(tail))
    if go.own_caches is not None:
        # The caches have gigabytes, and the finished program does not need them.
        shutil.rmtree(go.own_caches, ignore_errors=True)
    progress.step(f"built the control plane in {clock(time.monotonic() - start)}")


def _count_packages(go: Toolchain, env: dict[str, str], progress: Progress) -> int:
    """Return how many packages the program consists of; this also downloads the modules."""
    fetched = packages = 0
    tail: list[str] = []
    command = [str(go.go), "list", *FLAGS, "-deps", "./..."]
    with guarded(command, env=env, cwd=MODULE) as (process, output):
        for line in output:
            tail = [*tail[-19:], line.rstrip()]
            if line.startswith("go: downloading"):
                fetched += 1
                progress.tick(f"downloading the sources: {fetched} modules")
            else:
                packages += 1
        code = process.wait()
    if code != 0:
        raise _failure("its sources could not be downloaded", "\n".join(tail))
    return packages


def _linker_flags() -> str:
    """Return flags that omit debug data and set the version, which `go build` cannot know."""
    version = kubernetes_version()
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
    return " ".join(["-s", "-w", *settings])


def _failure(reason: str, output: str) -> AccessError:
    return AccessError(
        "the control plane could not be built",
        location=str(MODULE),
        reason=f"{reason}\n{output}".rstrip(),
        hint=(
            "The build needs the Go module proxy (GOPROXY), or the sources in Go's module cache."
            " Run it again: it reuses what was downloaded and compiled. Or set KUBECONFIG to"
            " your own cluster."
        ),
    )
