"""What is linked into the programs: their Go modules, and the licenses of those."""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from applyprune.localplane.build import MODULE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_LICENSE_FILE = re.compile(r"(un)?licen[cs]e|copying|notice|patents", re.IGNORECASE)
_PLAIN = re.compile(r"[\s*#>]+")
_TEXTS = {
    "Apache-2.0": ("apache license version 2.0", "apache license, version 2.0"),
    "MPL-2.0": ("mozilla public license version 2.0", "mozilla public license, version 2.0"),
    "MIT": ("permission is hereby granted, free of charge, to any person obtaining a copy",),
    "ISC": ("permission to use, copy, modify, and/or distribute this software for any purpose",),
    "BSD": ("redistributions of source code must retain the above copyright",),
}
_NO_ENDORSEMENT = "endorse or promote products"


@dataclass(frozen=True, slots=True)
class LinkedModule:
    """A Go module that is part of a program; the standard library is one as well."""

    path: str
    version: str
    sum: str
    """The digest of its sources, as go.sum has it; empty for the standard library."""
    files: tuple[tuple[str, bytes], ...]
    """Its license and notice files, by their path within the module."""
    licenses: tuple[str, ...]
    """The SPDX identifiers of those."""

    @property
    def purl(self) -> str:
        """Return its package URL."""
        return f"pkg:golang/{self.path.replace('+', '%2B')}@{self.version.replace('+', '%2B')}"


def go_version_of(program: Path) -> str:
    """Return the version of Go that has built the program, for example ``1.26.8``."""
    first = _go("version", str(program)).strip()
    return first.rpartition("go")[2]


def linked_modules(programs: Sequence[Path]) -> tuple[LinkedModule, ...]:
    """Return the modules in the programs, in order; raise ValueError for one without a license."""
    sums = {one: digest for program in programs for one, digest in _sums(program)}
    folders = _folders(sorted(sums))
    packages = _linked_folders()
    modules = [
        _module(path, version, sums[path, version], folders[path, version], packages)
        for path, version in sorted(sums)
    ]
    return (*modules, _standard_library(go_version_of(programs[0])))


def _sums(program: Path) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield path and version of each module in the program, and the digest of its sources."""
    for line in _go("version", "-m", str(program)).splitlines():
        _, kind, *fields = [*line.split("\t"), ""]
        # A module that replaces another has a line of its own, and only that has the digest.
        if kind in {"dep", "=>"} and len(fields) > 3:
            path, version, digest, *_ = fields
            yield (path, version), digest


def _folders(modules: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Path]:
    """Return the folder of each module's sources; downloads those that are not there."""
    wanted = [f"{path}@{version}" for path, version in modules]
    said = json.JSONDecoder()
    text = _go("mod", "download", "-json", *wanted)
    found, at = {}, 0
    while at < len(text.rstrip()):
        one, at = said.raw_decode(text, at)
        found[one["Path"], one["Version"]] = Path(one["Dir"])
        at += len(text[at:]) - len(text[at:].lstrip())
    return found


def _linked_folders() -> frozenset[Path]:
    """Return the folder of each package in the programs."""
    text = _go("list", "-mod=readonly", "-deps", "-f", "{{.Dir}}", "./...")
    return frozenset(Path(line) for line in text.splitlines())


def _module(
    path: str, version: str, digest: str, folder: Path, packages: frozenset[Path]
) -> LinkedModule:
    """Return a module with the license files of its root and above each package in a program."""
    places = {folder}
    for package in packages:
        if package.is_relative_to(folder):
            places.update(one for one in package.parents if one.is_relative_to(folder))
            places.add(package)
    return _licensed(path, version, digest, folder, sorted(places))


def _standard_library(version: str) -> LinkedModule:
    root = Path(_go("env", "GOROOT").strip())
    return _licensed("stdlib", version, "", root, [root])


def _licensed(
    path: str, version: str, digest: str, folder: Path, places: Sequence[Path]
) -> LinkedModule:
    files = tuple(
        (file.relative_to(folder).as_posix(), file.read_bytes())
        for place in places
        for file in sorted(place.iterdir())
        if file.is_file() and file.suffix != ".go" and _LICENSE_FILE.match(file.name)
    )
    licenses = tuple(sorted({one for _, content in files for one in spdx_of(content)}))
    if not licenses:
        raise ValueError(f"no known license in {path}@{version} ({folder})")
    return LinkedModule(path, version, digest, files, licenses)


def spdx_of(content: bytes) -> Iterator[str]:
    """Yield the SPDX identifiers of the licenses whose words a file contains."""
    text = _PLAIN.sub(" ", content.decode(errors="replace")).replace(" ,", ",").lower()
    for name, words in _TEXTS.items():
        if any(one in text for one in words):
            if name == "BSD":
                yield "BSD-3-Clause" if _NO_ENDORSEMENT in text else "BSD-2-Clause"
            else:
                yield name


def _go(*arguments: str) -> str:
    reply = subprocess.run(
        ["go", *arguments],
        cwd=MODULE,
        env=os.environ
        | {"GOWORK": "off", "GOTOOLCHAIN": "local", "GOFLAGS": "", "CGO_ENABLED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    if reply.returncode != 0:
        raise RuntimeError(f"go {' '.join(arguments[:3])}: {reply.stderr.strip()}")
    return reply.stdout
