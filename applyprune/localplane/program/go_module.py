"""A Go module whose programs are built here: where it is, and what its build is called."""

from __future__ import annotations

import hashlib
import platform
import re
from typing import TYPE_CHECKING

from applyprune.errors import AccessError
from applyprune.values import dataclass

if TYPE_CHECKING:
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

    def digest(self) -> str:
        """Return the cache key of a build: a digest of the sources and the platform."""
        digest = hashlib.sha256(f"{platform.system()}/{platform.machine()}".encode())
        for path in sorted(self.folder.rglob("*")):
            if path.suffix in {".go", ".mod", ".sum"}:
                content = path.read_bytes()
                name = path.relative_to(self.folder).as_posix()
                digest.update(f"\n{name} {len(content)}\n".encode())
                digest.update(content)
        if self.packages != ALL_PACKAGES or self.tags:
            digest.update(f"\n{self.packages} {self.tags}".encode())
        return digest.hexdigest()[:20]

    def pinned(self, pattern: str) -> str:
        """Return the group of the pattern from its line of ``go.mod``; raise AccessError."""
        path = self.folder / "go.mod"
        match = re.search(rf"^\s*(?:require )?{pattern}$", path.read_text(), re.MULTILINE)
        if match is None:
            raise AccessError(
                f"{self.name} cannot be built",
                location=str(path),
                reason=f"no line matches {pattern}",
                hint="Reinstall applyprune: this file was changed after the installation.",
            )
        return match[1]
