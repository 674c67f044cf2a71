"""HTTP by libcurl: connections that are kept, with one deadline for each request.

Whoever sends a request moves its bytes while it waits, from the name of the server to the last one.
The sources and the cluster share the connections, their certificates, errors and retries. Somebody
else's server is reached only at allowed addresses.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import math
import os
import queue
import random
import re
import selectors
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit

import pycurl
from msgspec import Struct

from applyprune._version import __version__
from applyprune.addresses import InvalidHost, bracketed, endpoint_of, is_ip_address
from applyprune.clock import BOOT_CLOCK
from applyprune.errors import AccessError
from applyprune.values import hiding, pattern

if TYPE_CHECKING:
    from applyprune.addresses import AddressRules, Endpoint, IPAddress
    from applyprune.clock import Clock, Lease


CONNECT_TIMEOUT = 5.0
# Name resolution, at most.
NAMED_CONNECT_TIMEOUT = 10.0
# Seconds between two calls of ``stop``.
TICK = 0.25
# Seconds of silence before a connection is probed, and between probes; how many it may miss.
_KEEPALIVE, _PROBES = 15, 3
# Seconds in which a server must send something of a small answer, before its first byte or later.
SILENCE = 15.0
_current: ContextVar[Try] = ContextVar("try")


@contextlib.contextmanager
def one_try(
    seconds: float,
    stop: Callable[[], bool] | None = None,
    lease: Lease | None = None,
    clock: Clock = BOOT_CLOCK,
    patience: Patience | None = None,
) -> Iterator[Try]:
    """Apply one deadline to everything that this thread does on connections in the block."""
    current = Try(seconds, stop, lease, clock, patience)
    token = _current.set(current)
    try:
        yield current
    finally:
        _current.reset(token)


class Try:
    """One try of one request: its deadline, and whether a byte of it may have been sent."""

    __slots__ = ("clock", "ends", "lease", "patience", "sent", "stop")

    def __init__(
        self,
        seconds: float,
        stop: Callable[[], bool] | None = None,
        lease: Lease | None = None,
        clock: Clock = BOOT_CLOCK,
        patience: Patience | None = None,
    ) -> None:
        """Start the time; ``stop`` returns true when the response is no longer wanted.

        Nothing is sent after the end of the ``lease``. ``stop`` ends a connect too; ``patience`` is
        only about what was connected.
        """
        self.clock = clock
        self.ends = clock.now() + seconds
        self.sent = False
        self.stop = stop
        self.lease = lease
        self.patience = patience or Patience()

    def is_leased(self) -> bool:
        """Return whether something may still be sent."""
        # guard: late-write -> True
        return self.lease is None or self.lease.left() > 0

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


class Patience(Struct, frozen=True):
    """What ends the wait for an answer before its deadline."""

    silence: float = math.inf
    """Seconds without a byte."""
    is_wanted: Callable[[], bool] | None = None
    """Returns false when nobody wants the answer any more."""

    def check(self) -> None:
        """Raise Stopped if nobody wants the answer any more."""
        if self.is_wanted is not None and not self.is_wanted():
            raise Stopped

    def wait(self, left: float) -> float:
        """Return how long to wait, of the seconds left, before the next check; raises Stopped."""
        self.check()
        return left if self.is_wanted is None else min(TICK, left)


class Stopped(Exception):
    """The response is no longer wanted."""


# Why a request got no whole response.


class Fault(Enum):
    """What has gone wrong on a connection."""

    ADDRESS = auto()
    """The name of the server means an address to which no connection is made."""
    LEASE = auto()
    """A lease ended before the whole request was sent, so the server cannot process it."""
    NAME = auto()
    CONNECT_TIME = auto()
    REFUSED = auto()
    UNREACHABLE = auto()
    """There is no way to the address, or none in its form."""
    NONE_FREE = auto()
    TIME = auto()
    SILENT = auto()
    """The server has accepted the connection and then kept silent."""
    CUT_OFF = auto()
    CLOSED = auto()
    NOT_HTTP = auto()
    CODING = auto()
    """The response is in a coding that was not asked for, so its end is unknown."""
    PROXY = auto()
    CERTIFICATE = auto()
    """The server's certificate is not trusted."""
    CLIENT_CERTIFICATE = auto()
    """The server refuses our certificate, or needs one."""
    NOT_TLS = auto()
    TLS = auto()
    BROKEN = auto()
    AUTHORITY = auto()
    """An authority that we trust is not a certificate in PEM."""
    OWN_CERTIFICATE = auto()
    """Our certificate and its key cannot be used."""
    SYSTEM_AUTHORITIES = auto()
    """The authorities that count where none is given cannot be read."""
    SET_UP = auto()
    """libcurl does not take what is set here: that is a bug."""


class ConnectionFailed(OSError):
    """A request got no whole response."""

    def __init__(self, fault: Fault, detail: str = "") -> None:
        """Keep what has gone wrong, and details of it in words."""
        super().__init__(detail or fault.name)
        self.fault = fault
        self.detail = detail


