"""The installed command, run like a user or a pipeline runs it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from types import MappingProxyType
from typing import IO, TYPE_CHECKING

from tests.support.orphans import end_with_the_tests
from tests.support.preloaded import PRELOADED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Ended:
    """The result of one call."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> dict[str, str]:
        """Return the outcome of each object, by the first words of its line."""
        return dict(self.objects)

    @property
    def digests(self) -> dict[str, str]:
        """Return the digests in the last lines: of the ``plan`` and of its ``deletions``."""
        return dict(
            re.findall(r"^(plan|deletions): (sha256:[0-9a-f]{64})$", self.out, re.MULTILINE)
        )

    @property
    def summary(self) -> str:
        """Return the line that counts the objects: the last one that is not a digest."""
        lines = [line for line in self.out.splitlines() if ": sha256:" not in line]
        return lines[-1] if lines else ""

    @property
    def objects(self) -> list[tuple[str, str]]:
        """Return each object that has a line, without its namespace, and its outcome."""
        return re.findall(r"^(\S+/\S+)(?: -n \S+)? +(\S.*)$", self.out, re.MULTILINE)


def start(
    *arguments: str | Path,
    kubeconfig: str | Path,
    cwd: Path | None = None,
    stderr: IO[str] | int = subprocess.PIPE,
    within: Sequence[str] = (),
    program: Sequence[str] = ("-m", "applyprune"),
    more: Mapping[str, str] = MappingProxyType({}),
) -> subprocess.Popen[str]:
    """Start ``applyprune ARGUMENTS``, by default with pipes for its output.

    ``within`` is the beginning of the command that runs it, ``program`` what Python runs instead,
    and ``more`` is added to its environment.
    """
    process = subprocess.Popen(
        [*within, sys.executable, *program, *map(str, arguments)],
        env={**_environment(kubeconfig), **more},
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        # A process that a test stops must stay so. When the shell that has started pytest ends, the
        # kernel wakes up all that are stopped in an orphaned process group.
        start_new_session=True,
    )
    end_with_the_tests(process.pid)
    return process


def applyprune(
    *arguments: str | Path,
    kubeconfig: str | Path,
    stdin: str = "",
    cwd: Path | None = None,
    timeout: float = 300,
    within: Sequence[str] = (),
    more: Mapping[str, str] = MappingProxyType({}),
) -> Ended:
    """Run ``applyprune ARGUMENTS`` to its end; standard input is not a terminal.

    ``within`` is the beginning of the command that runs it, and ``more`` is added to its
    environment.
    """
    environment = {**_environment(kubeconfig), **more}
    if PRELOADED.can_run(environment) and not within:
        ended = Ended(*PRELOADED.run([*map(str, arguments)], environment, cwd, stdin, timeout))
    else:
        with start(*arguments, kubeconfig=kubeconfig, cwd=cwd, within=within, more=more) as process:
            out, err = process.communicate(stdin, timeout=timeout)
        ended = Ended(process.returncode, out, err)
    assert "Traceback" not in ended.err, ended.err
    return ended


def _environment(kubeconfig: str | Path) -> dict[str, str]:
    return {**os.environ, "KUBECONFIG": str(kubeconfig)}
