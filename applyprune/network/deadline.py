"""urllib3 connections on which every try has one deadline, from the host's name to the last byte.

A socket's own timeout starts anew with each byte that arrives, so a server that sends one a second
holds a request for hours. Here each read and write gets what is left of the try. A try may have a
``stop`` as well, which is asked several times a second, always in the thread that made the try.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import ipaddress
import queue
import socket
import threading
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import ConnectTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from _typeshed import WriteableBuffer

CONNECT_TIMEOUT = 5.0
# Name resolution and, when a name has several addresses, all of them together.
NAMED_CONNECT_TIMEOUT = 10.0
# Seconds between two looks at a ``stop``.
TICK = 0.25
# Seconds of silence, between probes, and how many of them go unanswered until the peer is dead.
KEEPALIVE = (15, 15, 3)
# One TLS record: what a single write of the ssl module sends within its timeout.
_WRITE_SIZE = 16 * 1024
_READ_SIZE = 16 * 1024

_Result = TypeVar("_Result")


class Stopped(Exception):
    """Nobody wants the reply any more."""


class Try:
    """One try of one request: when it is over, and whether a byte of it may have left."""

    __slots__ = ("ends", "sent", "stop")

    def __init__(self, seconds: float, stop: Callable[[], bool] | None = None) -> None:
        """Start the clock; ``stop`` says that nobody wants the reply any more."""
        self.ends = time.monotonic() + seconds
        self.sent = False
        self.stop = stop

    def seconds_left(self) -> float:
        """Return the seconds left, more than none; raises TimeoutError when it is over."""
        left = self.ends - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        return left

    def next_wait(self) -> float:
        """Return how long to wait before asking again; raises Stopped, and as ``seconds_left``."""
        if self.stop is None:
            return self.seconds_left()
        if self.stop():
            raise Stopped
        return min(TICK, self.seconds_left())


_current: ContextVar[Try] = ContextVar("try")


@contextlib.contextmanager
def one_try(seconds: float, stop: Callable[[], bool] | None = None) -> Iterator[Try]:
    """Bound all that this thread does on connections of this module within the block."""
    current = Try(seconds, stop)
    token = _current.set(current)
    try:
        yield current
    finally:
        _current.reset(token)


def socket_options() -> list[tuple[int, int, int]]:
    """Return the options of every socket: no delay, and probes that notice a peer that is gone."""
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
    """The receiving side of a socket, as the file that http.client reads a reply from."""

    def __init__(self, sock: Any) -> None:
        self._sock = sock
        self._raw = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        current = _current.get()
        while True:
            self._sock.settimeout(current.next_wait())
            # Of the socket itself: its file cannot be read from any more after a timeout. Nothing
            # is lost by one, half a TLS record stays in the socket.
            try:
                count: int = self._sock.recv_into(buffer)
            except TimeoutError:
                continue
            return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Readable:
    """A socket as far as http.client's reply needs one: something with ``makefile``."""

    def __init__(self, sock: Any) -> None:
        self._sock = sock

    def makefile(self, *_arguments: object) -> io.BufferedReader:
        return io.BufferedReader(_Reader(self._sock), _READ_SIZE)


class _Response(http.client.HTTPResponse):
    """A reply, to a request or to a proxy's CONNECT, that is read within the deadline."""

    def __init__(self, sock: Any, *arguments: Any, **options: Any) -> None:
        super().__init__(_Readable(sock), *arguments, **options)  # type: ignore[arg-type]


class DeadlineHTTPConnection(HTTPConnection):
    """A connection that keeps to the deadline of the try that uses it."""

    response_class = _Response

    def connect(self) -> None:
        """Connect; in a thread when the try may be stopped, for nothing interrupts a handshake."""
        current = _current.get()
        connect = super().connect
        if current.stop is None:
            connect()
            return
        limit = current.seconds_left()

        def work() -> None:
            # The thread's own context: what it reads of a proxy never asks the caller's ``stop``.
            _current.set(Try(limit))
            connect()

        _in_thread(work, lambda _: self.close(), limit)

    def _new_conn(self) -> socket.socket:
        if _is_address(self.host):
            return super()._new_conn()
        return self._new_conn_to_name()

    def _new_conn_to_name(self) -> socket.socket:
        """Connect in a thread: nothing else bounds the resolution of a name."""
        limit = min(NAMED_CONNECT_TIMEOUT, _current.get().seconds_left())
        try:
            return _in_thread(super()._new_conn, socket.socket.close, limit)
        except TimeoutError:
            message = f"no connection to {self.host} in {limit:.0f} s"
            raise ConnectTimeoutError(self, message) from None

    def send(self, data: Any) -> None:
        """Send within the deadline, also to a peer that takes a byte a second."""
        current = _current.get()
        if self.sock is None:
            self.connect()
        current.sent = True
        view = memoryview(data)
        for start in range(0, len(view), _WRITE_SIZE):
            self.sock.settimeout(current.seconds_left())
            self.sock.sendall(view[start : start + _WRITE_SIZE])


class DeadlineHTTPSConnection(DeadlineHTTPConnection, HTTPSConnection):
    """The same over TLS."""

    def connect(self) -> None:
        """Connect; a server that the user chose not to check is not warned about each time."""
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
    """Return what comes of the work, which is left alone when it takes longer than the limit.

    Raises TimeoutError then, and Stopped; ``discard`` gets what comes after that.
    """
    outcome: queue.SimpleQueue[_Result | Exception] = queue.SimpleQueue()
    given_up = threading.Event()

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
        if given_up.is_set():
            discard_late()

    threading.Thread(target=run, name="connect", daemon=True).start()
    try:
        result = _awaited(outcome, limit)
    finally:
        given_up.set()
        discard_late()
    if isinstance(result, Exception):
        raise result
    return result


def _awaited(outcome: queue.SimpleQueue[_Result | Exception], limit: float) -> _Result | Exception:
    ends = time.monotonic() + limit
    while True:
        wait = min(_current.get().next_wait(), max(0.0, ends - time.monotonic()))
        try:
            return outcome.get(timeout=wait)
        except queue.Empty:
            if time.monotonic() >= ends:
                raise TimeoutError("timed out") from None


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True
