"""Small wheels of a control plane whose programs are scripts, and mirrors that hold them."""

from __future__ import annotations

import hashlib
import json
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from applyprune.localplane.build import kubernetes_version, module_digest
from applyprune.localplane.cache import Silence
from applyprune.localplane.wheel import (
    FACTS,
    MIRROR_INDEX,
    PACKAGE,
    PROGRAMS,
    WheelFacts,
    this_platform,
)

if TYPE_CHECKING:
    from pathlib import Path

SCRIPTS = {name: f"#!/bin/sh\necho {name}\n".encode() for name in PROGRAMS}
WHEEL = f"{PACKAGE}-1.36.3.2-py3-none-any.whl"


@dataclass(frozen=True, slots=True)
class FolderMirror:
    """A folder with a wheel and an index."""

    folder: Path

    @property
    def wheel(self) -> Path:
        """The wheel."""
        return self.folder / WHEEL

    @property
    def pin(self) -> str:
        """The SHA-256 of the index."""
        return hashlib.sha256((self.folder / MIRROR_INDEX).read_bytes()).hexdigest()


def facts_of(
    *, module: str = "", platform: str = "", programs: dict[str, bytes] | None = None
) -> WheelFacts:
    """Return the facts of the scripts, for this applyprune on this machine unless said."""
    content = SCRIPTS if programs is None else programs
    return WheelFacts(
        module=module or module_digest(),
        platform=platform or this_platform(),
        kubernetes=kubernetes_version(),
        go="1.26.8",
        programs={name: hashlib.sha256(one).hexdigest() for name, one in content.items()},
    )


def small_mirror(
    folder: Path,
    *,
    facts: WheelFacts | None = None,
    programs: dict[str, bytes] | None = None,
    line: dict[str, object] | None = None,
) -> FolderMirror:
    """Write a mirror whose wheel has these facts and programs; ``line`` changes the index."""
    folder.mkdir()
    mirror = FolderMirror(folder)
    with zipfile.ZipFile(mirror.wheel, "w") as archive:
        archive.writestr(f"{PACKAGE}/{FACTS}", (facts or facts_of()).written())
        for name, content in (SCRIPTS if programs is None else programs).items():
            archive.writestr(f"{PACKAGE}/{name}", content)
    content = mirror.wheel.read_bytes()
    described = {
        "wheel": WHEEL,
        "sha256": hashlib.sha256(content).hexdigest(),
        "size": len(content),
        **(line or {}),
    }
    index = {"planes": {module_digest(): described}}
    (folder / MIRROR_INDEX).write_text(json.dumps(index))
    return mirror


def small_package(folder: Path, facts: WheelFacts | None = None) -> Path:
    """Write the package as an installer writes it, and return its folder."""
    package = folder / PACKAGE
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / FACTS).write_bytes((facts or facts_of()).written())
    for name, content in SCRIPTS.items():
        (package / name).write_bytes(content)
        (package / name).chmod(0o755)
    return package


class Steps(Silence):
    """A Progress that keeps what it is given."""

    def __init__(self) -> None:
        """Keep nothing yet."""
        self.lines: list[str] = []
        self.ticks: list[str] = []

    def step(self, text: str) -> None:
        """Keep the line."""
        self.lines.append(text)

    def tick(self, text: str) -> None:
        """Keep the text."""
        self.ticks.append(text)

    @property
    def text(self) -> str:
        """The lines."""
        return "\n".join(self.lines)
