"""The commands in the docs run, and print what the docs say."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from applyprune import __version__
from tests.docs.pages import DOWN, PAGES, README, ROOT, Page, page, yaml_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


ELSEWHERE = ("make ", "pip install ", "applyprune demo", ".venv/bin/python -m pytest ")
"""What begins so runs in tests of its own, or would run the tests in themselves."""
PROMISE = "# → "
"""Before what a command's output must hold; any other comment is for the reader only."""
PROMPT = "$ "
"""Before a command in a block of ``console``; its whole output follows, ``…`` matches any part.

It runs on a terminal; what follows a question is typed.
"""
ON_TERMINAL = ROOT / "tests/support/pseudo_terminal.py"
ANSWERED = re.compile(r"\[y/N\] (.*)")


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

    @property
    def runs_here(self) -> bool:
        """Whether the test of the commands runs it."""
        return not self.line.startswith(ELSEWHERE) and self.line != DOWN


def commands(one: Page) -> Iterator[Command]:
    """Yield every command of the blocks of ``sh`` and ``console``, in order."""
    for language, block in one.blocks:
        if language == "sh":
            for line in block.splitlines():
                if line and not line.startswith("#"):
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


RUN = [one for one in PAGES if any(command.runs_here for command in commands(one))]


@pytest.mark.parametrize("one", RUN, ids=lambda one: one.name)
def test_commands_print_what_the_page_shows(
    one: Page, environment: Mapping[str, str], tmp_path: Path
) -> None:
    """In order and in one shell, as a reader would type them."""
    for name, content in yaml_files(one).items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    run = [command for command in commands(one) if command.runs_here]
    # In braces, so that what one command exports the next one has.
    script = "\n".join(
        f"{{ {command.script}\n}} > output-{number} 2>&1; echo $? > code-{number}"
        for number, command in enumerate(run)
    )
    subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environment, check=True)
    wrong = []
    for number, command in enumerate(run):
        output = (tmp_path / f"output-{number}").read_text()
        code = (tmp_path / f"code-{number}").read_text().strip()
        plain = "\n".join(re.sub(" +", " ", line.rstrip()) for line in output.splitlines())
        if code != "0" or not re.search(command.output, plain):
            wrong.append(f"$ {command.line}\n{output}exit code {code}")
    assert wrong == []


def test_commands_with_shown_output_exist() -> None:
    """Nothing above is empty by mistake."""
    assert {"README.md", "docs/guides/controller.md"} <= {one.name for one in RUN}
    promised = [command for one in RUN for command in commands(one) if command.output]
    assert len(promised) > len(RUN)


def test_make_targets_exist() -> None:
    """In the Makefile, as a target."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    typed = [command.line for one in PAGES for command in commands(one)]
    inline = [line for one in PAGES for line in re.findall(r"`(make [a-z-]+)`", one.prose)]
    named = {line.split()[1] for line in (*typed, *inline) if line.startswith("make ")}
    assert named
    assert named - targets == set()


def test_image_has_the_tag_of_this_version() -> None:
    """Wherever a page builds it."""
    built = [tag for one in PAGES for tag in re.findall(r"-t applyprune:(\S+) \.", one.text)]
    assert set(built) == {__version__}


def test_example_of_a_refused_prune_is_real() -> None:
    """It is what tests/e2e sees on a screen."""
    (example,) = [text for language, text in page("docs/concepts/safety.md").blocks if not language]
    assert example in (ROOT / "fixtures/screens/refused.pipe.txt").read_text(encoding="utf-8")


def test_readme_takes_five_minutes() -> None:
    """What is longer belongs to docs/."""
    assert len(README.text.splitlines()) <= 175
