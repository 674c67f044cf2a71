"""Send requests to the API server: pooled connections, deadlines and bounded retries; streams."""

from __future__ import annotations

import contextlib
import math
import platform
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from copy import copy
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from msgspec import Struct, field

from applyprune._version import __version__
from applyprune.clock import BOOT_CLOCK, Clock
from applyprune.cluster.failures import (
    RequestFailure,
    connection_failure,
    foreign_text,
    response_failure,
)
from applyprune.cluster.messages import (
    ApiRequest,
    ClientContext,
    OpenRequest,
    OpenRequests,
    RawResponse,
    Response,
    is_busy,
    parsed,
    read_body,
    validated,
)
from applyprune.errors import AccessError, ApiError, Unreachable
from applyprune.http import (
    TICK,
    Answer,
    Connections,
    Headers,
    Route,
    Sent,
    Stopped,
    backoff,
    one_try,
)
from applyprune.values import replace

if TYPE_CHECKING:
    from applyprune.cluster.access import ClusterAccess
    from applyprune.cluster.credentials import Identity
    from applyprune.cluster.messages import RetryBudget
    from applyprune.http import Trust
    from applyprune.model.events import RetryReported
    from applyprune.planning.secrets import KnownSecrets


_Outcome = TypeVar("_Outcome", Response, "Stream")
# Seconds for a server that has never answered: a longer wait rarely helps.
FIRST_CONTACT_BUDGET = 2.0
_MAX_TRIES = 32
_FIRST_FAILURE = 300


