"""HTTPS of one source: one deadline for all requests, credentials for one host, bounded replies.

The proxy comes from the environment. Redirects are followed here, each after a check; no cookie is
ever kept. A server that is busy is asked again, as often as the deadline allows.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
from contextlib import contextmanager, suppress
from threading import Event
from typing import IO, TYPE_CHECKING
from urllib.parse import quote, urlsplit

from applyprune._version import __version__
from applyprune.addresses import (
    PROXY_FORM,
    InvalidHost,
    InvalidProxy,
    endpoint_anywhere,
    is_ip_address,
    proxy_for,
)
from applyprune.clock import BOOT_CLOCK
from applyprune.errors import AccessError, ApplypruneError, InputError, UsageError
from applyprune.http import (
    AUTHORITIES_HINT,
    BUG_HINT,
    MAX_REDIRECTS,
    REDIRECTS,
    UNUSABLE_PAIR,
    Connections,
    Fault,
    Route,
    Sent,
    Trust,
    backoff,
    describe_error,
    detail_of,
    fault_of,
    one_try,
    seconds_to_wait,
    status_in_words,
)
from applyprune.model.problem import Origin, Problem, ProblemKind
from applyprune.model.text import visible
from applyprune.sources.address import (
    host_of,
    is_https,
    joined,
    login_of,
    origin_of,
    shown_url,
    url_parts,
)
from applyprune.sources.tree import (
    ANONYMOUS,
    AuthenticationFailed,
    FetchFailed,
    SourceText,
    SourceTooLarge,
    too_much,
)
from applyprune.values import pattern, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from applyprune.addresses import AddressRules
    from applyprune.clock import Clock
    from applyprune.http import Answer, Patience, Try
    from applyprune.sources.tree import SourceCredentials

    Warn = Callable[[Problem], None]


MAX_TRIES = 8
"""How often one request is sent to a server that is busy."""


@contextmanager
def open_web(
    url: str,
    *,
    timeout: float,
    credentials: SourceCredentials = ANONYMOUS,
    addresses: AddressRules | None = None,
    on_redirect: Callable[[str], None] | None = None,
    clock: Clock = BOOT_CLOCK,
    patience: Patience | None = None,
) -> Iterator[Web]:
    """Yield a client for the source at ``url``; all that is done in the block has ``timeout`` s.

    ``credentials`` are used for their certificates only: the CAs in them replace those of the
    system for every host, and the client certificate is shown to the host and port of ``url``.
    With ``addresses``, no connection goes to an address that they forbid. ``on_redirect`` receives
    each URL that a server redirects to. ``patience`` ends a wait before that time.
    """

    # guard: web-clock -> one_try(timeout, patience=patience)
    with one_try(timeout, clock=clock, patience=patience) as current:
        web = Web(url, current, timeout, credentials, addresses, on_redirect)
        try:
            yield web
        finally:
            web.close()


_BUSY = frozenset({429, 502, 503, 504})
_FOLLOWED = frozenset({"GET", "HEAD"})


class Web:
    """The requests of one source; made by ``open_web``."""

    def __init__(
        self,
        url: str,
        current: Try,
        seconds: float,
        credentials: SourceCredentials,
        addresses: AddressRules | None,
        on_redirect: Callable[[str], None] | None,
    ) -> None:
        """Keep the settings; the first request connects. ``seconds`` is the time of ``current``."""
        self._own = origin_of(url)
        self._current = current
        self._seconds = seconds
        self._credentials = credentials
        self._addresses = addresses
        self._on_redirect = on_redirect
        self._connections: dict[bool, Connections] = {}

    def check_time(self) -> None:
        """Raise FetchFailed if the time for the source has passed."""
        try:
            self._current.seconds_left()
        except TimeoutError:
            raise FetchFailed(f"not read in {self._seconds:.3g} s") from None

    @contextmanager
    def request(
        self,
        method: str,
        url: str,
        *,
        authorization: str = "",
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Iterator[Reply]:
        """Send a request that may be repeated, and yield the reply of the last server.

        ``authorization`` is sent to the host and port of ``url`` only. Only a GET or a HEAD follows
        redirects. Raises FetchFailed if there is no reply or if a redirect is not followed, and
        AuthenticationFailed if the server refuses our certificate.
        """
        reply = self._follow_redirects(method, url, authorization, headers or {}, body)
        try:
            yield reply
        finally:
            reply.finish()

    def close(self) -> None:
        """Close every connection."""
        for connections in self._connections.values():
            connections.close()

    def _follow_redirects(
        self,
        method: str,
        url: str,
        authorization: str,
        headers: Mapping[str, str],
        body: bytes | None,
    ) -> Reply:
        first = origin_of(url)
        for _ in range(MAX_REDIRECTS + 1):
            own = {"Authorization": authorization}
            # guard: authorization-of-one-host -> {**headers, **(own if authorization else {})}
            sent = {**headers, **(own if authorization and origin_of(url) == first else {})}
            reply = self._retry_while_busy(method, url, sent, body)
            if reply.status not in REDIRECTS or method not in _FOLLOWED:
                return reply
            target = joined(url, reply.header("Location"))
            reply.finish()
            _check_redirect(url, target)
            if self._on_redirect is not None:
                self._on_redirect(target)
            url = target
        raise FetchFailed(f"more than {MAX_REDIRECTS} redirects")

    def _retry_while_busy(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> Reply:
        """Return the reply of one server, asked again while it is busy and there is time."""

        tries = 0
        while True:
            tries += 1
            reply = self._send(method, url, headers, body)
            if reply.status not in _BUSY or tries == MAX_TRIES:
                return reply
            asked = seconds_to_wait(reply.header("Retry-After"))
            wait = backoff(tries, asked)
            self.check_time()
            left = self._current.seconds_left()
            if wait >= left and asked:
                reply.finish()
                raise FetchFailed(
                    f"the server answered {status_in_words(reply.status)}",
                    reason=f"it asks to wait {asked:.0f} s, and {left:.0f} s are left",
                )
            if wait >= left:
                return reply
            reply.finish()
            self._pause(wait)

    def _pause(self, seconds: float) -> None:
        clock = self._current.clock
        ends = clock.now() + seconds
        while (left := ends - clock.now()) > 0:
            clock.wait(Event(), self._current.patience.wait(left))

    def _send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Reply:
        self.check_time()
        parts = urlsplit(url)
        server = host_of(parts)
        query = f"?{parts.query}" if parts.query else ""
        # Only what no request line can have; what is escaped already stays as it is.
        target = quote((parts.path or "/") + query, safe=_SAFE)
        own = {"User-Agent": f"applyprune/{__version__}", "Accept-Encoding": "identity"}
        proxy = source_proxy(url)
        if proxy and self._addresses is not None:
            _check_literal(origin_of(url)[0], self._addresses)
        sent = Sent(
            method, f"https://{server}", target, tuple({**own, **headers}.items()), body, proxy
        )
        try:
            answer = self._to(url).send(sent)
        except AccessError as error:
            raise FetchFailed(error.message, hint=error.hint) from None
        except (OSError, ValueError) as error:
            raise connection_failed(error, server, self._seconds) from None
        return Reply(answer, url, server, self._seconds)

    def _to(self, url: str) -> Connections:
        """Return the connections; the client certificate is shown to the source's host only."""
        own = self._credentials
        shows = origin_of(url) == self._own and bool(own.certificate)
        if shows not in self._connections:
            ca = own.ca.decode("utf-8", "replace")
            trust = Trust(ca)
            if shows:
                trust = replace(trust, certificate=own.certificate, key=own.key)
            # guard: checked-source-address -> Route(trust, None, size=_AT_A_TIME)
            route = Route(trust, self._addresses, size=_AT_A_TIME)
            self._connections[shows] = Connections(route)
        return self._connections[shows]


