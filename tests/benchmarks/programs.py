"""The programs that are measured: what each is called with, and how its success shows."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from applyprune import __version__
from applyprune.errors import AccessError
from applyprune.localplane import ensure_built, progress_on
from tests.benchmarks import bare_client
from tests.benchmarks.rows import BARE, CLICK, KAPP, KAPPLY, KUBECTL, OTHER, OURS, UNCHECKED
from tests.components import PEERS, ensure_peer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from applyprune.localplane import Binaries
    from tests.benchmarks.rows import Row

_APPLYPRUNE = Path(sysconfig.get_path("scripts"), "applyprune")
"""What people call, as the others' programs are. `python -m` also imports runpy.

It nests calls so that Python 3.11 maps and unmaps 16 KiB of its stack 2,500 times during imports.
"""
_PEERS = (KAPP, KAPPLY)


@dataclass(frozen=True, slots=True)
class Call:
    """What a program is called with, and how its success shows."""

    words: str
    codes: tuple[int, ...] = (0,)
    says: str = ""
    """A text that its output then has."""


_DIFFERS = "+  LOG_LEVEL"
CALLS: Mapping[str, Mapping[str, Call]] = {
    OURS: {
        "apply": Call("apply {name} -f {manifests} --yes"),
        # Nothing makes a Deployment ready on this plane: code 5.
        "status": Call("status {name}", (0, 5)),
        "diff": Call("diff {name} -f {manifests}", (1,), _DIFFERS),
        # An apply would first wait for the Deployments that stay, because others are pruned.
        "prune": Call("prune {name} -f {manifests} --max-prune 100% --yes"),
    },
    UNCHECKED: {"apply": Call("apply {name} -f {manifests} --yes --no-check")},
    KUBECTL: {
        "apply": Call("apply --server-side -f {manifests}"),
        "status": Call("get -f {manifests}"),
        "diff": Call("diff --server-side -f {manifests}", (1,), _DIFFERS),
    },
    KAPP: {
        "apply": Call(
            "deploy -a {name} -n default -f {manifests} --yes --wait=false", says="Succeeded"
        ),
        "status": Call("inspect -a {name} -n default"),
        "diff": Call(
            "deploy -a {name} -n default -f {manifests} --diff-run --diff-changes"
            " --diff-exit-status --yes",
            (3,),
        ),
    },
    KAPPLY: {
        # It always waits, and ends with code 1, but says first that it has applied everything.
        "apply": Call(
            "apply {manifests} --server-side --reconcile-timeout=1ms --prune-timeout=1ms",
            (0, 1),
            "apply result: {objects} attempted, {objects} successful",
        ),
        "status": Call("status {manifests}"),
        "diff": Call("diff {manifests}", (1,), _DIFFERS),
    },
    BARE: {"apply": Call("-m tests.benchmarks.bare_client {requests}")},
    CLICK: {"apply": Call("")},
}
"""By program and step; what has no call of its own for a prune applies again."""


@dataclass(frozen=True, slots=True)
class Programs:
    """The programs that are there, and what they run with."""

    binaries: Binaries
    paths: Mapping[str, Path]
    versions: Mapping[str, str]
    folder: Path
    """For planes, manifests, and the caches of all programs."""
    other: Path | None = None
    """Another checkout of applyprune, which takes turns with this one."""
    bundles: int = 1000
    """How many a row about Bundles has."""

    def of(self, row: Row) -> list[str]:
        """Return the programs of a row that are there."""
        found = [one for one in row.programs if one in self.paths]
        return [*found, OTHER] if self.other and OURS in found else found

    def agent(self, program: str) -> str:
        """Return how the User-Agent of a program's requests begins."""
        return bare_client.AGENT if program == BARE else f"{self.paths[program].name}/"

    def command(self, program: str, words: Sequence[str], **values: object) -> list[str | Path]:
        """Return a command; values take the place of their names in the words."""
        given = ("-c", CLICK) if program == CLICK else words
        path = Path(sys.executable) if given[0] == "-c" else self.paths[program]
        return [path, *(word.format(**values) for word in given)]

    def environment(self, program: str, kubeconfig: Path | None = None) -> dict[str, str]:
        """Return what is added to the environment."""
        caches = str(self.folder / "caches")
        return {
            "TERM": "xterm-256color",
            "KUBECACHEDIR": caches,
            "XDG_CACHE_HOME": caches,
            # An installed package has its bytecode; here the warming up writes it.
            "PYTHONDONTWRITEBYTECODE": "",
            "PYTHONPYCACHEPREFIX": caches,
            **({"KUBECONFIG": str(kubeconfig)} if kubeconfig else {}),
            **({"PYTHONPATH": str(self.other)} if program == OTHER else {}),
        }


def programs_in(folder: Path, *, peers: bool, other: Path | None, bundles: int) -> Programs:
    """Return the programs; say which of the peers cannot be built."""
    binaries = ensure_built(progress_on(sys.stderr))
    asked = subprocess.run(
        [binaries.kubectl, "version", "--client", "-o", "json"], capture_output=True, check=True
    )
    versions = {
        "applyprune": __version__,
        "Python": platform.python_version(),
        "Kubernetes": json.loads(asked.stdout)["clientVersion"]["gitVersion"],
    }
    paths = {OURS: _APPLYPRUNE, UNCHECKED: _APPLYPRUNE, OTHER: _APPLYPRUNE}
    paths |= {KUBECTL: binaries.kubectl, BARE: Path(sys.executable), CLICK: Path(sys.executable)}
    for name in _PEERS if peers else ():
        try:
            paths[name] = ensure_peer(name, progress_on(sys.stderr))
            versions[name] = PEERS[name].version
        except AccessError as error:
            click.echo(f"without {name}: {error}", err=True)
    return Programs(binaries, paths, versions, folder, other, bundles)
