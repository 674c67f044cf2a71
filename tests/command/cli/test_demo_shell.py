"""The shell of the demos: it types answers on a terminal, and notices what is not as expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from applyprune.cli.sandbox import Shell
from applyprune.errors import RunFailed
from applyprune.localplane import Plane

ASKS = "sh -c 'printf \"[y/N/d] \"; read answer; echo got $answer'"


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A shell whose commands need no cluster."""
    none = Path("/nowhere")
    plane = Plane("none", tmp_path, "", none, "", none, none, none, none, None, 0)
    return Shell(plane, tmp_path)


def test_shell_types_an_answer_when_it_is_asked(
    shell: Shell, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.run(ASKS, why="it asks", answer="yes", contains="got yes")
    assert capsys.readouterr().out == f"$ {ASKS}  # it asks\n[y/N/d] yes\ngot yes\n"


def test_shell_gives_commands_a_terminal_of_80_columns(shell: Shell) -> None:
    """If its own output is none. No variable says that it is in a pipeline."""
    shell.run("sh -c 'test -t 0 && test -t 1 && test -t 2 && stty size'", contains="24 80")


def test_variables_for_other_clusters_and_pipelines_are_left_out(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CI", "KUBECONFIG", "APPLYPRUNE_CONTEXT"):
        monkeypatch.setenv(name, "of-the-user")
    shell.run("sh -c 'env | grep of-the-user'", code=1)


@pytest.mark.parametrize(
    ("command", "expected", "why"),
    [
        ("sh -c 'exit 3'", {}, "its exit code is 3"),
        ("sh -c 'exit 0'", {"code": 1}, "its exit code is 0"),
        ("echo one", {"contains": "two"}, "does not contain 'two'"),
        ("echo one", {"answer": "y"}, "it does not ask"),
    ],
)
def test_unexpected_result_fails_the_demo(
    shell: Shell, command: str, expected: dict[str, str], why: str
) -> None:
    with pytest.raises(RunFailed, match="the demo failed") as raised:
        shell.run(command, **expected)  # type: ignore[arg-type]
    assert why in raised.value.reason
