"""Give what is due to worker processes: reconciles of Bundles, and looks at sources."""

from __future__ import annotations

import random
import threading

from applyprune.controller.clients import BundleObjects, KnownBundle
from applyprune.controller.followed_sources import FollowedSources
from applyprune.controller.metrics import Metrics
from applyprune.controller.queue import WorkQueue, retry_delay
from applyprune.controller.reasons import LOG, Key, Limit, Reason, fields
from applyprune.controller.replicas import Share
from applyprune.controller.report import Reporter
from applyprune.controller.result import error_message
from applyprune.controller.status import (
    ConditionStatus,
    ReconcileResult,
    ended_at_limit,
    unwritten_answer,
)
from applyprune.controller.task import (
    Answer,
    FetchResult,
    FetchTask,
    ReconcileHistory,
    SourceRequest,
    Task,
)
from applyprune.controller.watches import Watches
from applyprune.controller.worker import LimitExceeded, WorkerHandle, WorkerUnavailable
from applyprune.errors import ApplypruneError, problems_of
from applyprune.model.problem import Problem, ProblemKind
from applyprune.values import dataclass, field, replace

MOST_ALONE = 10
"""How many objects are looked at alone; for more, a look at the whole set costs less."""
_SPREAD = 1.0
"""Seconds over which the Bundles are spread that this replica takes over."""
_SOON = 1.0
_UNREACHABLE = frozenset({Reason.CLUSTER_UNREACHABLE, Reason.UNREACHABLE})
_SILENT = "silent"
_LONGEST_PAUSE = 60.0
"""Seconds, at most, between two tries to start a worker."""
_AGAIN = 10.0
"""Seconds until another try if no worker process could look."""


