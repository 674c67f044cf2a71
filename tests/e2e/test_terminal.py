"""The command on a terminal, in a pipe, and told to be quiet or to say more."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest

from applyprune.output.progress import INTERRUPTED
from tests.support.command import applyprune, start
from tests.support.fault_proxy import Exchange, FaultProxy
from tests.support.input_files import write_input
from tests.support.objects import config_map
from tests.support.tmux import PROGRAM, Terminal, is_idle
from tests.support.waiting import HANG

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import Api

in_tmux = pytest.mark.skipif(PROGRAM is None, reason="there is no tmux here to look through")
REQUEST = re.compile(r"[A-Z]+ /[^ ]* (\d{3}|no response .*) in \d+\.\d{3} s(, attempt \d+)?")
SECRET = "c4n4ryc4n4ry"


def _held(source: Path, namespace: str) -> str:
    # Otherwise the check would be held back first.
    return f"applyprune apply web -n {namespace} -f {source} --no-check --ask never"


def _is_redrawn(since: str, screen: str) -> bool:
    return "applying" in screen and since not in screen


@contextmanager
def _held_terminal(
    plane: Plane, columns: int, folder: Path
) -> Iterator[tuple[Terminal, threading.Event]]:
    """Yield a terminal for a server that holds every PATCH back until the event is set."""
    go_on = threading.Event()
    with FaultProxy(plane) as proxy:

        def hook(exchange: Exchange) -> None:
            if exchange.method == "PATCH" and "dryRun" not in exchange.query:
                go_on.wait(HANG)

        proxy.before_forward = hook
        environment = {"KUBECONFIG": str(proxy.kubeconfig(folder))}
        with Terminal(columns, folder, environment) as terminal:
            yield terminal, go_on


@in_tmux
def test_second_signal_ends_the_run_and_restores_the_terminal(
    plane: Plane, namespace: str, tmp_path: Path
) -> None:
    """The first is answered on the screen, though nothing comes from the server."""
    source = write_input(tmp_path / "a.json", [config_map("a")])
    with _held_terminal(plane, 80, tmp_path) as (terminal, go_on):
        terminal.type(_held(source, namespace))
        terminal.wait(lambda one: "web: applying ░░░░" in one)
        terminal.press("C-c")
        terminal.wait(lambda one: INTERRUPTED in one)
        terminal.press("C-c")
        screen = terminal.wait(is_idle)
        go_on.set()
        assert "░░░░" not in screen
        assert "interrupted:" not in screen
        assert terminal.cursor_is_shown
        terminal.type("echo $?")
        terminal.wait(lambda one: "\n130\n" in one)


@in_tmux
def test_narrowed_window_keeps_no_live_lines(plane: Plane, namespace: str, tmp_path: Path) -> None:
    """Data goes into a file, the display is on the terminal still."""
    source = write_input(tmp_path / "a.json", [config_map("a")])
    with _held_terminal(plane, 120, tmp_path) as (terminal, go_on):
        terminal.type(f"clear; {_held(source, namespace)} >data")
        screen = terminal.wait(lambda one: "\nweb: applying ░░░░" in one)
        assert screen.startswith("web in ")
        for columns in (60, 100, 50):
            (before,) = re.findall(r"applying .* (\d+:\d\d)$", terminal.screen(), re.MULTILINE)
            terminal.resize(columns)
            # A later time is shown by a redraw, and no older line stays.
            screen = terminal.wait(partial(_is_redrawn, before))
            assert screen.count("applying") == 1, screen
        terminal.press("C-c")
        terminal.wait(lambda one: "\n  interrupted: finishing" in one)
        go_on.set()
        screen = terminal.wait(is_idle)
        assert "\nerror: interrupted\n  Run the same" in screen
        assert "applying" not in screen
    assert (tmp_path / "data").read_text().startswith("configmap/a created\nweb: 1 created in ")


@in_tmux
@pytest.mark.parametrize(
    ("setting", "coloured"), [("NO_COLOR=", True), ("NO_COLOR=1", False), ("TERM=dumb", False)]
)
def test_colours_follow_the_users_choice(
    plane: Plane, namespace: str, tmp_path: Path, setting: str, coloured: bool
) -> None:
    """NO_COLOR counts when it is not empty."""
    write_input(tmp_path / "a.json", [config_map("a")])
    with Terminal(80, tmp_path, {"KUBECONFIG": str(plane.kubeconfig)}) as terminal:
        terminal.type(f"{setting} applyprune apply web -n {namespace} -f a.json --ask never")
        terminal.wait(lambda one: " in " in one and is_idle(one))
        assert ("\x1b[32mcreated" in terminal.screen(colours=True)) is coloured
        assert "configmap/a created" in terminal.screen()


def test_quiet_prints_data_and_errors(plane: Plane, namespace: str) -> None:
    """Warnings go; what was done, what went wrong and the exit code stay."""
    where = ("-n", namespace)
    warned = applyprune("delete", "web", "--yes", "-q", *where, kubeconfig=plane.kubeconfig)
    assert (warned.code, warned.err) == (0, "")
    wrong = applyprune("inventory", "check", "web", "-q", *where, kubeconfig=plane.kubeconfig)
    assert wrong.code == 2
    assert wrong.err.startswith("error: ")


def test_verbose_prints_each_request_and_no_secret(
    plane: Plane, namespace: str, tmp_path: Path
) -> None:
    """Method, path, status and time; neither values nor the token."""
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s"},
        "stringData": {"password": SECRET},
    }
    source = write_input(tmp_path / "s.json", [body])
    target = ("apply", namespace, "-n", namespace, "-f", source)
    ended = applyprune(*target, "-v", kubeconfig=plane.kubeconfig)
    lines = ended.err.splitlines()
    assert ended.code == 0
    assert [line for line in lines if not REQUEST.fullmatch(line)] == []
    sent = [line for line in lines if line.startswith(f"PATCH /api/v1/namespaces/{namespace}/")]
    assert ["dryRun=All" in line for line in sent] == [True, False]
    assert all("fieldManager=applyprune/" in line for line in sent)
    assert SECRET not in ended.err
    assert plane.token not in ended.err
    assert "continue=" not in ended.err
    assert applyprune(*target, kubeconfig=plane.kubeconfig).err == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ("a\x1b[2Jpply",),
        ("apply", "web", "-f", "a\x1b[31m.yaml"),
        ("apply", "web", "-f", "a.yaml", "--\x9b2J"),
        ("apply", "w\x07eb", "-f", "a.yaml"),
        ("apply", "web", "-f", "a.yaml", "--orphan", "x\u202e/y", "--dry-run=no\x1b"),
        ("inventory", "show", "web", "--context", "\x1b]0;x\x07"),
    ],
    ids=json.dumps,
)
def test_typed_text_is_shown_escaped(plane: Plane, arguments: tuple[str, ...]) -> None:
    """Scripts pass on what others wrote; errors repeat it."""
    ended = applyprune(*arguments, kubeconfig=plane.kubeconfig)
    assert ended.code != 0
    assert ended.err
    assert all(line.isprintable() for line in (ended.out + ended.err).split("\n")), ended


def test_limited_terminal_gets_all_output(
    plane: Plane, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An arrow or a name in another script ends no run."""
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    one = config_map("a")
    one["metadata"]["annotations"] = {"applyprune.dev/wave": "猫"}
    ended = applyprune(
        "apply", "web", "-n", namespace, "-f", "-",
        kubeconfig=plane.kubeconfig, stdin=json.dumps(one),
    )  # fmt: skip
    assert ended.code == 2
    assert r"\u732b" in ended.err


