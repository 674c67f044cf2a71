"""A reply that goes on until the server ends it, on a connection of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from urllib3.exceptions import HTTPError

from applyprune.cluster.answer import Answer
from applyprune.cluster.faults import judge_fault
from applyprune.cluster.status import Asker, judge
from applyprune.network.deadline import one_try

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from urllib3.connectionpool import HTTPConnectionPool
    from urllib3.response import BaseHTTPResponse

    from applyprune.cluster.request import Request
    from applyprune.errors import AccessError

# A chunk may say that it is as long as it likes, and a buffer of that length is what reading it
# would begin with.
_MOST = 64 * 1024


def goes_on(response: BaseHTTPResponse) -> bool:
    """Return whether the head of a reply is that of a stream of JSON, which is not encoded."""
    content_type = response.headers.get("Content-Type", "").lower()
    encoding = response.headers.get("Content-Encoding", "identity")
    return (
        response.status == 200
        and content_type.partition(";")[0].strip() == "application/json"
        and encoding == "identity"
    )


class Stream:
    """The bytes of such a reply as they come; for one thread at a time."""

    def __init__(
        self,
        request: Request,
        response: BaseHTTPResponse,
        pool: HTTPConnectionPool,
        asker: Asker,
        stop: Callable[[], bool] | None,
    ) -> None:
        """Take a response whose head has been read, and the pool that holds nothing else."""
        self.status = response.status
        self._request = request
        self._response = response
        self._pool = pool
        self._asker = asker
        self._stop = stop

    def chunks(self, silence: float) -> Iterator[bytes]:
        """Yield what has come, never nothing, until the server ends the reply.

        Raises Unreachable when the connection breaks, or when nothing comes for ``silence``
        seconds, and Stopped when the stream's ``stop`` says so.
        """
        while chunk := self._read(silence):
            yield chunk

    def _read(self, silence: float) -> bytes:
        # One try for each read: what the caller does with a chunk in between is not the server's.
        with one_try(silence, self._stop):
            try:
                return self._response.read1(_MOST, decode_content=False)
            except (HTTPError, OSError) as fault:
                verdict = judge_fault(
                    self._request, fault, sent=True, seconds=silence, asker=self._asker
                )
                verdict.error.why = f"GET {self._request.path} broke off"
                raise verdict.error from fault

    def error(self, status: dict[str, Any]) -> AccessError:
        """Return the error that a Status within the stream stands for."""
        code = status.get("code")
        if not isinstance(code, int) or not 400 <= code < 600:
            code = 500
        # Without the bytes: they hold no more than the Status does.
        error = judge(self._request, Answer(code, {}, b"", status), self._asker).error
        error.why = f"GET {self._request.path} was ended with {code}"
        return error

    def close(self) -> None:
        """Close the connection."""
        self._response.close()
        self._pool.close()
