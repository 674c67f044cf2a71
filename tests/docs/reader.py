"""A reader of the pages, who types their commands in order and in one shell."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.docs.pages import ROOT, Page, yaml_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from applyprune.localplane import Binaries

PROMISE = "# → "
"""Before what a command's output must hold; any other comment is for the reader only."""
PROMPT = "$ "
"""Before a command in a block of ``console``; its whole output follows, ``…`` matches any part.

It runs on a terminal; what follows a question is typed.
"""
_LINE = re.compile(r"^.*<<'(\w+)'$(?:\n.*)*?\n\1$|^.+$", re.MULTILINE)
"""A line of a shell, with the document that it reads from the lines after it."""
ON_TERMINAL = ROOT / "tests/support/pseudo_terminal.py"
ANSWERED = re.compile(r"\[y/N(?:/d)?\] (.*)")


@dataclass(frozen=True, slots=True)
class Command:
    """A line of a page that a reader types, and a pattern that its output must match."""

    line: str
    output: str = ""
    answers: tuple[str, ...] | None = None
    """What is typed on the terminal; None to run it without one."""

    @property
    def script(self) -> str:
        """Return what to run, in the shell of the whole page."""
        if self.answers is None:
            return self.line
        return shlex.join((sys.executable, "-P", str(ON_TERMINAL), self.line, *self.answers))


def commands(one: Page) -> Iterator[Command]:
    """Yield every command of the blocks of ``sh`` and ``console``, in order."""
    for language, block in one.blocks:
        if language == "sh":
            for line in (match[0] for match in _LINE.finditer(block)):
                if "\n" in line:
                    yield Command(line)
                elif not line.startswith("#"):
                    promise = line.partition(PROMISE)[2]
                    yield Command(re.split(r"\s+# ", line)[0], re.escape(promise))
        if language == "console":
            head, *rest = re.split(rf"^{re.escape(PROMPT)}", block, flags=re.MULTILINE)
            assert head == "", f"{one.name}: a console block begins with a command"
            for part in rest:
                line, _, output = part.partition("\n")
                answers = tuple(ANSWERED.findall(output))
                yield Command(line, rf"\A{_pattern(output)}\Z", answers)


def _pattern(output: str) -> str:
    lines = (
        ".*".join(map(re.escape, re.split("…", re.sub(" +", " ", line.rstrip()))))
        for line in output.splitlines()
    )
    return "\n".join(lines)


def write_files(one: Page, folder: Path) -> None:
    """Write the YAML blocks of a page to the files that they name."""
    for name, content in yaml_files(one).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def wrong_commands(
    typed: Sequence[Command], folder: Path, environment: Mapping[str, str]
) -> list[str]:
    """Run commands in one shell; return those that fail or print something else."""
    # In braces, so that what one command exports the next one has.
    place = shlex.quote(str(folder))
    script = "\n".join(
        f"{{ {command.script}\n}} > {place}/output-{number} 2>&1; echo $? > {place}/code-{number}"
        for number, command in enumerate(typed)
    )
    subprocess.run(["bash", "-c", script], cwd=folder, env=environment, check=True)
    wrong = []
    for number, command in enumerate(typed):
        output = (folder / f"output-{number}").read_text()
        code = (folder / f"code-{number}").read_text().strip()
        plain = "\n".join(re.sub(" +", " ", line.rstrip()) for line in output.splitlines())
        if code != "0" or not re.search(command.output, plain):
            wrong.append(f"$ {command.line}\n{output}exit code {code}")
    return wrong


def reader_environment(binaries: Binaries, folder: Path) -> dict[str, str]:
    """Return an environment with applyprune and kubectl, and no kubeconfig."""
    programs = folder / "bin"
    programs.mkdir()
    (programs / "kubectl").symlink_to(binaries.kubectl)
    script = programs / "applyprune"
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m applyprune "$@"\n')
    script.chmod(0o755)
    own = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
    return {**own, "PATH": f"{programs}:{own['PATH']}"}
