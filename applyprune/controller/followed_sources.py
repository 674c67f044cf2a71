"""Which sources on other hosts the Bundles follow, and what is known of them.

A reference is looked at once for all Bundles that follow it. Only those whose path has another
content are reconciled.
"""

from __future__ import annotations

from threading import Lock

from applyprune.clock import CLOCK, Clock
from applyprune.controller.queue import retry_delay, with_jitter
from applyprune.controller.reasons import Key
from applyprune.controller.task import (
    FetchResult,
    FetchTask,
    SourceContent,
    SourceRequest,
    SourceState,
)
from applyprune.model.problem import Problem, ProblemKind
from applyprune.values import dataclass, field

_FIRST_RETRY = 5.0
"""Seconds after which a look that has failed is tried again, at first."""
_LASTING = 3
"""How many looks in a row must fail before a Bundle with a good content says so."""


@dataclass(slots=True)
class FollowedSources:
    """The sources that the Bundles of this replica follow; thread-safe."""

    clock: Clock = CLOCK
    _followed: dict[str, _Followed] = field(default_factory=dict)
    _requests: dict[Key, SourceRequest] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def follow(self, key: Key, request: SourceRequest | None) -> Key | None:
        """Let a Bundle follow a source, or none; return the key of the look that it needs now."""
        with self._lock:
            before = self._requests.get(key)
            if before is not None and (request is None or request.check != before.check):
                self._leave(key)
                before = None
            if request is None:
                return None
            found = self._followed.setdefault(
                request.check, _Followed((key[0], request.check), asked=False)
            )
            slowest = found.is_paused or found.interval > request.interval
            found.paused.discard(key)
            self._requests[key] = found.users[key] = request
            lost = found.contents.get(request.path)
            if lost is not None and lost.artifact == request.lost:
                del found.contents[request.path]
            is_asked = before is not None and before.asked != request.asked
            found.asked = found.asked or is_asked
            known = request.path in found.contents or request.path in found.problems
            needs = found.asked or (not known and found.problem is None)
            # The next look may be further away than this Bundle wants it.
            return found.key if needs or slowest else None

    def pause(self, key: Key) -> None:
        """Look at nothing for a Bundle until it follows again; what is known of it stays."""
        with self._lock:
            request = self._requests.get(key)
            if request is not None:
                self._followed[request.check].paused.add(key)

    def leave(self, key: Key) -> None:
        """Let a Bundle follow nothing."""
        with self._lock:
            self._leave(key)

    def state(self, key: Key) -> SourceState | None:
        """Return what is known of a Bundle's source; None if nothing is yet."""
        with self._lock:
            request = self._requests.get(key)
            if request is None:
                return None
            found, path = self._followed[request.check], request.path
            content, problem = found.contents.get(path), found.problem_of(path)
            if content is None and problem is None:
                return None
            return SourceState(request.check, path, content, problem)

    def task(self, key: Key) -> FetchTask | None:
        """Return the look that is due; None if no Bundle needs it any longer."""
        with self._lock:
            found = self._followed.get(key[1])
            if found is None or found.is_paused:
                return None
            checks_ref, found.asked = found.is_due(self.clock.now()), False
            # Each has the same source; the paths are their own.
            first = next(iter(found.users.values()))
            paths = {one.path: found.contents.get(one.path) for one in found.users.values()}
            # What may pass is tried again, though the reference has not moved.
            passing = any(one.kind is ProblemKind.FETCH_FAILED for one in found.problems.values())
            if not checks_ref:
                paths = {path: known for path, known in paths.items() if known is None}
            tip = b"" if passing and checks_ref else found.tip
            return FetchTask(first.remote, first.place, found.timeout, paths, tip, checks_ref)

    def done(
        self, key: Key, task: FetchTask, fetched: FetchResult
    ) -> tuple[set[Key], float | None]:
        """Keep the result of a look; return the Bundles that it concerns, and when to look again.

        The time is in seconds; None if no Bundle follows it any longer.
        """
        with self._lock:
            found = self._followed.get(key[1])
            if found is None:
                return set(), None
            before = {path: self._seen(found, path) for path in _paths(found)}
            found.problem = fetched.problem
            if fetched.problem is None:
                found.tip, found.failures = fetched.tip, 0
                if task.checks_ref:
                    found.checked, found.pace = self.clock.now(), with_jitter(1.0)
                self._keep(found, task, fetched)
            else:
                found.failures += 1
            woken = {
                user
                for user, request in found.users.items()
                if self._seen(found, request.path) != before[request.path]
            }
            return woken, self._next(found)

    def _keep(self, found: _Followed, task: FetchTask, fetched: FetchResult) -> None:
        if fetched.tip != task.tip:
            # What was wrong with these paths was so in what the reference meant before.
            for path in task.paths:
                found.problems.pop(path, None)
        for path, result in fetched.paths.items():
            if isinstance(result, Problem):
                # The last good content stays: nothing is applied or pruned by a bad one.
                found.problems[path] = result
            else:
                found.contents[path] = result
        for known in (found.contents, found.problems):
            for path in known.keys() - _paths(found):
                del known[path]

    def _next(self, found: _Followed) -> float | None:
        if found.is_paused:
            return None
        unknown = any(
            path not in found.contents and path not in found.problems for path in _paths(found)
        )
        if found.problem is not None:
            first = min(_FIRST_RETRY, found.interval)
            return with_jitter(retry_delay(found.failures, first=first, longest=found.interval))
        return 0.0 if unknown or found.asked else found.due_in(self.clock.now())

    def _seen(self, found: _Followed, path: str) -> tuple[object, ...]:
        """Return what a Bundle with this path must know."""
        content = found.contents.get(path)
        return content.content if content is not None else None, found.problem_of(path)

    def _leave(self, key: Key) -> None:
        request = self._requests.pop(key, None)
        if request is None:
            return
        found = self._followed[request.check]
        found.users.pop(key, None)
        found.paused.discard(key)
        if not found.users:
            del self._followed[request.check]


