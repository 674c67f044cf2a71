"""One request to the API server and its response, as values."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

if TYPE_CHECKING:
    from collections.abc import Mapping

# A quoted path, without dot segments and empty ones: a DELETE with an empty name would be
# deletecollection.
_PATH = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9\-._~!$&'()*+,;=:@%]+)+/?")

# Parameters that tell people what a request does. All others are left out of the trace: a continue
# token is long, and a parameter that is added later may hold a secret.
_SHOWN = frozenset({"dryRun", "fieldManager", "force", "limit", "watch"})


@dataclass(frozen=True, slots=True)
class Request:
    """One request; ``path`` comes quoted and without a query.

    ``about`` is the group, plural and name of the object: a 404 proves its absence only when the
    Status names exactly these. With ``secret``, responses and errors may hold Secret values and
    are never quoted. With ``retry`` off, a request is sent again only when it is certain that the
    server has not seen it. ``timeout`` is in seconds, for one try from the first to the last byte.
    ``expires`` is the ``time.monotonic()`` at which all tries end. Raises ValueError for a path or
    header that could turn into another request.
    """

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes | None = field(default=None, repr=False)
    content_type: str = "application/json"
    accept: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
    about: tuple[str, str, str] | None = None
    secret: bool = False
    retry: bool = True
    timeout: float = 30.0
    expires: float | None = None

    def __post_init__(self) -> None:
        """Refuse a path or header that would make it another request."""
        if not _PATH.fullmatch(self.path):
            raise ValueError(f"not a quoted path: {self.path!r}")
        texts = (self.method, self.content_type, self.accept)
        pairs = (text for pair in self.headers for text in pair)
        if any(not text.isascii() or not text.isprintable() for text in (*texts, *pairs)):
            raise ValueError(f"not a header: {self.method} {self.path}")

    @property
    def target(self) -> str:
        """Return path and query as they are sent."""
        if not self.query:
            return self.path
        return f"{self.path}?{urlencode(self.query, quote_via=quote, safe='')}"

    @property
    def shown(self) -> str:
        """Return path and query for people; ``…`` replaces the parameters that are left out."""
        shown = [f"{key}={value}" for key, value in self.query if key in _SHOWN]
        more = ["…"] if len(shown) < len(self.query) else []
        return f"{self.path}?{'&'.join(shown + more)}" if self.query else self.path


@dataclass(frozen=True, slots=True)
class Response:
    """A validated response: 200, 201, 202, or 304 with an empty ``body``.

    Header names are case-insensitive.
    """

    status: int
    body: dict[str, Any] = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