IN_TIME = "in time"
"""The end of a message about a time limit that it does not name."""
# The message for each fault, and whether the server seems to be unreachable.
_MESSAGES: Mapping[Fault, tuple[str, bool]] = {
    Fault.ADDRESS: ("the name of {server} means {detail}; nothing was sent", False),
    Fault.LEASE: ("the lock on the inventory had to be renewed first", False),
    Fault.NAME: ("the name of {server} cannot be resolved", True),
    Fault.CONNECT_TIME: ("{server} cannot be reached: the connection timed out", True),
    Fault.REFUSED: ("connection refused by {server}", True),
    Fault.UNREACHABLE: ("{server} cannot be reached: {detail}", True),
    Fault.NONE_FREE: ("no connection to {server} became free {limit}", False),
    Fault.TIME: ("{server} sent no complete response {limit}", False),
    Fault.SILENT: ("{server} {detail}", False),
    Fault.CUT_OFF: ("the response of {server} was cut off", False),
    Fault.CLOSED: ("{server} closed the connection without a response", False),
    Fault.NOT_HTTP: ("{server} does not speak HTTP", True),
    Fault.CODING: ("{server} sends its response in a coding that was not asked for", False),
    Fault.PROXY: ("the proxy failed: {detail}", False),
    Fault.CERTIFICATE: ("the certificate of {server} cannot be trusted: {detail}", False),
    Fault.CLIENT_CERTIFICATE: ("{server} refused the client certificate ({detail})", False),
    Fault.NOT_TLS: ("{server} does not speak TLS", False),
    Fault.TLS: ("TLS with {server} failed ({detail})", False),
    Fault.BROKEN: ("the connection to {server} broke: {detail}", False),
    Fault.AUTHORITY: ("the certificate authority is not a PEM certificate", False),
    Fault.OWN_CERTIFICATE: ("the client certificate and its key cannot be used", False),
    Fault.SYSTEM_AUTHORITIES: (
        "the system's certificate authorities cannot be read: {detail}",
        False,
    ),
    Fault.SET_UP: ("a bug of applyprune: it has set up {server} in a wrong way ({detail})", False),
}


def describe_error(
    error: OSError, *, server: str, seconds: float | None = None, detail: str | None = None
) -> tuple[str, bool]:
    """Return a message for the error, and whether the server seems to be unreachable.

    ``seconds`` is the time limit of the response; None leaves it out. ``detail`` replaces the
    error's own.
    """
    limit = IN_TIME if seconds is None else f"in {seconds:.3g} s"
    message, unreachable = _MESSAGES[fault_of(error)]
    detail = detail_of(error) if detail is None else detail
    return message.format(server=server, limit=limit, detail=detail), unreachable


def detail_of(error: OSError) -> str:
    """Return details of what has gone wrong, in words; may be empty."""
    return error.detail if isinstance(error, ConnectionFailed) else error.strerror or ""


def fault_of(error: OSError) -> Fault:
    """Return what has gone wrong."""
    if isinstance(error, ConnectionFailed):
        return error.fault
    return Fault.TIME if isinstance(error, TimeoutError) else Fault.BROKEN


# How a server is reached: its certificate authorities, our certificate, the proxy.


