"""Give what is due to worker processes: reconciles of Bundles, checks and fetches of sources."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from applyprune.controller.clients import BundleObjects
from applyprune.controller.followed_sources import FollowedSources, NextWork
from applyprune.controller.leader import Leadership
from applyprune.controller.metrics import Metrics
from applyprune.controller.queue import WorkQueue, retry_delay
from applyprune.controller.reasons import LOG, Key, Limit, Reason, fields
from applyprune.controller.report import Reporter
from applyprune.controller.result import error_message
from applyprune.controller.siblings import SiblingBundles
from applyprune.controller.source_checker import Checker
from applyprune.controller.status import (
    ConditionStatus,
    ReconcileResult,
    ended_at_limit,
    unwritten_answer,
)
from applyprune.controller.task import (
    SLOW,
    Answer,
    CheckResult,
    FetchResult,
    ReconcileHistory,
    SourceRequest,
    Task,
    result_of,
)
from applyprune.controller.watches import Watches
from applyprune.controller.worker import LimitExceeded, WorkerHandle, WorkerUnavailable
from applyprune.errors import ApplypruneError, problems_of
from applyprune.model.problem import Problem, ProblemKind
from applyprune.values import replace

if TYPE_CHECKING:
    from prometheus_client import Counter

MOST_ALONE = 10
"""How many objects are looked at alone; for more, a look at the whole set costs less."""
_SPREAD = 1.0
"""Seconds over which the Bundles are spread that a new leader takes over."""
_SOON = 1.0
_UNREACHABLE = frozenset({Reason.CLUSTER_UNREACHABLE, Reason.UNREACHABLE})
_SILENT = "silent"
_LONGEST_PAUSE = 60.0
"""Seconds, at most, between two tries to start a worker."""


class Dispatcher:
    """Reconciles Bundles in worker processes; each has a thread here that waits for it."""

    def __init__(
        self,
        queue: WorkQueue,
        watches: Watches,
        metrics: Metrics,
        bundles: BundleObjects,
        reporter: Reporter,
        handles: tuple[WorkerHandle, ...],
        leadership: Leadership,
        sources: SourceDispatcher,
    ) -> None:
        self.queue = queue
        self.watches = watches
        self.metrics = metrics
        self.bundles = bundles
        self.reporter = reporter
        self.handles = handles
        self.leadership = leadership
        self.sources = sources
        self.siblings = SiblingBundles(sources.followed.found, watches.in_namespace)
        self._histories: dict[Key, ReconcileHistory] = {}
        self._serving: dict[Key, WorkerHandle] = {}
        # When each worker began with its Bundle, by the clock of the queue.
        self.busy_since: dict[str, float] = {}
        self._ended = threading.Event()

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

    def follow_election(self) -> None:
        """Serve all Bundles if this replica leads now, and leave them if it does not."""
        leads = self.leadership.leads
        keys = self.watches.set_serves(serves=leads)
        for key in keys:
            if leads:
                self.queue.add(key, random.uniform(0.0, _SPREAD))  # noqa: S311 -- no secret
            else:
                self.queue.forget(key)
                self.cut_off(key, None)
                self._drop(key)
        told = "this replica leads" if leads else "this replica stands by"
        LOG.info(told, extra=fields(bundles=len(keys)))

    def end(self) -> None:
        """Ask every running reconcile to finish its requests in flight, record them and end."""
        self._ended.set()
        self.queue.close()
        self.sources.end()
        for handle in self.handles:
            handle.end()

    def kill(self) -> None:
        """Kill the worker processes: an idle one has nothing to lose, and the others were asked."""
        self.end()
        for handle in self.handles:
            handle.kill()

    def _work(self, handle: WorkerHandle) -> None:
        thread = threading.current_thread().name
        # guard: started-worker -> (key := self.queue.get()) is not None
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
            if not self.leadership.leads:
                self._drop(key)
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

        This replica may not lead any more: then it waits.
        """
        if not self.leadership.is_current:
            return _SOON
        task = self._task(key)
        if task is None:
            self.watches.queue_drifted(key)
            return None
        began = self.queue.clock.now()
        answer = self._reconcile(handle, task)
        self._act_on(key, answer)
        if answer.sibling is not None and not answer.gone:
            now = self.queue.clock.now()
            self._look_again(self.siblings.ended(key, began, now, answer.sibling))
        known = self.sources.followed.state(key)
        before = task.source.news if task.source is not None else None
        if known is not None and known.news != before:
            # The check has ended meanwhile, or others had it made before: nobody else says so.
            self.queue.add(key, news=True)
        return answer.delay

    def _task(self, key: Key) -> Task | None:
        """Return the task of a key that is due; None if what it was due for has passed."""
        is_whole, drifted = self.queue.takes_whole(key), self.watches.drifted(key)
        if not (is_whole or drifted):
            return None
        alone = frozenset() if is_whole or len(drifted) > MOST_ALONE else drifted
        source = self.sources.followed.state(key)
        return Task(
            key,
            self._histories.get(key, ReconcileHistory()),
            alone,
            source,
            self.watches.shared.unwatched(key),
            self.siblings.undecided(key),
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
            self.sources.drop(key)
            self.watches.forget(key)
            self.metrics.forget(key)
            self._look_again(self.siblings.forget(key))
            return
        self._histories[key] = answer.history
        self.watches.wait_for_kinds(key, waits=answer.lacks_kinds)
        if answer.source is not None:
            self.watches.follow_source(key, answer.source)
            if answer.source.is_known:
                self.sources.follow(key, answer.source.remote)
        elif answer.measured is not None and answer.measured.sample.suspended:
            self.sources.followed.pause(key)
        if answer.objects is not None:
            self.watches.follow_objects(key, answer.objects)
            # Else the hints stay as due as they were, and its own delay counts.
            self.watches.queue_drifted(key)
        if answer.waits_for is not None:
            self.watches.wait_for(key, answer.waits_for)

    def _drop(self, key: Key) -> None:
        """Drop what is known of a Bundle that another replica serves.

        This one may lead again already, so the Bundle stays in the queue.
        """
        self.queue.set_cluster(key, "")
        self._histories.pop(key, None)
        self.sources.drop(key)
        self.watches.drop(key)
        self.metrics.forget(key)
        self.siblings.forget(key)

    def _look_again(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self.queue.add(key, news=True)

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


# Sources on other hosts: checked, and what is new in them fetched.


CHECKS = 24
"""How many checks are under way at once, at most: each holds a thread, and perhaps a git."""
_LOOK = 1.0
"""Seconds between two looks for sources that have become silent."""


class SourceDispatcher:
    """Has sources checked and fetched; each check and each fetch has a thread here that waits.

    Namespaces take turns, as in the queue of the Bundles. Hosts that were silent at their last
    check share a part of the threads: each address a quarter, and all together leave a quarter.
    Sources whose last fetch has failed slowly share a quarter of the processes. More than half of
    the processes are for namespaces that none of them serves: of three, each namespace gets one.
    """

    def __init__(
        self,
        bundles: WorkQueue,
        metrics: Metrics,
        checker: Checker,
        handles: tuple[WorkerHandle, ...],
        server_time: Callable[[], str] = str,
    ) -> None:
        """``handles`` are those of the processes that fetch, and ``bundles`` is their queue.

        ``server_time`` returns the time by the API server's clock, RFC 3339; empty if that is not
        known.
        """
        self.bundles = bundles
        self.metrics = metrics
        self.checker = checker
        self.handles = handles
        # The process that fetches each source, by the name of its check.
        self._fetching: dict[str, WorkerHandle] = {}
        # What the last checks and fetches of each source have logged.
        self._told: dict[str, dict[Counter, tuple[str, ...]]] = {}
        self._ended = threading.Event()
        clock = bundles.clock
        # guard: clock-of-sources -> FollowedSources()
        self.followed = FollowedSources(clock, server_time)
        # guard: clock-of-checks -> WorkQueue(CHECKS, CHECKS // 4, min_gap=0.0)
        self.checks = WorkQueue(CHECKS, CHECKS // 4, min_gap=0.0, clock=clock)
        # A fetch may take as long as its timeout, and two tenants must not hold all processes.
        processes = len(handles)
        kept = max(min(processes // 2 + 1, processes - 1), 0)  # guard: fetches-of-others -> 1
        self.fetches = WorkQueue(processes, kept, min_gap=0.0, clock=clock)

    def threads(self) -> list[threading.Thread]:
        works: list[tuple[str, Callable[[], None]]] = [
            *((f"check-{number}", self._check_all) for number in range(CHECKS)),
            *(
                (f"fetch-{number}", partial(self._fetch_all, handle))
                for number, handle in enumerate(self.handles)
            ),
            ("silence", self._tell_silence),
        ]
        return [
            threading.Thread(target=work, name=f"applyprune-{name}", daemon=True)
            for name, work in works
        ]

    def follow(self, key: Key, request: SourceRequest | None) -> None:
        """Let a Bundle follow a source, or none, and check it at once if nothing is known of it."""
        before = self.followed.check_of(key)
        due = self.followed.follow(key, request)
        self._end_unfollowed(before)
        if request is not None:
            # The turns of the other namespaces are due as they were.
            self._add((key[0], request.check), due, news=True)

    def drop(self, key: Key) -> None:
        """Let a Bundle follow nothing."""
        before = self.followed.check_of(key)
        self.followed.drop(key)
        self._end_unfollowed(before)

    def _end_unfollowed(self, check: str) -> None:
        """End the fetch of a source that nobody follows any more; the checker ends its check."""
        if self.followed.namespaces(check):
            return
        self._told.pop(check, None)
        handle = self._fetching.get(check)
        # guard: unfollowed-fetch never
        if handle is not None:
            handle.kill()

    def end(self) -> None:
        """Start nothing any more, and end what is under way: nothing of it is lost."""
        self._ended.set()
        self.checks.close()
        self.fetches.close()
        self.checker.end()
        for handle in self.handles:
            handle.end()
            handle.kill()

    def _queue(self, check: str, due: NextWork, *, news: bool = False) -> None:
        """Make a source due as the next work says, in each namespace that follows it."""
        for namespace in self.followed.namespaces(check):
            self._add((namespace, check), due, news=news)

    def _add(self, key: Key, due: NextWork, *, news: bool = False) -> None:
        if due.check_in is not None:
            self.checks.add(key, due.check_in, news=news and not due.check_in)
        if due.fetches:
            self.fetches.add(key, news=True)

    def _check_all(self) -> None:
        while (key := self.checks.get()) is not None:
            with self._working(self.checks, key):
                self._check(key)

    def _fetch_all(self, handle: WorkerHandle) -> None:
        while (key := self.fetches.get()) is not None:
            with self._working(self.fetches, key):
                self._fetch(handle, key)

    @contextmanager
    def _working(self, queue: WorkQueue, key: Key) -> Iterator[None]:
        try:
            yield
        except WorkerUnavailable as error:
            if not self._ended.is_set():
                message = error_message(problems_of(error))
                LOG.warning("no worker for a source", extra=fields(namespace=key[0], error=message))
        except Exception:  # noqa: BLE001
            # A bug that one source triggers must not stop the work on all others.
            LOG.exception("source crashed", extra=fields(namespace=key[0]))
        finally:
            queue.done(key)

    def _check(self, key: Key) -> None:
        check, clock = key[1], self.bundles.clock
        task = self.followed.check_task(check)
        if isinstance(task, NextWork):
            # Another namespace's turn was first.
            self._add(key, task)
            return
        began = clock.now()
        result = CheckResult(task.tip, problem=_NOT_DONE)
        try:
            result = self.checker.check(task, partial(self.followed.awaits, check, task))
        except LimitExceeded as error:
            # Whichever of the checks under way has needed too much: it is not told of this one.
            result = CheckResult(task.tip, problem=_ended(ProblemKind.FETCH_FAILED, error))
        finally:
            if self.followed.awaits(check, task):
                # guard: silent-host -> ""
                silent = result.address or _SILENT if clock.now() - began > SLOW else ""
                self._share(self.checks, check, silent)
                problems = [result.problem] if result.problem is not None else []
                self._report(key, self.metrics.checks, problems)
            woken, due = self.followed.checked(check, task, result)
            self._wake(woken)
            self._queue(check, due)

    def _fetch(self, handle: WorkerHandle, key: Key) -> None:
        check, clock = key[1], self.bundles.clock
        task = self.followed.fetch_task(check)
        if task is None:
            return
        began = clock.now()
        result = FetchResult(problem=_NOT_DONE)
        self._fetching[check] = handle
        try:
            result = handle.fetch(task)
        except LimitExceeded as error:
            is_size = error.limit is Limit.MEMORY
            kind = ProblemKind.SOURCE_TOO_LARGE if is_size else ProblemKind.FETCH_FAILED
            result = FetchResult(problem=_ended(kind, error))
        finally:
            self._fetching.pop(check, None)
            if self.followed.awaits(check, task):
                # Its host has answered the check, and then sends too slowly.
                is_slow = result.problem is not None and clock.now() - began > SLOW
                # guard: slow-fetch -> self._share(self.fetches, check, "")
                self._share(self.fetches, check, _SILENT if is_slow else "")
                self._report(key, self.metrics.fetches, _problems(result))
            woken, due = self.followed.fetched(check, task, result)
            self._wake(woken)
            self._queue(check, due, news=True)

    def _share(self, queue: WorkQueue, check: str, silent: str) -> None:
        """Let a source share a part of the threads with those of a silent host, or of none."""
        for namespace in self.followed.namespaces(check):
            queue.set_cluster((namespace, check), silent)

    def _report(self, key: Key, counter: Counter, problems: Sequence[Problem]) -> None:
        """Count a check or a fetch once, by the first of its problems, and log what is new."""
        if not self._ended.is_set():  # what the end of the controller cuts off has not failed
            counter.labels(result_of(problems[0] if problems else None)).inc()
        told = self._told.setdefault(key[1], {})
        messages = tuple(error_message([problem], secret=False) for problem in problems)
        for message in messages:
            level = logging.DEBUG if message in told.get(counter, ()) else logging.WARNING
            LOG.log(level, "source not read", extra=fields(namespace=key[0], error=message))
        told[counter] = messages

    def _wake(self, woken: set[Key]) -> None:
        for bundle in woken:
            self.bundles.add(bundle, news=True)

    def _tell_silence(self) -> None:
        """Wake the Bundles whose source becomes silent: no check ends that would do it."""
        while not self._ended.is_set():
            self._wake(self.followed.newly_silent())
            self.bundles.clock.wait(self._ended, _LOOK)


_NOT_DONE = Problem(
    ProblemKind.FETCH_FAILED, "the source cannot be read", reason="no process could be started"
)


def _ended(kind: ProblemKind, error: LimitExceeded) -> Problem:
    return Problem(kind, "the source cannot be read", reason=problems_of(error)[0].message)


def _problems(fetched: FetchResult) -> list[Problem]:
    found = [one for one in fetched.paths.values() if isinstance(one, Problem)]
    return [*([fetched.problem] if fetched.problem is not None else []), *found]