_SAFE = "".join(map(chr, range(0x21, 0x7F)))
_AT_A_TIME = 8
"""How many requests of a source run at a time, at most."""


def source_proxy(url: str) -> str:
    """Return the URL of the proxy for a source, empty for none; raises FetchFailed."""
    try:
        return proxy_for(url, os.environ)
    except InvalidProxy as error:
        raise FetchFailed(
            f"the proxy in {error.variable} cannot be used", reason=str(error), hint=PROXY_FORM
        ) from None


def _check_redirect(url: str, target: str) -> None:
    if target == url:
        raise FetchFailed("redirect loop")
    if not is_https(target):
        raise FetchFailed(
            f"redirected to {shown_url(target)}", reason="only redirects to https:// are followed"
        )


def _check_literal(host: str, rules: AddressRules) -> None:
    """Raise FetchFailed for a host that is a refused address; a proxy resolves names itself."""
    address = host
    if not is_ip_address(host):
        try:
            # In the ways of the resolver: 127.1, 0x7f000001.
            address = socket.inet_ntoa(socket.inet_aton(host))
        except (OSError, UnicodeError):
            return
    if fault := rules.fault(address):
        raise refused_address(host, fault)


def basic(username: str, password: str) -> str:
    """Return the value of ``Authorization`` for a user and a password; empty for none."""
    from base64 import b64encode

    login = f"{username}:{password}".encode()
    return f"Basic {b64encode(login).decode()}" if username or password else ""


