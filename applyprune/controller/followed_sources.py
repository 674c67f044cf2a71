"""Which sources on other hosts the Bundles follow, and what is known of them.

A reference is checked once for all Bundles that follow it. What a check has found is fetched, and
only the Bundles whose path has another content are reconciled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from threading import Lock
from typing import Any

from msgspec import Struct, field

from applyprune.clock import CLOCK, Clock
from applyprune.controller.queue import retry_delay, with_jitter
from applyprune.controller.reasons import Key
from applyprune.controller.task import (
    CheckResult,
    CheckTask,
    FetchResult,
    FetchTask,
    SourceContent,
    SourceRequest,
    SourceState,
)
from applyprune.model.problem import Problem, ProblemKind

LONGEST_CHECK = 30.0
"""Seconds, at most, for one check: its answer is small, however long a fetch may take."""
_FIRST_RETRY = 5.0
"""Seconds after which a check or a fetch that has failed is tried again, at first."""
_SILENT_AFTER = 2
"""After how many intervals without a success a Bundle with a good content says so."""
_SECOND = 1.0
"""The times of checks count in seconds: after it, a check is newer than the last one."""
_SHORTEST_SILENCE = 60.0
"""Seconds without a success, at least, before it says so."""


class FollowedSources(Struct):
    """The sources that the Bundles of this replica follow, by the names of their checks.

    It is thread-safe. Whoever has a task ends it: only one check, and one fetch, of a source is
    under way. What is learned by one that nobody awaits any more is dropped.
    """

    clock: Clock = CLOCK
    server_time: Callable[[], str] = str
    """Returns the time by the API server's clock, RFC 3339; empty if that is not known."""
    _followed: dict[str, _Followed] = field(default_factory=dict)
    _requests: dict[Key, SourceRequest] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def follow(self, key: Key, request: SourceRequest | None) -> NextWork:
        """Let a Bundle follow a source, or none; return what may be due now."""
        with self._lock:
            before = self._requests.get(key)
            if before is not None and (request is None or request.check != before.check):
                self._drop(key)
                before = None
            if request is None:
                return NOTHING_DUE
            now = self.clock.now()
            found = self._followed.setdefault(request.check, _Followed(succeeded=now))
            found.paused.discard(key)
            self._requests[key] = found.users[key] = request
            lost = found.contents.get(request.path)
            if lost is not None and lost.artifact == request.lost:
                del found.contents[request.path]
            is_asked = before is not None and before.asked != request.asked
            found.asked = found.asked or is_asked or _is_late(found, request)
            return self._next(found)

    def pause(self, key: Key) -> None:
        """Check nothing for a Bundle until it follows again; what is known of it stays."""
        with self._lock:
            request = self._requests.get(key)
            if request is not None:
                self._followed[request.check].paused.add(key)

    def drop(self, key: Key) -> None:
        """Let a Bundle follow nothing."""
        with self._lock:
            self._drop(key)

    def state(self, key: Key) -> SourceState | None:
        """Return what is known of a Bundle's source; None if nothing is yet."""
        with self._lock:
            request = self._requests.get(key)
            if request is None:
                return None
            state = self._state(key, request)
            return None if state.content is None and state.problem is None else state

    def found(self, key: Key) -> FoundAt:
        """Return the content that a Bundle's source has, and since which fetch that is so."""
        with self._lock:
            request = self._requests.get(key)
            if request is None:
                return FoundAt()
            followed, path = self._followed[request.check], request.path
            content, is_bad = followed.contents.get(path), path in followed.problems
            known = "" if content is None or is_bad else content.content
            return FoundAt(known, followed.since.get(path))

    def check_of(self, key: Key) -> str:
        """Return the name of the check of the source that a Bundle follows; empty for none."""
        with self._lock:
            request = self._requests.get(key)
            return "" if request is None else request.check

    def namespaces(self, check: str) -> tuple[str, ...]:
        """Return the namespaces that follow a source: it takes its turn with each of them."""
        with self._lock:
            found = self._followed.get(check)
            return () if found is None else tuple({user[0]: None for user in found.users})

    def ages(self) -> Mapping[Key, SourceAge]:
        """Return for how many seconds no check of each Bundle's source has succeeded."""
        with self._lock:
            now = self.clock.now()
            return {
                user: SourceAge(now - found.succeeded, request.interval)
                for found in self._followed.values()
                for user, request in found.users.items()
                if user not in found.paused
            }

    def newly_silent(self) -> set[Key]:
        """Return the Bundles whose source has become silent since the last call."""
        with self._lock:
            woken = set()
            for found in self._followed.values():
                users = {key: one for key, one in found.users.items() if key not in found.paused}
                silent = {key for key, one in users.items() if self._is_silent(found, one)}
                woken |= silent - found.silent
                found.silent = silent
            return woken

    def check_task(self, check: str) -> CheckTask | NextWork:
        """Return the check that is due, or what is due later instead."""
        with self._lock:
            found = self._followed.get(check)
            if found is None:
                return NOTHING_DUE
            due = self._next(found)
            if due.check_in != 0.0:
                return due
            found.asked = False
            asked = {user: request.asked for user, request in found.users.items()}
            task = CheckTask(found.source.remote, min(found.timeout, LONGEST_CHECK), found.tip)
            found.checking = _Checking(task, _Check(self.server_time(), asked))
            return task

    def awaits(self, check: str, task: CheckTask | FetchTask) -> bool:
        """Return whether anybody awaits what has begun; once nobody does, nobody ever will."""
        with self._lock:
            found = self._followed.get(check)
            return found is not None and found.awaits(task)

    def checked(self, name: str, task: CheckTask, result: CheckResult) -> tuple[set[Key], NextWork]:
        """Keep the result of a check; return the Bundles that it concerns, and what is due next."""
        with self._lock:
            found = self._followed.get(name)
            if found is None or found.checking is None or not found.awaits(task):
                return set(), NOTHING_DUE
            before = self._news(found)
            check, found.checking = found.checking.check, None
            if result.problem is not None:
                self._fail(found, result.problem, check)
            else:
                found.tip, found.newest = result.tip, check
                # What may pass is tried again, though the reference has not moved.
                kinds = {one.kind for one in found.problems.values()}
                passes = ProblemKind.FETCH_FAILED in kinds
                found.is_read = found.is_read and not (result.is_new or passes)
                found.has_failed = False
                self._succeed_if_read(found)
            return self._woken(found, before), self._next(found)

    def fetch_task(self, check: str) -> FetchTask | None:
        """Return the fetch that is due; None if none is."""
        with self._lock:
            found = self._followed.get(check)
            if found is None or not self._next(found).fetches:
                return None
            known = {path: found.contents.get(path) for path in sorted(found.paths)}
            if found.is_read:
                known = {path: None for path in known if path in found.unknown}
            one = found.source
            task = FetchTask(one.remote, one.place, found.timeout, known, found.tip)
            found.fetching = _Fetch(task, found.newest, is_whole=not found.is_read)
            return task

    def fetched(
        self, check: str, task: FetchTask, result: FetchResult
    ) -> tuple[set[Key], NextWork]:
        """Keep the result of a fetch; return the Bundles that it concerns, and what is due next."""
        with self._lock:
            found = self._followed.get(check)
            if found is None or found.fetching is None or not found.awaits(task):
                return set(), NOTHING_DUE
            before = self._news(found)
            fetch, found.fetching = found.fetching, None
            if result.problem is not None:
                self._fail(found, result.problem, fetch.check)
            else:
                _keep(found, fetch, result)
                self._succeed_if_read(found)
            return self._woken(found, before), self._next(found)

    def _fail(self, found: _Followed, problem: Problem, check: _Check) -> None:
        found.problem, found.has_failed = problem, True
        found.told |= {
            user
            for user, value in check.asked.items()
            if value and value != found.handled.get(user)
        }
        found.failures += 1
        found.handled.update(check.asked)
        first = min(_FIRST_RETRY, found.interval)
        delay = with_jitter(retry_delay(found.failures, first=first, longest=found.interval))
        found.retry_at = self.clock.now() + delay

    def _succeed_if_read(self, found: _Followed) -> None:
        if found.needs_fetch:
            return
        found.problem, found.failures, found.told = None, 0, set()
        found.read = found.newest
        found.handled.update(found.newest.asked)
        found.succeeded, found.pace = self.clock.now(), with_jitter(1.0)

    def _next(self, found: _Followed) -> NextWork:
        """Return what is due next of a source, unless it is under way."""
        if found.is_paused:
            return NOTHING_DUE
        now = self.clock.now()
        waits = found.has_failed and not found.asked
        needs_fetch = bool(found.tip) and found.needs_fetch and not found.has_failed
        if found.checking is not None:
            check_in = None
        elif waits:
            check_in = max(0.0, found.retry_at - now)
        elif found.asked or not found.tip:
            check_in = 0.0
        elif needs_fetch:
            check_in = None
        else:
            seconds = found.pace * found.interval
            if found.is_late:  # guard: check-of-the-same-second never
                seconds = min(seconds, _SECOND)
            check_in = max(0.0, found.succeeded + seconds - now)
        return NextWork(check_in, fetches=needs_fetch and found.fetching is None)

    def _state(self, key: Key, request: SourceRequest) -> SourceState:
        found, path = self._followed[request.check], request.path
        beside = {
            one: known.content if (known := found.contents.get(one)) is not None else ""
            for one in request.beside
            if one in found.contents or one in found.problems
        }
        return SourceState(
            request.check,
            path,
            found.contents.get(path),
            self._problem(found, key, request),
            checked=found.read.at,
            handled=found.handled.get(key, ""),
            is_late=_is_late(found, request),
            beside=beside,
        )

    def _problem(self, found: _Followed, key: Key, request: SourceRequest) -> Problem | None:
        """Return what a Bundle says of its source."""
        path, own = request.path, found.problems.get(request.path)
        is_silent = self._is_silent(found, request)
        if found.problem is None and own is None and is_silent:
            since = f"since {found.read.at}" if found.read.at else "yet"
            return Problem(
                ProblemKind.FETCH_FAILED,
                f"no check of the source has succeeded {since}",
                reason="its server does not answer, or the check waits for its turn",
            )
        passes = found.problem is not None and found.problem.kind is ProblemKind.FETCH_FAILED
        if passes and path in found.contents and not is_silent and key not in found.told:
            # Nothing is lost: no Bundle need change its status for a moment.
            return own
        return found.problem or own

    def _is_silent(self, found: _Followed, request: SourceRequest) -> bool:
        age = self.clock.now() - found.succeeded
        return age > max(_SILENT_AFTER * request.interval, _SHORTEST_SILENCE)

    def _news(self, found: _Followed) -> Mapping[Key, tuple[object, ...]]:
        return {user: self._state(user, request).news for user, request in found.users.items()}

    def _woken(self, found: _Followed, before: Mapping[Key, tuple[object, ...]]) -> set[Key]:
        return {user for user, news in self._news(found).items() if news != before.get(user)}

    def _drop(self, key: Key) -> None:
        request = self._requests.pop(key, None)
        if request is None:
            return
        found = self._followed[request.check]
        for known in (found.users, found.handled):
            known.pop(key, None)
        found.paused.discard(key)
        found.told.discard(key)
        if not found.users:
            del self._followed[request.check]