class _State(Struct):
    """What the copies of a transport share."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    closed: threading.Event = field(default_factory=threading.Event)
    connections: tuple[bytes, Connections] | None = None
    """The client certificate that they show, and the connections."""
    reached: bool = False
    date: tuple[str, float] = ("", 0.0)
    """The Date header of the last reply, and when that came by the clock."""


class Transport:
    """Sends requests to one API server; thread-safe.

    At most ``pool_size`` requests run at a time, not counting streams. ``retry_budget`` is in
    seconds: no try starts later than that after the first failure of its request. ``trace`` is
    called with one line per try, without bodies or credentials. ``agent`` tells this process from
    others in the server's audit log, and ``for_run`` one run from others. ``clock`` is the one of
    all deadlines, budgets and pauses.
    """

    def __init__(
        self,
        access: ClusterAccess,
        *,
        pool_size: int = 16,
        retry_budget: float = 30.0,
        trace: Callable[[str], None] | None = None,
        agent: str = "",
        clock: Clock = BOOT_CLOCK,
    ) -> None:
        """Keep the settings; the first request connects."""
        self._access = access
        server = access.shown or access.server
        self._client = ClientContext(
            access.context, access.user, server, secret=bool(access.shown), hidden=access.hidden
        )
        self._pool_size = pool_size
        self.retry_budget = retry_budget
        self._trace = trace
        self._user_agent = user_agent(agent)
        self._state = _State()
        self._clock = clock
        self._open_requests = OpenRequests(clock)  # guard: report-clock -> OpenRequests()
        self._run = ""

    def for_run(self, run: str) -> Transport:
        """Return the same transport, over the same connections, for the requests of one run.

        Their User-Agent ends with the run's ID, by which the server's audit log shows what the run
        has done.
        """
        other = copy(self)
        other._run = f" run/{run}"  # noqa: SLF001 -- its own copy
        return other

    def as_user(self, user: str) -> Transport:
        """Return the same transport, over the same connections, for another user's requests."""
        other = copy(self)
        impersonation = (("Impersonate-User", user),)
        access = replace(self._access, impersonation=impersonation, user=user)
        other._access = access  # noqa: SLF001 -- its own copy
        other._client = ClientContext(access.context, user, access.server)  # noqa: SLF001
        return other

    def hiding(self, secrets: KnownSecrets) -> Transport:
        """Return the same transport; no text of the server shows a value of these Secrets."""
        other = copy(self)
        other._client = replace(self._client, secrets=secrets)  # noqa: SLF001 -- its own copy
        return other

    def masked(self, text: str) -> str:
        """Return a text of others without the values of the Secrets that are known."""
        return self._client.secrets.masked(text)

    @property
    def date(self) -> str:
        """Return the Date header of the last reply; empty if it had none."""
        return self._state.date[0]

    @property
    def date_age(self) -> float:
        """Return for how many seconds that header has been known."""
        return self._clock.now() - self._state.date[1]

    def send(self, request: ApiRequest) -> Response:
        """Send the request, retry where that is safe and may help, and return a valid response.

        Raises ApiError for an error response, Unreachable where no usable response came,
        AccessError when there are no credentials, and InventoryLocked when the lease of the request
        has ended.
        """
        return self._persist(request, self._whole, None)

    def stream(self, request: ApiRequest, stop: Callable[[], bool]) -> Stream:
        """Send a request whose response is streamed; the caller closes the stream.

        It has its own connection, outside the pool. ``stop`` is called several times a second, in
        this thread, while the stream is read. Raises as ``send`` does, and Stopped when ``stop``
        returns true or the transport is closed.
        """
        return self._persist(request, self._streamed, lambda: stop() or self._state.closed.is_set())

    def _persist(
        self,
        request: ApiRequest,
        exchange: Callable[[ApiRequest, Identity], _Outcome | RawResponse],
        stop: Callable[[], bool] | None,
    ) -> _Outcome:
        with self._open_requests.request() as current:
            return self._until_answered(request, exchange, stop, current)

    def _until_answered(
        self,
        request: ApiRequest,
        exchange: Callable[[ApiRequest, Identity], _Outcome | RawResponse],
        stop: Callable[[], bool] | None,
        current: OpenRequest,
    ) -> _Outcome:
        ends = math.inf if request.within is None else current.began + request.within
        identity = self._access.credentials.current()
        renewed = False
        tries = 0
        gives_up: float | None = None
        while True:
            tries += 1
            # A plugin for credentials, or the wait before a retry, may have taken long.
            if request.lease is not None:
                request.lease.ensure()  # guard: lease-before-try
            seconds = min(request.timeout, max(0.0, ends - self._clock.now()))
            outcome = self._try(request, identity, tries, seconds, exchange, stop)
            if not isinstance(outcome, RequestFailure):
                return outcome
            now = self._clock.now()
            if isinstance(outcome.error, ApiError) and outcome.error.code == 401 and not renewed:
                renewed = True
                fresh = self._access.credentials.renewed(identity)
                if fresh != identity:
                    identity = fresh
                    continue
            if gives_up is None:
                gives_up = now + self._budget()
            left = gives_up - now
            budget = None if is_busy(outcome.error) else request.budget
            if budget is not None:
                left = min(left, budget.left(now))
            left = min(left, ends - now)
            wait = self._wait_before_next(request, outcome, tries, left, budget)
            current.failed(outcome.error, budget, now)
            if self._pause(wait, stop):
                raise outcome.error
            identity = self._access.credentials.current()

    def _pause(self, seconds: float, stop: Callable[[], bool] | None) -> bool:
        """Wait; return True as soon as the transport is closed. Raises Stopped."""
        if stop is None:
            return self._clock.wait(self._state.closed, seconds)
        ends = self._clock.now() + seconds
        while (left := ends - self._clock.now()) > 0 and not self._state.closed.is_set():
            if stop():
                raise Stopped
            self._clock.wait(self._state.closed, min(TICK, left))
        return self._state.closed.is_set()

    def unanswered(self) -> Sequence[RetryReported]:
        """Return what does not answer now, although it is asked again and again."""
        return self._open_requests.reports()

    def close(self) -> None:
        """Close the connections; requests that wait for a retry fail at once."""
        self._state.closed.set()
        with self._state.lock:
            kept, self._state.connections = self._state.connections, None
        if kept is not None:
            kept[1].close()

    def _budget(self) -> float:
        """Return how many seconds after the first failure the last try may start."""
        if self._state.reached:
            return self.retry_budget
        return min(self.retry_budget, FIRST_CONTACT_BUDGET)

    def _wait_before_next(
        self,
        request: ApiRequest,
        outcome: RequestFailure,
        tries: int,
        seconds_left: float,
        budget: RetryBudget | None,
    ) -> float:
        """Return the seconds to wait before the next try; raises the error if there is none."""
        error = outcome.error
        may_repeat = outcome.passing and (request.retry or outcome.refused_unseen)
        if not may_repeat or self._state.closed.is_set():
            raise error
        asked = error.retry_after if isinstance(error, ApiError) else None
        wait = backoff(tries, asked)
        if wait > seconds_left or tries >= _MAX_TRIES:
            later = f"the server asks to retry in {asked:.0f} s" if asked else ""
            repeated = f"tried {tries} times" if tries > 1 else ""
            if budget is not None and budget.left(self._clock.now()) <= seconds_left:
                repeated = repeated or "the run has used up its time for retries"
            error.problem = replace(
                error.problem,
                reason="; ".join(part for part in (error.reason, repeated, later) if part),
                lasting_reason=error.problem.lasting_reason or error.reason,
            )
            raise error
        return wait

    def _try(
        self,
        request: ApiRequest,
        identity: Identity,
        number: int,
        seconds: float,
        exchange: Callable[[ApiRequest, Identity], _Outcome | RawResponse],
        stop: Callable[[], bool] | None,
    ) -> _Outcome | RequestFailure:
        started = self._clock.now()
        outcome: _Outcome | RequestFailure
        # guard: try-clock -> one_try(seconds, stop, request.lease)
        with one_try(seconds, stop, request.lease, self._clock) as current:
            try:
                received = exchange(request, identity)
            except OSError as error:
                outcome = connection_failure(
                    request, error, sent=current.sent, seconds=seconds, client=self._client
                )
                message = f"no response ({outcome.error.message})"
            else:
                outcome = (
                    response_failure(request, received, self._client)
                    if isinstance(received, RawResponse)
                    else received
                )
                # A login page or a redirect does not come from the server.
                if not isinstance(outcome, RequestFailure) or isinstance(outcome.error, ApiError):
                    self._state.reached = True
                message = str(received.status)
        if self._trace is not None:
            took = f"{self._clock.now() - started:.3f} s"
            attempt = f", attempt {number}" if number > 1 else ""
            self._trace(f"{request.method} {request.shown} {message} in {took}{attempt}")
        return outcome

    def _whole(self, request: ApiRequest, identity: Identity) -> Response | RawResponse:
        """Return the validated response, or the raw one if it is not a valid success."""
        with closing(self._answer(request, identity)) as received:
            answer = self._raw_response(received, request)
        self._state.date = received.headers.get("Date"), self._clock.now()
        if request.on_warnings is not None and (headers := received.headers.all("Warning")):
            texts = warning_texts(map(self._client.masked, headers))
            # guard: secret-in-a-warning -> request.on_warnings(texts)
            request.on_warnings([foreign_text(text, self._client) for text in texts])
        return validated(request, answer) or answer

    def _streamed(self, request: ApiRequest, identity: Identity) -> Stream | RawResponse:
        """Return the stream as soon as its headers have come, or the raw response if it is none."""
        with contextlib.ExitStack() as unless_kept:
            answer = self._answer(request, identity, is_streamed=True)
            unless_kept.callback(answer.close)
            if not is_stream(answer, is_text=request.is_text):
                return self._raw_response(answer, request)
            unless_kept.pop_all()
        return Stream(request, answer, self._client)

    def _answer(
        self, request: ApiRequest, identity: Identity, *, is_streamed: bool = False
    ) -> Answer:
        agent = self._user_agent + self._run
        sent = sent_request(self._access, request, identity, agent, is_streamed=is_streamed)
        return self._connections(identity).send(sent)

    def _raw_response(self, response: Answer, request: ApiRequest) -> RawResponse:
        raw = read_body(response, self._client, request.max_bytes)
        headers = response.headers
        if self._client.hidden and response.status >= _FIRST_FAILURE:  # guard: quoted-token never
            raw = self._client.masked(raw.decode("utf-8", "replace")).encode()
            headers = headers.mapped(self._client.masked)
        body = parsed(raw, response, request.unread)
        return RawResponse(response.status, headers, raw, body)

    def _connections(self, identity: Identity) -> Connections:
        """Return the connections for the identity's certificate; new ones when that has changed."""
        with self._state.lock:
            self._refuse_when_closed()
            kept = self._state.connections
            if kept is None or kept[0] != identity.certificate:
                trust = trust_for(self._access, identity)
                route = Route(trust, self._access.addresses, self._pool_size)
                if kept is not None:
                    kept[1].retire()
                kept = self._state.connections = identity.certificate, Connections(route)
            return kept[1]

    def _refuse_when_closed(self) -> None:
        if self._state.closed.is_set():
            raise Unreachable("the connection to the API server is closed")