def bearer(token: str) -> str:
    """Return the value of ``Authorization`` for a token; empty for none.

    Raises AuthenticationFailed for a token that no header can have.
    """
    token = token.strip()
    if not token.isascii() or any(char <= " " or char == "\x7f" for char in token):
        raise AuthenticationFailed(
            "the token is invalid", reason="it has a space, or a character that is not ASCII"
        )
    return f"Bearer {token}" if token else ""


@contextmanager
def located(where: Origin) -> Iterator[None]:
    """Give the errors of a source their place, unless they name one."""
    try:
        yield
    except InputError as error:
        error.problem = error.problem_at(where)
        raise


# The reply to one request: read completely and within a limit, or refused.


_LITTLE = 2**20
_LENGTH = pattern(r"[0-9]{1,18}")


class Reply:
    """The reply of a server, not read yet; use it inside the block that has opened it."""

    def __init__(self, raw: Answer, url: str, server: str, seconds: float) -> None:
        """Keep the reply; ``url`` is where the redirects led, ``server`` its host, to print.

        ``seconds`` is the time limit that messages name.
        """
        self._raw = raw
        self._server = server
        self._seconds = seconds
        self.url = url
        self.status = raw.status

    def header(self, name: str) -> str:
        """Return the value of a header; several, joined by commas; empty for none."""
        return self._raw.headers.get(name, "")

    def refusal(self, *, reason: str = "") -> InputError:
        """Return the error for a status that is not the expected one."""
        message = f"the server answered {status_in_words(self.status)}"
        if self.status in {401, 403}:
            return AuthenticationFailed(
                message, reason=reason, hint="Check the source's credentials."
            )
        return FetchFailed(message, reason=reason)

    def chunks(self, limit: int) -> Iterator[bytes]:
        """Yield the body as it is on the wire, as it comes.

        Raises FetchFailed for a body that is compressed, that has no known length, or that ends
        early, and SourceTooLarge as soon as it exceeds ``limit`` bytes.
        """
        self._check_coding()
        too_large = SourceTooLarge(f"the response is larger than {shown_size(limit)}")
        if (self._raw.length_left or 0) > limit:
            raise too_large
        size = 0
        while chunk := self._next():
            size += len(chunk)
            if size > limit:
                raise too_large
            yield chunk

    def _next(self) -> bytes:
        try:
            return self._raw.read()
        except OSError as error:
            raise connection_failed(error, self._server, self._seconds) from None

    def read(self, limit: int) -> bytes:
        """Return the whole body; raises as ``chunks``."""
        return b"".join(self.chunks(limit))

    def save(self, file: IO[bytes], limit: int) -> str:
        """Write the whole body to a file, and return its digest: ``sha256:…``.

        Raises as ``chunks``, and FetchFailed if the file cannot be written.
        """
        digest = hashlib.sha256()
        for chunk in self.chunks(limit):
            digest.update(chunk)
            try:
                file.write(chunk)
            except OSError as error:
                raise not_stored(error) from None
        return f"sha256:{digest.hexdigest()}"

    def finish(self) -> None:
        """Release the connection: keep it only if nothing, or little, of the body is left."""
        left = self._raw.length_left
        if left is not None and left <= _LITTLE:
            with suppress(OSError):
                while self._raw.read():
                    pass
        self._raw.close()

    def _check_coding(self) -> None:
        if self.header("Content-Encoding").strip().lower() not in {"", "identity"}:
            raise FetchFailed("the reply is compressed, and that was not asked for")
        coding = self.header("Transfer-Encoding").strip().lower()
        # With any other coding, or another word for a length, this code could not detect the end.
        known = not coding and _LENGTH.fullmatch(self.header("Content-Length").strip())
        if coding != "chunked" and not known:
            raise unknown_length()


