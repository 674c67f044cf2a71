"""``--help``: what it tells, where, and how little it loads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from applyprune.cli.main import VERBS, cli, exit_code_of
from applyprune.cli.options import EVERY_OPTION, HEADINGS, REST
from applyprune.cli.target import note_connected

if TYPE_CHECKING:
    from collections.abc import Iterator

    from syrupy.assertion import SnapshotAssertion

COLUMNS = 80
MOST_LINES = 60
UNUSED = ("model", "planning", "engine", "cluster", "sources", "output")


def verbs() -> dict[str, click.Command]:
    """Return every verb that does something, by what is typed for it."""
    return dict(_below(cli, ""))


def _below(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for one in command.list_commands(context):
            found = command.get_command(context, one)
            assert found is not None
            yield from _below(found, f"{name} {one}".strip())
    else:
        yield name, command


def text(command: click.Command, name: str, *, everything: bool = False) -> str:
    """Return the help of a verb as an 80 columns' terminal shows it."""
    context = click.Context(command, info_name=name, terminal_width=COLUMNS)
    if everything:
        context.meta[EVERY_OPTION] = True
    return command.get_help(context)


@pytest.mark.parametrize("name", sorted(verbs()))
def test_verb_help_has_examples_and_fits_the_width(name: str) -> None:
    """No line is longer than a terminal is wide, and nobody has to guess how a verb is called."""
    told = text(verbs()[name], name)
    assert [line for line in told.splitlines() if len(line) > COLUMNS] == []
    assert len(told.splitlines()) <= MOST_LINES
    everything = text(verbs()[name], name, everything=True)
    assert [line for line in everything.splitlines() if len(line) > COLUMNS] == []
    if not name.startswith("local kubectl"):
        assert f"applyprune {name}" in told.partition("Examples:")[2]


def test_help_groups_options_under_headings() -> None:
    """What several verbs share is found in the same place."""
    told = text(verbs()["apply"], "apply", everything=True)
    places = [told.index(f"\n{heading}:\n") for heading in (REST, *HEADINGS)]
    assert places == sorted(places)
    guards = told.partition("\nPrune guards:\n")[2].partition("\n\n")[0]
    assert {"--max-prune", "--allow-kind", "--orphan"} <= set(guards.replace(" ", "\n").split())
    assert "--wait" not in guards


@pytest.mark.parametrize("name", ["apply", "delete", "diff", "status"])
def test_help_is_short_and_another_option_shows_the_rest(
    name: str, golden: SnapshotAssertion
) -> None:
    """``--help`` has what most people need; ``--help-all`` has everything about everything."""
    assert text(verbs()[name], name) + "\n" == golden(name=f"help/{name}.txt")
    everything = text(verbs()[name], name, everything=True)
    assert everything + "\n" == golden(name=f"help/{name}.all.txt")


def test_help_of_apply_fits_a_screen() -> None:
    """What needs more room has to be rare, or said in fewer words."""
    assert len(text(verbs()["apply"], "apply").splitlines()) <= 50


def test_help_all_shows_as_many_options_as_help_says(capsys: pytest.CaptureFixture[str]) -> None:
    """It needs neither a set nor an input."""
    verb = verbs()["apply"]
    with pytest.raises(click.exceptions.Exit):
        verb.make_context("apply", ["--help-all"])
    told = capsys.readouterr().out
    shown = [line for line in told.splitlines() if line.startswith("  -")]
    count = len(shown) - len(["-h, --help", "--help-all"])
    assert f"\n\n--help-all shows all {count} options." in text(verb, "apply")


def test_help_lists_each_verb_with_its_own_summary() -> None:
    """It is written down once more so that ``--help`` need not import them."""
    context = click.Context(cli)
    said = {name: first for below in VERBS.values() for name, (_, first) in below.items()}
    is_so = {}
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        first = (command.help or "").partition("\n\n")[0]
        is_so[name] = " ".join(first.split())
    assert said == is_so


@pytest.mark.parametrize("group", ["inventory", "local"])
def test_help_of_a_group_describes_its_verbs(group: str) -> None:
    """A sentence that ends in three dots is no help."""
    found = cli.get_command(click.Context(cli), group)
    assert isinstance(found, click.Group)
    told = text(found, group)
    assert "..." not in told.partition("Commands:")[2]
    assert found.list_commands(click.Context(found)) == [
        line.split()[0]
        for line in told.partition("Commands:\n")[2].splitlines()
        if line[2:3].strip()
    ]


