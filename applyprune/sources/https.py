"""Download an HTTPS URL completely, in time and from the host that the user gave, or fail.

A truncated manifest, or another page in its place, would prune the objects that it lacks. So a
response must state its length, and every early end is an error. Only credentials in the URL itself
are sent. Messages never contain them or the query string, which is often a credential too.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from applyprune.errors import ApplypruneError, InputError, UsageError
from applyprune.model.manifest import Origin
from applyprune.model.problem import Problem, ProblemKind
from applyprune.sources.remote.url import login_of, shown_url, url_parts
from applyprune.sources.source import Source, too_much
from applyprune.values import pattern

if TYPE_CHECKING:
    from collections.abc import Callable

    from applyprune.sources.remote.web_reply import Reply

    Warn = Callable[[Problem], None]

TIMEOUT = 60.0
"""Seconds for one URL in total: DNS, redirects, and the last byte of a slow server."""

# One letter is a drive of Windows.
_URL = pattern(r"[A-Za-z][A-Za-z0-9+.-]+://")
_NOT_FOR_ALL = frozenset({401, 403, 404, 407})
_PAGE = pattern(rb"\s*<(?:!doctype|html|\?xml|head|body)", re.IGNORECASE)
_INSTEAD = {
    "file": "Give a file or folder by its path.",
    "git+file": "Give the folder of a work tree by its path.",
    "git": "git:// is not encrypted. Write git+https://HOST/REPO.git//PATH or git+ssh://….",
    "ssh": "Write git+ssh://HOST/REPO.git//PATH?ref=BRANCH.",
    "docker": "Write oci://HOST/REPO:TAG.",
}
_PIPE = "curl … | applyprune … -f -"


def is_url(path: str) -> bool:
    """Return whether a path has a scheme, such as ``https://``."""
    return _URL.match(path) is not None


def check_url(url: str) -> None:
    """Raise UsageError for a URL that is not supported."""
    parts = url_parts(url)
    if parts is not None and parts.scheme in {"http", "git+http"}:
        raise UsageError(
            f"unsupported URL: {shown_url(url)}",
            reason="content sent over plain http can be changed in transit",
            hint=f"Use {parts.scheme}s://, or download it yourself: {_PIPE}",
        )
    if parts is not None and parts.scheme != "https":
        raise UsageError(
            f"unsupported URL: {shown_url(url)}",
            reason="only https://, git+https://, git+ssh:// and oci:// are supported",
            hint=_INSTEAD.get(parts.scheme, f"Download it yourself: {_PIPE}"),
        )
    if parts is None or not parts.hostname:
        raise UsageError(f"the URL {shown_url(url)} has no host")


def download(url: str, limit: int, warn: Warn) -> Source | InputError:
    """Return the content of a URL that passed ``check_url``, or the error.

    ``limit`` is in bytes. ``warn`` receives a Problem for each redirect.
    """
    # Import the client only when a URL is read: the import takes time.
    from applyprune.sources.remote.fetch_errors import SourceTooLarge
    from applyprune.sources.remote.web import basic, open_web
    from applyprune.sources.remote.web_reply import UnknownLength

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
            open_web(url, timeout=TIMEOUT, on_redirect=redirected) as web,
            web.request("GET", url, authorization=login) as reply,
        ):
            return Source(where.path, _content(reply, limit))
    except SourceTooLarge:
        return too_much(where.path)
    except ApplypruneError as error:
        hint = f"Download it yourself: {_PIPE}" if isinstance(error, UnknownLength) else error.hint
        return InputError(error.message, location=where, reason=error.reason, hint=hint)


def _content(reply: Reply, limit: int) -> bytes:
    if reply.status != 200:
        hint = f"applyprune sends no credentials. Download it yourself: {_PIPE}"
        raise InputError(
            f"the server answered {reply.shown_status}",
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