_CERTIFICATE = pattern(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
BUG_HINT = "Please report this line, and in which form the server's address is written."
"""What to do about what is set up in a wrong way here."""
UNUSABLE_PAIR = "they are not PEM, do not belong together, or the key has a password"
"""Why a client certificate and its key cannot be used."""


def certificates_in(text: str) -> Sequence[str]:
    """Return the certificates in PEM; there may be comments between them."""
    return _CERTIFICATE.findall(text)


class Trust(Struct, frozen=True):
    """Whose certificates are trusted, and the one that we show; all in PEM."""

    authorities: str = ""
    """The only ones that are trusted; empty for those of the system."""
    server_name: str = ""
    """The name that the server's certificate must have; empty for that in the URL."""
    skip_verify: bool = False
    certificate: bytes = b""
    key: bytes = b""

    __repr__ = hiding("certificate", "key")


class Route(Struct, frozen=True):
    """How the servers of some connections are reached."""

    trust: Trust = Trust()
    addresses: AddressRules | None = None
    """The rules for the addresses of the servers; None if every address may be reached.

    A proxy decides by itself about what is behind it.
    """
    size: int = 1
    """How many requests run at a time, not counting those that are streamed."""


class Sent(Struct, frozen=True):
    """A request, as it goes over the wire."""

    method: str
    server: str
    """``SCHEME://HOST[:PORT]``."""
    target: str
    """The path, with the query, exactly as it is sent."""
    headers: Sequence[tuple[str, str]] = ()
    body: bytes | None = None
    proxy: str = ""
    """The URL of the proxy; empty for none."""
    is_streamed: bool = False
    """Whether the response may last; then it does not count among those that run at a time."""

    __repr__ = hiding("headers", "body", "proxy")


class Headers:
    """The headers of a response; the case of a name does not count."""

    def __init__(self, items: Iterable[tuple[str, str]] = ()) -> None:
        """Keep names and values in their order."""
        self._values: dict[str, list[str]] = {}
        for name, value in items:
            self._values.setdefault(name.lower(), []).append(value)

    def get(self, name: str, default: str = "") -> str:
        """Return the value of a header; several, joined by commas."""
        found = self._values.get(name.lower())
        return default if found is None else ", ".join(found)

    def all(self, name: str) -> Sequence[str]:
        """Return all values of a header."""
        return self._values.get(name.lower(), ())

    def mapped(self, change: Callable[[str], str]) -> Headers:
        """Return the headers with each value changed."""
        return Headers(
            (name, change(value)) for name, values in self._values.items() for value in values
        )


class Connections:
    """Connections to servers, kept between requests; thread-safe."""

    def __init__(self, route: Route) -> None:
        """Keep how the servers are reached; the first request connects."""
        self._route = route
        self._slots = threading.BoundedSemaphore(route.size)
        self._lock = threading.Lock()
        self._idle: list[_Line] = []
        self._is_retired = False
        self.is_closed = False
        """Whether answers that are under way shall fail."""

    def send(self, sent: Sent) -> Answer:
        """Send a request, and return the answer as soon as its headers have come.

        Use it inside ``one_try``, and close the answer. Raises ConnectionFailed, TimeoutError and
        Stopped; AccessError for an invalid proxy; ValueError for an invalid header.
        """
        current = _current.get()
        if not sent.is_streamed and not self._slots.acquire(timeout=current.seconds_left()):
            raise ConnectionFailed(Fault.NONE_FREE)
        try:
            line = self._line(sent)
        except BaseException:
            self._free_slot(sent)
            raise
        answer = Answer(self, line, sent, current)
        try:
            answer.begin()
        except BaseException:
            answer.close()
            raise
        return answer

    def _line(self, sent: Sent) -> _Line:
        """Return a kept connection to the server, or one that is not open yet."""
        place = sent.server, sent.proxy
        with self._lock:
            kept = () if sent.is_streamed else reversed(self._idle)
            found = next((line for line in kept if line.place == place), None)
            if found is not None:
                self._idle.remove(found)
        if found is not None and found.is_open():
            return found
        if found is not None:
            found.close()
        with explained_set_up():
            addresses = addresses_for(place, self._route.addresses)
            return _Line(place, Transfer(self._route.trust, place, addresses))

    def give_back(self, line: _Line, sent: Sent, *, is_whole: bool) -> None:
        """Keep a connection for the next request, if its answer was read as a whole."""
        with self._lock:
            keeps = is_whole and not (self._is_retired or sent.is_streamed)
            if keeps:
                self._idle.append(line)
        if not keeps:
            line.close()
        self._free_slot(sent)

    def _free_slot(self, sent: Sent) -> None:
        if not sent.is_streamed:
            self._slots.release()

    def retire(self) -> None:
        """Keep no connection any more; answers that are under way go on."""
        with self._lock:
            self._is_retired = True
            idle, self._idle = self._idle, []
        for line in idle:
            line.close()

    def close(self) -> None:
        """Close the connections; an answer that is under way fails soon."""
        self.is_closed = True
        self.retire()


_ACCEPTED = "accepted the connection"
_SENT_NOTHING = f"{_ACCEPTED} and sent nothing"


class Head:
    """The head of an answer, from the lines that libcurl hands over; a trailer is none of it."""

    def __init__(self) -> None:
        """Wait for the first line."""
        self.status = 0
        self.is_whole = False
        self._lines: list[tuple[str, str]] = []

    def take(self, line: bytes) -> Headers | None:
        """Take a line, with its end; return the headers if it is the last one of the head.

        Below 200, another head follows.
        """
        if self.is_whole:
            return None
        text = line.decode("latin-1").strip()
        if line.startswith(b"HTTP/"):
            self._lines.clear()
            code = text.split(None, 2)[1:2]
            self.status = int(code[0]) if code and code[0].isdecimal() else 0
        elif text:
            name, _, value = text.partition(":")
            self._lines.append((name.strip(), value.strip()))
        elif self.status >= 200:
            self.is_whole = True
            lines, self._lines = self._lines, []
            return Headers(lines)
        return None


class Answer:
    """The answer to one request; for one thread, which moves its bytes while it waits."""

    def __init__(self, connections: Connections, line: _Line, sent: Sent, current: Try) -> None:
        """Keep what is sent, and the connection for it, which goes back at the end."""
        self.sent, self.current = sent, current
        self.status = 0
        self.headers = Headers()
        self._connections, self._line = connections, line
        self.connect_time = min(CONNECT_TIMEOUT, current.seconds_left())
        self._head = Head()
        self._is_sent = self._is_done = self._is_closed = False
        self._chunks: list[bytes] = []
        self._failure: OSError | None = None
        self._arrived = 0
        self._read = 0

    def begin(self) -> None:
        """Send the request, and wait for the headers."""
        self._line.start(self, self.connect_time)
        self._wait(lambda: self._head.is_whole)

    def read(self) -> bytes:
        """Return what has come of the body, at least a byte of it; empty at the end.

        Raises ConnectionFailed if it ends early.
        """
        self._wait(lambda: bool(self._chunks))
        data = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        self._read += len(data)
        return data

    @property
    def has_begun(self) -> bool:
        """Return whether a byte of it has come."""
        return self._arrived > 0

    @property
    def length_left(self) -> int | None:
        """Return how many bytes of the body were not read yet; None if that is unknown."""
        if self._is_done and self._failure is None:
            return sum(map(len, self._chunks))
        length = self.headers.get("Content-Length").strip()
        return int(length) - self._read if _LENGTH.fullmatch(length) else None

    def close(self) -> None:
        """Let the connection be used again if the whole body has come; else close it."""
        if not self._is_closed:
            self._is_closed = True
            is_whole = self._is_done and self._failure is None
            self._connections.give_back(self._line, self.sent, is_whole=is_whole)

    def _wait(self, is_ready: Callable[[], bool]) -> None:
        current = _current.get()
        began = current.clock.now()
        while not is_ready():
            if self._is_done:
                if self._failure is not None:
                    raise self._failure
                return
            if self._connections.is_closed:
                raise ConnectionFailed(Fault.CLOSED)
            current.patience.check()
            try:
                wait = current.next_wait()
            except TimeoutError:
                if not self._is_sent and self._line.is_handshaking:
                    text = handshake_text(self.connect_time)
                    raise ConnectionFailed(Fault.SILENT, text) from None
                raise
            arrived = self._arrived
            if not self._line.drive(wait):
                self._check_silence(current, began)
            elif self._arrived != arrived:
                began = current.clock.now()

    def _check_silence(self, current: Try, began: float) -> None:
        limit = current.patience.silence
        if self._is_sent and current.clock.now() - began >= limit:  # guard: silent-server never
            said = "sent no more of its response" if self._arrived else _SENT_NOTHING
            raise ConnectionFailed(Fault.SILENT, f"{said} for {limit:.3g} s")

    # What libcurl calls.

    def may_send(self) -> bool:
        """Note that bytes of the request go out now, unless a lease has ended; and only once."""
        # libcurl sends a request again if a kept connection dies: it may have been executed.
        if self._is_sent:  # guard: sent-once never
            self.fail(ConnectionFailed(Fault.CLOSED))
            return False
        if not self.is_leased():
            return False
        self._is_sent = self.current.sent = True
        return True

    def is_leased(self) -> bool:
        """Return whether something may still be sent."""
        if not self.current.is_leased():
            self.fail(ConnectionFailed(Fault.LEASE))
            return False
        return True

    def header(self, line: bytes) -> None:
        """Take a line of the headers, with its end."""
        self._arrived += 1
        headers = self._head.take(line)
        if headers is not None:
            self.status, self.headers = self._head.status, headers

    def data(self, chunk: bytes) -> None:
        """Take a part of the body."""
        self._chunks.append(chunk)
        self._arrived += len(chunk)

    def fail(self, error: OSError) -> None:
        """Keep the first thing that has gone wrong."""
        self._failure = self._failure or error

    def end(self, error: OSError | None) -> None:
        """Take note that nothing more comes."""
        if error is not None:
            self.fail(error)
        self._is_done = True


_LENGTH = pattern(r"[0-9]{1,18}")


# The names of servers: libcurl would resolve them in a thread that nothing ends.


def addresses_for(place: tuple[str, str], rules: AddressRules | None) -> Sequence[str]:
    """Return the addresses to connect to for a server and its proxy, as ``addresses_of`` does.

    A proxy resolves names, and decides what may be reached.
    """
    server, proxy = place
    end = endpoint_of(proxy or server)
    try:
        return addresses_of(end.dialed, end.port, None if proxy else rules)
    except ConnectionFailed as error:
        if not proxy:
            raise
        why = (
            "its name cannot be resolved"
            if error.fault is Fault.NAME
            else "it was not found in time"
        )
        raise ConnectionFailed(Fault.PROXY, why) from None


def addresses_of(host: str, port: int, rules: AddressRules | None) -> Sequence[str]:
    """Return the addresses to connect to, at least one; use it inside ``one_try``.

    ``host`` is that of an Endpoint, as it is dialed; an address may have a zone.
    The name is resolved once: a second answer could be another one. Raises ConnectionFailed for one
    that is not known, or that means an address that may not be connected to.
    """
    addresses: Sequence[str] = [host]
    if not is_ip_address(host):
        limit = min(NAMED_CONNECT_TIMEOUT, _current.get().seconds_left())
        try:
            addresses = _in_thread(lambda: _resolved(host, port), limit)
        except TimeoutError:
            raise ConnectionFailed(Fault.CONNECT_TIME) from None
        except (OSError, UnicodeError):
            raise ConnectionFailed(Fault.NAME) from None
    for address in addresses:
        fault = rules.fault(address) if rules is not None else ""
        if fault:  # guard: checked-connection never
            raise ConnectionFailed(Fault.ADDRESS, fault)
    return addresses


def _resolved(host: str, port: int) -> Sequence[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(_with_zone(*address[4]) for address in found))


def _with_zone(host: str | int, _port: int | bytes, _flow: int = 0, zone: int = 0) -> str:
    """Return the host of a socket's address; the zone of a link-local one is a number here."""
    return f"{host}%{zone}" if zone else str(host)


def _scope(addresses: Sequence[str], fault: Fault) -> int:
    """Return the number of the network interface that addresses name; 0 if they name none."""
    zone = next(filter(None, (one.partition("%")[2] for one in addresses)), "")
    try:
        return int(zone or 0) if zone.isdecimal() or not zone else socket.if_nametoindex(zone)
    except OSError:
        raise ConnectionFailed(fault, f"this machine has no network interface {zone}") from None


_Result = TypeVar("_Result")


def _in_thread(work: Callable[[], _Result], limit: float) -> _Result:
    """Return the result of ``work``, run in a thread, after at most ``limit`` seconds.

    Raises TimeoutError or Stopped without waiting for the thread.
    """
    current = _current.get()
    outcome: queue.SimpleQueue[_Result | Exception] = queue.SimpleQueue()

    def run() -> None:
        try:
            outcome.put(work())
        except Exception as error:  # noqa: BLE001 -- carried to the caller's thread
            outcome.put(error)

    threading.Thread(target=run, name="resolve", daemon=True).start()
    ends = current.clock.now() + limit
    while True:
        wait = min(current.next_wait(), max(0.0, ends - current.clock.now()))
        try:
            result = outcome.get(timeout=wait)
        except queue.Empty:
            if current.clock.now() >= ends:
                raise TimeoutError("timed out") from None
        else:
            if isinstance(result, Exception):
                raise result
            return result


# libcurl, set up: what holds for each request to a server, and what differs.


@contextlib.contextmanager
def explained_set_up() -> Iterator[None]:
    """Raise ConnectionFailed for what libcurl does not take."""
    try:
        yield
    except pycurl.error as error:
        raise ConnectionFailed(Fault.SET_UP, _numbered(error.args[0])) from None
    except InvalidHost as error:
        # Whoever has read it from a file or the environment has refused it there.
        raise ConnectionFailed(Fault.SET_UP, str(error)) from None
    except UnicodeError:
        raise ConnectionFailed(Fault.SET_UP, "a text is not ASCII") from None


class Transfer:
    """An easy handle of libcurl for one server; its settings stay from request to request."""

    def __init__(
        self,
        trust: Trust,
        place: tuple[str, str],
        addresses: Sequence[str],
        version: int = pycurl.CURL_HTTP_VERSION_1_1,
    ) -> None:
        """Set what holds for the server and the proxy; nothing but the addresses is connected to.

        Use it inside ``explained_set_up``.
        """
        server, proxy = place
        end, via = endpoint_of(server), endpoint_of(proxy) if proxy else None
        dialed = via or end
        self.curl = pycurl.Curl()
        self._trust = trust
        self._has_unchecked = False
        self._connect_time = 0.0
        bare = tuple(dict.fromkeys(one.partition("%")[0] for one in addresses))
        self._addresses: frozenset[IPAddress] = frozenset(map(ipaddress.ip_address, bare))
        self._scope = _scope(addresses, Fault.UNREACHABLE if via is None else Fault.PROXY)
        self._opened: list[socket.socket] = []
        set_ = self.curl.setopt
        set_(pycurl.NOSIGNAL, 1)
        set_(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        set_(pycurl.FOLLOWLOCATION, 0)
        set_(pycurl.HTTP_VERSION, version)
        # guard: proxy-headers -> set_(pycurl.HEADEROPT, pycurl.HEADER_UNIFIED)
        set_(pycurl.HEADEROPT, pycurl.HEADER_SEPARATE)
        set_(pycurl.PATH_AS_IS, 1)
        set_(pycurl.USERAGENT, f"applyprune/{__version__}")  # for a proxy
        set_(pycurl.BUFFERSIZE, 32 * 1024)  # kept with each connection
        if not dialed.is_address:  # of an address, libcurl can parse no such entry
            set_(pycurl.RESOLVE, [f"{dialed.place}:{','.join(map(bracketed, bare))}"])
        if self._scope:
            set_(pycurl.ADDRESS_SCOPE, self._scope)
        set_(pycurl.OPENSOCKETFUNCTION, self._open_socket)
        is_secure = end.scheme == "https"
        _use_proxy(self.curl, proxy, via, tunnels=is_secure)
        if is_secure:
            _secure(self.curl, trust)
        self._base = f"{end.scheme}://{end.place}"
        if trust.server_name and is_secure:
            named = endpoint_of(f"https://{bracketed(trust.server_name)}:{end.port}")
            self._base = f"https://{named.place}"
            set_(pycurl.CONNECT_TO, [f"{named.place}:{end.place}"])
        self._is_whole_url = via is not None and not is_secure
        # A zone is a matter of this machine.
        self._host = f"Host: {_ZONE.sub(']', urlsplit(server).netloc)}"

    def prepare(self, sent: Sent, connect_time: float) -> None:
        """Set what differs; inside ``explained_set_up``. Raises ValueError for a header."""
        set_ = self.curl.setopt
        self._connect_time = connect_time
        set_(pycurl.CONNECTTIMEOUT_MS, max(1, int(connect_time * 1000)))
        if self._is_whole_url:
            set_(pycurl.URL, self._base + sent.target)
        else:
            set_(pycurl.URL, self._base + "/")
            set_(pycurl.REQUEST_TARGET, sent.target)
        headers = map(_header_line, sent.headers)
        set_(pycurl.HTTPHEADER, [self._host, *_NOT_OURS, *headers])
        set_(pycurl.HTTPGET, 1)
        set_(pycurl.NOBODY, int(sent.method == "HEAD"))
        if sent.body is not None:
            set_(pycurl.UPLOAD, 1)
            set_(pycurl.INFILESIZE_LARGE, len(sent.body))
        set_(pycurl.CUSTOMREQUEST, sent.method)

    def forget_opened(self) -> None:
        """Close what libcurl has a duplicate of by now."""
        while self._opened:
            self._opened.pop().close()

    def close(self) -> None:
        """Free what it has; no multi handle may have it any more."""
        self.forget_opened()
        self.curl.close()

    def failure(self, code: int, text: str, sent: Sent, *, has_begun: bool) -> ConnectionFailed:
        """Return what has gone wrong, by libcurl's code and words."""
        if self._has_unchecked:
            return ConnectionFailed(Fault.ADDRESS, "an address that was not checked")
        if self.curl.getinfo(pycurl.CONNECT_TIME) > 0 and code == pycurl.E_OPERATION_TIMEDOUT:
            if sent.proxy:
                return ConnectionFailed(Fault.TIME)
            return ConnectionFailed(Fault.SILENT, handshake_text(self._connect_time))
        number = int(self.curl.getinfo(pycurl.OS_ERRNO))
        if number == errno.EINVAL and not self._scope and self._is_link_local:
            return ConnectionFailed(Fault.PROXY if sent.proxy else Fault.UNREACHABLE, _NO_ZONE)
        if code == pycurl.E_SSL_CACERT_BADFILE and "blob" not in text:
            return ConnectionFailed(Fault.SYSTEM_AUTHORITIES, _without_certificate())
        if code == pycurl.E_BAD_FUNCTION_ARGUMENT and self._trust.certificate:
            return ConnectionFailed(Fault.OWN_CERTIFICATE)
        return _failure(code, text, number, sent, has_begun=has_begun)

    @property
    def _is_link_local(self) -> bool:
        return any(one.version == _IPV6 and one.is_link_local for one in self._addresses)

    def _open_socket(self, _purpose: int, address: tuple[int, int, int, Any]) -> Any:
        # libcurl may write the name in another way, and then resolves it by itself.
        family, kind, protocol, (host, *_) = address
        found = host.decode() if isinstance(host, bytes) else host
        # One address can be written in several ways.
        if ipaddress.ip_address(found) not in self._addresses:  # guard: own-resolver never
            self._has_unchecked = True
            return pycurl.SOCKET_BAD
        self._opened.append(socket.socket(family, kind, protocol))
        _notice_loss(self._opened[-1])
        return self._opened[-1]  # pycurl uses a duplicate


_IPV6 = 6
_ZONE = pattern(r"%[^\]]*\]")
_NO_ZONE = "a link-local address needs its network interface, as in [fe80::1%25eth0]"


def _notice_loss(opened: socket.socket) -> None:
    """Let the kernel find out within a minute that the other end is gone."""
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPALIVE" if sys.platform == "darwin" else "TCP_KEEPIDLE", _KEEPALIVE),
        ("TCP_KEEPINTVL", _KEEPALIVE),
        ("TCP_KEEPCNT", _PROBES),
        # Also if what was sent last has not arrived. In milliseconds; only Linux has it.
        ("TCP_USER_TIMEOUT", (1 + _PROBES) * _KEEPALIVE * 1000),
    ):
        if (option := getattr(socket, name, None)) is not None:
            opened.setsockopt(socket.IPPROTO_TCP, option, value)


# One connection, of a request of libcurl in a multi handle of its own.


_Selector = getattr(selectors, "PollSelector", selectors.SelectSelector)
"""What waits for one connection; without a file of its own."""
_DIRECTIONS = {
    pycurl.POLL_IN: selectors.EVENT_READ,
    pycurl.POLL_OUT: selectors.EVENT_WRITE,
    pycurl.POLL_INOUT: selectors.EVENT_READ | selectors.EVENT_WRITE,
}


class _Line:
    """One connection; it is kept by the request of libcurl that has made it."""

    def __init__(self, place: tuple[str, str], transfer: Transfer) -> None:
        """Keep the server and the proxy, and what is set up for them."""
        self.place = place
        self._answer: Answer | None = None
        self._body = memoryview(b"")
        self._waits_for_bytes = False
        self._selector = _Selector()
        self._socket = -1
        self._due: float | None = None
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._on_socket)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._on_timer)
        self._multi.setopt(pycurl.M_MAXCONNECTS, 1)
        self._transfer = transfer
        set_ = transfer.curl.setopt
        set_(pycurl.HEADERFUNCTION, self._header)
        set_(pycurl.WRITEFUNCTION, self._write)
        set_(pycurl.READFUNCTION, self._read)
        set_(pycurl.PREREQFUNCTION, self._before_request)

    def is_open(self) -> bool:
        """Return whether the server has neither closed the kept connection nor sent anything."""
        if self._socket < 0:
            return False
        with _Selector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            return not selector.select(0)

    @property
    def is_handshaking(self) -> bool:
        """Return whether the server has accepted the connection, if nothing was sent yet."""
        server, proxy = self.place
        return self._waits_for_bytes and server.startswith("https:") and not proxy

    def start(self, answer: Answer, connect_time: float) -> None:
        """Begin to send a request."""
        with explained_set_up():
            self._transfer.prepare(answer.sent, connect_time)
            self._body = memoryview(answer.sent.body or b"")
            self._multi.add_handle(self._transfer.curl)
        self._answer = answer

    def drive(self, seconds: float) -> bool:
        """Let libcurl do what it can; return False if there was nothing for so many seconds."""
        now = time.monotonic()
        wait = seconds if self._due is None else min(seconds, max(0.0, self._due - now))
        events = self._selector.select(wait)
        is_due = self._due is not None and self._due <= time.monotonic()
        if not (events or is_due):
            return wait < seconds
        for key, found in events:
            bits = (pycurl.CSELECT_IN if found & selectors.EVENT_READ else 0) | (
                pycurl.CSELECT_OUT if found & selectors.EVENT_WRITE else 0
            )
            self._multi.socket_action(key.fd, bits)
        if is_due:
            self._due = None
            self._multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)
        self._transfer.forget_opened()
        _, done, failed = self._multi.info_read()
        if self._answer is not None and (done or failed):
            answer, self._answer = self._answer, None
            self._body = memoryview(b"")
            self._socket = int(self._transfer.curl.getinfo(pycurl.ACTIVESOCKET))
            self._multi.remove_handle(self._transfer.curl)
            errors = (
                self._transfer.failure(code, text, answer.sent, has_begun=answer.has_begun)
                for _, code, text in failed
            )
            answer.end(next(errors, None))
        return True

    def close(self) -> None:
        """Close the connection."""
        if self._answer is not None:
            self._answer = None
            self._multi.remove_handle(self._transfer.curl)
        self._transfer.close()
        self._multi.close()

    def _on_socket(self, what: int, fd: int, _multi: object, _data: object) -> None:
        directions = _DIRECTIONS.get(what)
        self._waits_for_bytes = what == pycurl.POLL_IN
        known = fd in self._selector.get_map()
        if directions is not None:
            (self._selector.modify if known else self._selector.register)(fd, directions)
        elif known:
            self._selector.unregister(fd)

    def _on_timer(self, milliseconds: int) -> None:
        self._due = None if milliseconds < 0 else time.monotonic() + milliseconds / 1000

    def _before_request(self, *_: object) -> int:
        may = self._answer is not None and self._answer.may_send()
        return int(pycurl.PREREQFUNC_OK if may else pycurl.PREREQFUNC_ABORT)

    def _read(self, size: int) -> bytes | int:
        # Each part of a body, even to a server that accepts a byte a second.
        if self._answer is None or not self._answer.is_leased():
            return int(pycurl.READFUNC_ABORT)
        part, self._body = self._body[:size], self._body[size:]
        return bytes(part)

    def _header(self, line: bytes) -> None:
        if self._answer is not None:
            self._answer.header(line)

    def _write(self, chunk: bytes) -> int | None:
        if self._answer is None:
            return 0
        self._answer.data(chunk)
        return None


