"""The runs of many sets: their order, what a failure stops, and the second runs."""

from __future__ import annotations

from contextlib import closing
from threading import Event as Flag
from typing import TYPE_CHECKING, cast

import pytest

from applyprune.engine.ports import Cancellation
from applyprune.engine.set_runs import SIDE_BY_SIDE, SetRun, SetRuns
from applyprune.errors import RunFailed
from applyprune.model.events import (
    ErrorRaised,
    Finished,
    ObjectDone,
    Planned,
    SetEvent,
    Started,
    WarningRaised,
)
from applyprune.model.fate import Fate, Outcome
from applyprune.model.identity import Ref, SetKey
from applyprune.model.options import DryRun, Mode
from applyprune.model.plan import Cause, Plan, RemoveStep
from applyprune.planning.between_sets import BetweenSets
from applyprune.planning.set_order import SetNeeds, SetOrder, set_order
from applyprune.values import replace
from tests.support.objects import config_map, manifest
from tests.support.planning import desired, live, recorded

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from applyprune.model.events import Event
    from applyprune.planning.world import CommandSets

A, B, C, D = (SetKey("shop", name) for name in "abcd")
OLD = Ref("", "ConfigMap", "home", "a")
FAILURE = RunFailed("it failed").problem


def ordered(**needs: str) -> SetOrder:
    """Return the order of sets; the value has the names of those that a set depends on."""
    found, errors = set_order(
        [SetNeeds(SetKey("shop", name), tuple(on)) for name, on in needs.items()], "here"
    )
    assert not errors
    return found


def started(key: SetKey) -> Started:
    return Started("run", Mode.APPLY, key.name, key.namespace, DryRun.OFF)


def ended(code: int = 0, **counts: int) -> Finished:
    found = {Outcome[name.upper()]: count for name, count in counts.items()}
    return Finished(found, code, 1.0, FAILURE if code else None)


def unchanged(_: CommandSets) -> Iterator[Event]:
    yield ended(unchanged=1)


_ALONE = BetweenSets()


class Runs:
    """Runs that are scripted, and what came of them."""

    def __init__(
        self, order: SetOrder, between: BetweenSets = _ALONE, *, is_dry: bool = False
    ) -> None:
        self.stop = Cancellation()
        self.began: list[tuple[SetKey, CommandSets]] = []
        self.scripts: dict[SetKey, Callable[[CommandSets], Iterator[Event]]] = {}
        self.all = SetRuns(
            {key: SetRun(f"deploy/{key.name}", self._run(key)) for key in order.needs},
            order,
            between,
            self.stop,
            is_dry=is_dry,
        )

    def _run(self, key: SetKey) -> Callable[[CommandSets, Sequence[SetKey]], Iterator[Event]]:
        def run(command: CommandSets, upcoming: Sequence[SetKey]) -> Iterator[Event]:
            assert upcoming[0] == key
            self.began.append((key, command))
            return self.scripts.get(key, unchanged)(command)

        return run

    def fail(self, *keys: SetKey, code: int = 3) -> None:
        self.scripts |= dict.fromkeys(keys, lambda _: iter([ended(code)]))

    def events(self) -> dict[SetKey, list[Event]]:
        """Return the events of each set, in the order in which the sets ended."""
        found: dict[SetKey, list[Event]] = {}
        for event in self.all.events():
            assert isinstance(event, SetEvent)
            assert event.input == f"deploy/{event.key.name}"
            found.setdefault(event.key, []).append(event.event)
        assert {key: events[-1] for key, events in found.items()} == self.all.finished
        return found

    @property
    def names(self) -> str:
        return "".join(key.name for key, _ in self.began)


def test_sets_begin_after_those_that_they_depend_on() -> None:
    runs = Runs(ordered(a="b", b="c", c="", d="a"))
    found = runs.events()
    assert runs.names == "cbad"
    assert found == {key: [ended(unchanged=1)] for key in (A, B, C, D)}


def test_sets_run_side_by_side_but_not_all_at_once() -> None:
    """None of them ends before as many have begun as may run; then the rest follows."""
    names = [f"s{number}" for number in range(2 * SIDE_BY_SIDE)]
    runs = Runs(ordered(**dict.fromkeys(names, "")))
    all_begun, most = Flag(), [0]

    def script(_: CommandSets) -> Iterator[Event]:
        most[0] = max(most[0], len(runs.began) - len(runs.all.finished))
        if len(runs.began) == SIDE_BY_SIDE:
            all_begun.set()
        all_begun.wait()
        yield ended()

    runs.scripts = dict.fromkeys(runs.all.runs, script)
    runs.events()
    assert most[0] == SIDE_BY_SIDE
    assert len(runs.began) == len(names)


