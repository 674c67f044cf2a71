"""Follow the redirects of a repository's URL: git itself follows none, and checks no address."""

from __future__ import annotations

import os
import ssl
from contextlib import suppress
from http.client import HTTPException
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from applyprune._version import __version__
from applyprune.errors import AccessError, UsageError
from applyprune.sources.git.git_url import GitUrl, parse_git_url
from applyprune.sources.git.server.server_addresses import refused
from applyprune.sources.remote.fetch_errors import FetchFailed
from applyprune.values import replace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from applyprune.sources.git.git_source import GitSource
    from applyprune.sources.git.program.deadline import Deadline

MAX_REDIRECTS = 5
_SERVICE = "/info/refs"
_QUERY = "?service=git-upload-pack"
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


def follow(source: GitSource, headers: Mapping[str, str], deadline: Deadline) -> GitUrl:
    """Return the URL at which the repository of a source is, after at most 5 redirects.

    ``headers`` are sent to the host and port of the source only. Raises FetchFailed.
    """
    url = first = source.parts
    for _ in range(MAX_REDIRECTS + 1):
        # guard: git-credentials-of-one-host
        own = headers if url.place == first.place else {}
        target = _ask(source, url, own, deadline)
        if target is None:
            return url
        url = _target(url, target, first.shown)
    raise FetchFailed(f"more than {MAX_REDIRECTS} redirects", location=first.shown)


def _target(url: GitUrl, location: str, where: str) -> GitUrl:
    target = None
    with suppress(ValueError, UsageError):
        whole = urljoin(f"{url.place}{url.path}{_SERVICE}{_QUERY}", location)
        bare, question, query = whole.partition("?")
        if bare.endswith(_SERVICE) and question + query == _QUERY:
            target = parse_git_url(bare.removesuffix(_SERVICE))
    if target is None or target.scheme != "https":
        raise FetchFailed(
            "the server redirects to something that is not a repository over https://",
            location=where,
            hint="Use the URL of the repository itself.",
        )
    if target == url:
        raise FetchFailed("redirect loop", location=where)
    # Credentials that a server puts into a URL are not ours.
    return replace(target, user="", password="")


def _ask(
    source: GitSource, url: GitUrl, headers: Mapping[str, str], deadline: Deadline
) -> str | None:
    """Return where the server redirects to; None if it does not."""
    from urllib3.exceptions import HTTPError
    from urllib3.util import Retry, Timeout

    from applyprune.http import (
        CONNECT_TIMEOUT,
        RefusedAddress,
        causes,
        describe_error,
        one_try,
        open_pools,
        proxy_for,
    )

    where = source.parts.shown
    seconds = deadline.left(where)
    proxy = proxy_for(url.place, os.environ)
    try:
        pool = open_pools(proxy, ssl_context=_trust(source)).connection_from_url(url.place)
        if source.addresses is not None and not proxy:
            pool.conn_kw["addresses"] = source.addresses
        with one_try(seconds):
            reply = pool.urlopen(
                "GET",
                f"{url.path}{_SERVICE}{_QUERY}",
                headers={"User-Agent": f"applyprune/{__version__}", **headers},
                retries=Retry(False),  # noqa: FBT003 -- urllib3's word for "raise what happened"
                redirect=False,
                timeout=Timeout(connect=CONNECT_TIMEOUT),
                preload_content=False,
            )
            reply.close()
        pool.close()
    except (HTTPError, HTTPException, AccessError, OSError, ValueError) as error:
        for cause in causes(error):
            if isinstance(cause, RefusedAddress):
                raise refused(str(cause), where) from None
        reason, _ = describe_error(error, server=url.host, seconds=seconds)
        raise FetchFailed("the repository cannot be read", location=where, reason=reason) from None
    return reply.headers.get("Location", "") if reply.status in _REDIRECTS else None


def _trust(source: GitSource) -> ssl.SSLContext:
    """Return the rules of TLS: the CAs of the source, or those of the system.

    A server that wants a client certificate gets it from git, which then reports the redirect.
    """
    ca = source.credentials.ca
    if not ca:
        return ssl.create_default_context()
    return ssl.create_default_context(cadata=ca.decode("ascii", "replace"))