_NOT_OURS = ("Accept:", "Expect:", "User-Agent:")
"""The headers that libcurl would add by itself."""


def _header_line(header: tuple[str, str]) -> str:
    name, value = header
    if _INVALID_HEADER.search(name) or _INVALID_HEADER.search(value):
        raise ValueError(f"invalid header {name!a}")
    return f"{name}: {value}" if value else f"{name};"


_INVALID_HEADER = pattern(r"[\r\n\0]")


_SUPPRESS_CONNECT_HEADERS = 265
"""CURLOPT_SUPPRESS_CONNECT_HEADERS of libcurl 7.54, for which pycurl has no name."""


def _use_proxy(curl: pycurl.Curl, proxy: str, via: Endpoint | None, *, tunnels: bool) -> None:
    """Use a proxy; never one that libcurl finds in the environment."""
    curl.setopt(pycurl.NOPROXY, "")
    if via is None:
        curl.setopt(pycurl.PROXY, "")
        return
    if via.scheme not in {"http", "https"}:
        raise AccessError(
            f"unsupported proxy scheme {via.scheme[:20]!a}",
            hint="proxy-url and HTTPS_PROXY must be an http:// or https:// URL.",
        )
    # With its port: libcurl's own default is another one.
    curl.setopt(pycurl.PROXY, f"{via.scheme}://{via.place}")
    curl.setopt(pycurl.HTTPPROXYTUNNEL, int(tunnels))
    # Else the head of a proxy's answer to CONNECT looks like that of the server's answer.
    # guard: head-of-a-tunnel -> curl.setopt(_SUPPRESS_CONNECT_HEADERS, 0)
    curl.setopt(_SUPPRESS_CONNECT_HEADERS, 1)
    parts = urlsplit(proxy)
    if parts.username:
        curl.setopt(pycurl.PROXYUSERNAME, unquote(parts.username))
        curl.setopt(pycurl.PROXYPASSWORD, unquote(parts.password or ""))
    else:
        curl.unsetopt(pycurl.PROXYUSERPWD)
    if via.scheme == "https" and (found := system_authorities()):
        curl.setopt(pycurl.PROXY_CAINFO, found)


