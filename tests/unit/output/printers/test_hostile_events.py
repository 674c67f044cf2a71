"""No event, whatever its texts hold, gets a control character to a terminal."""

from __future__ import annotations

import io
import re
from itertools import product
from typing import TYPE_CHECKING

import pytest

from applyprune.model.events import Finished, ObjectDiff, Started, Waiting
from applyprune.model.fate import Fate
from applyprune.model.identity import Ref
from applyprune.output.printers import PRINTERS, TEXTS, OutputTarget, printer
from applyprune.output.progress import LiveDisplay, RunProgress
from applyprune.output.terminal import Terminal
from tests.support.output.filled import EVENTS, filled
from tests.support.output.parsers import commands

if TYPE_CHECKING:
    from applyprune.model.events import Event

MARK = "zzz"
HOSTILE = f"{MARK}\x1b[2J\x1b]0;t\x07\r\x9b1A\x7f\u202e\u2066\x00\x08\u2028\nerror: forged\nweb: 9"


def printed(form: str, *events: Event, width: int) -> str:
    """Return what a printer writes on both streams for a stream of events."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="utf-8")
    terminal = Terminal(stream, stream, {"TERM": "xterm"})
    screen = OutputTarget(terminal.out, terminal.err, colour=True, live=width > 0, width=width)
    one = printer(form, screen)
    for event in events:
        one.show(event)
    one.close()
    return raw.getvalue().decode()


@pytest.mark.parametrize("form", sorted(PRINTERS))
def test_events_print_without_control_characters(form: str) -> None:
    """But for line feeds; in every format, on a terminal and in a pipe."""
    began, end = filled(Started, "web"), filled(Finished, HOSTILE)
    for kind, optional, width in product(EVENTS, (True, False), (0, 80)):
        text = printed(form, began, filled(kind, HOSTILE, optional=optional), end, width=width)
        assert all(line.isprintable() for line in text.split("\n")), (kind, optional, text)


COMMANDS = (
    "::error::forged",
    f"{MARK}\n::error file=a::forged\n  ::add-mask::x\n\t::stop-commands::y",
    f"{MARK} ##[error]forged ##vso[task.setvariable variable=a]b ###[group]c",
)


@pytest.mark.parametrize("text", COMMANDS)
@pytest.mark.parametrize("form", sorted((PRINTERS.keys() | TEXTS) - {"github"}))
def test_no_format_prints_a_command_of_others(form: str, text: str) -> None:
    """The runner of a pipeline reads every line of its log, whatever its format."""
    for kind in EVENTS:
        for width in (0, 80):
            log = printed(form, filled(Started, "web"), filled(kind, text), width=width)
            assert commands(log) == []
            assert "##vso[" not in log


@pytest.mark.holds("forged-command")
def test_context_line_of_a_diff_is_not_taken_for_a_command() -> None:
    """A line of a text of several lines stands behind a space only."""
    lines = {"a": "::error::forged\n::group::x\nlast\n", "b": "1"}
    before, after = ({"kind": "ConfigMap", "data": {**lines, "b": one}} for one in "12")
    event = ObjectDiff(Ref("", "ConfigMap", "a", "b"), Fate.CHANGE, before, after)
    log = printed("diff", event, width=0)
    assert commands(log) == []
    assert ":\\x3aerror::forged" in log or "\\x3a:error::forged" in log


def test_messages_never_look_like_our_own_lines() -> None:
    """A line feed in a message leads to an indented line."""
    for kind in EVENTS:
        text = printed("text", filled(Started, "web"), filled(kind, HOSTILE), width=80)
        assert not re.search(r"^(error: forged|web: 9)", text, re.MULTILINE), (kind, text)


def test_text_only_events_have_text() -> None:
    """All but what is told later; the last four come with their verbs."""
    silent = {
        kind.__name__
        for kind in EVENTS
        if MARK not in printed("text", filled(kind, HOSTILE), width=0)
    }
    later = {"Started", "Planned", "InventoryWritten", "Waiting", "ObjectStuck", "SetsBegan"}
    assert silent <= later | {"ObjectDiff", "ObjectStatus", "ApplySetListed", "Explanation"}


@pytest.mark.parametrize("kind", EVENTS)
def test_live_lines_are_harmless(kind: type[Event]) -> None:
    """Neither the display of a terminal nor the heartbeat of a log."""
    progress = RunProgress()
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="utf-8")
    terminal = Terminal(stream, stream, {"TERM": "xterm"})
    for event in (filled(Started, HOSTILE), filled(kind, HOSTILE), filled(Waiting, HOSTILE)):
        progress.update(event, 1.0)
        for line in (*progress.lines(2.0), progress.sentence(2.0)):
            terminal.err(line)
    live = LiveDisplay(terminal)
    live.show(filled(Waiting, HOSTILE))
    live.close()
    text = raw.getvalue().decode()
    assert MARK in text
    assert all(line.isprintable() for line in text.split("\n")), repr(text)