class NextWork(Struct, frozen=True):
    """What is due next of a source."""

    check_in: float | None
    """Seconds until its next check; None if it is under way, or nobody needs one."""
    fetches: bool = False
    """Whether what a check has found is to be fetched now."""


NOTHING_DUE = NextWork(None)


class SourceAge(Struct, frozen=True):
    """How old what is known of a Bundle's source is; the times are in seconds."""

    age: float
    """The time since the newest success of a check."""
    interval: float
    """The time that the Bundle wants between two checks."""


class FoundAt(Struct, frozen=True):
    """What a Bundle's source has, as far as it is known."""

    content: str = ""
    """Empty if it is not known, or cannot be used."""
    fetch: int | None = None
    """The number of the fetch that has found it so; None if none has."""


class _Check(Struct, frozen=True):
    """A check that has begun."""

    at: str = ""
    """When, by the API server's clock; empty if that is not known."""
    asked: Mapping[Key, str] = field(default_factory=dict)
    """The value of reconcile-now that each Bundle had then."""


class _Checking(Struct, frozen=True):
    """A check that is under way."""

    task: CheckTask
    check: _Check


class _Fetch(Struct, frozen=True):
    """A fetch that has begun, of what a check has found."""

    task: FetchTask
    check: _Check
    is_whole: bool
    """Whether it reads all paths, and not those alone that are new."""


