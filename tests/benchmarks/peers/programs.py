"""The programs of the peers: two Go modules, each built once and cached."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import click

from applyprune.errors import AccessError
from applyprune.localplane import progress_on
from applyprune.localplane.build import GoModule, built

_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class PeerProgram:
    """A program that a module pins with the ``tool`` directive."""

    name: str
    module: GoModule
    path: str
    """The module that holds it, as ``go.mod`` requires it."""
    file: str
    """What Go calls it: the last part of its package."""

    @property
    def version(self) -> str:
        """Return the pinned version: ``v0.66.0``."""
        return self.module.pinned(rf"{self.path} (\S+)(?: // indirect)?")


def _peer(name: str, path: str, file: str) -> PeerProgram:
    duration = "about 2 minutes on 2 cores"
    module = GoModule(
        folder=_HERE / name, cache=name, name=name, duration=duration, packages=("tool",)
    )
    return PeerProgram(name, module, path, file)


KAPP = _peer("kapp", "carvel.dev/kapp", "kapp")
KAPPLY = _peer("kapply", "sigs.k8s.io/cli-utils", "cmd")


def ensure_peer(program: PeerProgram) -> Path | None:
    """Return a built program; say why, and return None, if it cannot be built."""
    try:
        return built(program.module, progress_on(sys.stderr)) / program.file
    except AccessError as error:
        click.echo(f"without {program.name}: {error}", err=True)
        return None
