"""Watch the metadata of many collections at a time, all on one thread.

Hundreds of watches that see nothing cost nothing. What comes is a hint: whoever acts on it reads
again.
"""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import pycurl
from msgspec import Struct, field

from applyprune.cluster.messages import ApiRequest
from applyprune.cluster.requests import METADATA, for_collection, selection
from applyprune.cluster.transport import sent_request, trust_for, user_agent
from applyprune.cluster.watch import parse_event
from applyprune.http import (
    Head,
    Transfer,
    addresses_for,
    describe_error,
    explained_set_up,
    one_try,
)
from applyprune.model.live import LiveObject, Resource, WatchEventType
from applyprune.values import replace

if TYPE_CHECKING:
    from applyprune.cluster.access import ClusterAccess
    from applyprune.cluster.credentials import Identity
    from applyprune.http import Sent
    from applyprune.model.identity import Ref


class WatchTarget(Struct, frozen=True):
    """The objects that one watch covers, and the user that watches them."""

    user: str
    """The user to impersonate; empty for none."""
    resource: Resource
    namespace: str = ""
    """The namespace to watch; empty for all namespaces."""
    selector: str = ""
    """The label selector; empty for all objects."""
    name: str = ""
    """The name of a single object; empty for all objects."""


class ObjectReport(Struct, frozen=True):
    """An object that exists or has changed, by its metadata; or that is gone."""

    watched: WatchTarget
    live: LiveObject
    gone: bool = False


class FailureReport(Struct, frozen=True):
    """A watch that fails; it is tried again."""

    watched: WatchTarget
    code: int
    """The status code of the reply; 0 without a reply."""
    reason: str


class ListReport(Struct, frozen=True):
    """All objects that a watch has begun with; what was deleted before is not among them."""

    watched: WatchTarget
    refs: frozenset[Ref]


WatchReport: TypeAlias = ObjectReport | FailureReport | ListReport

# Seconds after which the server ends a watch. A little randomness spreads the new connections.
_SESSION = (300, 600)
_GRACE = 30.0
_CONNECT_TIMEOUT = 10.0
_OPENING = 16
"""How many watches connect at a time."""
_LONGEST_REASON = 300
_GONE = 410
_SETTLED = 0.5
"""Seconds without an event after which a watch has shown what it begins with."""


class _WatchState(Struct):
    """How far a watch has come."""

    version: str = ""
    """The resourceVersion that it has seen last."""
    refused: Identity | None = None
    """The credentials that the server has refused last."""
    is_listed: bool = False
    """Whether it has shown all objects since it has missed any change."""
    goes_on: bool = False
    """Whether the server has answered a session that misses nothing."""
    found: set[Ref] = field(default_factory=set)
    """The objects that it has shown until then."""
    changed: float = 0.0
    """When it has shown one, by the clock of the loop."""
    listing: asyncio.TimerHandle | None = None


class BrokenReply(Exception):
    """A reply that is not complete, or not what a watch sends."""


class RefusedReply(Exception):
    """A reply that is not a watch."""

    def __init__(self, code: int) -> None:
        super().__init__(f"the server replied {code}")
        self.code = code


_UNAUTHORIZED = 401


