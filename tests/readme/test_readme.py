"""The README cannot lie: its commands run, its files are used, its tables are the code's."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from applyprune import __version__, errors
from applyprune.cli.crash import BUG
from applyprune.cli.main import cli
from applyprune.controller.bundle import DeletionPolicy
from applyprune.controller.constants import STALLING, Condition
from applyprune.planning import annotations as keeping

if TYPE_CHECKING:
    from collections.abc import Iterator

    from applyprune.localplane import Binaries

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
# What the test of the wheel runs, and takes long.
RUN_ELSEWHERE = {"pip install .", "applyprune demo"}
PROMISE = "# → "
"""Before what a command's output must hold; any other comment is for the reader only."""
NO_ERRORS = {0, 1, BUG}
"""Exit codes that no error has: done, differences found, our own mistake, nobody reads."""


@dataclass(frozen=True, slots=True)
class Command:
    """A line of a shell block, and what it says that its output holds."""

    line: str
    promise: str


def blocks(language: str) -> list[str]:
    """Return the README's fenced blocks of one language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def commands() -> list[Command]:
    """Return every line of every shell block."""
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    return [
        Command(re.split(r"\s+# ", line)[0], line.partition(PROMISE)[2])
        for line in lines
        if line and not line.startswith("#")
    ]


def files() -> dict[str, str]:
    """Return the YAML blocks by the path that their first line, a comment, names."""
    found = {}
    for block in blocks("yaml"):
        head, _, content = block.partition("\n")
        found[head.removeprefix("# ")] = content
    return found


@pytest.fixture
def workplace(tmp_path: Path, binaries: Binaries) -> Iterator[tuple[Path, dict[str, str]]]:
    """A folder with the README's files, and an environment in which nothing is left running."""
    for name, content in files().items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "kubectl").symlink_to(binaries.kubectl)
    script = programs / "applyprune"
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m applyprune "$@"\n')
    script.chmod(0o755)
    environment = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
    environment["PATH"] = f"{programs}:{environment['PATH']}"
    # Named planes of the test's own, whatever the user has running.
    environment["XDG_STATE_HOME"] = str(tmp_path / "state")
    yield tmp_path, environment
    subprocess.run([script, "local", "down", "--all"], env=environment, check=True)


def test_commands_do_as_the_readme_says(workplace: tuple[Path, dict[str, str]]) -> None:
    """In order and in one shell, as a reader would type them."""
    folder, environment = workplace
    run = [
        command
        for command in commands()
        if command.line not in RUN_ELSEWHERE and not command.line.startswith("make ")
    ]
    assert any(command.promise for command in run)
    # In braces, so that what one command exports the next one has.
    script = "\n".join(
        f"{{ {command.line}\n}} > output-{number} 2>&1 || exit 1"
        for number, command in enumerate(run)
    )
    reply = subprocess.run(["bash", "-c", script], cwd=folder, env=environment, check=False)
    told = [
        f"$ {command.line}\n{output.read_text()}"
        for number, command in enumerate(run)
        if (output := folder / f"output-{number}").exists()
    ]
    assert reply.returncode == 0, "\n".join(told)
    broken = [text for text, command in zip(told, run, strict=True) if command.promise not in text]
    assert broken == []


def test_make_targets_exist() -> None:
    """In the Makefile, as targets."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    named = {command.line.split()[1] for command in commands() if command.line.startswith("make ")}
    assert named
    assert named - targets == set()


def test_every_verb_is_named_and_no_other() -> None:
    """The table of verbs is the command line's."""
    table = section("Verbs").partition("| option |")[0]
    verbs = set(re.findall(r"`applyprune ([a-z]+)", table))
    assert verbs == set(cli.list_commands(click.Context(cli)))


def test_every_option_is_named_and_no_other() -> None:
    """The table of options is the command line's: each option with the verbs that have it."""
    there_are = set(_options(cli, ""))
    rows = re.findall(r"^\| (`-.*?) \| (.*?) \|", section("Verbs"), re.MULTILINE)
    verbs = {verb for verb, _ in there_are}
    said = {
        (verb, option)
        for options, named in rows
        for option in re.findall(r"--[a-z-]+", options)
        for verb in _named(named, verbs)
    }
    assert said == there_are


def _named(cell: str, verbs: set[str]) -> set[str]:
    """Return the verbs that a cell of the table means; a group of verbs stands for all of them."""
    names = cell.removeprefix("all but ").split(", ")
    found = {verb for verb in verbs for name in names if f"{verb} ".startswith(f"{name} ")}
    return found if cell == ", ".join(names) else verbs - found


def test_exit_codes_are_named() -> None:
    """Every code that an error has is in the table, and nothing else but what is to come."""
    rows = re.findall(r"^\| (\d[\d, ]*) \|", section("Exit codes"), re.MULTILINE)
    said = {int(code) for row in rows for code in row.split(",")}
    classes = [
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, errors.ApplypruneError)
    ]
    interrupted = {errors.Interrupted(number).exit_code for number in (2, 15)}
    assert said == NO_ERRORS | interrupted | {one.exit_code for one in classes}


def test_orphan_annotations_are_named() -> None:
    """The table of annotations is the one that the planner reads."""
    said = set(re.findall(r"`([a-z0-9./-]+: [a-z]+)`", section("Keeping an object")))
    assert said == {f"{key}: {value}" for key, value in keeping._VALUES.items()}
    assert all(f"`{one}`" in README for one in (keeping._ARGO, *keeping._ARGO_OPTIONS))


def test_conditions_and_deletion_policies_are_named() -> None:
    """Those of a Bundle, each in its table; and the image is this version's."""
    bundles = section("Bundles")
    named = set(re.findall(r"^\| `([A-Z]\w+)` \|", bundles, re.MULTILINE))
    assert named == {*map(str, Condition), *map(str, DeletionPolicy)}
    (stalled,) = re.findall(r"^\| `Stalled` \| .*?: (.*) \|$", bundles, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", stalled)) == set(map(str, STALLING))
    assert f"-t applyprune:{__version__} " in bundles


def test_links_lead_somewhere() -> None:
    """Anchors within the file; what is elsewhere is not this test's to reach."""
    headings = re.findall(r"^#+ (.*)$", README, re.MULTILINE)
    anchors = {heading.lower().replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#([^)]*)\)", README)) <= anchors


def section(heading: str) -> str:
    """Return the text under a heading."""
    return README.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def _options(command: click.Command, verb: str) -> Iterator[tuple[str, str]]:
    """Yield the verb, ``inventory list`` for example, and the option of every long option."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            one = command.get_command(context, name)
            assert one is not None
            yield from _options(one, f"{verb} {name}".strip())
        return
    for parameter in command.params:
        for option in (*parameter.opts, *parameter.secondary_opts):
            if option.startswith("--"):
                yield verb, option