class UnknownLength(FetchFailed):
    """A server does not say how long its response is, so a truncated one would go unnoticed."""


def unknown_length() -> UnknownLength:
    return UnknownLength(
        "the server does not send the length of its response",
        reason="a truncated response could not be detected",
    )


def shown_size(size: int) -> str:
    """Return a number of bytes as a person reads it: ``256 MiB``."""
    for unit, words in ((2**20, "MiB"), (2**10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {words}"
    return f"{size} bytes"


def not_stored(error: OSError) -> FetchFailed:
    """Return the error for a temporary file that cannot be written."""
    return FetchFailed(
        "what was fetched cannot be stored",
        reason=error.strerror or "",
        hint="Check the space in the folder for temporary files (TMPDIR).",
    )


def connection_failed(error: Exception, server: str, seconds: float) -> InputError:
    """Return the error for a broken connection to a server; ``seconds`` was the time limit."""
    if not isinstance(error, OSError):
        return FetchFailed("cannot be read", reason=visible(str(error))[:_SHOWN])
    fault, detail = fault_of(error), visible(detail_of(error))[:_SHOWN]
    if (found := _explained(fault, detail, server)) is not None:
        return found
    reason, _ = describe_error(error, server=server, seconds=seconds, detail=detail)
    return FetchFailed("cannot be read", reason=reason, hint=_HINTS.get(fault, ""))


def _explained(fault: Fault, detail: str, server: str) -> InputError | None:
    match fault:
        case Fault.ADDRESS:
            return refused_address(server, detail)
        case Fault.CERTIFICATE:
            return FetchFailed(
                f"the certificate of {server} is not trusted",
                reason=detail,
                hint="Add its CA to the system's CAs, or to the file in SSL_CERT_FILE.",
            )
        case Fault.CLIENT_CERTIFICATE:
            return AuthenticationFailed(
                f"{server} refuses the client certificate, or needs one",
                hint="Check the source's client certificate: it may have expired.",
            )
        case Fault.AUTHORITY:
            return AuthenticationFailed(
                "the source's CA is not a PEM certificate", hint="Check ca.crt in its Secret."
            )
        case Fault.OWN_CERTIFICATE:
            return AuthenticationFailed(
                "the source's client certificate and its key cannot be used",
                reason=UNUSABLE_PAIR,
                hint="Check tls.crt and tls.key in its Secret.",
            )
        case Fault.CODING:
            return unknown_length()
    return None


_HINTS = {
    Fault.PROXY: "Check HTTPS_PROXY and NO_PROXY.",
    Fault.SYSTEM_AUTHORITIES: AUTHORITIES_HINT,
    Fault.SET_UP: BUG_HINT,
}
_SHOWN = 200


def refused_address(server: str, fault: str) -> FetchFailed:
    """Return the error for a server at an address that must not be connected to."""
    allow = (
        "If sources may be read from there, start the controller with --allow-source-cidr and the "
        "network of that address."
    )
    return FetchFailed(
        f"the name {server} means {fault}", reason="nothing was sent", hint=allow, remedy=allow
    )


# Download a URL completely, in time and from the host that the user gave, or fail.
#
# A truncated manifest, or another page in its place, would prune the objects that it lacks. So a
# response must state its length, and every early end is an error. Only credentials in the URL
# itself are sent. Messages never contain them or the query string, which is often a credential too.


DOWNLOAD_TIMEOUT = 60.0
"""Seconds for one URL in total: DNS, redirects, and the last byte of a slow server."""
_PIPE = "curl … | applyprune … -f -"
_NOT_FOR_ALL = frozenset({401, 403, 404, 407})
_PAGE = pattern(rb"\s*<(?:!doctype|html|\?xml|head|body)", re.IGNORECASE)
_INSTEAD = {
    "file": "Give a file or folder by its path.",
    "docker": "Write oci://HOST/REPO:TAG.",
}


def download(url: str, limit: int, warn: Warn) -> SourceText | InputError:
    """Return the content of a URL that passed ``check_url``, or the error.

    ``limit`` is in bytes. ``warn`` receives a Problem for each redirect.
    """
    # Import the client only when a URL is read: the import takes time.

    where = Origin(shown_url(url))

    def redirected(target: str) -> None:
        warn(
            Problem(
                ProblemKind.REDIRECTED,
                f"redirected to {shown_url(target)}",
                str(where),
                hint="If this is intended, use that URL.",
            )
        )

    login = basic(*login_of(urlsplit(url)))
    try:
        with (
            open_web(url, timeout=DOWNLOAD_TIMEOUT, on_redirect=redirected) as web,
            web.request("GET", url, authorization=login) as reply,
        ):
            return SourceText(where.path, _read_document(reply, limit))
    except SourceTooLarge:
        return too_much(where.path)
    except ApplypruneError as error:
        hint = f"Download it yourself: {_PIPE}" if isinstance(error, UnknownLength) else error.hint
        return InputError(error.message, location=where, reason=error.reason, hint=hint)


def _read_document(reply: Reply, limit: int) -> bytes:
    if reply.status != 200:
        hint = f"applyprune sends no credentials. Download it yourself: {_PIPE}"
        raise InputError(
            f"the server answered {status_in_words(reply.status)}",
            hint=hint if reply.status in _NOT_FOR_ALL else "",
        )
    data = reply.read(limit)
    is_page = reply.header("Content-Type").lower().startswith("text/html")
    if is_page or _PAGE.match(data):
        raise InputError(
            "the response is a web page, not YAML",
            hint="Use the URL of the file itself; on GitHub, that of the Raw button.",
        )
    if not data.strip():
        raise InputError("the response is empty")
    return data


def check_url(url: str) -> None:
    """Raise UsageError for a URL that is not supported."""
    parts = url_parts(url)
    if parts is not None and parts.scheme == "http":
        raise UsageError(
            f"unsupported URL: {shown_url(url)}",
            reason="content sent over plain http can be changed in transit",
            hint=f"Use https://, or download it yourself: {_PIPE}",
        )
    if parts is not None and parts.scheme != "https":
        raise UsageError(
            f"unsupported URL: {shown_url(url)}",
            reason="only https:// and oci:// are supported",
            hint=_INSTEAD.get(parts.scheme, f"Download it yourself: {_PIPE}"),
        )
    if parts is not None and parts.fragment:
        # Nobody would notice that a digest there is not looked at.
        raise UsageError(
            f"unsupported URL: {shown_url(url)}",
            reason="it has a fragment, which no server sees",
            hint="Leave out what comes after #. An artifact in a registry may have a digest.",
        )
    try:
        endpoint_anywhere(url)
    except InvalidHost as error:
        raise UsageError(
            f"invalid URL: {shown_url(url)}",
            reason=str(error),
            hint="Write https://HOST/PATH.",
        ) from None
