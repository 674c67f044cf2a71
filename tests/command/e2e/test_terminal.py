"""The command on a terminal, in a pipe, and told to be quiet or to say more."""

from __future__ import annotations

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
from tests.support.command import applyprune
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
    return f"applyprune apply web -n {namespace} -f {source} --no-check --yes"


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


def test_missing_standard_streams_are_survived(
    plane: Plane, api: Api, namespace: str, tmp_path: Path
) -> None:
    """Some services start programs so."""
    environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig)}
    for name, closed in (("in", "<&-"), ("out", ">&-"), ("err", "2>&-")):
        source = write_input(tmp_path / f"{name}.json", [config_map(name)])
        command = f'"$0" -m applyprune apply {name} -n {namespace} -f {source} {closed}'
        subprocess.run(["sh", "-c", command, sys.executable], env=environment, check=True)
        assert api.exists(f"/api/v1/namespaces/{namespace}/configmaps/{name}"), name