class ManyWatches:
    """Watches of one API server; ``found`` is called with what they see, on their thread."""

    def __init__(
        self,
        access: ClusterAccess,
        agent: str,
        found: Callable[[WatchReport], None],
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """Keep where the server is; the clock of the loop is that of all watches."""
        self.loop = loop or asyncio.new_event_loop()
        self._access, self._agent, self._found = access, agent, found
        self._tasks: dict[WatchTarget, asyncio.Task[None]] = {}
        self._opening = asyncio.Semaphore(_OPENING)
        self._connections = _Connections(self.loop)
        self._thread: threading.Thread | None = None
        self._closed = False

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="applyprune-watches", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Return whether the thread runs."""
        return self._thread is not None and self._thread.is_alive()

    def watch(self, watched: WatchTarget) -> None:
        """Start a watch, unless it is there; thread-safe."""
        self._call(self._open, watched)

    def end(self, watched: WatchTarget) -> None:
        """End a watch; thread-safe."""
        self._call(self._end, watched)

    def close(self) -> None:
        """End all watches and the thread."""
        self._closed = True
        if self._thread is None:
            self.loop.close()
            return
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(_GRACE)

    def _call(self, call: Callable[[WatchTarget], None], watched: WatchTarget) -> None:
        # At the end of the process, a reconcile may still ask for a watch.
        with suppress(RuntimeError):
            if not self._closed:
                self.loop.call_soon_threadsafe(call, watched)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        for task in self._tasks.values():
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*self._tasks.values(), return_exceptions=True))
        self._connections.close()
        self.loop.close()

    def _open(self, watched: WatchTarget) -> None:
        if watched not in self._tasks:
            task = self._tasks[watched] = self.loop.create_task(self._keep(watched))
            task.add_done_callback(self._on_end)

    def _tell(self, report: WatchReport) -> None:
        """Report something, unless the watch has been ended meanwhile."""
        if report.watched in self._tasks:  # libcurl may hand over more until its task has ended
            self._found(report)

    def _on_end(self, task: asyncio.Task[None]) -> None:
        """End the thread with a watch that ends by itself: nobody would miss that watch."""
        if not task.cancelled():
            self.loop.stop()

    def _end(self, watched: WatchTarget) -> None:
        task = self._tasks.pop(watched, None)
        if task is not None:
            task.cancel()

    async def _keep(self, watched: WatchTarget) -> None:
        """Watch until the task is cancelled, one session after the other."""
        state, failures = _WatchState(), 0
        while True:
            began, code, state.goes_on = self.loop.time(), 0, False
            if not state.is_listed:
                state.version = ""
            try:
                await self._session(watched, state)
            except Exception as error:  # noqa: BLE001
                # One answer that nobody expected must not end the watch without a word.
                code = error.code if isinstance(error, RefusedReply) else 0
                if code == _GONE:  # guard: expired-watch never
                    state.is_listed = False
                reason = str(error) or type(error).__name__
                if isinstance(error, OSError):
                    reason, _ = describe_error(error, server=self._access.server)
                self._tell(FailureReport(watched, code, reason[:_LONGEST_REASON]))
            lasted = self.loop.time() - began
            failures = failures_in_a_row(failures, lasted, goes_on=state.goes_on)
            pause = seconds_between(code, failures)
            await asyncio.sleep(pause * random.uniform(0.8, 1.2))  # noqa: S311 -- no secret

    async def _session(self, watched: WatchTarget, state: _WatchState) -> None:
        """Report the changes since a resourceVersion; without one, all objects first."""
        seconds = random.randint(*_SESSION)  # noqa: S311 -- no secret
        request = _request(watched, state.version, seconds)
        identity = await asyncio.to_thread(self._identity, state.refused)
        impersonation = self._access.impersonation
        if watched.user:
            impersonation = (("Impersonate-User", watched.user),)
        access = replace(self._access, impersonation=impersonation)
        sent = sent_request(access, request, identity, user_agent(self._agent))
        lines = _Lines(partial(self._opened, watched, state), partial(self._see, watched, state))
        reply = None
        try:
            async with self._opening:
                reply = _Reply(await self._transfer(sent, identity), sent, lines)
                self._connections.add(reply)
                await asyncio.wait((reply.is_sent,))
            async with asyncio.timeout(seconds + _GRACE):
                failure = await reply.ended
            if failure is not None:
                raise failure
        except RefusedReply as error:
            # Perhaps the credentials have expired; if there are no newer ones, it waits.
            state.refused = identity if error.code == _UNAUTHORIZED else None
            raise
        finally:
            # At once: a watch has nothing to say at its end.
            if reply is not None:
                self._connections.remove(reply)
            if state.listing is not None:
                state.listing.cancel()

    def _see(self, watched: WatchTarget, state: _WatchState, line: bytes) -> None:
        """Report an event."""
        live, kind = _change(watched, line)
        state.version = live.resource_version or state.version
        if kind is WatchEventType.BOOKMARK:
            return
        gone = kind is WatchEventType.DELETED
        if not state.is_listed:
            state.changed = self.loop.time()
            (state.found.discard if gone else state.found.add)(live.ref)
        self._tell(ObjectReport(watched, live, gone=gone))

    def _opened(self, watched: WatchTarget, state: _WatchState) -> None:
        """Take note that the server has answered with a watch."""
        state.goes_on = bool(state.version)
        if not state.goes_on:
            state.found, state.changed = set(), self.loop.time()
            self._list(watched, state)

    def _list(self, watched: WatchTarget, state: _WatchState) -> None:
        """Report all objects that a watch begins with, once nothing more comes."""
        left = state.changed + _SETTLED - self.loop.time()
        if left > 0:
            state.listing = self.loop.call_later(left, self._list, watched, state)
            return
        found, state.found = frozenset(state.found), set()
        state.is_listed = True
        self._tell(ListReport(watched, found))

    def _identity(self, refused: Identity | None) -> Identity:
        credentials = self._access.credentials
        return credentials.current() if refused is None else credentials.renewed(refused)

    def _addresses(self, place: tuple[str, str]) -> Sequence[str]:
        with one_try(_CONNECT_TIMEOUT):
            return addresses_for(place, self._access.addresses)

    async def _transfer(self, sent: Sent, identity: Identity) -> Transfer:
        """Return what sends a request, with the addresses that the name of the server has now."""
        place = sent.server, sent.proxy
        with explained_set_up():
            addresses = await asyncio.to_thread(self._addresses, place)
            transfer = Transfer(trust_for(self._access, identity), place, addresses, _VERSION)
            transfer.prepare(sent, _CONNECT_TIMEOUT)
        return transfer


def _request(watched: WatchTarget, version: str, seconds: int) -> ApiRequest:
    query = (
        ("watch", "true"),
        ("allowWatchBookmarks", "true"),
        ("timeoutSeconds", str(seconds)),
        *((("resourceVersion", version),) if version else ()),
        *selection(watched.selector, watched.name),
    )
    return for_collection(
        "GET", watched.resource, watched.namespace, query=query, accept=METADATA.format(list="")
    )


def _change(watched: WatchTarget, line: bytes) -> tuple[LiveObject, WatchEventType]:
    """Return an event; raises RefusedReply for an error, BrokenReply for anything else."""
    item = _parsed_line(line)
    body = item.get("object")
    if not isinstance(body, dict):
        raise BrokenReply("it sent an invalid event")
    if item.get("type") == "ERROR":
        code = body.get("code")
        raise RefusedReply(code if isinstance(code, int) else 500)
    namespace = watched.namespace if watched.resource.namespaced else ""
    change = parse_event(watched.resource, namespace, item.get("type"), body, full=False)
    if change is None:
        raise BrokenReply("an event is about something else")
    return change.live, change.kind


def _parsed_line(line: bytes) -> dict[str, Any]:
    """Return an event; raises BrokenReply for anything else."""
    try:
        item = json.loads(line)
    except (ValueError, RecursionError):
        item = None
    if not isinstance(item, dict):
        raise BrokenReply("it sent an invalid event")
    return item


# The streamed reply to a watch, line by line.


_MAX_EVENT = 2 * 1024 * 1024


class _Lines:
    """Cuts the parts of a reply into lines; calls ``begin`` at its head, ``see`` with each line."""

    def __init__(self, begin: Callable[[], None], see: Callable[[bytes], None]) -> None:
        self.begin = begin
        self._see = see
        self._parts: list[bytes] = []
        self._size = 0

    def take(self, data: bytes) -> None:
        """Take a part."""
        *ends, rest = data.split(b"\n")
        for end in ends:
            line = b"".join((*self._parts, end))
            # Of a huge object there is no hint; those of the others are not lost by it.
            if line.strip() and self._size <= _MAX_EVENT:
                self._see(line)
            self._parts, self._size = [], 0
        self._size += len(rest)
        self._parts = [*self._parts, rest] if self._size <= _MAX_EVENT else []


class _Reply:
    """The reply to one request, on the loop of its thread."""

    def __init__(self, transfer: Transfer, sent: Sent, lines: _Lines) -> None:
        loop = asyncio.get_running_loop()
        self.is_sent: asyncio.Future[None] = loop.create_future()
        """Done when the request goes out, or will not."""
        self.ended: asyncio.Future[Exception | None] = loop.create_future()
        """What has gone wrong, at its end."""
        self.curl = transfer.curl
        self._transfer, self._sent, self._lines = transfer, sent, lines
        self._head = Head()
        set_ = self.curl.setopt
        set_(pycurl.PIPEWAIT, 1)
        set_(pycurl.PREREQFUNCTION, self._before_request)
        set_(pycurl.HEADERFUNCTION, self._header)
        set_(pycurl.WRITEFUNCTION, self._data)

    def end(self, failed: tuple[int, str] | None) -> None:
        """Take note that nothing more comes."""
        if failed is None:
            self._finish(None)
            return
        self._finish(self._transfer.failure(*failed, self._sent, has_begun=self._head.status > 0))

    def close(self) -> None:
        """Free what it has."""
        self._transfer.close()

    def _finish(self, error: Exception | None) -> None:
        """Keep the first thing that has gone wrong."""
        self._go_out()
        if not self.ended.done():
            self.ended.set_result(error)

    # What libcurl calls.

    def _before_request(self, *_: object) -> int:
        self._go_out()
        return int(pycurl.PREREQFUNC_OK)

    def _go_out(self) -> None:
        self._transfer.forget_opened()
        if not self.is_sent.done():
            self.is_sent.set_result(None)

    def _header(self, line: bytes) -> int | None:
        if self._head.take(line) is None:
            return None
        if self._head.status != _OK:
            self._finish(RefusedReply(self._head.status))
            return 0
        self._lines.begin()
        return None

    def _data(self, data: bytes) -> int | None:
        try:
            self._lines.take(data)
        except Exception as error:  # noqa: BLE001 -- libcurl would not hand it over
            self._finish(error)
            return 0
        return None


_OK = 200


_VERSION = (
    pycurl.CURL_HTTP_VERSION_2TLS
    if pycurl.version_info()[4] & pycurl.VERSION_HTTP2
    else pycurl.CURL_HTTP_VERSION_1_1
)


class _Connections:
    """Connections of libcurl that a loop moves; HTTP/2 puts many watches on one of them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._replies: dict[pycurl.Curl, _Reply] = {}
        self._timer: asyncio.Handle | None = None
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._on_socket)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._on_timer)

    def add(self, reply: _Reply) -> None:
        """Send a request."""
        self._replies[reply.curl] = reply
        self._multi.add_handle(reply.curl)

    def remove(self, reply: _Reply) -> None:
        """End a reply, at once."""
        if self._replies.pop(reply.curl, None) is not None:
            self._multi.remove_handle(reply.curl)
        reply.close()

    def close(self) -> None:
        """Close what nobody uses any more."""
        self._multi.close()
        if self._timer is not None:
            self._timer.cancel()

    def _act(self, fd: int, bits: int) -> None:
        self._multi.socket_action(fd, bits)
        _, done, failed = self._multi.info_read()
        for curl in done:
            self._replies[curl].end(None)
        for curl, code, text in failed:
            self._replies[curl].end((code, text))

    def _on_socket(self, what: int, fd: int, _multi: object, _data: object) -> None:
        for bits, wanted, add, remove in (
            (pycurl.CSELECT_IN, pycurl.POLL_IN, self._loop.add_reader, self._loop.remove_reader),
            (pycurl.CSELECT_OUT, pycurl.POLL_OUT, self._loop.add_writer, self._loop.remove_writer),
        ):
            # POLL_REMOVE has another bit.
            if what & wanted:
                add(fd, self._act, fd, bits)
            else:
                remove(fd)

    def _on_timer(self, milliseconds: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        act = partial(self._act, pycurl.SOCKET_TIMEOUT, 0)
        if milliseconds > 0:
            self._timer = self._loop.call_later(milliseconds / 1000, act)
        elif milliseconds == 0:
            self._timer = self._loop.call_soon(act)


# The pauses between two sessions.


_LASTS = 5.0
"""Seconds after which a session that is cut off counts as one that has worked."""


def failures_in_a_row(before: int, lasted: float, *, goes_on: bool) -> int:
    """Return how many sessions in a row have failed, with one that lasted so many seconds.

    Where every session is cut off after a while, these failures do not add up.
    """
    if lasted > _LASTS:
        return 0
    return 1 if goes_on else before + 1


_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0
_FORBIDDEN_PAUSE = 300.0
"""Seconds until the next try where the account may not watch."""
_BETWEEN = 0.2
_RENEWALS = 2
"""How often new credentials are tried soon."""
_FORBIDDEN = frozenset({401, 403, 404, 405})


def seconds_between(code: int, failures: int) -> float:
    """Return the seconds until the next session after so many that have failed in a row."""
    if not failures:
        return _BETWEEN
    if code in _FORBIDDEN and (code != _UNAUTHORIZED or failures > _RENEWALS):
        return _FORBIDDEN_PAUSE
    return min(_FIRST_PAUSE * 2.0 ** min(failures - 1, 10), _LONGEST_PAUSE)
