"""Download an HTTPS URL completely, in time and from the host that the user gave, or fail.

A truncated manifest, or another page in its place, would prune the objects that it lacks. So a
response must state its length, and every early end is an error. Only credentials in the URL itself
are sent. Messages never contain them or the query string, which is often a credential too.
"""

from __future__ import annotations

import os
import re
import ssl
from http.client import HTTPException
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

from applyprune._version import __version__
from applyprune.errors import ApplypruneError, InputError, UsageError
from applyprune.model.manifest import Origin
from applyprune.model.problem import Problem, ProblemKind
from applyprune.sources.source import Source, shown_path, too_much

if TYPE_CHECKING:
    from collections.abc import Callable

    from urllib3.response import BaseHTTPResponse

if TYPE_CHECKING:
    Warn = Callable[[Problem], None]

TIMEOUT = 60.0
"""Seconds for one URL in total: DNS, redirects, and the last byte of a slow server."""

MAX_REDIRECTS = 5

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_NOT_FOR_ALL = frozenset({401, 403, 404, 407})
_PAGE = re.compile(rb"\s*<(?:!doctype|html|\?xml|head|body)", re.IGNORECASE)
_CHUNK = 2**20
_PIPE = "curl … | applyprune … -f -"


def is_url(path: str) -> bool:
    """Return whether a path has a scheme, such as ``https://``."""
    return _URL.match(path) is not None


def check_url(url: str) -> None:
    """Raise UsageError for a URL that is not supported."""
    parts = _parts(url)
    if parts is not None and parts.scheme == "http":
        raise UsageError(
            f"unsupported URL: {shown_url(url)}",
            reason="content sent over plain http can be changed in transit",
            hint=f"Use https://, or download it yourself: {_PIPE}",
        )
    if parts is not None and parts.scheme != "https":
        raise UsageError(
            f"unsupported URL: {shown_url(url)}",
            reason="only https:// URLs are supported",
            hint=f"Give a file by its path, or pipe the content in: {_PIPE}",
        )
    if parts is None or not parts.hostname:
        raise UsageError(f"the URL {shown_url(url)} has no host")


def shown_url(url: str) -> str:
    """Return a URL that is safe to print: without user, password, query and fragment."""
    parts = _parts(url)
    if parts is None:
        return f"{url.partition(':')[0]}://…"
    query = "?…" if parts.query else ""
    return shown_path(f"{parts.scheme}://{_host(parts)}{parts.path}{query}")


def download(url: str, limit: int, warn: Warn) -> Source | InputError:
    """Return the content of a URL that passed ``check_url``, or the error.

    ``limit`` is in bytes. ``warn`` receives a Problem for each redirect.
    """
    # Import the transport only when a URL is read: the import takes time.
    from applyprune.http.connection import one_try

    where = Origin(shown_url(url))
    try:
        with one_try(TIMEOUT):
            return _follow(url, where, limit, warn)
    except ApplypruneError as error:
        return InputError(error.message, location=where, reason=error.reason, hint=error.hint)


def _follow(url: str, where: Origin, limit: int, warn: Warn) -> Source | InputError:
    from urllib3.exceptions import HTTPError

    first = urlsplit(url)
    for _ in range(MAX_REDIRECTS + 1):
        host = _host(urlsplit(url))
        try:
            reply = _get(url, login=_login(first) if host == _host(first) else "")
            try:
                if reply.status not in _REDIRECTS:
                    return _content(reply, where, limit)
                target = urljoin(url, reply.headers.get("Location", ""))
            finally:
                reply.close()
        except (HTTPError, HTTPException, OSError, ValueError) as error:
            raise _fault(error, host) from None
        _check_redirect(url, target)
        warn(
            Problem(
                ProblemKind.REDIRECTED,
                f"redirected to {shown_url(target)}",
                str(where),
                hint="If this is intended, use that URL.",
            )
        )
        url = target
    raise InputError(f"more than {MAX_REDIRECTS} redirects")


def _fault(error: Exception, host: str) -> InputError:
    """Return the error for a broken connection to a host."""
    from applyprune.http.pool import causes, describe_error

    for cause in causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return InputError(
                f"the certificate of {host} is not trusted",
                reason=cause.verify_message,
                hint="Add its CA to the system's CAs, or to the file in SSL_CERT_FILE.",
            )
    reason, _ = describe_error(error, server=host, seconds=TIMEOUT)
    return InputError("cannot be read", reason=reason)


def _check_redirect(url: str, target: str) -> None:
    if target == url:
        raise InputError("redirect loop")
    parts = _parts(target)
    if parts is None or parts.scheme != "https" or not parts.hostname:
        raise InputError(
            f"redirected to {shown_url(target)}", reason="only redirects to https:// are followed"
        )


def _get(url: str, *, login: str) -> BaseHTTPResponse:
    from urllib3.util import Retry, Timeout, make_headers

    from applyprune.http.connection import CONNECT_TIMEOUT
    from applyprune.http.pool import open_pools, proxy_for

    parts = urlsplit(url)
    pools = open_pools(proxy_for(url, os.environ), ssl_context=ssl.create_default_context())
    headers = {"User-Agent": f"applyprune/{__version__}", "Accept-Encoding": "identity"}
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return pools.connection_from_url(f"https://{_host(parts)}").urlopen(
        "GET",
        target,
        headers={**headers, **(make_headers(basic_auth=login) if login else {})},
        retries=Retry(False),  # noqa: FBT003 -- urllib3's word for "raise what happened"
        redirect=False,
        timeout=Timeout(connect=CONNECT_TIMEOUT),
        preload_content=False,
        decode_content=False,
    )


def _content(reply: BaseHTTPResponse, where: Origin, limit: int) -> Source | InputError:
    if reply.status != 200:
        hint = f"applyprune sends no credentials. Download it yourself: {_PIPE}"
        raise InputError(
            f"the server answered {reply.status} {reply.reason or ''}".strip(),
            hint=hint if reply.status in _NOT_FOR_ALL else "",
        )
    if reply.headers.get("Content-Encoding", "identity") != "identity":
        raise InputError("the reply is compressed, and that was not asked for")
    coding = reply.headers.get("Transfer-Encoding", "").strip().lower()
    # With any other coding, this code could not detect the end of the response.
    if coding != "chunked" and (coding or "Content-Length" not in reply.headers):
        raise InputError(
            "the server does not send the length of its response",
            reason="a truncated response could not be detected",
            hint=f"Download it yourself: {_PIPE}",
        )
    data = b""
    while chunk := reply.read(_CHUNK, decode_content=False):
        data += chunk
        if len(data) > limit:
            return too_much(where.path)
    is_page = reply.headers.get("Content-Type", "").lower().startswith("text/html")
    if is_page or _PAGE.match(data):
        raise InputError(
            "the response is a web page, not YAML",
            hint="Use the URL of the file itself; on GitHub, that of the Raw button.",
        )
    if not data.strip():
        raise InputError("the response is empty")
    return Source(where.path, data)


def _parts(url: str) -> SplitResult | None:
    """Return the parts of a URL; None when it is invalid."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return parts


def _host(parts: SplitResult) -> str:
    """Return the host and port as in the URL, without user and password."""
    return parts.netloc.rpartition("@")[2]


def _login(parts: SplitResult) -> str:
    user, _, password = parts.netloc.rpartition("@")[0].partition(":")
    return f"{unquote(user)}:{unquote(password)}" if user else ""