class _Followed(Struct):
    """One reference of a source, and the Bundles that follow it."""

    succeeded: float
    """When the newest check has ended with success, by the clock; or when it was first followed."""
    users: dict[Key, SourceRequest] = field(default_factory=dict)
    contents: dict[str, SourceContent] = field(default_factory=dict)
    problems: dict[str, Problem] = field(default_factory=dict)
    fetches: int = 0
    """How many have ended with success."""
    since: dict[str, int] = field(default_factory=dict)
    """The number of the fetch that has found each path as it is now."""
    problem: Problem | None = None
    """Why the last check or fetch has failed, until one has succeeded."""
    has_failed: bool = False
    """Whether it is to be tried again."""
    retry_at: float = 0.0
    failures: int = 0
    """How many in a row have failed."""
    tip: bytes = b""
    """What the newest successful check has found."""
    newest: _Check = _Check()
    """That check."""
    is_read: bool = False
    """Whether all paths were read as they are in the tip."""
    read: _Check = _Check()
    """The newest check whose tip was read."""
    handled: dict[Key, str] = field(default_factory=dict)
    """What each Bundle had as reconcile-now when the newest check began that has ended."""
    told: set[Key] = field(default_factory=set)
    """The Bundles that have asked for a check which has failed: they say so at once."""
    pace: float = 1.0
    """By what the interval until the next check is multiplied, so that not all come at once."""
    asked: bool = False
    """Whether somebody wants a check now."""
    checking: _Checking | None = None
    fetching: _Fetch | None = None
    paused: set[Key] = field(default_factory=set)
    """The Bundles among the users for which nobody checks now."""
    silent: set[Key] = field(default_factory=set)
    """The Bundles that know that it is silent."""

    def awaits(self, task: CheckTask | FetchTask) -> bool:
        """Return whether this very check or fetch is under way."""
        under_way = (self.checking, self.fetching)
        # guard: awaited-task -> True
        return any(one is not None and one.task is task for one in under_way)

    @property
    def source(self) -> SourceRequest:
        """The request of one of them: each has the same source, and a path of its own."""
        return next(iter(self.users.values()))

    @property
    def paths(self) -> set[str]:
        return {path for request in self.users.values() for path in request.paths}

    @property
    def unknown(self) -> set[str]:
        return self.paths - self.contents.keys() - self.problems.keys()

    @property
    def needs_fetch(self) -> bool:
        return not self.is_read or bool(self.unknown)

    @property
    def interval(self) -> float:
        return min(request.interval for request in self._counting)

    @property
    def timeout(self) -> float:
        """Return the longest of the timeouts: none hurries the others."""
        return max(request.timeout for request in self._counting)

    @property
    def _counting(self) -> Iterable[SourceRequest]:
        """Return the requests that look; all of them, for a check that ends after a pause began."""
        return self._looking or self.users.values()

    @property
    def is_paused(self) -> bool:
        return not self._looking

    @property
    def is_late(self) -> bool:
        """Return whether somebody waits for a check that begins later than the newest one."""
        return any(_is_late(self, request) for request in self._looking)

    @property
    def _looking(self) -> list[SourceRequest]:
        return [request for user, request in self.users.items() if user not in self.paused]


