"""What all parts of one run share: the cluster, the lock, the threads, the summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from queue import SimpleQueue
from threading import Lock
from typing import TYPE_CHECKING, Self, TypeVar

from msgspec import Struct, field

from applyprune.clock import CLOCK, Clock
from applyprune.engine.lock import InventoryLock
from applyprune.model.events import Event, Finished, ObjectDone, Started, WarningRaised
from applyprune.model.fate import Outcome
from applyprune.model.identity import Ref
from applyprune.model.inventory import NO_SOURCE, Changes, ObjectsOfOutcome
from applyprune.model.options import Mode, Options
from applyprune.model.plan import Plan
from applyprune.model.problem import IgnoredManifest, Manifest, Problem
from applyprune.planning.applyset import ApplySetIdentity
from applyprune.planning.history import MOST_REFS, is_recorded
from applyprune.planning.plan import verdict, with_own_exit_code
from applyprune.planning.secrets import KnownSecrets
from applyprune.planning.server_errors import (
    MOST_WARNINGS,
    more_warnings,
    warning_problems,
)
from applyprune.planning.world import CommandSets
from applyprune.values import replace

if TYPE_CHECKING:
    from applyprune.engine.ports import Cancellation, Cluster, Readable, Store
    from applyprune.model.inventory import HolderObservation, RunSource
    from applyprune.model.live import LiveObject
    from applyprune.planning.approval import PlanFile
    from applyprune.planning.world import Siblings


class RunRequest(Struct, frozen=True):
    """The input of one run."""

    applyset: ApplySetIdentity
    """The set to work on."""
    manifests: Sequence[Manifest] = ()
    """The desired objects."""
    namespace: str = ""
    """The namespace of manifests that name none."""
    options: Options = Options()
    """The options of the run; their mode says what it does."""
    who: str = ""
    """Who runs it, as other runs see it; by default the user and the host."""
    owner: str = ""
    """The Bundle that the run is for (``Bundle NAMESPACE/NAME``); empty for the command line."""
    takes_over: bool = False
    """Whether the Bundle may take over an existing set that no Bundle owns."""
    empty_inputs: Sequence[str] = ()
    """The parts of the input without objects, as the user has named them."""
    ignored: Sequence[IgnoredManifest] = ()
    """The objects that ignore rules leave out of the input."""
    plan_file: PlanFile | None = None
    """The plan that the run is bound to; None for whatever it plans itself."""
    observation: HolderObservation | None = None
    """What an earlier run of this machine has seen of the lock's holder; None if nothing."""
    siblings: Siblings | None = None
    """The sets with which this one may exchange objects; None for none."""
    command: CommandSets = CommandSets()
    """The other sets of the same command."""
    only_offers: bool = False
    """Whether nothing is done but to offer what has left the set."""
    source: Callable[[], RunSource] = lambda: NO_SOURCE
    """Says where the input came from; asked only if something changes."""
    withholds: Callable[[Mapping[str, LiveObject]], Mapping[str, str]] | None = None
    """Says why no object may be adopted from sets, by their labels and an object of each.

    Empty for a set that gives objects.
    """


class RunContext(Struct, frozen=True):
    """What all parts of one run share."""

    cluster: Cluster
    """The API server; every write is sent under the lease of the lock."""
    applyset: ApplySetIdentity
    """The set that the run works on."""
    options: Options
    """The options of the run."""
    cancellation: Cancellation
    """The request to end the run."""
    workers: WorkerPool
    """The threads for parallel requests."""
    lock: InventoryLock
    """The lock on the set's inventory; a dry run never takes it."""
    summary: RunSummary
    """The result of the run so far."""
    store: Readable
    """The inventory of the set; it also finds those of other sets."""

    @property
    def server_warnings(self) -> ServerWarnings:
        """Return what the API server has warned about."""
        return self.summary.server_warnings

    def started(self) -> Started:
        """Return the event that begins the run."""
        return Started(
            self.summary.run,
            self.options.mode,
            self.applyset.name,
            self.applyset.namespace,
            self.options.dry_run,
            self.cluster.context,
            self.cluster.server,
        )