def test_failure_stops_only_what_depends_on_it() -> None:
    runs = Runs(ordered(a="", b="a", c="b", d=""))
    runs.fail(A, code=5)
    found = runs.events()
    assert sorted(runs.names) == ["a", "d"]
    errors = {
        key: str(events[0].problem)
        for key, events in found.items()
        if len(events) > 1
        if isinstance(events[0], ErrorRaised)
    }
    again = "Run the same command again when that is mended."
    assert errors == {
        B: f"the set shop/b was not run: it depends on shop/a, which has failed\n  {again}",
        C: "the set shop/c was not run: it depends on shop/b, which was not run, because shop/a "
        f"has failed\n  {again}",
    }
    assert {key: one.exit_code for key, one in runs.all.finished.items()} == {
        A: 5,
        B: 3,
        C: 3,
        D: 0,
    }


def test_sets_of_a_dry_run_wait_for_none() -> None:
    brought = manifest({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    between = BetweenSets((A, B), brings={A: [brought]}, uses={B: [A]})
    runs = Runs(ordered(a="", b="a"), between, is_dry=True)
    runs.fail(A)
    found = runs.events()
    assert found == {A: [ended(3)], B: [ended(unchanged=1)]}
    assert {key: command.coming for key, command in runs.began} == {A: (), B: (brought,)}
    assert {command.prunes_after for _, command in runs.began} == {""}


def test_of_two_sets_that_use_each_other_one_gets_nothing_from_the_other() -> None:
    """An apply has to begin with one of them."""
    brought = manifest({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    between = BetweenSets((A, B), brings={A: [brought], B: [brought]}, uses={A: [B], B: [A]})
    runs = Runs(ordered(a="", b=""), between, is_dry=True)
    runs.events()
    assert sorted(command.coming for _, command in runs.began) == [(), (brought,)]


def test_sets_that_use_one_that_failed_still_run() -> None:
    """Its Namespace may be there since long ago."""
    runs = Runs(ordered(a="", b=""), BetweenSets((A, B), uses={A: [B]}))
    runs.fail(B)
    runs.events()
    assert runs.names == "ba"


# Second runs.


def plan(command: CommandSets, *, moves: bool = False) -> Planned:
    """Return the plan of a set that one object has left."""
    one = desired()
    cause, fate = (Cause.MOVES, Fate.LEAVE) if moves else (Cause.ORDINARY, Fate.PRUNE)
    step = RemoveStep(recorded(one, live(one.ref)), None, fate, cause=cause)
    return Planned(Plan((), (step,), command.prunes_after))


WARNED = WarningRaised(RunFailed("a warning").problem)
KEPT = ObjectDone(desired(config_map("b")).ref, Outcome.UNCHANGED)


def removing(runs: Runs, key: SetKey, *, moves: bool = False) -> None:
    """Let a set prune an object as soon as it may, or forget it."""

    def script(command: CommandSets) -> Iterator[Event]:
        is_first = [one for one, _ in runs.began].count(key) == 1
        yield started(key)
        yield WARNED
        yield plan(command, moves=moves and is_first)
        yield KEPT
        outcome = Outcome.REMOVED_FROM_INVENTORY if moves else Outcome.PRUNED
        done = not (command.prunes_after or (moves and is_first))
        yield ObjectDone(OLD, outcome if done else Outcome.NOT_PRUNED, reason="why")
        yield Finished({Outcome.UNCHANGED: 1, outcome if done else Outcome.NOT_PRUNED: 1}, 0, 1.0)

    runs.scripts[key] = script


def outcomes(events: Sequence[Event]) -> list[str]:
    return [str(one.outcome) for one in events if isinstance(one, ObjectDone)]


def test_sets_that_others_need_prune_after_them_in_the_reverse_order() -> None:
    runs = Runs(ordered(a="", b="a", c="b", d=""))
    for key in (A, B, C, D):
        removing(runs, key)
    found = runs.events()
    assert sorted(runs.names[:4]) == ["a", "b", "c", "d"]
    assert runs.names[4:] == "ba"
    later = {key: command.prunes_after for key, command in runs.began[:4]}
    assert later == {A: "only after shop/b", B: "only after shop/c", C: "", D: ""}
    assert {command.prunes_after for _, command in runs.began[4:]} == {""}
    for key in (A, B):
        # As if it were one run.
        assert [type(one) for one in found[key]].count(Started) == 1
        assert found[key].count(WARNED) == 1
        assert outcomes(found[key]) == ["unchanged", "pruned"]
        assert found[key][-1] == Finished({Outcome.UNCHANGED: 1, Outcome.PRUNED: 1}, 0, 2.0)
    assert outcomes(found[C]) == ["unchanged", "pruned"]


def test_object_that_moves_is_forgotten_by_a_second_run() -> None:
    runs = Runs(ordered(a="", b=""))
    removing(runs, A, moves=True)
    found = runs.events()
    assert sorted(runs.names) == ["a", "a", "b"]
    assert outcomes(found[A]) == ["unchanged", str(Outcome.REMOVED_FROM_INVENTORY)]


def test_set_that_a_failed_one_needs_prunes_nothing() -> None:
    runs = Runs(ordered(a="", b="a", c="b"))
    removing(runs, A)
    runs.fail(C)
    found = runs.events()
    assert runs.names == "abc"
    assert [one for one in found[A] if isinstance(one, ObjectDone)] == [
        KEPT,
        ObjectDone(OLD, Outcome.NOT_PRUNED, reason="the set shop/c, which needs it, has failed"),
    ]
    assert found[A][-1] == Finished({Outcome.UNCHANGED: 1, Outcome.NOT_PRUNED: 1}, 0, 1.0)


def test_second_run_that_fails_ends_the_set_so_and_stops_those_before_it() -> None:
    runs = Runs(ordered(a="", b="a", c="b"))
    removing(runs, A)
    removing(runs, B)
    once = runs.scripts[B]

    def script(command: CommandSets) -> Iterator[Event]:
        for event in once(command):
            if isinstance(event, Finished) and not command.prunes_after:
                yield replace(event, exit_code=3, problem=FAILURE)
            else:
                yield event

    runs.scripts[B] = script
    found = runs.events()
    assert runs.names == "abcb"
    assert (runs.all.finished[B].exit_code, runs.all.finished[B].problem) == (3, FAILURE)
    assert outcomes(found[A]) == ["unchanged", "not-pruned"]


def test_failed_first_run_has_no_second_one() -> None:
    runs = Runs(ordered(a="", b=""))
    removing(runs, A, moves=True)
    once = runs.scripts[A]
    runs.scripts[A] = lambda command: (
        replace(event, exit_code=4) if isinstance(event, Finished) else event
        for event in once(command)
    )
    found = runs.events()
    assert sorted(runs.names) == ["a", "b"]
    assert outcomes(found[A]) == ["unchanged", "not-pruned"]


@pytest.mark.holds("unread-input-may-claim")
def test_nothing_is_pruned_while_the_input_of_a_set_is_unknown() -> None:
    """Neither at once, nor in a second run."""
    runs = Runs(ordered(a="", b="a", c="", d=""))
    runs.all.unread = [D]
    removing(runs, A)
    removing(runs, C)
    found = runs.events()
    reason = "the input of the set shop/d cannot be read, and may have it"
    assert {command.prunes_after for _, command in runs.began} == {reason}
    assert outcomes(found[A]) == outcomes(found[C]) == ["unchanged", "not-pruned"]


# The end of the command.


@pytest.mark.holds("no-set-after-a-signal")
def test_signal_lets_no_more_set_begin_and_nothing_be_pruned() -> None:
    runs = Runs(ordered(a="", b="a", c=""))
    removing(runs, A)
    once = runs.scripts[A]

    other_has_begun = Flag()

    def script(command: CommandSets) -> Iterator[Event]:
        yield from once(command)
        other_has_begun.wait()
        runs.stop.request()

    def other(_: CommandSets) -> Iterator[Event]:
        other_has_begun.set()
        yield ended()

    runs.scripts |= {A: script, C: other}
    found = runs.events()
    assert sorted(runs.names) == ["a", "c"]
    assert outcomes(found[A]) == ["unchanged", "not-pruned"]
    assert runs.all.finished[B].exit_code == 130
    assert [str(one.problem) for one in found[B] if isinstance(one, ErrorRaised)] == [
        "interrupted: nothing was changed"
    ]


def test_set_that_a_signal_has_cut_off_has_not_failed() -> None:
    """What depends on it was interrupted, too."""
    runs = Runs(ordered(a="", b="a"))

    def script(_: CommandSets) -> Iterator[Event]:
        runs.stop.request()
        yield ended(130)

    runs.scripts[A] = script
    (error, end) = runs.events()[B]
    assert isinstance(error, ErrorRaised)
    assert str(error.problem) == "interrupted: nothing was changed"
    assert end == runs.all.finished[B]
    assert runs.all.finished[B].exit_code == 130


def test_bug_in_one_run_is_raised_when_the_others_have_ended() -> None:
    runs = Runs(ordered(a="", b="", c="b"))
    may_end, seen = Flag(), list[str]()

    def broken(_: CommandSets) -> Iterator[Event]:
        yield started(A)
        raise ZeroDivisionError

    def slow(_: CommandSets) -> Iterator[Event]:
        may_end.wait()
        seen.append("b")
        yield ended()

    runs.scripts = {A: broken, B: slow}

    def read() -> Iterator[Event]:
        for event in runs.all.events():
            may_end.set()
            yield event

    with pytest.raises(ZeroDivisionError):
        list(read())
    assert seen == ["b"]
    assert "c" not in runs.names


def test_bug_before_a_run_has_begun_is_raised() -> None:
    """Nobody waits for a run that does not exist."""
    runs = Runs(ordered(a="", b="a"))
    runs.all.removed = cast("Sequence[SetKey]", 1)
    with pytest.raises(TypeError):
        list(runs.all.events())
    assert runs.names == ""


def test_reader_that_leaves_waits_for_what_runs() -> None:
    runs = Runs(ordered(a="", b="a"))
    seen = list[str]()

    def script(_: CommandSets) -> Iterator[Event]:
        yield started(A)
        seen.append("still" if runs.stop.requested else "before")
        yield ended()

    runs.scripts[A] = script
    with closing(cast("Generator[Event, None, None]", runs.all.events())) as events:
        next(events)
    assert len(seen) == 1
    assert runs.names == "a"
    assert runs.stop.requested
