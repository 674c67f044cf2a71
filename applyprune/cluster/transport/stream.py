"""A streamed response, on its own connection: it continues until the server ends it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from urllib3.exceptions import HTTPError

from applyprune.cluster.transport.connection_errors import connection_failure
from applyprune.cluster.transport.message import ClientContext, RawResponse, Request
from applyprune.cluster.transport.status_errors import response_failure
from applyprune.errors import AccessError
from applyprune.http import Try, one_try

if TYPE_CHECKING:
    from urllib3.connectionpool import HTTPConnectionPool
    from urllib3.response import BaseHTTPResponse


# A chunk's declared length is untrusted and would be allocated up front; cap it.
_MAX_READ = 64 * 1024


def is_stream(response: BaseHTTPResponse, *, is_text: bool) -> bool:
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
        request: Request,
        response: BaseHTTPResponse,
        pool: HTTPConnectionPool,
        client: ClientContext,
        first: Try,
    ) -> None:
        """Keep a response whose headers were read, and its pool, which nothing else uses.

        ``first`` is the try that has read them: what stops it stops the stream.
        """
        self.status = response.status
        self._request = request
        self._response = response
        self._pool = pool
        self._client = client
        self._first = first

    def chunks(self, silence: float) -> Iterator[bytes]:
        """Yield the bytes as they come, never an empty chunk, until the server ends the response.

        Raises Unreachable when the connection breaks or is silent for ``silence`` seconds, and
        Stopped when the stream's ``stop`` returns true.
        """
        while chunk := self._read(silence):
            yield chunk

    def _read(self, silence: float) -> bytes:
        # One try per read: the time that the caller spends on a chunk does not count.
        with one_try(silence, self._first.stop, clock=self._first.clock):  # guard: stream-clock
            try:
                return self._response.read1(_MAX_READ, decode_content=False)
            except (HTTPError, OSError) as fault:
                failure = connection_failure(
                    self._request, fault, sent=True, seconds=silence, client=self._client
                )
                error, reason = failure.error, f"GET {self._request.path} was cut off"
                error.reason = error.lasting_reason = reason
                raise error from fault

    def error(self, status: dict[str, Any]) -> AccessError:
        """Return the error for a Status that came inside the stream."""
        code = status.get("code")
        if not isinstance(code, int) or not 400 <= code < 600:
            code = 500
        # The bytes are left out: the Status holds everything.
        error = response_failure(
            self._request, RawResponse(code, {}, b"", status), self._client
        ).error
        error.reason = f"GET {self._request.path} ended with {code}"
        return error

    def close(self) -> None:
        """Close the connection."""
        self._response.close()
        self._pool.close()