@dataclass(slots=True)
class Dispatcher:
    """Reconciles Bundles in worker processes; each has a thread here that waits for it."""

    queue: WorkQueue
    watches: Watches
    metrics: Metrics
    bundles: BundleObjects
    reporter: Reporter
    handles: tuple[WorkerHandle, ...]
    share: Share
    fetches: FetchDispatcher
    _histories: dict[Key, ReconcileHistory] = field(default_factory=dict)
    _known: dict[Key, KnownBundle] = field(default_factory=dict)
    _serving: dict[Key, WorkerHandle] = field(default_factory=dict)
    busy_since: dict[str, float] = field(default_factory=dict)
    """When each worker began with its Bundle, by the clock of the queue."""
    _ended: threading.Event = field(default_factory=threading.Event)

    def threads(self) -> list[threading.Thread]:
        """Return one thread for each worker process; they are not started yet."""
        return [
            threading.Thread(
                target=self._work, args=(handle,), name=f"applyprune-worker-{number}", daemon=True
            )
            for number, handle in enumerate(self.handles)
        ]

    def cut_off(self, key: Key, generation: int | None) -> None:
        """End the reconcile of an older generation of a Bundle; None ends any."""
        handle = self._serving.get(key)
        if handle is not None:
            handle.cut_off(key, generation)

    def divide(self) -> None:
        """Serve the Bundles of the present share: take over what is new, and leave what is not."""
        gained, lost = self.watches.divide()
        for key in lost:
            self.queue.forget(key)
            self.cut_off(key, None)
            self._leave(key)
        for key in gained:
            self.queue.add(key, random.uniform(0.0, _SPREAD))  # noqa: S311 -- no secret
        LOG.info(
            "Bundles divided",
            extra=fields(
                replicas=[replica.name for replica in self.share.replicas],
                served=self.watches.served,
                gained=len(gained),
                lost=len(lost),
            ),
        )

    def end(self) -> None:
        """Ask every running reconcile to finish its requests in flight, record them and end."""
        self._ended.set()
        self.queue.close()
        self.fetches.end()
        for handle in self.handles:
            handle.end()

    def kill(self) -> None:
        """Kill the worker processes: an idle one has nothing to lose, and the others were asked."""
        self.end()
        for handle in self.handles:
            handle.kill()

    def _work(self, handle: WorkerHandle) -> None:
        thread = threading.current_thread().name
        # guard: started-worker
        while self._has_started(handle) and (key := self.queue.get()) is not None:
            self._serving[key], self.busy_since[thread] = handle, self.queue.clock.now()
            delay = None
            try:
                delay = self._serve(handle, key)
            except Exception:  # noqa: BLE001
                # A bug that one Bundle triggers must not stop the work on all others.
                LOG.exception("reconcile crashed", extra=fields(namespace=key[0], bundle=key[1]))
                delay = unwritten_answer(self._histories.get(key, ReconcileHistory())).delay
            finally:
                del self._serving[key], self.busy_since[thread]
                self.queue.done(key)
            if not self.share.serves(key):
                # It left the share meanwhile.
                self._leave(key)
                continue
            if delay is not None:
                self.queue.add(key, delay)

    def _has_started(self, handle: WorkerHandle) -> bool:
        """Start a worker that does not run, as often as it takes; False if the controller ends.

        No Bundle is taken from the queue before: so its health says that nobody is served.
        """
        failures = 0
        while not self._ended.is_set():
            try:
                handle.start()
            except WorkerUnavailable as error:
                if not self._ended.is_set():
                    LOG.error("no worker", extra=fields(error=error_message(problems_of(error))))
                failures += 1
                pause = retry_delay(failures, first=1.0, longest=_LONGEST_PAUSE)
                self.queue.clock.wait(self._ended, pause)
            else:
                return True
        return False

    def _serve(self, handle: WorkerHandle, key: Key) -> float | None:
        """Reconcile a Bundle; return in how many seconds again, None if only after a change.

        This replica's Lease may have ended, or the Bundle left its share: then it waits.
        """
        if not (self.share.is_current and self.share.serves(key)):
            return _SOON
        task = self._task(key)
        if task is None:
            self.watches.queue_drifted(key)
            return None
        answer = self._reconcile(handle, task)
        self._act_on(key, answer)
        known = self.fetches.sources.state(key)
        if known is not None and known != task.source:
            # The look has ended meanwhile, or others had it made before: nobody else says so.
            self.queue.add(key, news=True)
        return answer.delay

    def _task(self, key: Key) -> Task | None:
        """Return the task of a key that is due; None if what it was due for has passed."""
        is_whole, drifted = self.queue.takes_whole(key), self.watches.drifted(key)
        if not (is_whole or drifted):
            return None
        known = self.watches.unless_changed(key, self._known.pop(key, None))
        alone = frozenset() if is_whole or len(drifted) > MOST_ALONE else drifted
        source = self.fetches.sources.state(key)
        return Task(
            key,
            self._histories.get(key, ReconcileHistory()),
            alone,
            None if drifted else known,
            source,
            self.watches.shared.unwatched(key),
        )

    def _reconcile(self, handle: WorkerHandle, task: Task) -> Answer:
        key, history = task.key, task.history
        clock = self.queue.clock
        began = clock.now()
        try:
            done = handle.reconcile(task)
        except LimitExceeded as error:
            return self._exceeded(key, history, error, clock.now() - began)
        except WorkerUnavailable:
            return unwritten_answer(history)
        for (method, code), tries in done.requests.items():
            self.metrics.sent(method, code, tries)
        return done.answer

    def _act_on(self, key: Key, answer: Answer) -> None:
        """Watch what the reconcile has asked for, and count it."""
        if answer.measured is not None:
            self.metrics.passed(key, answer.measured)
        self.queue.set_cluster(key, _cluster(answer))
        if answer.gone:
            self._histories.pop(key, None)
            self.fetches.sources.leave(key)
            self.watches.forget(key)
            self.metrics.forget(key)
            return
        self._histories[key] = answer.history
        if answer.known is not None:
            self._known[key] = answer.known
        self.watches.wait_for_kinds(key, waits=answer.lacks_kinds)
        if answer.source is not None:
            self.watches.follow_source(key, answer.source)
            if answer.source.is_known:
                self.fetches.follow(key, answer.source.remote)
        elif answer.measured is not None and answer.measured.sample.suspended:
            self.fetches.sources.pause(key)
        if answer.objects is not None:
            self.watches.follow_objects(key, answer.objects)
            # Else the hints stay as due as they were, and its own delay counts.
            self.watches.queue_drifted(key)
        if answer.waits_for is not None:
            self.watches.wait_for(key, answer.waits_for)

    def _leave(self, key: Key) -> None:
        """Drop what is known of a Bundle that another replica serves.

        It may be this one's again already, so it stays in the queue.
        """
        self.queue.set_cluster(key, "")
        self._histories.pop(key, None)
        self._known.pop(key, None)
        self.fetches.sources.leave(key)
        self.watches.leave(key)
        self.metrics.forget(key)

    def _exceeded(
        self, key: Key, history: ReconcileHistory, error: LimitExceeded, seconds: float
    ) -> Answer:
        """Say on the Bundle that its reconcile was ended."""
        self.metrics.exceeded(error.limit)
        later = ended_at_limit(history)
        result = ReconcileResult(
            ConditionStatus.NOT_READY,
            Reason.RECONCILE_LIMIT_EXCEEDED,
            _limit_message(error),
            retries=True,
        )
        try:
            live = self.bundles.get(key)
            if live is None:
                return Answer(None, gone=True)
            return replace(later, measured=self.reporter.report(live, result, seconds))
        except ApplypruneError as failure:
            LOG.warning(
                "reconcile failed",
                extra=fields(
                    namespace=key[0], bundle=key[1], error=error_message(problems_of(failure))
                ),
            )
            return later


