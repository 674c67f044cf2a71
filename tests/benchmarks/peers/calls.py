"""What each program is called with, for each step; and how its success shows."""

from __future__ import annotations

import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.benchmarks import bare_client
from tests.benchmarks.rows import Step, Subject

if TYPE_CHECKING:
    from collections.abc import Mapping

APPLYPRUNE = Path(sysconfig.get_path("scripts"), "applyprune")
"""What people call, as the others' programs are. `python -m` also imports runpy.

It nests calls so that Python 3.11 maps and unmaps 16 KiB of its stack 2,500 times during imports.
"""
_INVENTORY = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {name}
  namespace: default
  labels: {{cli-utils.sigs.k8s.io/inventory-id: {name}}}
"""


@dataclass(frozen=True, slots=True)
class Files:
    """The files of one subject in one round."""

    name: str
    """The set's name, and the beginning of its namespaces' names."""
    manifests: Path
    requests: Path
    """What the bare client sends."""
    objects: int
    """How many there are in the manifests."""


@dataclass(frozen=True, slots=True)
class Call:
    """A command, and how its success shows."""

    command: tuple[str | Path, ...]
    codes: tuple[int, ...] = (0,)
    """The exit codes of success."""
    says: str = ""
    """A text that its output then has."""


@dataclass(frozen=True, slots=True)
class Programs:
    """The programs that are there."""

    paths: Mapping[Subject, Path]
    """kubectl, and the peers that could be built."""

    def has(self, subject: Subject) -> bool:
        """Return whether a subject can be measured."""
        is_ours = subject in {Subject.OURS, Subject.UNCHECKED, Subject.BARE, Subject.FLOOR}
        return is_ours or subject in self.paths

    def agent(self, subject: Subject) -> str:
        """Return how the User-Agent of its requests begins."""
        if subject is Subject.BARE:
            return bare_client.AGENT
        return f"{self.paths[subject].name if subject in self.paths else 'applyprune'}/"

    def call(self, subject: Subject, step: Step, files: Files) -> Call:
        """Return the command of a step."""
        if subject is Subject.BARE:
            module = "tests.benchmarks.bare_client"
            return Call((sys.executable, "-m", module, files.requests))
        if subject in {Subject.OURS, Subject.UNCHECKED}:
            return _ours(step, files, is_checked=subject is Subject.OURS)
        make = {Subject.KUBECTL: _kubectl, Subject.KAPP: _kapp, Subject.KAPPLY: _kapply}[subject]
        call = make(step, files)
        return Call((self.paths[subject], *call.command), call.codes, call.says)


def prepare(subject: Subject, files: Files) -> None:
    """Write what a program needs beside the manifests."""
    if subject is Subject.BARE:
        bare_client.prepare_applies(files.manifests, files.requests)
    elif subject is Subject.KAPPLY:
        (files.manifests / "inventory-template.yml").write_text(
            _INVENTORY.format(name=files.name), encoding="utf-8"
        )


def _ours(step: Step, files: Files, *, is_checked: bool) -> Call:
    program = (APPLYPRUNE,)
    if step is Step.STATUS:
        # Nothing makes a Deployment ready on this plane: code 5.
        return Call((*program, "status", files.name), (0, 5))
    if step is Step.DIFF:
        return Call((*program, "diff", files.name, "-f", files.manifests), (1,), "+  LOG_LEVEL")
    if step is Step.PRUNE:
        # An apply would first wait for the Deployments that stay, because others are pruned.
        limit = ("--max-prune", "100%", "--yes")
        return Call((*program, "prune", files.name, "-f", files.manifests, *limit))
    command = (*program, "apply", files.name, "-f", files.manifests, "--yes")
    check = () if is_checked else ("--no-check",)
    return Call((*command, *check))


def _kubectl(step: Step, files: Files) -> Call:
    if step is Step.STATUS:
        return Call(("get", "-f", files.manifests))
    if step is Step.DIFF:
        return Call(("diff", "--server-side", "-f", files.manifests), (1,), "+  LOG_LEVEL")
    return Call(("apply", "--server-side", "-f", files.manifests))


def _kapp(step: Step, files: Files) -> Call:
    app = ("-a", files.name, "-n", "default")
    if step is Step.STATUS:
        return Call(("inspect", *app))
    deploy = ("deploy", *app, "-f", files.manifests, "--yes")
    if step is Step.DIFF:
        return Call((*deploy, "--diff-run", "--diff-changes", "--diff-exit-status"), (3,))
    # Nothing makes a Deployment ready on this plane.
    return Call((*deploy, "--wait=false"), says="Succeeded")


def _kapply(step: Step, files: Files) -> Call:
    if step is Step.STATUS:
        return Call(("status", files.manifests))
    if step is Step.DIFF:
        return Call(("diff", files.manifests), (1,), "+  LOG_LEVEL")
    # It always waits, and nothing makes a Deployment ready on this plane: it ends with code 1, but
    # says first that it applied everything.
    wait = ("--reconcile-timeout=1ms", "--prune-timeout=1ms")
    says = f"apply result: {files.objects} attempted, {files.objects} successful"
    return Call(("apply", files.manifests, "--server-side", *wait), (0, 1), says)
