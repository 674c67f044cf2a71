"""The plug-in for krew: an archive for each platform, and the manifest that names them.

krew only unpacks an archive and links a program, so the program brings what it needs except Python:
it is a PEX, which makes an environment of its own at the first call. It has the wheels of each
Python in PYTHONS for this platform, because some of them are compiled.

Only platforms on which applyprune was run get one. krew links one program, so kubectl completes no
words of this one; it does where pip has installed it.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypedDict

from packaging.markers import default_environment
from packaging.tags import compatible_tags, cpython_tags, platform_tags

from applyprune import __version__
from applyprune.cli.main import PLUGIN
from applyprune.localplane.wheel import this_platform

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).parents[3]
MANIFEST = "applyprune.yaml"
PYTHONS = (11, 12, 13, 14)
"""The minor versions of CPython 3 that run the program."""
PLATFORMS: Mapping[str, str] = {"Linux/x86_64": "linux_amd64", "Linux/aarch64": "linux_arm64"}
"""The name of each platform in an archive's name, which ends with krew's words for it."""
GLIBC = 28
"""The minor version of the oldest glibc 2."""


class Platform(TypedDict):
    """A Python on this platform, as PEX reads it."""

    marker_environment: dict[str, str]
    compatible_tags: list[str]


_MANYLINUX = re.compile(r"manylinux(?:_2_(\d+)|\d+)_")


def write_archive(wheel: Path, folder: Path, epoch: int) -> Path:
    """Write the archive for this platform to the folder, and return its path."""
    archive = folder / f"{PLUGIN}_{__version__}_{PLATFORMS[this_platform()]}.tar.gz"
    with TemporaryDirectory() as name:
        program = Path(name) / PLUGIN
        platforms = [Path(name) / f"python3.{minor}.json" for minor in PYTHONS]
        for minor, path in zip(PYTHONS, platforms, strict=True):
            path.write_text(json.dumps(python_platform(minor)), encoding="utf-8")
        subprocess.run(
            [
                *(sys.executable, "-m", "pex", wheel.absolute(), "--script", PLUGIN),
                *("--output-file", program, "--venv", "--sh-boot", "--no-build"),
                *("--python-shebang", "/usr/bin/env python3"),
                *(f"--complete-platform={path}" for path in platforms),
            ],
            check=True,
        )
        with (
            archive.open("wb") as file,
            gzip.GzipFile("", "wb", 9, file, mtime=epoch) as stream,
            tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar,
        ):
            for path, mode in ((program, 0o755), (ROOT / "LICENSE", 0o644)):
                entry = tarfile.TarInfo(path.name)
                content = path.read_bytes()
                entry.size, entry.mode, entry.mtime = len(content), mode, epoch
                tar.addfile(entry, io.BytesIO(content))
    return archive


def python_platform(minor: int) -> Platform:
    """Return what a PEX needs to know of a Python 3 that need not be here."""
    platforms = list(filter(_is_old_enough, platform_tags()))
    abi = f"cp3{minor}"
    tags = [
        *cpython_tags((3, minor), [abi], platforms),
        *compatible_tags((3, minor), abi, platforms),
    ]
    markers: dict[str, str] = {
        **{name: str(value) for name, value in default_environment().items()},
        "implementation_version": f"3.{minor}.0",
        "python_full_version": f"3.{minor}.0",
        "python_version": f"3.{minor}",
        # Of the machine that builds it.
        "platform_release": "",
        "platform_version": "",
    }
    return {"marker_environment": markers, "compatible_tags": [str(tag) for tag in tags]}


def _is_old_enough(platform: str) -> bool:
    found = _MANYLINUX.match(platform)
    return found is not None and int(found[1] or 0) <= GLIBC


def manifest(folder: Path, url: str) -> str:
    """Return the manifest for the archives in the folder; ``url`` is where they will be."""
    archives = sorted(folder.glob(f"{PLUGIN}_{__version__}_*.tar.gz"))
    if not archives:
        raise ValueError(f"{folder} has no archive for krew")
    return "".join(f"{line}\n" for line in (*_HEAD, *_platforms(archives, url)))


_HEAD = (
    "apiVersion: krew.googlecontainertools.github.com/v1alpha2",
    "kind: Plugin",
    "metadata:",
    "  name: applyprune",
    "spec:",
    f"  version: v{__version__}",
    "  homepage: https://applyprune.dev",
    "  shortDescription: Apply a set of YAML, prune what left it",
    "  description: |",
    "    Makes a cluster match a set of YAML. It applies every object with server-side apply,",
    "    records them in an inventory, and deletes what has left the set, after checks of each",
    "    deletion.",
    "  caveats: |",
    f"    Needs CPython 3.{PYTHONS[0]} to 3.{PYTHONS[-1]} in the PATH,",
    f"    and glibc 2.{GLIBC} or newer.",
    "    The first call unpacks 200 MB below ~/.cache/pex.",
    "    Where a message says `applyprune …`, type `kubectl applyprune …`.",
    "  platforms:",
)


def _platforms(archives: list[Path], url: str) -> Iterator[str]:
    for archive in archives:
        system, arch = archive.name.removesuffix(".tar.gz").rsplit("_", 2)[1:]
        yield "  - selector:"
        yield "      matchLabels:"
        yield f"        os: {system}"
        yield f"        arch: {arch}"
        yield f"    uri: {url}/{archive.name}"
        yield f"    sha256: {hashlib.sha256(archive.read_bytes()).hexdigest()}"
        yield f"    bin: {PLUGIN}"