@contextmanager
def run_context(
    request: RunRequest,
    cluster: Cluster,
    store: Store,
    cancellation: Cancellation,
    summary: RunSummary | None = None,
) -> Iterator[RunContext]:
    """Yield the context of a new run; at the end close the worker pool, then release the lock.

    ``summary`` counts what the run does; by default a new one, which knows of no dry run.
    """
    applyset, options = request.applyset, request.options
    summary = summary or RunSummary(cluster.run)
    with (
        InventoryLock(store, options, cancellation, run=summary.run, who=request.who) as lock,
        WorkerPool(options.concurrency, cancellation) as workers,
    ):
        warned = cluster.under_lease(lock).warning_to(summary.server_warnings.add)
        leased = warned.hiding(summary.secrets)
        yield RunContext(leased, applyset, options, cancellation, workers, lock, summary, store)


class ServerWarnings(Struct):
    """The warnings of one run; a dry run and the apply of an object give the same ones."""

    _new: dict[str, list[Ref]] = field(default_factory=dict)
    _seen: set[tuple[Ref, str]] = field(default_factory=set)
    _left: int = MOST_WARNINGS
    _lock: Lock = field(default_factory=Lock)

    def add(self, ref: Ref, text: str) -> None:
        """Take in a warning; thread-safe."""
        with self._lock:
            if (ref, text) not in self._seen:
                self._seen.add((ref, text))
                self._new.setdefault(text, []).append(ref)

    def events(self, plan: Plan) -> Iterator[WarningRaised]:
        """Yield what has come since the last call: one warning for all objects with that text."""
        with self._lock:
            found, self._new = self._new, {}
        shown = list(warning_problems(found, plan))[: self._left]
        self._left -= len(shown)
        yield from map(WarningRaised, shown)
        if more := len(found) - len(shown):
            yield WarningRaised(more_warnings(more))


