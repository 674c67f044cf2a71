"""urllib3 connections with one deadline per try, from name resolution to the last byte.

A socket's own timeout restarts with every byte, so a server that sends one byte a second can hold a
request for hours. Here each read and write gets the time that is left of the try. A try may also
have a ``stop``, which is called several times a second, always in the thread that made the try.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import queue
import socket
import threading
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import ConnectTimeoutError, NameResolutionError, NewConnectionError
from urllib3.util.connection import create_connection

from applyprune.clock import BOOT_CLOCK
from applyprune.model.addresses import AddressRules, is_address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from _typeshed import WriteableBuffer

    from applyprune.clock import Clock, Lease

CONNECT_TIMEOUT = 5.0
# Name resolution and the attempts at all addresses of a name, together.
NAMED_CONNECT_TIMEOUT = 10.0
# Seconds between two calls of ``stop``, and between two chances for Ctrl-C on Windows, which ends
# no wait early.
TICK = 0.25
# Seconds of silence, seconds between probes, and how many unanswered probes mean a dead peer.
KEEPALIVE = (15, 15, 3)
# One TLS record: what a single write of the ssl module sends within its timeout.
_WRITE_SIZE = 16 * 1024
_READ_SIZE = 16 * 1024

_Result = TypeVar("_Result")


class Stopped(Exception):
    """The response is no longer wanted."""


class RefusedAddress(OSError):
    """The name of a server means an address to which no connection is made."""


class LeaseEnded(TimeoutError):
    """A lease ended before the whole request was sent, so the server cannot process it."""


class Try:
    """One try of one request: its deadline, and whether a byte of it may have been sent."""

    __slots__ = ("clock", "ends", "leases", "sent", "stop")

    def __init__(
        self,
        seconds: float,
        stop: Callable[[], bool] | None = None,
        leases: Sequence[Lease] = (),
        clock: Clock = BOOT_CLOCK,
    ) -> None:
        """Start the time; ``stop`` returns true when the response is no longer wanted.

        Nothing is sent after the end of one of the ``leases``.
        """
        self.clock = clock
        self.ends = clock.now() + seconds
        self.sent = False
        self.stop = stop
        self.leases = leases

    def check_leases(self) -> None:
        """Raise LeaseEnded if nothing may be sent any more."""
        if any(lease.left() <= 0 for lease in self.leases):  # guard: late-write
            raise LeaseEnded("the lease has ended")

    def seconds_left(self) -> float:
        """Return the seconds left, always more than zero; raises TimeoutError when none is."""
        left = self.ends - self.clock.now()
        if left <= 0:
            raise TimeoutError("timed out")
        return left

    def next_wait(self) -> float:
        """Return how long to wait before the next check; raises Stopped or TimeoutError."""
        if self.stop is not None and self.stop():
            raise Stopped
        return min(TICK, self.seconds_left())


_current: ContextVar[Try] = ContextVar("try")


@contextlib.contextmanager
def one_try(
    seconds: float,
    stop: Callable[[], bool] | None = None,
    leases: Sequence[Lease] = (),
    clock: Clock = BOOT_CLOCK,
) -> Iterator[Try]:
    """Apply one deadline to everything that this thread does on connections in the block."""
    current = Try(seconds, stop, leases, clock)
    token = _current.set(current)
    try:
        yield current
    finally:
        _current.reset(token)


def socket_options() -> list[tuple[int, int, int]]:
    """Return the options of every socket: no delay, and probes that detect a dead peer."""
    options = [
        (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    ]
    names = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT")
    options += [
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in zip(names, KEEPALIVE, strict=True)
        if hasattr(socket, name)
    ]
    return options


class _Reader(io.RawIOBase):
    """The receiving side of a socket, as the file from which http.client reads a response."""

    def __init__(self, sock: Any) -> None:
        self._sock = sock
        self._raw = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        current = _current.get()
        while True:
            self._sock.settimeout(current.next_wait())
            # From the socket, not from its file: after a timeout the file cannot be read any more.
            # A timeout loses nothing: half a TLS record stays in the socket.
            try:
                count: int = self._sock.recv_into(buffer)
            except TimeoutError:
                continue
            return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Readable:
    """The part of a socket that http.client's response needs: ``makefile``."""

    def __init__(self, sock: Any) -> None:
        self._sock = sock

    def makefile(self, *_arguments: object) -> io.BufferedReader:
        return io.BufferedReader(_Reader(self._sock), _READ_SIZE)


class _Response(http.client.HTTPResponse):
    """A response, to a request or to a proxy's CONNECT, that is read within the deadline."""

    def __init__(self, sock: Any, *arguments: Any, **options: Any) -> None:
        super().__init__(_Readable(sock), *arguments, **options)  # type: ignore[arg-type]


