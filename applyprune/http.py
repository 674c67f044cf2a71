"""HTTP connections with one deadline, and the proxy, certificates, errors and retries of clients.

The sources and the cluster share them. Somebody else's server is reached only at allowed addresses.

A socket's own timeout restarts with every byte, so a server that sends one byte a second could hold
a request for hours: here each read and write gets the time that is left of the try.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import ipaddress
import math
import queue
import random
import re
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from urllib.parse import unquote, urlsplit

from urllib3 import PoolManager, ProxyManager
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import (
    ConnectTimeoutError,
    EmptyPoolError,
    NameResolutionError,
    NewConnectionError,
    ReadTimeoutError,
)
from urllib3.util import make_headers
from urllib3.util.connection import create_connection

from applyprune.clock import BOOT_CLOCK
from applyprune.errors import AccessError
from applyprune.values import dataclass, pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

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
# Seconds in which a server must send something of a small answer, before its first byte or later.
SILENCE = 15.0
_current: ContextVar[Try] = ContextVar("try")


@contextlib.contextmanager
def one_try(
    seconds: float,
    stop: Callable[[], bool] | None = None,
    leases: Sequence[Lease] = (),
    clock: Clock = BOOT_CLOCK,
    patience: Patience | None = None,
) -> Iterator[Try]:
    """Apply one deadline to everything that this thread does on connections in the block."""
    current = Try(seconds, stop, leases, clock, patience)
    token = _current.set(current)
    try:
        yield current
    finally:
        _current.reset(token)


class Try:
    """One try of one request: its deadline, and whether a byte of it may have been sent."""

    __slots__ = ("clock", "ends", "leases", "patience", "sent", "stop")

    def __init__(
        self,
        seconds: float,
        stop: Callable[[], bool] | None = None,
        leases: Sequence[Lease] = (),
        clock: Clock = BOOT_CLOCK,
        patience: Patience | None = None,
    ) -> None:
        """Start the time; ``stop`` returns true when the response is no longer wanted.

        Nothing is sent after the end of one of the ``leases``. ``stop`` ends a connect too, and
        leaves a thread behind that does it; ``patience`` is only about what was connected.
        """
        self.clock = clock
        self.ends = clock.now() + seconds
        self.sent = False
        self.stop = stop
        self.leases = leases
        self.patience = patience or Patience()

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


@dataclass(frozen=True, slots=True)
class Patience:
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


class SilentServer(TimeoutError):
    """A server has accepted the connection and then kept silent; the text follows its name."""


class Stopped(Exception):
    """The response is no longer wanted."""


class LeaseEnded(TimeoutError):
    """A lease ended before the whole request was sent, so the server cannot process it."""


class RefusedAddress(OSError):
    """The name of a server means an address to which no connection is made."""


# Connections that obey the deadline, and their pools.


_READ_SIZE = 16 * 1024
# One TLS record: what a single write of the ssl module sends within its timeout.
_WRITE_SIZE = 16 * 1024
_Result = TypeVar("_Result")


def open_pools(proxy: str, **options: Any) -> PoolManager:
    """Return pools for any server, through ``proxy`` unless it is empty; do not connect yet.

    ``options`` are those of urllib3. Use the pools inside ``one_try``. Raises
    AccessError for an invalid proxy.
    """
    options["socket_options"] = socket_options()
    manager = _proxy_pools(proxy, options) if proxy else PoolManager(1, **options)
    manager.pool_classes_by_scheme = {
        "http": DeadlineHTTPConnectionPool,
        "https": DeadlineHTTPSConnectionPool,
    }
    return manager


def _proxy_pools(proxy: str, options: dict[str, Any]) -> ProxyManager:
    parts = urlsplit(proxy)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise AccessError(
            f"unsupported proxy scheme {parts.scheme[:20]!a}",
            hint="proxy-url and HTTPS_PROXY must be an http:// or https:// URL.",
        )
    headers = None
    if parts.username:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers = make_headers(proxy_basic_auth=login)
    bare = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    return ProxyManager(bare, 1, proxy_headers=headers, **options)


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


class _Response(http.client.HTTPResponse):
    """A response, to a request or to a proxy's CONNECT, that is read within the deadline."""

    def __init__(self, sock: Any, *arguments: Any, **options: Any) -> None:
        super().__init__(_Readable(sock), *arguments, **options)  # type: ignore[arg-type]