def _is_late(found: _Followed, request: SourceRequest) -> bool:
    """Return whether a Bundle waits for a check that begins later than one of another replica."""
    return bool(request.older_than) and found.read.at <= request.older_than


def _keep(found: _Followed, fetch: _Fetch, result: FetchResult) -> None:
    """Keep what a fetch has read."""
    found.fetches += 1
    for path, one in result.paths.items():
        if found.problems.get(path) != one:  # a fault that stays is nothing new
            found.since[path] = found.fetches
    if fetch.is_whole:
        # What was wrong with these paths was so in what the reference meant before.
        for path in fetch.task.paths:
            found.problems.pop(path, None)
    for path, one in result.paths.items():
        if isinstance(one, Problem):
            # The last good content stays: nothing is applied or pruned by a bad one.
            found.problems[path] = one
        else:
            found.contents[path] = one
    known: dict[str, Any]
    for known in (found.contents, found.problems, found.since):
        for path in known.keys() - found.paths:
            del known[path]
    # A fetch of a new path alone has not read the other paths again: if a check that has ended
    # meanwhile says that they must be, they still must.
    # guard: tip-of-all-paths -> found.is_read or (fetch.task.tip == found.tip)
    found.is_read = found.is_read or (fetch.is_whole and fetch.task.tip == found.tip)