def test_early_closed_reader_ends_no_run(plane: Plane, namespace: str, tmp_path: Path) -> None:
    """``| grep -q`` must not leave a set half applied: the run goes on, and ends as it would."""
    source = write_input(tmp_path / "a.json", [config_map(f"c-{at}") for at in range(12)])
    target = ("apply", "web", "-n", namespace, "-f", source)
    with start(*target, kubeconfig=plane.kubeconfig) as process:
        assert process.stdout is not None
        process.stdout.close()
        process.wait(HANG)
        assert process.returncode == 0
    again = applyprune(*target, kubeconfig=plane.kubeconfig)
    assert "web: 12 unchanged in " in again.out


@pytest.mark.parametrize("into", ["stdout", "file"])
def test_full_disk_is_reported(plane: Plane, namespace: str, tmp_path: Path, into: str) -> None:
    """The run goes to its end; the exit code says that its report is not whole."""
    source = write_input(tmp_path / "a.json", [config_map("a")])
    option = "-o text=/dev/full" if into == "file" else "> /dev/full"
    command = f'"$0" -m applyprune apply {namespace} -n {namespace} -f {source} {option}'
    ended = subprocess.run(
        ["sh", "-c", command, sys.executable],
        env={**os.environ, "KUBECONFIG": str(plane.kubeconfig)},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    name = "/dev/full" if into == "file" else "standard output"
    assert ended.returncode == 3
    assert ended.stderr == f"error: {name} is not complete: No space left on device\n"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_missing_standard_streams_are_survived(
    plane: Plane, api: Api, namespace: str, tmp_path: Path, closed: str
) -> None:
    """Some services start programs so."""
    source = write_input(tmp_path / "a.json", [config_map("a")])
    command = f'"$0" -m applyprune apply web -n {namespace} -f {source} {closed}'
    environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig)}
    subprocess.run(["sh", "-c", command, sys.executable], env=environment, check=True)
    assert api.exists(f"/api/v1/namespaces/{namespace}/configmaps/a")
