"""Watch the metadata of many collections at a time, all on one thread.

Hundreds of watches that see nothing cost nothing. What comes is a hint: whoever acts on it reads
again.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import ssl
import threading
from base64 import b64encode
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from urllib.parse import SplitResult, unquote, urlsplit

import h11

from applyprune.cluster.messages import ApiRequest
from applyprune.cluster.requests import METADATA, for_collection, selection
from applyprune.cluster.tls import tls_context
from applyprune.cluster.transport import request_headers, user_agent
from applyprune.cluster.watch import parse_event
from applyprune.model.live import LiveObject, Resource, WatchEventType
from applyprune.values import dataclass, field, replace

if TYPE_CHECKING:
    from applyprune.cluster.access import ClusterAccess
    from applyprune.cluster.credentials import Identity
    from applyprune.model.identity import Ref


@dataclass(frozen=True, slots=True)
class WatchTarget:
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


@dataclass(frozen=True, slots=True)
class ObjectReport:
    """An object that exists or has changed, by its metadata; or that is gone."""

    watched: WatchTarget
    live: LiveObject
    gone: bool = False


@dataclass(frozen=True, slots=True)
class FailureReport:
    """A watch that fails; it is tried again."""

    watched: WatchTarget
    code: int
    """The status code of the reply; 0 without a reply."""
    reason: str


@dataclass(frozen=True, slots=True)
class ListReport:
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
_READ = 64 * 1024
_LONGEST_REASON = 300
_GONE = 410
_ABORTING = 0.01
"""Seconds until the loop has closed the connections of ended watches."""
_SETTLED = 0.5
"""Seconds without an event after which a watch has shown what it begins with."""


@dataclass(slots=True)
class _WatchState:
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


@dataclass(slots=True)
class ManyWatches:
    """Watches of one API server; ``found`` is called with what they see, on their thread."""

    access: ClusterAccess
    agent: str
    found: Callable[[WatchReport], None]
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    """Its clock is that of all watches."""
    _tasks: dict[WatchTarget, asyncio.Task[None]] = field(default_factory=dict)
    _opening: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_OPENING))
    _thread: threading.Thread | None = None
    _tls: tuple[bytes, ssl.SSLContext] | None = None
    _closed: bool = False

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
        self.loop.run_until_complete(asyncio.sleep(_ABORTING))
        self.loop.close()

    def _open(self, watched: WatchTarget) -> None:
        if watched not in self._tasks:
            task = self._tasks[watched] = self.loop.create_task(self._keep(watched))
            task.add_done_callback(self._on_end)

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
                if code == _GONE:  # guard: expired-watch
                    state.is_listed = False
                reason = str(error) or type(error).__name__
                self.found(FailureReport(watched, code, reason[:_LONGEST_REASON]))
            lasted = self.loop.time() - began
            failures = failures_in_a_row(failures, lasted, goes_on=state.goes_on)
            pause = seconds_between(code, failures)
            await asyncio.sleep(pause * random.uniform(0.8, 1.2))  # noqa: S311 -- no secret

    async def _session(self, watched: WatchTarget, state: _WatchState) -> None:
        """Report the changes since a resourceVersion; without one, all objects first."""
        seconds = random.randint(*_SESSION)  # noqa: S311 -- no secret
        request = _request(watched, state.version, seconds)
        identity = await asyncio.to_thread(self._identity, state.refused)
        async with self._opening:
            reader, writer = await asyncio.wait_for(self._connect(identity), _CONNECT_TIMEOUT)
        try:
            connection = h11.Connection(h11.CLIENT)
            writer.write(self._sent(connection, request, watched, identity))
            async with (
                asyncio.timeout(seconds + _GRACE),
                aclosing(reply_lines(connection, reader)) as lines,
            ):
                async for line in lines:
                    if not line:
                        self._opened(watched, state)
                        continue
                    live, kind = _change(watched, line)
                    state.version = live.resource_version or state.version
                    if kind is WatchEventType.BOOKMARK:
                        continue
                    gone = kind is WatchEventType.DELETED
                    if not state.is_listed:
                        state.changed = self.loop.time()
                        (state.found.discard if gone else state.found.add)(live.ref)
                    self.found(ObjectReport(watched, live, gone=gone))
        except RefusedReply as error:
            # Perhaps the credentials have expired; if there are no newer ones, it waits.
            state.refused = identity if error.code == _UNAUTHORIZED else None
            raise
        finally:
            # At once: a watch has nothing to say at its end.
            writer.transport.abort()
            if state.listing is not None:
                state.listing.cancel()

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
        self.found(ListReport(watched, found))

    def _identity(self, refused: Identity | None) -> Identity:
        credentials = self.access.credentials
        return credentials.current() if refused is None else credentials.renewed(refused)

    async def _connect(
        self, identity: Identity
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter | TLSStream]:
        server = urlsplit(self.access.server)
        first = urlsplit(self.access.proxy) if self.access.proxy else server
        secure, host = server.scheme == "https", server.hostname or ""
        if self.access.proxy and (first.scheme != "http" or not secure):
            raise BrokenReply("a watch needs an http:// proxy and an https:// server")
        reader, writer = await asyncio.open_connection(
            first.hostname or "",
            first.port or (443 if first.scheme == "https" else 80),
            limit=_READ,
        )
        _keep_alive(writer.get_extra_info("socket"))
        if not secure:
            return reader, writer
        try:
            if self.access.proxy:
                await _tunnel(reader, writer, f"{host}:{server.port or 443}", first)
            name = self.access.trust.server_name or host
            stream = TLSStream(reader, writer, self._context(identity), name)
            await stream.handshake()
        except BaseException:
            writer.close()
            raise
        return stream, stream

    def _context(self, identity: Identity) -> ssl.SSLContext:
        """Return the context for the identity's certificate; made once for each."""
        if self._tls is None or self._tls[0] != identity.certificate:
            self._tls = (identity.certificate, tls_context(self.access.trust, identity))
        return self._tls[1]

    def _sent(
        self,
        connection: h11.Connection,
        request: ApiRequest,
        watched: WatchTarget,
        identity: Identity,
    ) -> bytes:
        """Return the bytes of a request."""
        impersonation = self.access.impersonation
        if watched.user:
            impersonation = (("Impersonate-User", watched.user),)
        access = replace(self.access, impersonation=impersonation)
        parts = urlsplit(self.access.server)
        headers = request_headers(access, request, identity, user_agent(self.agent))
        event = h11.Request(
            method=request.method,
            target=parts.path.rstrip("/") + request.target,
            headers=[("Host", parts.netloc), *headers],
        )
        return (connection.send(event) or b"") + (connection.send(h11.EndOfMessage()) or b"")


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


