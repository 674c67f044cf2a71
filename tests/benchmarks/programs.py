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
from tests.benchmarks.rows import (
    ALL_IN,
    BARE,
    CLICK,
    HELMFILE,
    KAPP,
    KAPPLY,
    KUBECTL,
    KUBECTL_LOOP,
    LOOP,
    ONE_SET,
    OTHER,
    OURS,
    UNCHECKED,
)
from tests.components import PEERS, ensure_peer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from applyprune.localplane import Binaries
    from tests.benchmarks.rows import Row

_APPLYPRUNE = Path(sysconfig.get_path("scripts"), "applyprune")
"""What people call, as the others' programs are. `python -m` also imports runpy.

It nests calls so that Python 3.11 maps and unmaps 16 KiB of its stack 2,500 times during imports.
"""
_PEERS = (KAPP, KAPPLY, HELMFILE)
_HELM = "helm4"
"""What helmfile calls."""
_LOOP, _SHELL = Path(__file__).with_name("loop.sh"), Path("/bin/sh")


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
    ALL_IN: {"apply": Call("apply --all-in {sets} --yes")},
    ONE_SET: {"apply": Call("apply {name} -f {manifests} --yes")},
    LOOP: {"apply": Call(f"{_LOOP} {{sets}} {{applyprune}} apply --yes")},
    KUBECTL_LOOP: {"apply": Call(f"{_LOOP} {{sets}} {{kubectl}} apply --server-side -f manifests")},
    # By default, it starts Helm for all releases at once.
    HELMFILE: {"apply": Call("--file {sets}/helmfile.yaml sync --skip-deps --concurrency 8")},
    BARE: {"apply": Call("-m tests.benchmarks.bare_client {requests}")},
    CLICK: {"apply": Call("")},
}
"""By program and step; what has no call of its own for a prune applies again."""


_AGENTS = {
    BARE: bare_client.AGENT,
    LOOP: "applyprune/",
    KUBECTL_LOOP: "kubectl/",
    HELMFILE: "Helm/",
}
"""How the User-Agent of requests begins, where it is not the name of the program."""


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
        return _AGENTS.get(program, f"{self.paths[program].name}/")

    def command(self, program: str, words: Sequence[str], **values: object) -> list[str | Path]:
        """Return a command; values take the place of their names in the words."""
        given = ("-c", CLICK) if program == CLICK else words
        path = Path(sys.executable) if given[0] == "-c" else self.paths[program]
        known = {OURS: self.paths[OURS], KUBECTL: self.paths[KUBECTL], **values}
        return [path, *(word.format(**known) for word in given)]

    @property
    def helm(self) -> Path:
        """Return what helmfile calls."""
        return self.paths[_HELM]

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
            **(_helm_home(self.folder / "helm") if program == HELMFILE else {}),
        }


def _helm_home(folder: Path) -> dict[str, str]:
    """Return what keeps Helm and helmfile from other hosts, and from the user's own files."""
    homes = ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME", "HELMFILE_CACHE_HOME")
    return {**dict.fromkeys(homes, str(folder)), "HELMFILE_UPGRADE_NOTICE_DISABLED": "1"}


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
    paths |= {ALL_IN: _APPLYPRUNE, ONE_SET: _APPLYPRUNE, LOOP: _SHELL, KUBECTL_LOOP: _SHELL}
    paths |= {KUBECTL: binaries.kubectl, BARE: Path(sys.executable), CLICK: Path(sys.executable)}
    for name in _PEERS if peers else ():
        try:
            if name == HELMFILE:
                paths[_HELM] = ensure_peer(_HELM, progress_on(sys.stderr))
                versions["Helm"] = PEERS[_HELM].version
            paths[name] = ensure_peer(name, progress_on(sys.stderr))
            versions[name] = PEERS[name].version
        except AccessError as error:
            click.echo(f"without {name}: {error}", err=True)
    return Programs(binaries, paths, versions, folder, other, bundles)