def trust_for(access: ClusterAccess, identity: Identity) -> Trust:
    """Return whose certificates are trusted, and the identity's own."""
    return replace(access.trust, certificate=identity.certificate, key=identity.key)


def sent_request(
    access: ClusterAccess,
    request: ApiRequest,
    identity: Identity,
    agent: str,
    *,
    is_streamed: bool = False,
) -> Sent:
    """Return a request as it is sent, with the credentials."""
    parts = urlsplit(access.server)
    return Sent(
        request.method,
        f"{parts.scheme}://{parts.netloc}",
        parts.path.rstrip("/") + request.target,
        _headers(access, request, identity, agent),
        request.body,
        access.proxy,
        is_streamed,
    )


def _headers(
    access: ClusterAccess, request: ApiRequest, identity: Identity, agent: str
) -> Sequence[tuple[str, str]]:
    """Return the headers of a request, with the credentials; each impersonated group has one."""
    headers = [("User-Agent", agent), ("Accept", request.accept), ("Accept-Encoding", "identity")]
    if request.body is not None:
        headers.append(("Content-Type", request.content_type))
    if identity.token:
        headers.append(("Authorization", f"Bearer {identity.token}"))
    return [*headers, *access.impersonation, *request.headers]


_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_MACHINE = platform.machine().lower()
_PLATFORM = f"{sys.platform}/{_ARCHITECTURES.get(_MACHINE, _MACHINE)}"
_PROGRAM = f"applyprune/{__version__}"