class DeadlineHTTPConnection(HTTPConnection):
    """A connection that obeys the deadline of the current try."""

    response_class = _Response

    def __init__(
        self, *arguments: Any, addresses: AddressRules | None = None, **options: Any
    ) -> None:
        """Keep the rules for the addresses of the host; None if every address may be reached."""
        super().__init__(*arguments, **options)
        self._addresses = addresses

    def connect(self) -> None:
        """Connect; in a thread if the try can be stopped, as nothing interrupts a handshake."""
        current = _current.get()
        connect = super().connect
        if current.stop is None:
            connect()
            return
        limit = current.seconds_left()

        def work() -> None:
            # A try of its own: reads from a proxy must not call the caller's ``stop``.
            _current.set(Try(limit))
            connect()

        _in_thread(work, lambda _: self.close(), limit)

    def _new_conn(self) -> socket.socket:
        rules = self._addresses
        # guard: checked-connection
        open_one = super()._new_conn if rules is None else partial(self._new_checked_conn, rules)
        if is_address(self.host.strip("[]")):
            return open_one()
        return self._in_time(open_one)

    def _new_checked_conn(self, rules: AddressRules) -> socket.socket:
        """Connect to an address that was checked; raise RefusedAddress if the host has another.

        The name is resolved once: a second answer could be another one.
        """
        try:
            found = socket.getaddrinfo(self.host.strip("[]"), self.port, type=socket.SOCK_STREAM)
        except (socket.gaierror, UnicodeError) as error:
            failed = error if isinstance(error, socket.gaierror) else socket.gaierror(str(error))
            raise NameResolutionError(self.host, self, failed) from error
        addresses = tuple(dict.fromkeys(str(address[4][0]) for address in found))
        for address in addresses:
            if fault := rules.fault(address):
                raise RefusedAddress(fault)
        failure = OSError("no address")
        for address in addresses:
            try:
                return create_connection(
                    (address, self.port), self.timeout, socket_options=self.socket_options
                )
            except OSError as error:
                failure = error
        if isinstance(failure, TimeoutError):
            raise ConnectTimeoutError(self, "timed out") from failure
        raise NewConnectionError(self, str(failure)) from failure

    def _in_time(self, open_one: Callable[[], socket.socket]) -> socket.socket:
        """Connect in a thread: nothing else can limit name resolution."""
        limit = min(NAMED_CONNECT_TIMEOUT, _current.get().seconds_left())
        try:
            return _in_thread(open_one, socket.socket.close, limit)
        except TimeoutError:
            message = f"no connection to {self.host} in {limit:.0f} s"
            raise ConnectTimeoutError(self, message) from None

    def send(self, data: Any) -> None:
        """Send within the deadline and the leases, even to a peer that accepts a byte a second."""
        current = _current.get()
        if self.sock is None:
            self.connect()
        view = memoryview(data)
        for start in range(0, len(view), _WRITE_SIZE):
            self.sock.settimeout(current.seconds_left())
            # Last of all: nothing but a pause at this very place can come between.
            current.check_leases()
            current.sent = True
            self.sock.sendall(view[start : start + _WRITE_SIZE])


class DeadlineHTTPSConnection(DeadlineHTTPConnection, HTTPSConnection):
    """The same over TLS."""

    def connect(self) -> None:
        """Connect, without urllib3's InsecureRequestWarning when verification was turned off."""
        super().connect()
        self.is_verified = True


class DeadlineHTTPConnectionPool(HTTPConnectionPool):
    """A pool of such connections."""

    ConnectionCls = DeadlineHTTPConnection


class DeadlineHTTPSConnectionPool(HTTPSConnectionPool):
    """A pool of such connections over TLS."""

    ConnectionCls = DeadlineHTTPSConnection


def _in_thread(
    work: Callable[[], _Result], discard: Callable[[_Result], None], limit: float
) -> _Result:
    """Return the result of ``work``, run in a thread, after at most ``limit`` seconds.

    Raises TimeoutError or Stopped without waiting for the thread; ``discard`` then gets its result.
    """
    outcome: queue.SimpleQueue[_Result | Exception] = queue.SimpleQueue()
    caller_left = threading.Event()

    def discard_late() -> None:
        with contextlib.suppress(queue.Empty):
            late = outcome.get_nowait()
            if not isinstance(late, Exception):
                discard(late)

    def run() -> None:
        try:
            outcome.put(work())
        except Exception as error:  # noqa: BLE001 -- carried to the caller's thread
            outcome.put(error)
        if caller_left.is_set():
            discard_late()

    threading.Thread(target=run, name="connect", daemon=True).start()
    try:
        result = _wait_for(outcome, limit)
    finally:
        caller_left.set()
        discard_late()
    if isinstance(result, Exception):
        raise result
    return result


def _wait_for(outcome: queue.SimpleQueue[_Result | Exception], limit: float) -> _Result | Exception:
    current = _current.get()
    ends = current.clock.now() + limit
    while True:
        wait = min(current.next_wait(), max(0.0, ends - current.clock.now()))
        try:
            return outcome.get(timeout=wait)
        except queue.Empty:
            if current.clock.now() >= ends:
                raise TimeoutError("timed out") from None