class _Readable:
    """The part of a socket that http.client's response needs: ``makefile``."""

    def __init__(self, sock: Any) -> None:
        self._sock = sock

    def makefile(self, *_arguments: object) -> io.BufferedReader:
        return io.BufferedReader(_Reader(self._sock), _READ_SIZE)


class _Reader(io.RawIOBase):
    """The receiving side of a socket, as the file from which http.client reads a response."""

    def __init__(self, sock: Any) -> None:
        self._sock = sock
        self._raw = sock.makefile("rb", buffering=0)
        self._has_begun = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        current = _current.get()
        began = current.clock.now()
        while True:
            current.patience.check()
            self._sock.settimeout(current.next_wait())
            # From the socket, not from its file: after a timeout the file cannot be read any more.
            # A timeout loses nothing: half a TLS record stays in the socket.
            try:
                count: int = self._sock.recv_into(buffer)
            except TimeoutError:
                self._check_silence(current, began)
                continue
            self._has_begun = True
            return count

    def _check_silence(self, current: Try, began: float) -> None:
        limit = current.patience.silence
        if current.clock.now() - began >= limit:  # guard: silent-server
            sent = "sent no more of its response" if self._has_begun else _SENT_NOTHING
            raise SilentServer(f"{sent} for {limit:.3g} s")

    def close(self) -> None:
        self._raw.close()
        super().close()


class DeadlineHTTPConnection(HTTPConnection):
    """A connection that obeys the deadline of the current try."""

    response_class = _Response

    def __init__(
        self, *arguments: Any, addresses: AddressRules | None = None, **options: Any
    ) -> None:
        """Keep the rules for the addresses of the host; None if every address may be reached."""
        super().__init__(*arguments, **options)
        self._addresses = addresses
        self._connects_elsewhere = False

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
            try:
                connect()
            except BaseException:
                self._close()
                raise
            finally:
                self._connects_elsewhere = False

        self._connects_elsewhere = True
        _in_thread(work, lambda _: self.close(), limit)

    def close(self) -> None:
        """Close it, unless a thread still connects, which closes it itself.

        The number of a socket that is closed in the middle of its handshake may be another
        connection's by then, and the handshake would go on there.
        """
        if not self._connects_elsewhere:
            self._close()

    def _close(self) -> None:
        super().close()

    def _new_conn(self) -> socket.socket:
        rules = self._addresses
        # guard: checked-connection
        open_one = super()._new_conn if rules is None else partial(self._new_checked_conn, rules)
        if is_ip_address(self.host.strip("[]")):
            return open_one()
        return self._connect_in_thread(open_one)

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

    def _connect_in_thread(self, open_one: Callable[[], socket.socket]) -> socket.socket:
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


_ACCEPTED = "accepted the connection"
_SENT_NOTHING = f"{_ACCEPTED} and sent nothing"
_HANDSHAKE = "handshake operation timed out"
"""What ssl says: urllib3 does not tell the handshake from the connect."""


class DeadlineHTTPSConnection(DeadlineHTTPConnection, HTTPSConnection):
    """The same over TLS."""

    def connect(self) -> None:
        """Connect, without urllib3's InsecureRequestWarning when verification was turned off."""
        try:
            super().connect()
        except TimeoutError as error:
            if _HANDSHAKE not in str(error):
                raise
            text = f"{_ACCEPTED}, and the TLS handshake took longer than {self.timeout:.3g} s"
            raise SilentServer(text) from error
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


# The proxy, by the rules of Go's net/http, which kubectl follows.


