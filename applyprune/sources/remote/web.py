"""HTTPS requests of one source: one deadline for all of them, and credentials for one host only.

The proxy comes from the environment. Redirects are followed here, each after a check; no cookie is
ever kept. A server that is busy is asked again, as often as the deadline allows.
"""

from __future__ import annotations

import os
import socket
import ssl
from contextlib import contextmanager
from http.client import HTTPException
from threading import Event
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from applyprune._version import __version__
from applyprune.clock import BOOT_CLOCK
from applyprune.errors import AccessError, InputError
from applyprune.http import is_address
from applyprune.sources.remote.fetch_errors import AuthenticationFailed, FetchFailed
from applyprune.sources.remote.source_credentials import ANONYMOUS
from applyprune.sources.remote.url import host_of, is_https, joined, origin_of, shown_url
from applyprune.sources.remote.web_reply import (
    Reply,
    connection_failed,
    not_stored,
    refused_address,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from urllib3.connectionpool import HTTPConnectionPool
    from urllib3.response import BaseHTTPResponse

    from applyprune.clock import Clock
    from applyprune.http import AddressRules, Try
    from applyprune.model.manifest import Origin
    from applyprune.sources.remote.source_credentials import Credentials

MAX_REDIRECTS = 5
MAX_TRIES = 8
"""How often one request is sent to a server that is busy."""

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_BUSY = frozenset({429, 502, 503, 504})
_FOLLOWED = frozenset({"GET", "HEAD"})


class Web:
    """The requests of one source; made by ``open_web``."""

    def __init__(
        self,
        url: str,
        current: Try,
        seconds: float,
        credentials: Credentials,
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
        self._pools: dict[tuple[str, int], HTTPConnectionPool] = {}
        self._contexts: dict[bool, ssl.SSLContext] = {}

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
        reply = self._followed(method, url, authorization, headers or {}, body)
        try:
            yield reply
        finally:
            self._finish(reply)

    def close(self) -> None:
        """Close every connection."""
        for pool in self._pools.values():
            pool.close()

    def _followed(
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
            # guard: authorization-of-one-host
            sent = {**headers, **(own if authorization and origin_of(url) == first else {})}
            reply = self._answered(method, url, sent, body)
            if reply.status not in _REDIRECTS or method not in _FOLLOWED:
                return reply
            target = joined(url, reply.header("Location"))
            self._finish(reply)
            _check_redirect(url, target)
            if self._on_redirect is not None:
                self._on_redirect(target)
            url = target
        raise FetchFailed(f"more than {MAX_REDIRECTS} redirects")

    def _answered(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> Reply:
        """Return the reply of one server, asked again while it is busy and there is time."""
        from applyprune.http import backoff, seconds_to_wait

        tries = 0
        while True:
            tries += 1
            reply = self._sent(method, url, headers, body)
            if reply.status not in _BUSY or tries == MAX_TRIES:
                return reply
            asked = seconds_to_wait(reply.header("Retry-After"))
            wait = backoff(tries, asked)
            left = self._seconds_left()
            if wait >= left and asked:
                self._finish(reply)
                raise FetchFailed(
                    f"the server answered {reply.shown_status}",
                    reason=f"it asks to wait {asked:.0f} s, and {left:.0f} s are left",
                )
            if wait >= left:
                return reply
            self._finish(reply)
            self._current.clock.wait(Event(), wait)

    def _sent(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Reply:
        from urllib3.exceptions import HTTPError

        self.check_time()
        server = host_of(urlsplit(url))
        try:
            raw = self._exchange(method, url, headers, body)
        except (HTTPError, HTTPException, OSError, ValueError) as error:
            raise connection_failed(error, server, self._seconds) from None
        return Reply(raw, url, server, self._seconds)

    def _exchange(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> BaseHTTPResponse:
        from urllib3.util import Retry, Timeout

        from applyprune.http import CONNECT_TIMEOUT

        parts = urlsplit(url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        own = {"User-Agent": f"applyprune/{__version__}", "Accept-Encoding": "identity"}
        return self._pool(url).urlopen(
            method,
            target,
            body=body,
            headers={**own, **headers},
            retries=Retry(False),  # noqa: FBT003 -- urllib3's word for "raise what happened"
            redirect=False,
            timeout=Timeout(connect=CONNECT_TIMEOUT),
            preload_content=False,
            decode_content=False,
        )

    def _pool(self, url: str) -> HTTPConnectionPool:
        from applyprune.http import open_pools, proxy_for

        origin = origin_of(url)
        if (known := self._pools.get(origin)) is not None:
            return known
        proxy = proxy_for(url, os.environ)
        if proxy and self._addresses is not None:
            _check_literal(origin[0], self._addresses)
        try:
            pools = open_pools(proxy, ssl_context=self._context(shows=origin == self._own))
        except AccessError as error:
            raise FetchFailed(error.message, hint=error.hint) from None
        pool = pools.connection_from_url(f"https://{host_of(urlsplit(url))}")
        if self._addresses is not None and not proxy:
            # guard: checked-source-address
            pool.conn_kw["addresses"] = self._addresses
        self._pools[origin] = pool
        return pool

    def _context(self, *, shows: bool) -> ssl.SSLContext:
        """Return the rules of TLS; the client certificate is shown to the source's host only."""
        shows = shows and bool(self._credentials.certificate)
        if shows not in self._contexts:
            self._contexts[shows] = _tls(self._credentials, shows=shows)
        return self._contexts[shows]

    def _seconds_left(self) -> float:
        self.check_time()
        return self._current.seconds_left()

    def _finish(self, reply: Reply) -> None:
        from urllib3.exceptions import HTTPError

        try:
            reply.finish()
        except (HTTPError, HTTPException, OSError):
            # What is left of a reply is of no use to anybody.
            self._pools.pop(origin_of(reply.url)).close()


@contextmanager
def open_web(
    url: str,
    *,
    timeout: float,
    credentials: Credentials = ANONYMOUS,
    addresses: AddressRules | None = None,
    on_redirect: Callable[[str], None] | None = None,
    clock: Clock = BOOT_CLOCK,
) -> Iterator[Web]:
    """Yield a client for the source at ``url``; all that is done in the block has ``timeout`` s.

    ``credentials`` are used for their certificates only: the CAs in them replace those of the
    system for every host, and the client certificate is shown to the host and port of ``url``.
    With ``addresses``, no connection goes to an address that they forbid. ``on_redirect`` receives
    each URL that a server redirects to.
    """
    from applyprune.http import one_try

    with one_try(timeout, clock=clock) as current:  # guard: web-clock
        web = Web(url, current, timeout, credentials, addresses, on_redirect)
        try:
            yield web
        finally:
            web.close()


@contextmanager
def located(where: Origin) -> Iterator[None]:
    """Give the errors of a source their place, unless they name one."""
    try:
        yield
    except InputError as error:
        if not error.location:
            error.location, error.origin = str(where), where
        raise


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
    if not is_address(host):
        try:
            # In the ways of the resolver: 127.1, 0x7f000001.
            address = socket.inet_ntoa(socket.inet_aton(host))
        except (OSError, UnicodeError):
            return
    if fault := rules.fault(address):
        raise refused_address(host, fault)


def _tls(credentials: Credentials, *, shows: bool) -> ssl.SSLContext:
    """Return the rules of TLS; raises AuthenticationFailed for certificates that are not usable."""
    from applyprune.http import show_certificate, trust_only

    if not credentials.ca:
        context = ssl.create_default_context()
    else:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            trust_only(context, credentials.ca.decode("utf-8", "replace"))
        except ValueError:
            raise AuthenticationFailed(
                "the source's CA is not a PEM certificate", hint="Check ca.crt in its Secret."
            ) from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if not shows:
        return context
    try:
        show_certificate(context, credentials.certificate, credentials.key)
    except ValueError:
        raise AuthenticationFailed(
            "the source's client certificate and its key cannot be used",
            reason="they are not PEM, do not belong together, or the key has a password",
            hint="Check tls.crt and tls.key in its Secret.",
        ) from None
    except OSError as error:
        raise not_stored(error) from None
    return context