def _secure(curl: pycurl.Curl, trust: Trust) -> None:
    """Set whose certificates are trusted, and which one is shown."""
    curl.setopt(pycurl.SSLVERSION, pycurl.SSLVERSION_TLSv1_2)
    if trust.skip_verify:
        curl.setopt(pycurl.SSL_VERIFYPEER, 0)
        curl.setopt(pycurl.SSL_VERIFYHOST, 0)
    elif trust.authorities:
        blocks = certificates_in(trust.authorities)
        if not blocks:
            raise ConnectionFailed(Fault.AUTHORITY)
        curl.setopt(pycurl.CAINFO_BLOB, "\n".join([*blocks, ""]).encode())
        curl.unsetopt(pycurl.CAPATH)
    else:
        if found := system_authorities():
            curl.setopt(pycurl.CAINFO, found)
        if folder := os.environ.get("SSL_CERT_DIR"):
            curl.setopt(pycurl.CAPATH, folder)
    if trust.certificate:
        curl.setopt(pycurl.SSLCERT_BLOB, trust.certificate)
        curl.setopt(pycurl.SSLKEY_BLOB, trust.key)
        # Without one, OpenSSL would ask for the password of a key on the terminal.
        curl.setopt(pycurl.KEYPASSWD, "")


_SYSTEM = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Alpine, Arch
    "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora, RHEL
    "/etc/ssl/ca-bundle.pem",  # openSUSE
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",  # macOS, BSD
)