def _keep_alive(raw: socket.socket) -> None:
    """Let the kernel find out that the other end is gone."""
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if (option := getattr(socket, name, None)) is not None:
            raw.setsockopt(socket.IPPROTO_TCP, option, value)


async def _tunnel(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: str, proxy: SplitResult
) -> None:
    """Let a proxy connect to a server; raises BrokenReply if it does not."""
    headers = {"Host": target}
    if proxy.username:
        login = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
        headers["Proxy-Authorization"] = f"Basic {b64encode(login.encode()).decode()}"
    lines = [f"CONNECT {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    writer.write("\r\n".join((*lines, "", "")).encode())
    reply = await reader.readuntil(b"\r\n\r\n")
    if reply.split(b" ", 2)[1:2] != [b"200"]:
        raise BrokenReply("the proxy refused the connection")


# The streamed reply to a watch, line by line.


_MAX_EVENT = 2 * 1024 * 1024


async def reply_lines(
    connection: h11.Connection, reader: asyncio.StreamReader
) -> AsyncGenerator[bytes, None]:
    """Yield an empty line when the reply begins, and each of its lines.

    Raises RefusedReply for a reply that is not streamed.
    """
    parts: list[bytes] = []
    size = 0
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(_READ))
        elif isinstance(event, h11.Response):
            if event.status_code != 200:
                raise RefusedReply(event.status_code)
            yield b""
        elif isinstance(event, h11.Data):
            *ends, rest = bytes(event.data).split(b"\n")
            for end in ends:
                line = b"".join((*parts, end))
                # Of a huge object there is no hint; those of the others are not lost by it.
                if line.strip() and size <= _MAX_EVENT:
                    yield line
                parts, size = [], 0
            size += len(rest)
            parts = [*parts, rest] if size <= _MAX_EVENT else []
        elif isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
            return


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


# TLS over an asyncio stream. asyncio's own keeps a buffer of 256 KiB for each connection, which is
# most of what a watch that sees nothing would cost.


_CHUNK = 16 * 1024
T = TypeVar("T")


class TLSStream(asyncio.StreamReader):
    """A connection to a server over TLS; only ``read`` of the reader's methods is for use."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        context: ssl.SSLContext,
        server_hostname: str,
    ) -> None:
        """Keep the plain connection; ``handshake`` comes first."""
        super().__init__()
        self._plain, self._writer = reader, writer
        self._received, self._sent = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._sent, server_hostname=server_hostname)

    async def handshake(self) -> None:
        """Agree with the server; raises OSError if it cannot be trusted."""
        await self._exchange(self._tls.do_handshake)

    async def read(self, n: int = -1) -> bytes:
        """Return at most ``n`` bytes as soon as there are any; none at the end."""
        try:
            return await self._exchange(partial(self._tls.read, n if n > 0 else _CHUNK))
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return b""

    def write(self, data: bytes) -> None:
        """Send bytes, after the handshake."""
        self._tls.write(data)
        self._writer.write(self._sent.read())

    @property
    def transport(self) -> asyncio.WriteTransport:
        """Return the transport of the plain connection."""
        return self._writer.transport

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()

    async def _exchange(self, call: Callable[[], T]) -> T:
        """Call it until what it needs has come."""
        while True:
            try:
                result = call()
            except ssl.SSLWantReadError:
                self._flush()
            else:
                self._flush()
                return result
            if data := await self._plain.read(_CHUNK):
                self._received.write(data)
            else:
                self._received.write_eof()

    def _flush(self) -> None:
        if self._sent.pending:
            self._writer.write(self._sent.read())
