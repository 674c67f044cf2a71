"""promtool of the release that ``go.mod`` pins, built once by the plane's Go and cached.

Its service discoveries for clouds are left out: they are most of the build, and no test needs one.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from applyprune.localplane.folders import cache_folder
from applyprune.localplane.program.atomic_folder import make_once
from applyprune.localplane.program.step_progress import Silence
from applyprune.localplane.program.toolchain import find_go

if TYPE_CHECKING:
    from applyprune.localplane.program.step_progress import Progress

MODULE = Path(__file__).parent
_PACKAGE = "github.com/prometheus/prometheus/cmd/promtool"
_FLAGS = ("-mod=readonly", "-trimpath", "-buildvcs=false", "-modcacherw", "-tags=remove_all_sd")
_FILES = ("go.mod", "go.sum")


def promtool(progress: Progress | None = None) -> Path:
    """Return the program; the first call builds it."""
    progress = progress or Silence()
    pins = b"\n".join((MODULE / name).read_bytes() for name in _FILES)
    folder = cache_folder() / "promtool" / hashlib.sha256(pins).hexdigest()[:20]
    make_once(folder, lambda making: _build(making, progress), "building promtool", progress)
    return folder / "promtool"


def _build(folder: Path, progress: Progress) -> None:
    go = find_go(_wanted(), progress)
    progress.step(f"building promtool with Go {go.version}: this happens once")
    command = [str(go.go), "build", *_FLAGS, "-ldflags=-s -w", "-o", f"{folder}/", _PACKAGE]
    reply = subprocess.run(
        command,
        cwd=MODULE,
        env=go.environment(os.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert reply.returncode == 0, reply.stderr


def _wanted() -> str:
    """Return the version of Go that the module needs."""
    lines = (MODULE / "go.mod").read_text(encoding="utf-8").splitlines()
    return next(line.removeprefix("go ") for line in lines if line.startswith("go "))