_VARIABLE = "SSL_CERT_FILE"


def system_authorities() -> str:
    """Return the file with the system's certificate authorities; empty if none is found.

    Raises ConnectionFailed for a file that the user names and that cannot be read.
    """
    given = os.environ.get(_VARIABLE, "")
    if not given:
        return next(filter(os.path.exists, _SYSTEM), "")
    try:
        with Path(given).open("rb") as file:
            file.read(1)
    except OSError as error:
        why = f"{_VARIABLE} names {given!a}: {error.strerror}"
        raise ConnectionFailed(Fault.SYSTEM_AUTHORITIES, why) from None
    return given


def _without_certificate() -> str:
    given = os.environ.get(_VARIABLE, "")
    return f"{_VARIABLE} names {given!a}, which has no certificate" if given else "there are none"


AUTHORITIES_HINT = (
    f"Check {_VARIABLE}: it names the file that replaces the system's. Without it, install the "
    "package ca-certificates."
)
"""What to do about the system's certificate authorities."""


# libcurl's errors.


# Codes without a name in pycurl.
_OPTION_SYNTAX, _RECURSIVE_CALL, _PROXY, _TOO_LARGE = 49, 93, 97, 100
_BY_CODE: Mapping[int, Fault] = {
    pycurl.E_COULDNT_RESOLVE_HOST: Fault.NAME,
    pycurl.E_PARTIAL_FILE: Fault.CUT_OFF,
    pycurl.E_GOT_NOTHING: Fault.CLOSED,
    pycurl.E_SEND_FAIL_REWIND: Fault.CLOSED,
    pycurl.E_ABORTED_BY_CALLBACK: Fault.CLOSED,
    pycurl.E_UNSUPPORTED_PROTOCOL: Fault.NOT_HTTP,
    pycurl.E_FTP_WEIRD_SERVER_REPLY: Fault.NOT_HTTP,
    pycurl.E_BAD_CONTENT_ENCODING: Fault.CODING,
    _TOO_LARGE: Fault.NOT_HTTP,
    pycurl.E_SSL_CACERT_BADFILE: Fault.AUTHORITY,
    pycurl.E_SSL_CERTPROBLEM: Fault.OWN_CERTIFICATE,
    pycurl.E_COULDNT_CONNECT: Fault.UNREACHABLE,
    # What only a mistake in this module brings about.
    pycurl.E_FAILED_INIT: Fault.SET_UP,
    pycurl.E_URL_MALFORMAT: Fault.SET_UP,
    pycurl.E_NOT_BUILT_IN: Fault.SET_UP,
    pycurl.E_FUNCTION_NOT_FOUND: Fault.SET_UP,
    pycurl.E_BAD_FUNCTION_ARGUMENT: Fault.SET_UP,
    pycurl.E_BAD_CALLING_ORDER: Fault.SET_UP,
    pycurl.E_INTERFACE_FAILED: Fault.SET_UP,
    pycurl.E_UNKNOWN_OPTION: Fault.SET_UP,
    _OPTION_SYNTAX: Fault.SET_UP,
    pycurl.E_SSL_ENGINE_NOTFOUND: Fault.SET_UP,
    pycurl.E_SSL_ENGINE_SETFAILED: Fault.SET_UP,
    pycurl.E_SSL_CIPHER: Fault.SET_UP,
    _RECURSIVE_CALL: Fault.SET_UP,
}
_ALERT = pattern(
    r"alert (certificate required|bad certificate|unknown ca"
    r"|certificate (?:expired|unknown|revoked))"
)
# Of a scheme in a URL, and not of what a server sends.
_SCHEME = pattern(r"^Protocol ")
_NOT_TLS = pattern(r"wrong version number|packet length too long|http request|record layer failure")
_TUNNEL = pattern(r"CONNECT tunnel failed, response (\d{3})")
_VERIFY = pattern(r"verify result: (.+?) \(\d+\)$")
_MISMATCH = pattern(r"target (host ?name|ipv[46] address) '\[?(.+?)\]?'$", re.IGNORECASE)
_OPENSSL = pattern(r"error:[0-9A-F]+:[^:]*:[^:]*:([^:]+)")
_END = pattern(r"unexpected eof")
_BROKEN = frozenset({pycurl.E_SSL_CONNECT_ERROR, pycurl.E_SEND_ERROR, pycurl.E_RECV_ERROR})


