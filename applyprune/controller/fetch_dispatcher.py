"""Look at sources on other hosts in worker processes, and queue the Bundles that this concerns."""

from __future__ import annotations

import threading

from applyprune.controller.constants import Key, Limit
from applyprune.controller.fetching.fetch_task import (
    Fetched,
    FetchTask,
    SourceRequest,
    SourceState,
)
from applyprune.controller.fetching.followed_sources import FollowedSources
from applyprune.controller.result import error_message
from applyprune.controller.runtime.logging import LOG, fields
from applyprune.controller.runtime.workqueue import WorkQueue
from applyprune.controller.workers.worker_handle import (
    LimitExceeded,
    WorkerHandle,
    WorkerUnavailable,
)
from applyprune.errors import problems_of
from applyprune.model.problem import Problem, ProblemKind
from applyprune.values import dataclass, field

_AGAIN = 10.0
"""Seconds until another try if no worker process could look."""


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
        """Make the queue of the looks."""
        clock = self.bundles.clock
        self.sources = FollowedSources(clock)  # guard: clock-of-sources
        self.queue = WorkQueue(len(self.handles), clock=clock)  # guard: clock-of-looks

    def threads(self) -> list[threading.Thread]:
        """Return one thread for each worker process; they are not started yet."""
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

    def pause(self, key: Key) -> None:
        """Look at nothing for a Bundle until it follows again."""
        self.sources.pause(key)

    def leave(self, key: Key) -> None:
        """Let a Bundle follow nothing."""
        self.sources.leave(key)

    def state(self, key: Key) -> SourceState | None:
        """Return what is known of a Bundle's source; None if nothing is yet."""
        return self.sources.state(key)

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
                delay = self._look(handle, key)
            except Exception:  # noqa: BLE001
                # A bug that one source triggers must not stop the work on all others.
                LOG.exception("fetch crashed", extra=fields(namespace=key[0]))
            finally:
                self.queue.done(key)
            if delay is not None:
                self.queue.add(key, delay)

    def _look(self, handle: WorkerHandle, key: Key) -> float | None:
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


def _exceeded(task: FetchTask, error: LimitExceeded) -> Fetched:
    is_size = error.limit is Limit.MEMORY
    kind = ProblemKind.SOURCE_TOO_LARGE if is_size else ProblemKind.FETCH_FAILED
    reason = problems_of(error)[0].message
    return Fetched(task.tip, problem=Problem(kind, "the source cannot be read", reason=reason))


def _problems(fetched: Fetched) -> list[Problem]:
    found = [one for one in fetched.paths.values() if isinstance(one, Problem)]
    return [*([fetched.problem] if fetched.problem is not None else []), *found]