def proxy_for(server: str, environ: Mapping[str, str]) -> str:
    """Return the URL of the proxy for ``server``, empty for none; loopback never has one."""
    parts = urlsplit(server)
    names = (
        ("HTTPS_PROXY", "https_proxy") if parts.scheme == "https" else ("HTTP_PROXY", "http_proxy")
    )
    proxy = next((environ[name] for name in names if environ.get(name)), "")
    host = (parts.hostname or "").rstrip(".")
    if not proxy or not host:
        return ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    excluded = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    if _is_loopback(host) or any(
        _matches_no_proxy(pattern, host, port) for pattern in excluded.lower().split(",")
    ):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_loopback(host: str) -> bool:
    address = _ip_address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _matches_no_proxy(pattern: str, host: str, port: int) -> bool:
    """Return whether a NO_PROXY item covers the host: ``*``, CIDR, address or domain, with port."""
    pattern = pattern.strip()
    if not pattern:
        return False
    if pattern == "*":
        return True
    address = _ip_address(host)
    if "/" in pattern:
        try:
            return address is not None and address in ipaddress.ip_network(pattern, strict=False)
        except ValueError:
            return False
    name, colon, wanted_port = pattern.rpartition(":")
    if colon and wanted_port.isdecimal() and _ip_address(pattern) is None:
        if int(wanted_port) != port:
            return False
        pattern = name
    if address is not None:
        return _ip_address(pattern.strip("[]")) == address
    pattern = pattern.removeprefix("*")
    return host == pattern or host.endswith(pattern if pattern.startswith(".") else f".{pattern}")


def _ip_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


# Errors of connections.


IN_TIME = "in time"
"""The end of a message about a time limit that it does not name."""
# Transient errors. The first one that matches an error or one of its causes gives the message, and
# whether the server seems to be unreachable.
_TRANSIENT: tuple[tuple[type[Exception] | tuple[type[Exception], ...], str, bool], ...] = (
    (LeaseEnded, "the lock on the inventory had to be renewed first", False),
    (NameResolutionError, "the name of {server} cannot be resolved", True),
    (ConnectTimeoutError, "{server} cannot be reached: the connection timed out", True),
    (ConnectionRefusedError, "connection refused by {server}", True),
    (EmptyPoolError, "no connection to {server} became free {limit}", False),
    ((ReadTimeoutError, TimeoutError), "{server} sent no complete response {limit}", False),
    (http.client.IncompleteRead, "the response of {server} was cut off", False),
    (http.client.RemoteDisconnected, "{server} closed the connection without a response", False),
    (http.client.HTTPException, "{server} does not speak HTTP", True),
)


def describe_error(
    error: BaseException, *, server: str, seconds: float | None = None
) -> tuple[str, bool]:
    """Return a message for the error, and whether the server seems to be unreachable.

    ``seconds`` is the time limit of the response; None leaves it out.
    """
    limit = IN_TIME if seconds is None else f"in {seconds:.3g} s"
    # A refused connection is also a NewConnectionError, which is a kind of ConnectTimeoutError.
    found = [cause for cause in causes(error) if type(cause) is not NewConnectionError]
    for cause in found:
        if isinstance(cause, SilentServer):
            return f"{server} {cause}", False
    for kinds, message, unreachable in _TRANSIENT:
        if any(isinstance(cause, kinds) for cause in found):
            return message.format(server=server, limit=limit), unreachable
    for cause in found:
        if isinstance(cause, OSError) and cause.strerror:
            return f"the connection to {server} broke: {cause.strerror}", False
    return f"the connection to {server} broke: {type(error).__name__}", False


def causes(error: BaseException) -> tuple[BaseException, ...]:
    """Return the error and its causes, outermost first."""
    seen: list[BaseException] = []
    pending: list[BaseException] = [error]
    while pending:
        current = pending.pop(0)
        if any(current is known for known in seen):
            continue
        seen.append(current)
        wrapped = [item for item in current.args if isinstance(item, BaseException)]
        pending += [*wrapped, *([current.__cause__] if current.__cause__ else [])]
    return tuple(seen)


# Certificates: PEM from memory to an SSLContext.