def _limit_message(error: LimitExceeded) -> str:
    if error.limit is Limit.CRASH:
        return f"the reconcile was ended by a crash: {error.message}"
    return f"the reconcile was ended at its limit of {error.limit}: {error.message}"


def _cluster(answer: Answer) -> str:
    """Return which other cluster the next reconcile of a Bundle needs a worker for.

    Those that do not answer share the workers of one.
    """
    failed = answer.measured is not None and answer.measured.reason in _UNREACHABLE
    return _SILENT if failed and answer.history.cluster else answer.history.cluster


@dataclass(slots=True)
class FetchDispatcher:
    """Gives looks at sources to worker processes; each has a thread here that waits for it.

    A server that does not answer holds up the looks of its own namespace at most: the queue is the
    one of the Bundles, with the same turns.
    """

    bundles: WorkQueue
    """The queue of the Bundles."""
    handles: tuple[WorkerHandle, ...]
    sources: FollowedSources = field(init=False)
    queue: WorkQueue = field(init=False)

    def __post_init__(self) -> None:
        clock = self.bundles.clock
        self.sources = FollowedSources(clock)  # guard: clock-of-sources
        self.queue = WorkQueue(len(self.handles), clock=clock)  # guard: clock-of-looks

    def threads(self) -> list[threading.Thread]:
        return [
            threading.Thread(
                target=self._work, args=(handle,), name=f"applyprune-fetch-{number}", daemon=True
            )
            for number, handle in enumerate(self.handles)
        ]

    def follow(self, key: Key, request: SourceRequest | None) -> None:
        """Let a Bundle follow a source, or none, and look at once if nothing is known of it."""
        if (look := self.sources.follow(key, request)) is not None:
            self.queue.add(look, news=True)

    def end(self) -> None:
        """Start no other look, and end those under way: nothing of them is lost."""
        self.queue.close()
        for handle in self.handles:
            handle.end()
            handle.kill()

    def _work(self, handle: WorkerHandle) -> None:
        while (key := self.queue.get()) is not None:
            delay: float | None = _AGAIN
            try:
                delay = self._fetch(handle, key)
            except Exception:  # noqa: BLE001
                # A bug that one source triggers must not stop the work on all others.
                LOG.exception("fetch crashed", extra=fields(namespace=key[0]))
            finally:
                self.queue.done(key)
            if delay is not None:
                self.queue.add(key, delay)

    def _fetch(self, handle: WorkerHandle, key: Key) -> float | None:
        task = self.sources.task(key)
        if task is None:
            return None
        try:
            fetched = handle.fetch(task)
        except LimitExceeded as error:
            fetched = _exceeded(task, error)
        except WorkerUnavailable as error:
            LOG.warning(
                "no worker for a source",
                extra=fields(namespace=key[0], error=error_message(problems_of(error))),
            )
            return _AGAIN
        woken, delay = self.sources.done(key, task, fetched)
        for problem in _problems(fetched):
            LOG.warning(
                "source not read",
                extra=fields(namespace=key[0], error=error_message([problem], secret=False)),
            )
        for bundle in woken:
            self.bundles.add(bundle, news=True)
        return delay


def _exceeded(task: FetchTask, error: LimitExceeded) -> FetchResult:
    is_size = error.limit is Limit.MEMORY
    kind = ProblemKind.SOURCE_TOO_LARGE if is_size else ProblemKind.FETCH_FAILED
    reason = problems_of(error)[0].message
    return FetchResult(task.tip, problem=Problem(kind, "the source cannot be read", reason=reason))


def _problems(fetched: FetchResult) -> list[Problem]:
    found = [one for one in fetched.paths.values() if isinstance(one, Problem)]
    return [*([fetched.problem] if fetched.problem is not None else []), *found]
