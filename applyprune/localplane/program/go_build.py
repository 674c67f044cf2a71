"""Build the programs of a Go module, and cache them."""

from __future__ import annotations

import os
import shutil
import time
from typing import TYPE_CHECKING

from applyprune.errors import AccessError
from applyprune.localplane.folders import cache_folder
from applyprune.localplane.program.atomic_folder import make_once
from applyprune.localplane.program.build_time import cpu_seconds, last_build, remember
from applyprune.localplane.program.kill_group import guarded
from applyprune.localplane.program.step_progress import clock
from applyprune.localplane.program.toolchain import Toolchain, find_go

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane.program.go_module import GoModule
    from applyprune.localplane.program.step_progress import Progress

# These override a user's GOFLAGS. -modcacherw: our own module cache must be easy to remove. -dwarf:
# the linker drops what debuggers read, so the compiler need not write it, a tenth of its work.
FLAGS = (
    "-mod=readonly",
    "-trimpath",
    "-buildvcs=false",
    "-modcacherw",
    "-gcflags=all=-dwarf=false",
)


def built(module: GoModule, progress: Progress) -> Path:
    """Return the folder of the module's programs; build them if they are not cached.

    Raises AccessError if there is no Go, or if the build fails. Several processes may call it at
    the same time: the first builds, the others wait.
    """
    folder = built_folder(module)
    try:
        make_once(
            folder,
            lambda making: _build(module, making, progress),
            f"building {module.name}",
            progress,
            programs=module.programs,
        )
    finally:
        progress.clear()
    return folder


def built_folder(module: GoModule) -> Path:
    """Return the folder of the cache that holds the module's programs once they are built."""
    return cache_folder() / module.cache / module.digest()


def _build(module: GoModule, folder: Path, progress: Progress) -> None:
    start, used = time.monotonic(), cpu_seconds()
    go = find_go(module, progress)
    env = go.environment(os.environ)
    versions = ", ".join(filter(None, (module.version, f"Go {go.version}")))
    before = last_build(module.cache)
    took = f"here it took {before} before" if before else f"it took {module.duration}"
    progress.step(f"building {module.name} ({versions}), which happens once: {took}")
    if not module.go_sum.is_file():
        raise _failure(module, f"{module.go_sum.name} is missing", "")
    total = _count_packages(module, go, env, progress)
    # -v prints each package before it is compiled: this measures the progress of the build.
    command = [str(go.go), "build", "-v", *_flags(module)]
    command += ["-ldflags", " ".join(module.linker_flags), "-o", f"{folder}/", *module.packages]
    tail: list[str] = []
    compiled = 0
    with guarded(command, env=env, cwd=module.folder) as (process, output):
        for line in output:
            tail = [*tail[-19:], line.rstrip()]
            compiled += not line.startswith("go: ")
            progress.tick(
                f"building {module.name}: {compiled} of at most {total} packages,"
                f" {clock(time.monotonic() - start)}"
            )
        code = process.wait()
    if code != 0:
        raise _failure(module, f"go build exited with code {code}", "\n".join(tail))
    if go.own_caches is not None:
        # The caches have gigabytes, and the finished programs do not need them.
        shutil.rmtree(go.own_caches, ignore_errors=True)
    took = remember(module.cache, time.monotonic() - start, cpu_seconds() - used)
    progress.step(f"built {module.name} in {took}")


def _count_packages(
    module: GoModule, go: Toolchain, env: dict[str, str], progress: Progress
) -> int:
    """Return how many packages the programs consist of; this also downloads the modules."""
    fetched = packages = 0
    tail: list[str] = []
    command = [str(go.go), "list", *_flags(module), "-deps", *module.packages]
    with guarded(command, env=env, cwd=module.folder) as (process, output):
        for line in output:
            tail = [*tail[-19:], line.rstrip()]
            if line.startswith("go: downloading"):
                fetched += 1
                progress.tick(f"downloading the sources: {fetched} modules")
            else:
                packages += 1
        code = process.wait()
    if code != 0:
        raise _failure(module, "its sources could not be downloaded", "\n".join(tail))
    return packages


def _flags(module: GoModule) -> tuple[str, ...]:
    tags = (f"-tags={','.join(module.tags)}",) if module.tags else ()
    other = (f"-modfile={module.other_go_mod}",) if module.other_go_mod else ()
    return (*FLAGS, *tags, *other)


def _failure(module: GoModule, reason: str, output: str) -> AccessError:
    hint = (
        "The build needs the Go module proxy (GOPROXY), or the sources in Go's module cache."
        " Run it again: it reuses what was downloaded and compiled."
    )
    return AccessError(
        f"{module.name} could not be built",
        location=str(module.folder),
        reason=f"{reason}\n{output}".rstrip(),
        hint=f"{hint} Or {module.hint}." if module.hint else hint,
    )
