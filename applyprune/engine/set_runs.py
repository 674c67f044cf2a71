"""Run many sets in one command: side by side, each when all that it needs is there.

A set whose run fails stops the sets that depend on it, and no other. What has left a set that
others need is deleted after they have run, by a second run of the set: it plans again, by fresh
reads. Such a run also lets the inventory forget what another set has taken. For whoever reads the
events, both are one run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct, field

from applyprune.errors import Interrupted, RunFailed
from applyprune.model.events import (
    ErrorRaised,
    Event,
    Finished,
    ObjectDone,
    Planned,
    ReadinessReported,
    SetEvent,
    Started,
    WarningRaised,
)
from applyprune.model.fate import Outcome
from applyprune.model.plan import Cause
from applyprune.model.text import and_more
from applyprune.planning.between_sets import start_order
from applyprune.planning.world import CommandSets
from applyprune.values import replace

if TYPE_CHECKING:
    from applyprune.engine.ports import Cancellation
    from applyprune.errors import ApplypruneError
    from applyprune.model.identity import Ref, SetKey
    from applyprune.model.problem import Problem
    from applyprune.planning.between_sets import BetweenSets
    from applyprune.planning.set_order import SetOrder

SIDE_BY_SIDE = 8
"""How many sets run at a time."""
_SHOWN = 3


class SetRun(Struct, frozen=True):
    """One of the sets of a command."""

    input: str
    """The folder of its files."""
    run: Callable[[CommandSets, Sequence[SetKey]], Iterator[Event]]
    """Runs it once; the other value are the sets that begin with it, or soon.

    It raises no error: ErrorRaised has it, and Finished comes last.
    """


class SetRuns(Struct):
    """The runs of all sets of a command."""

    runs: Mapping[SetKey, SetRun]
    order: SetOrder
    """What they depend on, among them sets that need not run."""
    between: BetweenSets
    cancellation: Cancellation
    removed: Sequence[SetKey] = ()
    """Sets whose files are gone: others may take their objects."""
    unread: Sequence[SetKey] = ()
    """Sets whose input cannot be read: it may have what another set no longer has."""
    is_dry: bool = False
    """Whether nothing is applied, so that no set has to wait for another one."""
    finished: dict[SetKey, Finished] = field(default_factory=dict)
    """The end of each set that has one."""
    begun: set[SetKey] = field(default_factory=set)
    """The sets that have begun."""
    _failed: set[SetKey] = field(default_factory=set)
    _queue: SimpleQueue[tuple[SetKey, _Item]] = field(default_factory=SimpleQueue)
    _error: BaseException | None = None

    def events(self) -> Iterator[Event]:
        """Run all sets, and yield their events; the last one of each set is a Finished.

        Once the cancellation is requested, no set begins, and nothing more is pruned.
        """
        if self.is_dry:
            yield from self._dry_runs()
        else:
            start = start_order(self.order, self.between.uses)
            held: dict[SetKey, _FirstRun] = {}
            yield from self._first_runs(start, held)
            yield from self._second_runs(start.of_prunes(), held)
        for key in [one for one in self.runs if one not in self.finished]:
            error = Interrupted(self.cancellation.exit_code - 128, is_unchanged=True)
            yield from self._not_run(key, error)
        if self._error is not None:
            raise self._error

    def _dry_runs(self) -> Iterator[Event]:
        order = self.order.with_needs(dict.fromkeys(self.order.needs, ()))
        # Of two sets that use each other, one would have to begin without the other one.
        needs = start_order(self.order, self.between.uses).needs

        def command_of(key: SetKey) -> CommandSets:
            before = [one for one in self.between.uses.get(key, ()) if one in needs[key]]
            return self._seen_by(key, before)

        for key, event in self._side_by_side(order, order, self.runs, command_of):
            if event is not None:
                yield self._of(key, event)

    def _first_runs(self, start: SetOrder, held: dict[SetKey, _FirstRun]) -> Iterator[Event]:
        """Run each set when those before it have ended; keep what a second run is to do."""
        begun: dict[SetKey, _FirstRun] = {}
        dependents = start.of_prunes().needs

        def command_of(key: SetKey) -> CommandSets:
            later = [str(one) for one in self._next_of(key, dependents)]
            seen = self._seen_by(key)
            if later and not seen.prunes_after:
                seen = replace(seen, prunes_after=f"only after {and_more(later, _SHOWN)}")
            begun[key] = _FirstRun(seen.prunes_after)
            return seen

        for key, event in self._side_by_side(start, self.order, self.runs, command_of):
            first = begun[key]
            if event is not None:
                if not first.keeps(event):
                    yield self._of(key, event)
            elif first.end is not None:
                self._note(key, first.end)
                if first.kept and not first.end.exit_code:
                    held[key] = first
                else:
                    yield from self._ended(key, first)
        for key, way in self.order.stopped(self._failed).items():
            if key in self.runs and key not in self.begun:
                yield from self._not_run(key, _stopped(key, way))

    def _next_of(self, key: SetKey, needs: Mapping[SetKey, Sequence[SetKey]]) -> Sequence[SetKey]:
        """Return the next sets that run, by what each needs: through those that do not run."""
        left = list(needs[key])
        for one in left:
            if one not in self.runs:
                left += [other for other in needs[one] if other not in left]
        return [one for one in left if one in self.runs]

    def _second_runs(self, order: SetOrder, held: Mapping[SetKey, _FirstRun]) -> Iterator[Event]:
        """Prune in sets that others need, each after those; and forget what has moved."""
        for key, event in self._side_by_side(order, order, held, self._seen_by):
            if event is None:
                continue
            first = held[key]
            if isinstance(event, Finished):
                self._note(key, event)
                yield self._of(key, first.end_with(event))
            elif first.adds(event):
                yield self._of(key, event)
        ways = order.stopped(self._failed)
        for key, first in held.items():
            if key not in self.finished:
                reason = (
                    f"the set {ways[key][-1]}, which needs it, has failed" if key in ways else ""
                )
                yield from self._ended(key, first, reason)

    def _seen_by(self, key: SetKey, before: Collection[SetKey] = ()) -> CommandSets:
        """Return what a run of a set must know of the others."""
        seen = self.between.seen_by(key, self.removed, before=before)
        if not self.unread:  # guard: unread-input-may-claim always
            return seen
        sets = "set" if len(self.unread) == 1 else "sets"
        unread = and_more([str(one) for one in self.unread], _SHOWN)
        return replace(
            seen, prunes_after=f"the input of the {sets} {unread} cannot be read, and may have it"
        )

    def _note(self, key: SetKey, end: Finished) -> None:
        """Take note of a set that has failed; one that a signal has cut off has not."""
        is_cut = self.cancellation.requested and end.exit_code == self.cancellation.exit_code
        if end.exit_code and not is_cut:
            self._failed.add(key)

    def _ended(self, key: SetKey, first: _FirstRun, reason: str = "") -> Iterator[Event]:
        """Yield what a second run would have done as not done, and the end of the first."""
        for event in first.kept.values():
            yield self._of(key, replace(event, reason=reason) if reason else event)
        if first.end is not None:
            yield self._of(key, first.end)

    def _not_run(self, key: SetKey, error: ApplypruneError) -> Iterator[Event]:
        yield self._of(key, ErrorRaised(error.problem))
        yield self._of(key, Finished({}, error.exit_code, 0.0, error.problem))

    def _of(self, key: SetKey, event: Event) -> SetEvent:
        if isinstance(event, Finished):
            self.finished[key] = event
        return SetEvent(key, self.runs[key].input, event)

    def _side_by_side(
        self,
        order: SetOrder,
        stops: SetOrder,
        wanted: Collection[SetKey],
        command_of: Callable[[SetKey], CommandSets],
    ) -> Iterator[tuple[SetKey, Event | None]]:
        """Run the wanted sets in an order, and yield their events; None at the end of each.

        A set that failed stops those that wait for it in ``stops``: these do not run.
        """
        ended = {key for key in order.needs if key not in wanted}
        running: set[SetKey] = set()
        try:
            while True:
                ended |= stops.stopped(self._failed).keys() - running
                upcoming = order.startable(ended, running=running)
                for at, key in enumerate(upcoming):
                    # guard: no-set-after-a-signal -> len(running) < SIDE_BY_SIDE
                    if len(running) < SIDE_BY_SIDE and not self.cancellation.requested:
                        self._begin(key, command_of(key), upcoming[at:])
                        running.add(key)
                        self.begun.add(key)
                if not running:
                    return
                key, item = self._queue.get()
                while not isinstance(item, _End):
                    yield key, item
                    key, item = self._queue.get()
                running.remove(key)
                ended.add(key)
                self._fail(item.error)
                yield key, None
        finally:
            if running:
                # Whoever reads the events has left: what runs ends as after a signal.
                self.cancellation.request()
            while running:
                key, item = self._queue.get()
                running -= {key} if isinstance(item, _End) else set()

    def _begin(self, key: SetKey, command: CommandSets, upcoming: Sequence[SetKey]) -> None:
        def work() -> None:
            try:
                for event in self.runs[key].run(command, upcoming):
                    self._queue.put((key, event))
            except BaseException as error:  # noqa: BLE001 -- whoever reads the events gets it
                self._queue.put((key, _End(error)))
            else:
                self._queue.put((key, _End()))

        Thread(target=work, name=f"applyprune-{key.name}", daemon=True).start()

    def _fail(self, error: BaseException | None) -> None:
        """Keep an error of the program itself, and let the other sets end as after a signal."""
        if error is not None:
            self._error = self._error or error
            self.cancellation.request()


class _End(Struct, frozen=True):
    """A run has no more events."""

    error: BaseException | None = None


_Item: TypeAlias = "Event | _End"


class _FirstRun(Struct):
    """The first run of a set, as far as a second one completes it."""

    later: str
    """Why it prunes nothing; empty if it does."""
    kept: dict[Ref, ObjectDone] = field(default_factory=dict)
    """What a second run is to do."""
    end: Finished | None = None
    _refs: frozenset[Ref] = frozenset()
    _warned: list[Problem] = field(default_factory=list)

    def keeps(self, event: Event) -> bool:
        """Take one event of the first run; return whether it is not shown yet."""
        match event:
            case Planned(plan=plan):
                self._refs = frozenset(
                    step.entry.ref
                    for step in plan.removals
                    if step.cause is Cause.MOVES or (self.later and plan.no_prune == self.later)
                )
            case WarningRaised(problem=problem):
                self._warned.append(problem)
            case ObjectDone(ref=ref, problem=None) if ref in self._refs:
                self.kept[ref] = event
                return True
            case Finished():
                self.end = event
                return True
        return False

    def adds(self, event: Event) -> bool:
        """Return whether an event of the second run says more than those of the first one."""
        match event:
            case Started() | Planned() | ReadinessReported(problem=None):
                return False
            case ObjectDone(outcome=Outcome.UNCHANGED):
                return False
            case WarningRaised(problem=problem):
                return problem not in self._warned
        return True

    def end_with(self, second: Finished) -> Finished:
        """Return the end of both runs."""
        if self.end is None:
            return second
        counts = Counter(self.end.counts)
        counts.subtract(event.outcome for event in self.kept.values())
        counts.update({**second.counts, Outcome.UNCHANGED: 0})
        return replace(
            second,
            counts={outcome: count for outcome, count in counts.items() if count > 0},
            elapsed=self.end.elapsed + second.elapsed,
        )


def _stopped(key: SetKey, way: Sequence[SetKey]) -> RunFailed:
    """Return the error of a set of which one that it depends on has failed."""
    need, last = way[0], way[-1]
    through = "" if need == last else f", because {last} has failed"
    what = "has failed" if need == last else "was not run"
    return RunFailed(
        f"the set {key} was not run",
        reason=f"it depends on {need}, which {what}{through}",
        hint="Run the same command again when that is mended.",
    )