class RunSummary(Struct):
    """The result of one run so far: its id, its outcomes and its problems."""

    run: str
    """The run's id."""
    problems: list[Problem] = field(default_factory=list)
    """The problems of single objects."""
    refusal: Problem | None = None
    """The problem of the whole prune, if a guard refused it."""
    held: bool = False
    """Whether the run ends with its plan: a fault or a refused prune has stopped it."""
    dry: bool = False
    """Whether it is a dry run, which changes nothing in any case."""
    mode: Mode = Mode.APPLY
    """What the run does."""
    server_warnings: ServerWarnings = field(default_factory=ServerWarnings)
    """What the API server has warned about."""
    secrets: KnownSecrets = field(default_factory=KnownSecrets)
    """The Secrets that the run has read, which no text of others may show."""
    hint: str = ""
    """Where its user finds more of what has failed; empty if nowhere."""
    clock: Clock = CLOCK
    _began: float = 0.0
    _counts: Counter[Outcome] = field(default_factory=Counter)
    _refs: dict[Outcome, list[Ref]] = field(default_factory=dict)
    _done: set[Ref] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._began = self.clock.now()

    @property
    def elapsed(self) -> float:
        """Return how many seconds the run has taken."""
        return self.clock.now() - self._began

    def left(self, refs: Iterable[Ref]) -> int:
        """Return how many of these objects have no result yet."""
        return len(set(refs) - self._done)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Do not count the time of the block: the consumer may ask somebody before it goes on."""
        began = self.clock.now()
        try:
            yield
        finally:
            self._began += self.clock.now() - began

    def counted(self, events: Iterable[Event]) -> Iterator[Event]:
        """Yield the events and count them; give each problem the exit code that it causes."""
        for event in events:
            if not isinstance(event, ObjectDone):
                yield event
                continue
            self._done.add(event.ref)
            self._counts[event.outcome] += 1
            if is_recorded(event.outcome):
                self._refs.setdefault(event.outcome, []).append(event.ref)
            if event.problem is None:
                yield event
            else:
                done = {} if self.dry else self._counts
                problem = with_own_exit_code(event.problem, done)
                self.problems.append(problem)
                yield replace(event, problem=problem)

    @property
    def exit_code(self) -> int:
        """Return the exit code for everything that has happened so far."""
        return self.finished().exit_code

    @property
    def changes(self) -> Changes:
        """Return what the run has changed so far."""
        counts = self._counts
        created = counts[Outcome.CREATED]
        pruned = counts[Outcome.PRUNED] + counts[Outcome.DELETED]
        every = sum(count for outcome, count in counts.items() if outcome.is_change)
        objects = {
            outcome: ObjectsOfOutcome(len(refs), tuple(sorted(refs)[:MOST_REFS]))
            for outcome, refs in self._refs.items()
        }
        return Changes(created, every - created - pruned, pruned, objects)

    def finished(self) -> Finished:
        """Return the event that ends the run."""
        error = verdict(
            self.problems,
            self.refusal,
            held=self.held,
            dry=self.dry,
            mode=self.mode,
            done=self._counts,
        )
        code, problem = (error.exit_code, error.problem) if error else (0, None)
        if problem is not None and self.hint:
            problem = replace(problem, hint=f"{problem.hint}\n{self.hint}".lstrip("\n"))
        return Finished(dict(self._counts), code, self.elapsed, problem)


_AHEAD = 1000
"""How many calls wait at most for a thread: each takes as much memory as a small object."""


T = TypeVar("T")
R = TypeVar("R")


class WorkerPool:
    """Runs calls on at most ``size`` threads."""

    def __init__(self, size: int, cancellation: Cancellation) -> None:
        """Create the pool; a thread starts with the first call that needs it."""
        self._pool = ThreadPoolExecutor(max_workers=size, thread_name_prefix="applyprune")
        self._cancellation = cancellation

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for the calls in flight and end the threads."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def each(
        self,
        call: Callable[[T], R],
        items: Iterable[T],
        *,
        in_order: bool = False,
        here: Callable[[T], bool] | None = None,
    ) -> Iterator[R]:
        """Call ``call`` with each item, in parallel, and yield the results as they come.

        With ``in_order``, yield them in the order of the items. Calls ``here`` send no request:
        this thread makes them, before the others. Once the run is cancelled, no further call
        starts. The first exception of a call is raised here, after the calls in flight have ended.
        """
        if here is not None:
            items = tuple(items)
            for item in filter(here, items):
                if (result := self._call(call, item)) is not None:
                    yield result[0]
            items = (item for item in items if not here(item))
        ahead = iter(items)
        done: SimpleQueue[Future[tuple[R] | None]] = SimpleQueue()
        begun: dict[Future[tuple[R] | None], None] = {}

        def begin(count: int) -> None:
            for item in islice(ahead, count):
                future = self._pool.submit(self._call, call, item)
                begun[future] = None
                if not in_order:
                    future.add_done_callback(done.put)

        begin(_AHEAD)
        try:
            while begun:
                future = next(iter(begun)) if in_order else done.get()
                result = future.result()
                del begun[future]
                begin(1)
                if result is not None:
                    yield result[0]
        finally:
            for future in begun:
                future.cancel()

    def check(self) -> None:
        """Raise Interrupted if the run is cancelled: some results may be missing."""
        self._cancellation.check()

    def now(self) -> float:
        """Return the time in seconds on the clock of the run's waits."""
        return self._cancellation.now()

    def pause(self, seconds: float) -> bool:
        """Wait, or return True as soon as the run is cancelled."""
        return self._cancellation.wait(seconds)

    def _call(self, call: Callable[[T], R], item: T) -> tuple[R] | None:
        return None if self._cancellation.requested else (call(item),)