@pytest.mark.parametrize(
    ("line", "told", "advice"),
    [
        ("apply web x", "unexpected argument: x", ""),
        ("apply web --prun", "no such option --prun", "Did you mean --prune?"),
        ("apply --context", "option --context requires an argument", ""),
        ("--version=3", "option --version does not take a value", ""),
        ("apply --wait=3", "option --wait does not take a value", ""),
        ("aply", "no such command aply", "Did you mean apply?"),
        ("completion", "missing argument SHELL", "Choose from: bash, zsh, fish"),
    ],
)
def test_invalid_call_names_the_mistake(
    line: str, told: str, advice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has the form of every other error, also if click has found it, and where to read on."""
    assert exit_code_of(lambda: cli.main(line.split(), "applyprune", standalone_mode=False)) == 2
    first = line.split(maxsplit=1)[0]
    verb = "applyprune" if first in {"aply", "--version=3"} else f"applyprune {first}"
    error, usage, more = capsys.readouterr().err.splitlines()
    assert error == f"error: {told}"
    assert usage.startswith(f"  {advice}" if advice else f"  Usage: {verb} [OPTIONS]")
    assert more == f"  See: {verb} --help"


@pytest.mark.parametrize(
    ("is_connected", "told"), [(False, "aborted: nothing was changed"), (True, "aborted")]
)
def test_ctrl_c_before_the_cluster_is_asked_has_changed_nothing(
    is_connected: bool,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As while the input is read; afterwards a run may have changed something."""

    def interrupted(*_: object, **__: object) -> None:
        if is_connected:
            note_connected()
        raise KeyboardInterrupt

    monkeypatch.setattr("applyprune.cli.session.run_set", interrupted)
    line = ["plan", "web", "-f", "x"]
    assert exit_code_of(lambda: cli.main(line, "applyprune", standalone_mode=False)) == 130
    assert capsys.readouterr().err.strip() == told


def test_help_loads_no_verb() -> None:
    """``--help`` waits for click, and for nothing that a run needs."""
    unused = {"applyprune.errors", "applyprune.values", "msgspec"}
    assert loaded("--help") & (unused | {f"applyprune.{one}" for one in UNUSED}) == set()


def test_version_loads_as_little() -> None:
    """Editors and prompts ask for it often."""
    assert loaded("--version") - loaded("--help") == set()


def loaded(*arguments: str) -> set[str]:
    """Return the modules that a call of the command line has loaded at its end."""
    script = (
        "import sys\nfrom applyprune.cli.main import main\n"
        f"sys.argv = ['applyprune', *{arguments!r}]\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        "print('LOADED', *sys.modules)"
    )
    reply = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert reply.stdout.startswith(("Usage: applyprune", "applyprune, version "))
    return set(reply.stdout.rpartition("LOADED")[2].split())


@pytest.mark.parametrize(
    ("module", "argument"),
    [("applyprune.cli.main", "--help"), ("applyprune.output.terminal", "no-such-verb")],
)
def test_ctrl_c_while_loading_leaves_no_traceback(
    tmp_path: Path, module: str, argument: str
) -> None:
    """Python interrupts whatever import is on its way: the longest, or that of an error's text."""
    hook = f"""
import signal, sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "{module}":
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
"""
    (tmp_path / "sitecustomize.py").write_text(hook, encoding="utf-8")
    process = subprocess.run(
        [sys.executable, "-m", "applyprune", argument],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{Path(__file__).parents[3]}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (process.returncode, process.stdout, process.stderr) == (130, "", "")


def test_hardly_anything_is_loaded_before_ctrl_c_is_handled() -> None:
    """Whatever is imported before prints a traceback if it is interrupted."""
    script = (
        "import sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parents[3])!r})\n"
        "before = {*sys.modules}\nimport applyprune.__main__\nprint(*({*sys.modules} - before))"
    )
    reply = subprocess.run(
        [sys.executable, "-S", "-c", script], capture_output=True, text=True, check=True
    )
    allowed = {"__future__", "applyprune", "applyprune.__main__", "applyprune._version", "gc", "os"}
    # What a bare Python has loaded differs from system to system.
    assert {name for name in reply.stdout.split() if name not in allowed} <= {
        "abc", "_abc", "stat", "_stat", "posixpath", "ntpath", "genericpath", "os.path",
        "_collections_abc",
    }  # fmt: skip


@pytest.mark.parametrize(
    "is_left", [pytest.param(True, marks=pytest.mark.holds("threads-left")), False]
)
def test_thread_that_is_left_sees_no_end_of_python(is_left: bool) -> None:
    """What it uses is not freed under it; output and what was registered to run are not lost."""
    script = f"""
import atexit, os, sys, threading
from applyprune.cli import main

class Freed:
    def __del__(self, write=os.write):
        write(2, b"freed")

def work(**_):
    global freed
    freed = Freed()
    atexit.register(sys.__stdout__.write, "registered ")
    if {is_left}:
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    sys.stdout.write("done ")
    return 3

main.cli.main = work
main.main()
"""
    reply = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    expected = (3, "done registered ", "" if is_left else "freed")
    assert (reply.returncode, reply.stdout, reply.stderr) == expected
