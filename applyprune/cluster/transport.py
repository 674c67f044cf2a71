"""Requests to the API server: pooled connections, deadlines, and bounded retries."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, TypeVar

from urllib3 import HTTPHeaderDict
from urllib3.exceptions import HTTPError
from urllib3.util import Retry, Timeout

from applyprune._version import __version__
from applyprune.cluster.answer import Answer
from applyprune.cluster.connection import ServerPool, open_pool
from applyprune.cluster.faults import judge_fault
from applyprune.cluster.reply import believed, parsed, read_body
from applyprune.cluster.request import Reply, Request
from applyprune.cluster.retry_after import backoff
from applyprune.cluster.status import Asker, Verdict, judge
from applyprune.cluster.stream import Stream, goes_on
from applyprune.errors import ApiError, Unreachable
from applyprune.network.deadline import CONNECT_TIMEOUT, TICK, Stopped, Try, one_try

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from urllib3.response import BaseHTTPResponse

    from applyprune.cluster.access import ClusterAccess
    from applyprune.cluster.credentials import Identity

__all__ = ["Reply", "Request", "Stream", "Transport"]

_Outcome = TypeVar("_Outcome", Reply, Stream)

# Seconds for a server that has never answered: then waiting longer rarely helps.
FIRST_CONTACT_BUDGET = 2.0
MAX_TRIES = 32

_USER_AGENT = f"applyprune/{__version__}"
# Made once: each costs as much as the parsing of a small reply.
_NO_RETRIES = Retry(False)  # noqa: FBT003 -- urllib3's word for "raise what happened"


class Transport:
    """Requests to one API server; thread-safe, at most ``pool_size`` at a time beside the streams.

    ``retry_budget`` is in seconds: a try begins no later than that after the first failure of its
    request. ``trace`` is given one line for each try, without bodies or credentials. ``agent`` is
    what tells this process from others of its kind in the server's audit log.
    """

    def __init__(
        self,
        access: ClusterAccess,
        *,
        pool_size: int = 16,
        retry_budget: float = 30.0,
        trace: Callable[[str], None] | None = None,
        agent: str = "",
    ) -> None:
        """Keep the settings; nothing is connected before the first request."""
        self._access = access
        self._asker = Asker(access.context, access.user, access.server)
        self._pool_size = pool_size
        self._retry_budget = retry_budget
        self._trace = trace
        self._user_agent = f"{_USER_AGENT} ({agent})" if agent else _USER_AGENT
        self._lock = threading.Lock()
        self._pool: tuple[bytes, ServerPool] | None = None
        self._closed = threading.Event()
        self._reached = False

    def send(self, request: Request) -> Reply:
        """Send the request, again where that is safe and may help, and return a reply to believe.

        Raises ApiError for what the server answered, Unreachable where nothing usable came back,
        AccessError for credentials that cannot be had.
        """
        return self._persist(request, self._whole, None)

    def stream(self, request: Request, stop: Callable[[], bool]) -> Stream:
        """Send a request whose reply goes on; the caller closes it.

        It has a connection of its own, beside those of the pool. ``stop`` is asked several times a
        second, in this thread, for as long as the stream is read. Raises as ``send`` does, and
        Stopped when ``stop`` says so or the transport is closed.
        """
        return self._persist(request, self._going_on, lambda: stop() or self._closed.is_set())

    def _persist(
        self,
        request: Request,
        exchange: Callable[[Request, Identity, Try], _Outcome | Answer],
        stop: Callable[[], bool] | None,
    ) -> _Outcome:
        identity = self._access.credentials.current()
        renewed = False
        tries = 0
        gives_up: float | None = None
        while True:
            tries += 1
            outcome = self._try(request, identity, tries, exchange, stop)
            if not isinstance(outcome, Verdict):
                return outcome
            now = time.monotonic()
            if isinstance(outcome.error, ApiError) and outcome.error.code == 401 and not renewed:
                renewed = True
                fresh = self._access.credentials.renewed(identity)
                if fresh != identity:
                    identity = fresh
                    continue
            if gives_up is None:
                gives_up = now + self._budget()
            wait = self._wait_before_next(request, outcome, tries, gives_up - now)
            if self._pause(wait, stop):
                raise outcome.error
            identity = self._access.credentials.current()

    def _pause(self, seconds: float, stop: Callable[[], bool] | None) -> bool:
        """Wait; return True as soon as the transport is closed, and raise Stopped."""
        if stop is None:
            return self._closed.wait(seconds)
        ends = time.monotonic() + seconds
        while (left := ends - time.monotonic()) > 0 and not self._closed.is_set():
            if stop():
                raise Stopped
            self._closed.wait(min(TICK, left))
        return self._closed.is_set()

    def close(self) -> None:
        """Close the connections; requests that wait for their next try fail at once."""
        self._closed.set()
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool[1].pool.close()

    def _budget(self) -> float:
        """Return the seconds after a first failure within which the last try may begin."""
        if self._reached:
            return self._retry_budget
        return min(self._retry_budget, FIRST_CONTACT_BUDGET)

    def _wait_before_next(
        self, request: Request, outcome: Verdict, tries: int, seconds_left: float
    ) -> float:
        """Return the seconds to wait before the next try; raises the error when there is none."""
        error = outcome.error
        may_repeat = outcome.passing and (request.retry or outcome.refused_unseen)
        if not may_repeat or self._closed.is_set():
            raise error
        asked = error.retry_after if isinstance(error, ApiError) else None
        if request.expires is not None:
            seconds_left = min(seconds_left, request.expires - time.monotonic())
        wait = backoff(tries, asked)
        if wait > seconds_left or tries >= MAX_TRIES:
            told = f"the server asks to come back in {asked:.0f} s" if asked else ""
            repeated = f"tried {tries} times" if tries > 1 else ""
            error.why = "; ".join(part for part in (error.why, repeated, told) if part)
            raise error
        return wait

    def _try(
        self,
        request: Request,
        identity: Identity,
        number: int,
        exchange: Callable[[Request, Identity, Try], _Outcome | Answer],
        stop: Callable[[], bool] | None,
    ) -> _Outcome | Verdict:
        seconds = request.timeout
        if request.expires is not None:
            seconds = min(seconds, max(0.0, request.expires - time.monotonic()))
        started = time.monotonic()
        outcome: _Outcome | Verdict
        with one_try(seconds, stop) as current:
            try:
                came = exchange(request, identity, current)
            except (HTTPError, OSError) as error:
                outcome = judge_fault(
                    request, error, sent=current.sent, seconds=seconds, asker=self._asker
                )
                told = f"no reply ({outcome.error.what})"
            else:
                outcome = judge(request, came, self._asker) if isinstance(came, Answer) else came
                # A login page or a redirect is not the server's answer.
                if not isinstance(outcome, Verdict) or isinstance(outcome.error, ApiError):
                    self._reached = True
                told = str(came.status)
        if self._trace is not None:
            took = f"{time.monotonic() - started:.3f} s"
            attempt = f", attempt {number}" if number > 1 else ""
            self._trace(f"{request.method} {request.shown} {told} in {took}{attempt}")
        return outcome

    def _whole(self, request: Request, identity: Identity, current: Try) -> Reply | Answer:
        """Return the reply when it can be believed, else what came."""
        response = self._response(self._server_pool(identity), request, identity, current)
        answer = self._answer(response)
        return believed(request, answer) or answer

    def _going_on(self, request: Request, identity: Identity, current: Try) -> Stream | Answer:
        """Return the stream as soon as its head has come; what came when it is none."""
        self._refuse_when_closed()
        server = open_pool(self._access, identity, 1)
        with contextlib.ExitStack() as unless_kept:
            unless_kept.callback(server.pool.close)
            response = self._response(server, request, identity, current)
            if not goes_on(response):
                return self._answer(response)
            unless_kept.pop_all()
        return Stream(request, response, server.pool, self._asker, current.stop)

    def _response(
        self, server: ServerPool, request: Request, identity: Identity, current: Try
    ) -> BaseHTTPResponse:
        return server.pool.urlopen(
            request.method,
            server.base + request.target,
            body=request.body,
            headers=self._headers(request, identity),
            retries=_NO_RETRIES,
            redirect=False,
            assert_same_host=False,
            timeout=Timeout(connect=min(CONNECT_TIMEOUT, current.seconds_left())),
            pool_timeout=current.seconds_left(),  # type: ignore[arg-type]  # a float does
            preload_content=False,
            decode_content=False,
        )

    def _answer(self, response: BaseHTTPResponse) -> Answer:
        try:
            raw = read_body(response, self._asker)
        except BaseException:
            response.close()
            raise
        finally:
            response.release_conn()
        return Answer(response.status, response.headers, raw, parsed(raw, response))

    def _server_pool(self, identity: Identity) -> ServerPool:
        """Return the pool for the identity's certificate, a new one when that has changed."""
        with self._lock:
            self._refuse_when_closed()
            if self._pool is None or self._pool[0] != identity.certificate:
                # Requests under way keep the connections that they hold.
                pool = open_pool(self._access, identity, self._pool_size)
                if self._pool is not None:
                    self._pool[1].pool.close()
                self._pool = (identity.certificate, pool)
            return self._pool[1]

    def _refuse_when_closed(self) -> None:
        if self._closed.is_set():
            raise Unreachable("the connection to the API server is closed")

    def _headers(self, request: Request, identity: Identity) -> Mapping[str, str]:
        headers = {
            "User-Agent": self._user_agent,
            "Accept": request.accept,
            "Accept-Encoding": "identity",
        }
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        if identity.token:
            headers["Authorization"] = f"Bearer {identity.token}"
        more = (*self._access.impersonation, *request.headers)
        if not more:
            return headers
        # A name may come more than once: every group to impersonate has a header of its own.
        several = HTTPHeaderDict(headers)
        for name, value in more:
            several.add(name, value)
        return several