def _failure(code: int, text: str, number: int, sent: Sent, *, has_begun: bool) -> ConnectionFailed:
    """Return what has gone wrong, by libcurl's code and words, and the kernel's error number.

    The words may name the server, and an address or a time that differs in each try: only known
    parts of them are shown.
    """
    if tunnel := _TUNNEL.search(text):
        return ConnectionFailed(
            Fault.PROXY, f"Tunnel connection failed: {status_in_words(int(tunnel[1]))}"
        )
    fault = _BY_CODE.get(code, Fault.BROKEN)
    if fault is Fault.NOT_HTTP and _SCHEME.search(text):
        fault = Fault.SET_UP
    why = os.strerror(number) if number else f"libcurl's error {code}"
    if code in {pycurl.E_COULDNT_RESOLVE_PROXY, _PROXY}:
        return ConnectionFailed(Fault.PROXY, why)
    if code == pycurl.E_PEER_FAILED_VERIFICATION:
        return ConnectionFailed(Fault.CERTIFICATE, _untrusted(text))
    if code in _BROKEN and (found := _of_tls(text, has_begun=has_begun)):
        return found
    if code == pycurl.E_OPERATION_TIMEDOUT or number == errno.ETIMEDOUT:
        return ConnectionFailed(Fault.CONNECT_TIME)
    if code == pycurl.E_COULDNT_CONNECT and (sent.proxy or number == errno.ECONNREFUSED):
        return ConnectionFailed(Fault.PROXY if sent.proxy else Fault.REFUSED, why)
    if code == pycurl.E_FTP_WEIRD_SERVER_REPLY and "Content-Length" in text:
        return ConnectionFailed(Fault.CODING)
    return ConnectionFailed(fault, _numbered(code) if fault is Fault.SET_UP else why)


