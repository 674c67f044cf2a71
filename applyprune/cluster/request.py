"""One request to the API server and its reply, as values."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

if TYPE_CHECKING:
    from collections.abc import Mapping

# What a quoted path consists of; no dot segments, no empty ones: an empty name on DELETE would be
# deletecollection.
_PATH = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9\-._~!$&'()*+,;=:@%]+)+/?")

# Parameters that tell people what a request does. Others are left out where they read it: a
# continue token is long, and what one holds that is added some day is not known.
_SPEAKING = frozenset({"dryRun", "fieldManager", "force", "limit", "watch"})


@dataclass(frozen=True, slots=True)
class Request:
    """One request; ``path`` comes quoted and without a query.

    ``about`` is the group, plural and name that the request is about: a 404 is proof of absence
    only when its Status names just these. ``secret`` says that replies and errors may hold Secret
    values, which are then never quoted. With ``retry`` off a request is sent again only when it is
    certain that the server has not seen it. ``timeout`` is in seconds for one try, head to last
    byte; ``expires`` is a ``time.monotonic()`` at which every try is over, retries included.
    Raises ValueError for a path or header that could turn into another request.
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
        """Refuse what is not the one request that the caller meant."""
        if not _PATH.fullmatch(self.path):
            raise ValueError(f"not a quoted path: {self.path!r}")
        texts = (self.method, self.content_type, self.accept)
        pairs = (text for pair in self.headers for text in pair)
        if any(not text.isascii() or not text.isprintable() for text in (*texts, *pairs)):
            raise ValueError(f"not a header: {self.method} {self.path}")

    @property
    def target(self) -> str:
        """Return path and query as they go over the wire."""
        if not self.query:
            return self.path
        return f"{self.path}?{urlencode(self.query, quote_via=quote, safe='')}"

    @property
    def shown(self) -> str:
        """Return path and query for people; ``…`` stands for what says nothing to them."""
        told = [f"{key}={value}" for key, value in self.query if key in _SPEAKING]
        more = ["…"] if len(told) < len(self.query) else []
        return f"{self.path}?{'&'.join(told + more)}" if self.query else self.path


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply that can be believed: 200, 201, 202, or 304 with an empty ``body``.

    ``headers`` are found by name in any case.
    """

    status: int
    body: dict[str, Any] = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
