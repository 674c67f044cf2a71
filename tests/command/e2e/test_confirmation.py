"""The question of a process on a terminal: nothing is written before a yes.

What is asked about, and which answer means what: ``tests/command/cli/test_confirmation.py``.
"""

from __future__ import annotations

import json
import re
import signal
from typing import TYPE_CHECKING

from tests.support.api import writes
from tests.support.desk import NAMES
from tests.support.objects import config_map
from tests.support.stage import Stage

if TYPE_CHECKING:
    from tests.support.api import AuditTrail
    from tests.support.desk import Desk

QUESTION, DELETION = "Apply these changes? [y/N/d] ", "Delete these objects? [y/N/d] "
PRUNE_OF_A8 = "OBJECT         PLAN\nconfigmap/a8   would be pruned\n"
ALL = dict.fromkeys(NAMES, "1")
FEWER = dict.fromkeys(NAMES[:-1], "1")


def test_yes_carries_out_what_was_shown(desk: Desk, audit: AuditTrail) -> None:
    """The target comes first, then the table, then the question; then the run as ever."""
    audit.restart()
    with desk.on_terminal(*desk.line("apply", **FEWER)) as terminal:
        assert terminal.read_until(QUESTION) == f"{desk.target}{PRUNE_OF_A8}{QUESTION}"
        assert writes(audit) == []
        terminal.type("y\n")
        assert terminal.ended() == 0
    assert re.search(r"y\nconfigmap/a8 pruned\nweb: 8 unchanged, 1 pruned in", terminal.shown)
    assert desk.there() == FEWER


def test_answer_is_read_only_after_the_question(desk: Desk, audit: AuditTrail) -> None:
    """Keys typed before are dropped. No live line is drawn over the question.

    With ``-f -``, standard input is the input, and the answer comes from the process's terminal.
    """
    path = desk.line("apply", **FEWER)[5]
    assert not isinstance(path, str)
    line = ("apply", "web", "-n", desk.namespace, "-f", "-")
    how = {"environment": {"TERM": "xterm"}, "stdin": path.read_text()}
    audit.restart()
    with desk.on_terminal(*line, **how) as terminal:
        terminal.type("y\n")
        terminal.read_until(QUESTION)
        terminal.type("perhaps\n")
        terminal.read_until(f"{QUESTION}perhaps\nAnswer y, n, or d for the diff.\n{QUESTION}")
        assert writes(audit) == []
        terminal.type("d\n")
        shown = terminal.read_until_count(QUESTION, 3)
        assert "configmap/a8 would be pruned\n" in shown
        terminal.type("y\n")
        assert terminal.ended() == 0
    assert f"{QUESTION}y\n" in terminal.shown
    assert desk.there() == FEWER


def test_interrupted_question_writes_nothing(desk: Desk, audit: AuditTrail) -> None:
    """Data on standard output is free of the question, and says how the run has ended."""
    path = desk.folder / "data"
    audit.restart()
    with path.open("w") as data:
        line = desk.line("apply", "-o", "json", **FEWER)
        with desk.on_terminal(*line, stdout=data) as terminal:
            terminal.read_until(f"{desk.target}{PRUNE_OF_A8}{QUESTION}")
            terminal.type("\x03")
            assert terminal.ended() == 130
    assert terminal.shown.endswith(f"{QUESTION}^C\nerror: interrupted: nothing was changed\n")
    document = json.loads(path.read_text())
    assert (document["exitCode"], document["context"]) == (130, desk.plane.name)
    assert document["errors"][0]["kind"] == "Interrupted"
    assert writes(audit) == []


def test_closed_terminal_writes_nothing(desk: Desk, audit: AuditTrail) -> None:
    """The hangup ends the process."""
    audit.restart()
    with desk.on_terminal("delete", "web", "-n", desk.namespace) as terminal:
        terminal.read_until(DELETION)
        terminal.hang_up()
        assert terminal.ended() == -signal.SIGHUP
    assert writes(audit) == []


def test_second_plan_is_asked_about_because_it_needs_more(desk: Desk) -> None:
    """Another run was first while the question was open."""
    others = Stage(desk.plane.kubeconfig, desk.namespace)
    with desk.on_terminal(*desk.line("apply", **FEWER)) as terminal:
        terminal.read_until(QUESTION)
        others.run(*(config_map(name, "1") for name in (*NAMES, "new")))
        terminal.type("y\n")
        terminal.read_until(
            "y\nAnother run finished first. The plan is now:\nOBJECT          PLAN\n"
            f"configmap/a8    would be pruned\nconfigmap/new   would be pruned\n{QUESTION}"
        )
        terminal.type("n\n")
        assert terminal.ended() == 1
    assert terminal.shown.endswith(f"{QUESTION}n\nnothing was changed\n")
    assert desk.there() == {**ALL, "new": "1"}