def user_agent(agent: str) -> str:
    """Return the User-Agent, as kubectl writes it: PROGRAM/VERSION (OS/ARCHITECTURE)."""
    return f"{_PROGRAM} ({'; '.join(filter(None, (_PLATFORM, agent)))})"


# The Warning headers of a reply (RFC 7234, section 5.5): a list of ``CODE AGENT "TEXT" ["DATE"]``.


_MOST = 100


def warning_texts(headers: Iterable[str]) -> list[str]:
    """Return the texts of all warnings; an invalid header ends with its last valid warning."""
    found = [text for header in headers for text in _texts_in(header)]
    return found[:_MOST]


_CODE = "299"


def _texts_in(header: str) -> Iterator[str]:
    # Compiled when a warning comes: most runs have none.
    quoted = r'"((?:[^"\\]|\\.)*)"'
    one = re.compile(rf"\s*(\d{{3}}) (\S+) {quoted}(?: {quoted})?\s*(?:,|$)", re.DOTALL)
    at = 0
    while at < len(header) and (found := one.match(header, at)) is not None:
        at = found.end()
        if found[1] == _CODE:
            yield _decoded(re.sub(r"\\(.)", r"\1", found[3], flags=re.DOTALL))


def _decoded(text: str) -> str:
    """Return a text that was read as Latin-1; the server sends UTF-8."""
    try:
        return text.encode("latin-1").decode()
    except ValueError:
        return text


# A streamed response, on its own connection.


def is_stream(response: Answer, *, is_text: bool) -> bool:
    """Return whether the headers are those of an unencoded stream of JSON, or of text."""
    wanted = "text/plain" if is_text else "application/json"
    content_type = response.headers.get("Content-Type", "").lower()
    encoding = response.headers.get("Content-Encoding", "identity")
    return (
        response.status == 200
        and content_type.partition(";")[0].strip() == wanted
        and encoding == "identity"
    )


class Stream:
    """The bytes of a streamed response as they come; for one thread at a time."""

    def __init__(
        self,
        request: ApiRequest,
        response: Answer,
        client: ClientContext,
    ) -> None:
        """Keep a response whose headers were read: what stopped that try stops the stream."""
        self.status = response.status
        self._request = request
        self._response = response
        self._client = client
        self._first = response.current

    def chunks(self, silence: float) -> Iterator[bytes]:
        """Yield the bytes as they come, never an empty chunk, until the server ends the response.

        Raises Unreachable when the connection breaks or is silent for ``silence`` seconds, and
        Stopped when the stream's ``stop`` returns true.
        """
        while chunk := self._read(silence):
            yield chunk

    def _read(self, silence: float) -> bytes:
        # One try per read: the time that the caller spends on a chunk does not count.
        # guard: stream-clock -> one_try(silence, self._first.stop)
        with one_try(silence, self._first.stop, clock=self._first.clock):
            try:
                return self._response.read()
            except OSError as fault:
                failure = connection_failure(
                    self._request, fault, sent=True, seconds=silence, client=self._client
                )
                error, reason = failure.error, f"GET {self._request.path} was cut off"
                error.problem = replace(error.problem, reason=reason, lasting_reason="")
                raise error from fault

    def error(self, status: dict[str, Any]) -> AccessError:
        """Return the error for a Status that came inside the stream."""
        code = status.get("code")
        if not isinstance(code, int) or not 400 <= code < 600:
            code = 500
        # The bytes are left out: the Status holds everything.
        error = response_failure(
            self._request, RawResponse(code, Headers(), b"", status), self._client
        ).error
        reason = f"GET {self._request.path} ended with {code}"
        error.problem = replace(error.problem, reason=reason)
        return error

    def close(self) -> None:
        """Close the connection."""
        self._response.close()