def _numbered(code: int | str) -> str:
    return f"error {code} of libcurl {pycurl.version_info()[1]}"


def _of_tls(text: str, *, has_begun: bool) -> ConnectionFailed | None:
    """Return what OpenSSL says about a connection; None if it says nothing."""
    if alert := _ALERT.search(text):
        return ConnectionFailed(Fault.CLIENT_CERTIFICATE, alert[1])
    if _NOT_TLS.search(text):
        return ConnectionFailed(Fault.NOT_TLS)
    if _END.search(text):
        return ConnectionFailed(Fault.CUT_OFF if has_begun else Fault.CLOSED)
    found = _OPENSSL.search(text)
    return None if found is None else ConnectionFailed(Fault.TLS, found[1].strip())


def handshake_text(seconds: float) -> str:
    """Return what a server has done that does not answer the TLS handshake."""
    return f"{_ACCEPTED}, and the TLS handshake took longer than {seconds:.3g} s"


def _untrusted(text: str) -> str:
    """Return why a certificate is not trusted, in the words of OpenSSL."""
    if found := _VERIFY.search(text):
        return found[1]
    if found := _MISMATCH.search(text):
        what = "Hostname" if found[1].lower().startswith("host") else "IP address"
        return f"{what} mismatch, certificate is not valid for '{found[2]}'"
    return "it cannot be verified"


def status_in_words(code: int) -> str:
    """Return the status as ``404 Not Found``, in words of our own."""
    from http import HTTPStatus  # noqa: PLC0415 -- only an error needs it

    try:
        return f"{code} {HTTPStatus(code).phrase}"
    except ValueError:
        return str(code)


# When to retry a request: after the time that the server asks for, else with backoff.


MAX_REDIRECTS = 5
REDIRECTS = frozenset({301, 302, 303, 307, 308})
FIRST_WAIT = 0.1
LONGEST_WAIT = 5.0


def backoff(
    tries: int, asked: float | None, spread: Callable[[float, float], float] = random.uniform
) -> float:
    """Return the seconds to wait after ``tries`` tries; never less than the server asked for.

    The ``spread`` keeps threads that failed together from retrying together.
    """
    own = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(tries - 1, 16)) * spread(0.5, 1.0)
    return asked + own * 0.5 if asked else own


def seconds_to_wait(header: str, now: Callable[[], float] = time.time) -> float | None:
    """Return the seconds that a Retry-After header asks for; None when it is invalid."""
    header = header.strip()
    if re.fullmatch(r"[0-9]{1,9}", header):
        return float(header)
    if not re.fullmatch(r"[A-Za-z]{3,9},? [\x20-\x7e]{1,60}", header):
        return None
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 -- few servers send a date

    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - now())
    except (ValueError, OverflowError):
        return None
