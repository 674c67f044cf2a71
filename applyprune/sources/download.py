"""An HTTPS URL → its bytes: complete, in time, and from where the user said, or an error.

A manifest that arrives in part, or as another page, would prune what it lacks. So a reply must say
how long it is, and every way to end early is an error. No credentials are sent but those of the URL
itself, and neither they nor a query string, which often is one, are ever shown.
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
from applyprune.model.manifests import Origin
from applyprune.model.problems import Problem
from applyprune.sources.source import Source, shown_path, too_much

if TYPE_CHECKING:
    from collections.abc import Callable

    from urllib3.response import BaseHTTPResponse

    Warn = Callable[[Problem], None]

TIMEOUT = 60.0
"""Seconds for one URL in all: names, redirects, the last byte of a server that drips."""

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
    """Raise UsageError for a URL that is not read from at all."""
    parts = _parts(url)
    if parts is not None and parts.scheme == "http":
        raise UsageError(
            f"{shown_url(url)} is not read",
            why="what comes by plain http may have been changed on its way",
            hint=f"Use https://, or fetch it yourself: {_PIPE}",
        )
    if parts is not None and parts.scheme != "https":
        raise UsageError(
            f"{shown_url(url)} is not read",
            why="only https:// URLs are",
            hint=f"A file is given by its path; anything else can be piped in: {_PIPE}",
        )
    if parts is None or not parts.hostname:
        raise UsageError(f"{shown_url(url)} names no host")


def shown_url(url: str) -> str:
    """Return a URL fit to be shown: without user, password, query and fragment."""
    parts = _parts(url)
    if parts is None:
        return f"{url.partition(':')[0]}://…"
    query = "?…" if parts.query else ""
    return shown_path(f"{parts.scheme}://{_host(parts)}{parts.path}{query}")


def download(url: str, limit: int, warn: Warn) -> Source | InputError:
    """Read a URL that ``check_url`` has let pass, of at most so many bytes.

    ``warn`` is told of each redirect.
    """
    # Only who reads by URL waits for the transport to be imported.
    from applyprune.network.deadline import one_try  # noqa: PLC0415

    where = Origin(shown_url(url))
    try:
        with one_try(TIMEOUT):
            return _follow(url, where, limit, warn)
    except ApplypruneError as error:
        return InputError(error.what, where=where, why=error.why, hint=error.hint)


def _follow(url: str, where: Origin, limit: int, warn: Warn) -> Source | InputError:
    from urllib3.exceptions import HTTPError  # noqa: PLC0415

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
                "Redirected",
                f"the server sends us on to {shown_url(target)}",
                str(where),
                hint="Give that URL if it is meant.",
            )
        )
        url = target
    raise InputError(f"more than {MAX_REDIRECTS} redirects")


def _fault(error: Exception, host: str) -> InputError:
    """Return what a broken connection to a host means."""
    from applyprune.network.wire_faults import causes, described  # noqa: PLC0415

    for cause in causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return InputError(
                f"the certificate of {host} is not to be trusted",
                why=cause.verify_message,
                hint="The system's authorities count, or those that SSL_CERT_FILE names.",
            )
    why, _ = described(error, server=host, seconds=TIMEOUT)
    return InputError("cannot be read", why=why)


def _check_redirect(url: str, target: str) -> None:
    if target == url:
        raise InputError("the server sends us on to where we are")
    parts = _parts(target)
    if parts is None or parts.scheme != "https" or not parts.hostname:
        raise InputError(
            f"the server sends us on to {shown_url(target)}", why="only https:// is followed"
        )


def _get(url: str, *, login: str) -> BaseHTTPResponse:
    from urllib3.util import Retry, Timeout, make_headers  # noqa: PLC0415

    from applyprune.network.deadline import CONNECT_TIMEOUT  # noqa: PLC0415
    from applyprune.network.pools import open_pools  # noqa: PLC0415
    from applyprune.network.proxy_environment import proxy_for  # noqa: PLC0415

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
        hint = f"No credentials are sent. Fetch it yourself: {_PIPE}"
        raise InputError(
            f"the server answered {reply.status} {reply.reason or ''}".strip(),
            hint=hint if reply.status in _NOT_FOR_ALL else "",
        )
    if reply.headers.get("Content-Encoding", "identity") != "identity":
        raise InputError("the reply is compressed, and that was not asked for")
    coding = reply.headers.get("Transfer-Encoding", "").strip().lower()
    # Of any other coding that it names nobody here would see the end.
    if coding != "chunked" and (coding or "Content-Length" not in reply.headers):
        raise InputError(
            "the server does not say how long its reply is",
            why="nobody could tell whether all of it has come",
            hint=f"Fetch it yourself: {_PIPE}",
        )
    data = b""
    while chunk := reply.read(_CHUNK, decode_content=False):
        data += chunk
        if len(data) > limit:
            return too_much(where.path)
    is_page = reply.headers.get("Content-Type", "").lower().startswith("text/html")
    if is_page or _PAGE.match(data):
        raise InputError(
            "it is a web page, not YAML",
            hint="Give the address of the file itself: on GitHub, that of its Raw button.",
        )
    if not data.strip():
        raise InputError("the reply is empty")
    return Source(where.path, data)


def _parts(url: str) -> SplitResult | None:
    """Return the parts of a URL, None when it is none."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return parts


def _host(parts: SplitResult) -> str:
    """Return host and port, as in the URL, without user and password."""
    return parts.netloc.rpartition("@")[2]


def _login(parts: SplitResult) -> str:
    user, _, password = parts.netloc.rpartition("@")[0].partition(":")
    return f"{unquote(user)}:{unquote(password)}" if user else ""
