"""Single fetches: of many files beside ``git fetch --depth 1``, and of an artifact beside files."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

from applyprune.sources.git_server import find_ref
from applyprune.sources.git_store import GitStore
from tests.benchmarks.controller.jobs import Figure
from tests.benchmarks.workload import write_manifests
from tests.support.followed_sources import login
from tests.support.git_servers import HttpsSite, author, git_site
from tests.support.git_servers.reads import fetch_git
from tests.support.registries import Registry, password_registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from applyprune.localplane import Plane
    from applyprune.sources.address import GitSource
    from tests.components import Components

_FOLDERS = 1000
_LINES = 30


def fetch(folder: Path, count: int, rounds: int) -> Iterator[Figure]:
    """Fetch a commit with many files into an empty store, in turns with git itself."""
    job = f"fetch of {count:,} files, depth 1"
    with git_site(folder / "git") as git:
        git.repository("many").commit(
            {
                f"apps/{number % _FOLDERS}/{number}.yaml": "".join(
                    f"key-{line}: value {number}\n" for line in range(_LINES)
                )
                for number in range(count)
            }
        )
        (folder / "ca.crt").write_bytes(git.ca)
        source = git.source("many")
        theirs, ours, read = [], [], []
        for turn in range(rounds):
            place = folder / str(turn)
            subprocess.run(["git", "init", "--quiet", "--bare", str(place / "theirs")], check=True)
            theirs.append(_seconds(partial(_git_fetch, git, folder, place / "theirs")))
            ours.append(_seconds(partial(_fetch, source, place / "ours")))
            read.append(_seconds(partial(fetch_git, source, "", place / "read")))
            shutil.rmtree(place)
    base, whole = statistics.median(theirs), statistics.median(read)
    yield Figure(job, "git fetch --depth 1", f"{base:.2f} s")
    yield _ratio(job, "applyprune: look and fetch", statistics.median(ours), base, 1.3)
    yield Figure(job, "and every file read", f"{whole:.2f} s, {whole / base:.2f} times")


def _fetch(source: GitSource, place: Path) -> None:
    GitStore(place).fetch(source, find_ref(source))


def _git_fetch(git: HttpsSite, folder: Path, place: Path) -> None:
    command = ["git", "-C", str(place), "fetch", "--quiet", "--depth", "1", git.url("many"), "main"]
    environ = {**author(), "GIT_SSL_CAINFO": str(folder / "ca.crt")}
    subprocess.run(command, env=environ, check=True)


def artifact(
    plane: Plane, components: Components, folder: Path, objects: int, rounds: int
) -> Iterator[Figure]:
    """Apply new objects from a registry, in turns with the same ones from a folder."""
    job = f"artifact of {objects:,} objects"
    folder.mkdir(parents=True)
    with password_registry(components, folder / "registry") as registry:
        login(folder, registry)
        environ = _environ(plane, folder, registry)
        disk: list[float] = []
        remote: list[float] = []
        requests: list[int] = []
        for turn in range(-1, rounds):
            # The first round fills the caches of discovery.
            names = [f"d{turn + 1}", f"r{turn + 1}"]
            for name in names:
                write_manifests(folder / name, objects, name)
            address = f"oci://{registry.host}/bench/{names[1]}:1"
            _run(("push", address, "-f", names[1], "--with-secrets"), folder, environ)
            before = len(registry.requests())
            calls: list[tuple[list[float], Sequence[str]]] = [
                (disk, ("apply", names[0], "-f", names[0])),
                (remote, ("apply", names[1], "-f", address)),
            ]
            for times, arguments in calls if turn % 2 else reversed(calls):
                took = _seconds(partial(_run, arguments, folder, environ, f"{objects} created"))
                if turn >= 0:
                    times.append(took)
            requests.append(len(registry.requests()) - before)
    base, value = statistics.median(disk), statistics.median(remote)
    yield Figure(job, "apply from a folder", f"{base:.2f} s")
    yield _ratio(job, "apply from the registry", value, base, 1.2)
    yield Figure(job, "requests to the registry", str(max(requests)))


def _environ(plane: Plane, folder: Path, registry: Registry) -> Mapping[str, str]:
    caches = str(folder / "caches")
    kept = {key: os.environ[key] for key in os.environ if not key.startswith("KUBE")}
    return {
        **kept,
        "KUBECONFIG": str(plane.kubeconfig),
        "XDG_CACHE_HOME": caches,
        "PYTHONPYCACHEPREFIX": caches,
        "HOME": str(folder),
        "SSL_CERT_FILE": str(registry.ca),
    }


def _run(
    arguments: Sequence[str], folder: Path, environ: Mapping[str, str], contains: str = ""
) -> None:
    reply = subprocess.run(
        [sys.executable, "-m", "applyprune", *arguments],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    if reply.returncode or contains not in reply.stdout:
        sys.exit(f"applyprune {arguments}\n{reply.stdout[-2000:]}\n{reply.stderr[-2000:]}")


def _seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _ratio(job: str, what: str, value: float, base: float, most: float) -> Figure:
    times = value / base
    shown = f"{value:.2f} s, {times:.2f} times"
    return Figure(job, what, shown, f"≤ {most} times", times <= most)