_CERTIFICATE = pattern(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
# TLS alerts with which a server refuses a client certificate, or needs one.
_CERTIFICATE_ALERTS = (
    "CERTIFICATE_REQUIRED",
    "ALERT_BAD_CERTIFICATE",
    "ALERT_UNKNOWN_CA",
    "ALERT_CERTIFICATE_EXPIRED",
    "ALERT_CERTIFICATE_UNKNOWN",
    "ALERT_CERTIFICATE_REVOKED",
)


def trust_only(context: ssl.SSLContext, authorities: str) -> None:
    """Trust these certificates, in PEM; raise ValueError if there is none, or an invalid one."""
    # Only the PEM blocks: ssl refuses comments that are not ASCII.
    blocks = _CERTIFICATE.findall(authorities)
    if not blocks:
        raise ValueError("no certificate")
    try:
        context.load_verify_locations(cadata="\n".join(blocks))
    except ssl.SSLError:
        raise ValueError("no PEM certificate") from None


def show_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Show a client certificate, in PEM, to the server; raise ValueError if it cannot be used.

    ssl needs a file, so write a private one for a moment.
    """
    with tempfile.TemporaryDirectory(prefix="applyprune-") as folder:
        pair = Path(folder) / "client.pem"
        pair.touch(mode=0o600)
        pair.write_bytes(certificate + b"\n" + key)
        try:
            # Without a password OpenSSL would ask for one on the terminal.
            context.load_cert_chain(pair, password=_no_password)
        except ssl.SSLError:
            raise ValueError("no usable certificate") from None


def _no_password() -> str:
    raise ValueError("the key has a password")


def refuses_certificate(error: ssl.SSLError) -> bool:
    """Return whether a server refuses our certificate, or needs one."""
    return any(alert in (error.reason or "") for alert in _CERTIFICATE_ALERTS)


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
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - now())
    except (ValueError, OverflowError):
        return None


# Which addresses a connection may go to if somebody else has named the server.
#
# Loopback addresses lead to the machine itself, and link-local ones to the metadata of a cloud,
# which hand out credentials. Private networks are where clusters usually are.


IPAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
IPNetwork: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
_REFUSED_NETWORKS: dict[str, tuple[str, ...]] = {
    "a loopback address": ("127.0.0.0/8", "::1/128"),
    "an address of this machine": ("0.0.0.0/8", "::/128"),
    "a link-local address": ("169.254.0.0/16", "fe80::/10"),
    # Outside link-local networks: AWS, Google Cloud, Oracle Cloud (2), Alibaba Cloud, Azure.
    "the address of a cloud's metadata": (
        "fd00:ec2::254/128",
        "fd20:ce::254/128",
        "fd00:c1::a9fe:a9fe/128",
        "192.0.0.192/32",
        "100.100.100.200/32",
        "168.63.129.16/32",
    ),
    "a multicast address": ("224.0.0.0/4", "ff00::/8"),
    "a reserved address": ("240.0.0.0/4",),
}
_REFUSED: Sequence[tuple[IPNetwork, str]] = tuple(
    (ipaddress.ip_network(network), words)
    for words, networks in _REFUSED_NETWORKS.items()
    for network in networks
)
# An IPv6 address in these networks ends with the IPv4 address that it leads to.
_TRANSLATED = tuple(
    map(ipaddress.IPv6Network, ("::/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48"))
)
_LAST_BITS = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class AddressRules:
    """Which addresses may be connected to."""

    allowed: tuple[IPNetwork, ...] = ()
    """Networks that may be, whatever is said about them here."""
    denied: tuple[IPNetwork, ...] = ()
    """Networks that may not be, even if they are allowed."""

    def fault(self, address: str) -> str:
        """Return what forbids a connection to an address; empty if nothing does."""
        meant = tuple(_embedded_addresses(ipaddress.ip_address(address.partition("%")[0])))
        if any(one in network for one in meant for network in self.denied):  # guard: denied-network
            return "an address of a denied network"
        if any(one in network for one in meant for network in self.allowed):
            return ""
        # guard: refused-address
        return next((words for network, words in _REFUSED for one in meant if one in network), "")


def _embedded_addresses(address: IPAddress) -> Iterator[IPAddress]:
    """Yield an address, and the IPv4 address in it."""
    yield address
    if isinstance(address, ipaddress.IPv4Address):
        return
    for inner in (address.ipv4_mapped, address.sixtofour, *(address.teredo or ())):
        if inner is not None:
            yield inner
    if any(address in network for network in _TRANSLATED):
        yield ipaddress.IPv4Address(int(address) & _LAST_BITS)


def is_ip_address(host: str) -> bool:
    """Return whether a host is an address, not a name."""
    return _ip_address(host) is not None