def _paths(found: _Followed) -> set[str]:
    return {request.path for request in found.users.values()}


@dataclass(slots=True)
class _Followed:
    """One reference of a source, and the Bundles that follow it."""

    key: Key
    """Its key in the queue: its name, and the namespace of the Bundle that named it first."""
    users: dict[Key, SourceRequest] = field(default_factory=dict)
    contents: dict[str, SourceContent] = field(default_factory=dict)
    problems: dict[str, Problem] = field(default_factory=dict)
    problem: Problem | None = None
    tip: bytes = b""
    checked: float | None = None
    """When it was looked at with success, by the clock."""
    pace: float = 1.0
    """By what the interval until the next look is multiplied, so that not all come at once."""
    failures: int = 0
    asked: bool = True
    """Whether somebody wants a look now."""
    paused: set[Key] = field(default_factory=set)
    """The Bundles among the users for which nobody looks now."""

    @property
    def interval(self) -> float:
        return min(request.interval for request in self._looking)

    @property
    def is_paused(self) -> bool:
        return not self._looking

    @property
    def timeout(self) -> float:
        """Return the longest of the timeouts: none hurries the others."""
        return max(request.timeout for request in self._looking)

    @property
    def _looking(self) -> list[SourceRequest]:
        return [request for user, request in self.users.items() if user not in self.paused]

    def is_due(self, now: float) -> bool:
        return self.asked or self.problem is not None or self.due_in(now) <= 0.0

    def due_in(self, now: float) -> float:
        """Return the seconds until the next look, if nobody asks for one before."""
        if self.checked is None:
            return 0.0
        return max(0.0, self.checked + self.pace * self.interval - now)

    def problem_of(self, path: str) -> Problem | None:
        problem = self.problem
        if problem is not None and problem.kind is ProblemKind.FETCH_FAILED:
            # It may pass, and nothing is lost: no Bundle need change its status for a moment.
            problem = problem if path not in self.contents or self.failures >= _LASTING else None
        return problem or self.problems.get(path)
