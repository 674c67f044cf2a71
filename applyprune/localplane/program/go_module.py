"""A Go module whose programs are built here: where it is, and what its build is called."""

from __future__ import annotations

import hashlib
import platform
import re
from typing import TYPE_CHECKING

from applyprune.errors import AccessError
from applyprune.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ALL_PACKAGES = ("./...",)


@dataclass(frozen=True, slots=True)
class GoModule:
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
        """Return the file that pins the Go modules."""
        return self.other_go_mod or self.folder / "go.mod"

    @property
    def go_sum(self) -> Path:
        """Return the file with the digests of the Go modules."""
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
            if name in {"go.mod", "go.sum"}:  # guard: modules-of-a-build
                yield name, self.go_mod if name == "go.mod" else self.go_sum
            elif path.suffix in {".go", ".mod", ".sum"}:
                yield name, path
