"""A request to the API server and its response, as values, and the requests without an answer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct, field

from applyprune.clock import BOOT_CLOCK, Clock, Lease
from applyprune.errors import ApiError, ReplyTooLarge
from applyprune.model.events import RetryReported
from applyprune.planning.secrets import KnownSecrets
from applyprune.values import decode, hiding, pattern

if TYPE_CHECKING:
    from datetime import datetime

    from applyprune.errors import AccessError
    from applyprune.http import Answer, Headers


# A quoted path, without dot segments and empty ones: a DELETE with an empty name would be
# deletecollection.
_PATH = pattern(r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9\-._~!$&'()*+,;=:@%]+)+/?")
# Parameters that tell people what a request does. All others are left out of the trace: a continue
# token is long, and a parameter that is added later may hold a secret.
_SHOWN = frozenset({"dryRun", "fieldManager", "force", "limit", "watch"})
# Bytes of a body. The server's own limit for an object is 1.5 MiB, and lists are read by pages, so
# no real response comes near this.
MAX_REPLY = 256 * 1024 * 1024


class ApiRequest(Struct, frozen=True):
    """One request.

    Raises ValueError for a path or header that could turn into another request.
    """

    method: str
    path: str
    """Quoted, and without a query."""
    query: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    content_type: str = "application/json"
    accept: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
    about: tuple[str, str, str] | None = None
    """Group, plural and name of the object; a 404 proves its absence only if it names these."""
    secret: bool = False
    """Whether responses and errors may hold Secret values; then they are never quoted."""
    retry: bool = True
    """If false, it is sent again only when it is certain that the server has not seen it."""
    expected: bytes = b""
    """The only valid body, if that is text instead of JSON."""
    is_text: bool = False
    """Whether any text is a valid body, instead of JSON."""
    timeout: float = 30.0
    """Seconds for one try, from the first to the last byte."""
    within: float | None = None
    """Seconds for all tries together."""
    lease: Lease | None = None
    """What must last while it is sent, and is renewed before each try."""
    on_warnings: Callable[[Sequence[str]], None] | None = None
    """Gets the texts of the Warning headers of each reply, also of a refusal."""
    max_bytes: int = MAX_REPLY
    """How many bytes the body of the reply may have."""
    unread: tuple[str, ...] = ()
    """Members of the body whose own items or members stay text until somebody reads each."""
    budget: RetryBudget | None = None
    """The time for retries that it shares with the other requests of its run."""

    __repr__ = hiding("body", "on_warnings")

    def __post_init__(self) -> None:
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
        return f"{self.path}?{_query_text(self.query)}"

    @property
    def shown(self) -> str:
        """Return path and query for people; ``…`` replaces the parameters that are left out."""
        shown = [f"{key}={value}" for key, value in self.query if key in _SHOWN]
        more = ["…"] if len(shown) < len(self.query) else []
        return f"{self.path}?{'&'.join(shown + more)}" if self.query else self.path


@lru_cache(64)  # all applies of a run have the same
def _query_text(query: tuple[tuple[str, str], ...]) -> str:
    return urlencode(query, quote_via=quote, safe="")


class Response(Struct, frozen=True):
    """A validated response."""

    status: int
    """200, 201, 202 or 304."""
    body: dict[str, Any]
    """Empty for 304, and for a text."""
    headers: Headers
    """Their names are case-insensitive."""
    text: str = ""
    """The body, if that is text instead of JSON."""

    __repr__ = hiding("body", "headers", "text")


class RawResponse(Struct, frozen=True):
    """A response as received."""

    status: int
    headers: Headers
    raw: bytes
    body: dict[str, Any] | None
    """The parsed body; None if it is not a JSON object."""


def validated(request: ApiRequest, response: RawResponse) -> Response | None:
    """Return the response if it is a success with a valid body, else None."""
    if request.expected:
        is_valid = (response.status, response.raw) == (200, request.expected)
        return Response(200, {}, response.headers) if is_valid else None
    if request.is_text and response.status == 200:
        return Response(200, {}, response.headers, response.raw.decode("utf-8", "replace"))
    if response.status in {200, 201, 202} and response.body is not None:
        return Response(response.status, response.body, response.headers)
    conditional = any(name.lower() == "if-none-match" for name, _ in request.headers)
    if response.status == 304 and conditional:
        return Response(304, {}, response.headers)
    return None


class StatusBody(Struct, frozen=True):
    """The parts of a Status that decide what it means; all empty when the body is not a Status."""

    is_status: bool = False
    reason: str = ""
    message: str = ""
    name: str = ""
    group: str = ""
    kind: str = ""
    causes: tuple[dict[str, str], ...] = ()
    retry_after: float | None = None

    @classmethod
    def of(cls, response: RawResponse) -> StatusBody:
        """Read the body of a response; only its shape is checked, nothing in it is trusted."""
        body = response.body
        if body is None or body.get("kind") != "Status" or body.get("apiVersion") != "v1":
            return cls()
        details = body.get("details")
        details = details if isinstance(details, dict) else {}
        causes = details.get("causes")
        seconds = details.get("retryAfterSeconds")
        return cls(
            is_status=True,
            reason=_text(body, "reason"),
            message=_text(body, "message"),
            name=_text(details, "name"),
            group=_text(details, "group"),
            kind=_text(details, "kind"),
            causes=tuple(
                {key: _text(cause, key) for key in ("reason", "field", "message")}
                for cause in (causes if isinstance(causes, list) else [])
                if isinstance(cause, dict)
            ),
            retry_after=float(seconds) if isinstance(seconds, int) and seconds > 0 else None,
        )


def _text(mapping: Mapping[str, Any], key: str) -> str:
    value = mapping.get(key)
    return value if isinstance(value, str) else ""


class ClientContext(Struct, frozen=True):
    """What hints mention: the kubeconfig's context and user, and the server's URL."""

    context: str
    user: str
    server: str
    secret: bool = False
    """Whether the kubeconfig is a Secret: then messages quote nothing of it."""
    hidden: tuple[str, ...] = ()
    """Texts that no message may show, even if the server quotes them."""
    secrets: KnownSecrets = field(default_factory=KnownSecrets)
    """The Secrets of the run, whose values no message shows either."""

    __repr__ = hiding("hidden", "secrets")

    def masked(self, text: str) -> str:
        """Return a text of the server without the hidden texts."""
        for hidden in self.hidden:
            for form in (hidden, json.dumps(hidden)[1:-1]):
                text = text.replace(form, "***")
        return text


def http_date(header: str) -> datetime | None:
    """Return the time in a Date header; None if it is empty or invalid."""
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 -- it takes 5 ms

    try:
        time = parsedate_to_datetime(header)
    except ValueError:
        return None
    # By RFC 9110 it is in UTC; a header without a zone says nothing else.
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


# Bodies: their JSON is read fast where that gives the same data as the standard library.


def read_body(response: Answer, client: ClientContext, most: int = MAX_REPLY) -> bytes:
    """Return the whole body; raises when it is cut off or longer than ``most`` bytes."""
    chunks: list[bytes] = []
    size = 0
    while chunk := response.read():
        size += len(chunk)
        if size > most:  # guard: reply-size -> size > MAX_REPLY
            raise ReplyTooLarge(
                f"{client.server} did not answer as an API server:"
                f" its response is longer than {most >> 20} MiB"
            )
        chunks.append(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def parsed(raw: bytes, response: Answer, unread: Collection[str]) -> dict[str, Any] | None:
    """Return the body as a JSON object; None when it is not one or is encoded."""
    if response.headers.get("Content-Encoding", "identity") != "identity":
        return None
    return json_parts(raw, unread) if unread else json_object(raw)


_PARTS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_CONTAINERS: Mapping[bytes, msgspec.json.Decoder[Any]] = {b"[": _ITEMS, b"{": _PARTS}


def json_parts(raw: bytes, unread: Collection[str]) -> dict[str, Any] | None:
    """Parse bytes as a JSON object, with ``parts_of`` some members; None when they are not one.

    A page of 500 objects takes several megabytes when it is parsed, and its text a tenth of that.
    """
    try:
        return {
            key: parts_of(part) if key in unread else decode(bytes(part))
            for key, part in _PARTS.decode(raw).items()
        }
    except (msgspec.DecodeError, ValueError, RecursionError):
        return json_object(raw)


def parts_of(value: object) -> Any:
    """Return a list or object that is text, with its items or members for ``item_of``."""
    if not isinstance(value, msgspec.Raw):
        return value
    decoder = _CONTAINERS.get(bytes(memoryview(value)[:1]))
    return decode(bytes(value)) if decoder is None else decoder.decode(value)


def item_of(item: object) -> Any:
    """Return a part of ``parts_of``, parsed now; raise ValueError or RecursionError."""
    return json_value(bytes(item)) if isinstance(item, msgspec.Raw) else item


def json_object(raw: bytes) -> dict[str, Any] | None:
    """Parse bytes as a JSON object; None when they are not one."""
    try:
        body = json_value(raw)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


# Made once: one costs as much as parsing a small body.
_DECODER = json.JSONDecoder(parse_constant=_refuse)


def json_value(raw: bytes) -> Any:
    """Parse bytes as JSON; raise ValueError or RecursionError."""
    try:
        return decode(raw)
    except (msgspec.DecodeError, ValueError):
        # It is stricter: a half of a surrogate pair and a number beyond all floats are invalid.
        return _DECODER.decode(raw.decode("utf-8"))


# The requests without an answer: what is tried again, and for how long.


class OpenRequests(Struct):
    """The requests of one transport that have no usable answer yet; thread-safe."""

    clock: Clock = BOOT_CLOCK
    _open: dict[int, OpenRequest] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    @contextmanager
    def request(self) -> Iterator[OpenRequest]:
        """Keep account of one request while the block runs."""
        request = OpenRequest(self.clock.now())
        with self._lock:
            self._open[id(request)] = request
        try:
            yield request
        finally:
            with self._lock:
                del self._open[id(request)]
            if request.spends is not None:
                request.spends.end(self.clock.now())

    def reports(self) -> Sequence[RetryReported]:
        """Return a report for each webhook or server that does not answer: of the latest try."""
        now = self.clock.now()
        with self._lock:
            reports = [report for one in self._open.values() if (report := one.report(now))]
        latest: dict[str, RetryReported] = {}
        for report in sorted(reports, key=lambda report: report.tries):
            latest[report.what] = report
        return list(latest.values())


SERVER = "the API server"
WEBHOOK = r'failed calling webhook ("(?:[^"\\]|\\.){1,253}")'
# A blip is not worth a line: report from this try on, or after that many seconds without an answer.
_FROM_TRY = 4
_SLOW = 5.0


class OpenRequest(Struct):
    """A request without a usable answer so far."""

    began: float
    tries: int = 1
    """The number of the present try."""
    failure: AccessError | None = None
    """Why the last try failed."""
    spends: RetryBudget | None = None
    """The budget that its retries spend."""

    def failed(self, error: AccessError, budget: RetryBudget | None, now: float) -> None:
        """Note that the present try has failed, and that there will be another one."""
        self.failure = error
        self.tries += 1
        if self.spends is None and budget is not None:
            self.spends = budget
            budget.begin(now)

    def report(self, now: float) -> RetryReported | None:
        """Return what is worth reporting; None if this is nothing unusual."""
        elapsed = now - self.began
        if self.tries < _FROM_TRY and elapsed < _SLOW:
            return None
        error = self.failure
        reason = "" if error is None else error.message
        what, problem = SERVER, "does not answer"
        if isinstance(error, ApiError):
            webhook = re.search(WEBHOOK, error.message)
            if webhook is not None:
                what = f"the webhook {webhook[1]}"
            elif is_busy(error):
                problem = "has too many requests"
            else:
                problem = f"answers with an error ({error.code})"
        return RetryReported(what, f"{what} {problem}", self.tries, elapsed, reason)


_BUSY = 429


def is_busy(error: AccessError) -> bool:
    """Return whether the server answers, and asks for patience: that costs a run nothing."""
    return isinstance(error, ApiError) and error.code == _BUSY


class RetryBudget(Struct):
    """The time that all requests of one run may spend on retries together; thread-safe.

    It is spent while at least one of them is being retried. So a dead webhook costs it once, and
    not once for each object.
    """

    seconds: float
    _spent: float = 0.0
    _users: int = 0
    _since: float = 0.0
    _lock: Lock = field(default_factory=Lock)

    def begin(self, now: float) -> None:
        """Note that one more request is being retried."""
        with self._lock:
            if not self._users:
                self._since = now
            self._users += 1

    def end(self, now: float) -> None:
        """Note that a request is no longer being retried."""
        with self._lock:
            self._users -= 1
            if not self._users:
                self._spent += now - self._since

    def left(self, now: float) -> float:
        """Return how many seconds are left."""
        with self._lock:
            return self.seconds - self._spent - (now - self._since if self._users else 0.0)
