"""Where a command over many sets is, on a terminal and in a log."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from applyprune.model.events import (
    ErrorRaised,
    Finished,
    ObjectStuck,
    Planned,
    SetEvent,
    SetsBegan,
    Started,
    Waiting,
    WarningRaised,
    stuck,
)
from applyprune.model.fate import Fate
from applyprune.model.identity import Ref, SetKey
from applyprune.model.options import DryRun, Mode
from applyprune.model.plan import Plan
from applyprune.model.problem import Problem, ProblemKind
from applyprune.output.progress import HEARTBEAT, INTERRUPTED, LOG_INTERVAL, LiveDisplay
from applyprune.output.terminal import Terminal
from tests.support.clocks import HeldClock
from tests.support.output.plans import applied
from tests.support.output.stream import EVIL
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Sequence

    from applyprune.clock import Clock
    from applyprune.model.events import Event

STARTED = Started("r", Mode.APPLY, "web", "shop", DryRun.OFF)
PLANNED = Planned(Plan((applied(Fate.CREATE, "a"), applied(Fate.CREATE, "b")), ()))
REF = Ref("apps", "Deployment", "shop", "web")
READY = Waiting(REF, "ready", 6.0, 60.0, "0 of 1")
ENDED = Finished({}, 0, 1.0)
FAILED = ErrorRaised(Problem(ProblemKind.RUN_FAILED, "not run: shop/web, which it depends on"))


class _Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def of(name: str, *events: Event) -> list[Event]:
    """Return events of one of the sets."""
    return [SetEvent(SetKey("shop", name), f"deploy/{name}", one) for one in events]


def _shown(events: Sequence[Event], clock: Clock, stream: io.StringIO) -> LiveDisplay:
    live = LiveDisplay(Terminal(stream, stream, {"TERM": "xterm"}, clock))
    for event in events:
        live.show(event)
    return live


def _advance(clock: HeldClock, seconds: float) -> None:
    before = eventually(lambda: max(clock.waiting, default=0))
    clock.advance(seconds)
    eventually(lambda: max(clock.waiting, default=0) > before)


def _drawn(stream: io.StringIO) -> list[str]:
    """Return the live lines that were drawn last."""
    last = stream.getvalue().split("\x1b[?7l")[-1].split("\x1b[J")[0]
    return [line.removesuffix("\x1b[K").strip("\r") for line in last.split("\n")]


SEVEN = [one for name in "abcdefg" for one in of(name, STARTED)]
SCREENS: list[tuple[Sequence[Event], Sequence[str]]] = [
    ([SetsBegan(4)], ["░░░░░░░░░░░░░░░░ 0 of 4 sets done  0:10"]),
    ([SetsBegan(0)], ["0 of 0 sets done  0:10"]),
    (
        [SetsBegan(4), *of("web", STARTED), *of("api", STARTED, PLANNED), *of("web", ENDED)],
        ["████░░░░░░░░░░░░ 1 of 4 sets done  0:10", "  shop/api: applying, 0 of 2 (0:10)"],
    ),
    (
        [*of("web", STARTED, READY), *of("api", FAILED, ENDED)],
        [
            "████████░░░░░░░░ 1 of 2 sets done  0:10",
            "  shop/web: waiting until deployment.apps/web is ready: 0 of 1 (0:16, 0:44 lef…",
        ],
    ),
    (
        [SetsBegan(8), *SEVEN],
        [
            "░░░░░░░░░░░░░░░░ 0 of 8 sets done  0:10",
            *(f"  shop/{name}: reading the cluster (0:10)" for name in "abcde"),
            "  and 2 more",
        ],
    ),
    (
        [SetsBegan(1), *of("web", Waiting(None, "the lock", 0.0, 60.0, "held by ci@host"))],
        [
            "░░░░░░░░░░░░░░░░ 0 of 1 set done  0:10",
            "  shop/web: waiting for the lock, held by ci@host (0:10, 0:50 left)",
        ],
    ),
]


@pytest.mark.parametrize(("events", "screen"), SCREENS)
def test_live_lines_show_how_many_sets_are_done_and_which_run(
    events: Sequence[Event], screen: Sequence[str]
) -> None:
    """Of how many there are, or of those that have begun; five of them by name."""
    clock, stream = HeldClock(), _Screen()
    live = _shown(events, clock, stream)
    _advance(clock, 10)
    assert _drawn(stream) == screen
    live.stopping()
    _advance(clock, 1)
    assert _drawn(stream)[1] == f"  {INTERRUPTED}"
    live.close()


def test_end_of_a_set_does_not_end_the_display() -> None:
    """That of the command does."""
    clock, stream = HeldClock(), io.StringIO()
    live = _shown([SetsBegan(1), *of("web", STARTED, ENDED)], clock, stream)
    _advance(clock, HEARTBEAT)
    assert stream.getvalue() == "1 of 1 set done (0:30)\n"
    live.show(ENDED)
    assert clock.waiting == []


def test_interrupt_before_the_first_set_is_shown() -> None:
    """A log says it once."""
    clock, stream = HeldClock(), io.StringIO()
    live = LiveDisplay(Terminal(stream, stream, {"TERM": "xterm"}, clock))
    live.stopping()
    live.show(SetsBegan(2))
    _advance(clock, 1)
    _advance(clock, 1)
    assert stream.getvalue() == f"{INTERRUPTED}\n"
    live.close()


def test_silent_log_has_the_set_that_began_first() -> None:
    """And counts the others; a reason that was printed is not repeated."""
    clock, stream = HeldClock(), io.StringIO()
    live = _shown(
        [
            SetsBegan(9),
            WarningRaised(FAILED.problem),
            *of("web", STARTED, READY),
            *of("api", STARTED),
            *of("c", STARTED),
        ],
        clock,
        stream,
    )
    told = "shop/web: waiting until deployment.apps/web is ready: 0 of 1 (0:06, 0:54 left)\n"
    assert stream.getvalue() == told
    _advance(clock, HEARTBEAT)
    assert stream.getvalue() == told + (
        "0 of 9 sets done (0:30); shop/web: waiting until deployment.apps/web is ready "
        "(0:36, 0:24 left); and 2 more sets\n"
    )
    live.close()


def test_waits_of_each_set_are_reported_by_its_name() -> None:
    """When they last, and when they change; not those of a set that has ended."""
    clock, stream = HeldClock(), io.StringIO()
    short = Waiting(REF, "ready", 1.0, 60.0, "0 of 1")
    live = _shown([*of("web", STARTED, READY), *of("api", STARTED, READY, short)], clock, stream)
    live.show(of("web", ObjectStuck(REF, stuck("no node"), 6.0))[0])
    live.show(of("api", ObjectStuck(REF, stuck("no node"), 6.0))[0])
    _advance(clock, LOG_INTERVAL)
    changed = Waiting(Ref("", "Pod", "shop", "b"), "ready", 11.0, 60.0, "Pending")
    for event in (*of("web", READY, ENDED), *of("api", changed, ENDED)):
        live.show(event)
    wait = "waiting until deployment.apps/web is ready: 0 of 1 (0:06, 0:54 left)"
    assert stream.getvalue().splitlines() == [
        f"shop/web: {wait}",
        f"shop/api: {wait}",
        "shop/web: waiting: deployment.apps/web is not ready (6 s): no node",
        "shop/api: waiting: deployment.apps/web is not ready (6 s): no node",
        "shop/api: waiting until pod/b is ready: Pending (0:11, 0:49 left)",
    ]
    live.close()


def test_open_question_is_not_in_the_time_of_any_set() -> None:
    """Neither of the command, nor of the sets that have begun."""
    clock, stream = HeldClock(), _Screen()
    live = _shown([SetsBegan(1), *of("web", STARTED)], clock, stream)
    _advance(clock, 2)
    with live.paused():
        _advance(clock, 3600)
    _advance(clock, 1)
    assert _drawn(stream) == [
        "░░░░░░░░░░░░░░░░ 0 of 1 set done  0:03",
        "  shop/web: reading the cluster (0:03)",
    ]
    live.close()


def test_names_of_sets_are_harmless() -> None:
    """On a terminal and in a log."""
    for stream in (_Screen(), io.StringIO()):
        clock = HeldClock()
        hostile = Waiting(REF, "ready", 6.0, 60.0, EVIL)
        live = _shown([SetEvent(SetKey(EVIL, EVIL), EVIL, hostile)], clock, stream)
        _advance(clock, HEARTBEAT)
        text = stream.getvalue()
        assert "\\x1b[2J" in text
        assert not any(bad in text for bad in ("\x1b[2J", "\x9b", "\u202e", "::warning::z\n"))
        live.close()
