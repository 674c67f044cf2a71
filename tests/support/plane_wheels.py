"""Packages of a control plane whose programs are scripts."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from applyprune.localplane.build import kubernetes_version, module_digest
from applyprune.localplane.cache import Silence
from applyprune.localplane.wheel import FACTS, PACKAGE, PROGRAMS, WheelFacts, this_platform

if TYPE_CHECKING:
    from pathlib import Path

SCRIPTS = {name: f"#!/bin/sh\necho {name}\n".encode() for name in PROGRAMS}


def facts_of(*, module: str = "", platform: str = "") -> WheelFacts:
    """Return the facts of the scripts, for this applyprune on this machine unless said."""
    return WheelFacts(
        module=module or module_digest(),
        platform=platform or this_platform(),
        kubernetes=kubernetes_version(),
        go="1.26.8",
        programs={name: hashlib.sha256(one).hexdigest() for name, one in SCRIPTS.items()},
    )


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
    """A Progress that keeps its steps."""

    def __init__(self) -> None:
        """Keep nothing yet."""
        self.lines: list[str] = []

    def step(self, text: str) -> None:
        """Keep the line."""
        self.lines.append(text)

    @property
    def text(self) -> str:
        """The lines."""
        return "\n".join(self.lines)
