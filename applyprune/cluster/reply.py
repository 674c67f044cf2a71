"""Read and validate the body of a response."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from applyprune.cluster.request import Request, Response
from applyprune.errors import Unreachable

if TYPE_CHECKING:
    from urllib3.response import BaseHTTPResponse

    from applyprune.cluster.answer import RawResponse
    from applyprune.cluster.status import ClientContext

# Bytes of a body. The server's own limit for an object is 1.5 MiB, and lists are read by pages, so
# no real response comes near this.
MAX_REPLY = 256 * 1024 * 1024
_CHUNK = 1024 * 1024


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


# Made once: it costs as much as parsing a small body.
_DECODER = json.JSONDecoder(parse_constant=_refuse)


def validated(request: Request, response: RawResponse) -> Response | None:
    """Return the response if it is a success with a valid body, else None."""
    if response.status in {200, 201, 202} and response.body is not None:
        return Response(response.status, response.body, response.headers)
    conditional = any(name.lower() == "if-none-match" for name, _ in request.headers)
    if response.status == 304 and conditional:
        return Response(304, {}, response.headers)
    return None


def read_body(response: BaseHTTPResponse, client: ClientContext) -> bytes:
    """Return the whole body; raises when it is cut off or longer than any real one."""
    chunks: list[bytes] = []
    size = 0
    while chunk := response.read(_CHUNK, decode_content=False):
        size += len(chunk)
        if size > MAX_REPLY:
            raise Unreachable(
                f"{client.server} did not answer as an API server:"
                f" its response is longer than {MAX_REPLY >> 20} MiB"
            )
        chunks.append(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def parsed(raw: bytes, response: BaseHTTPResponse) -> dict[str, Any] | None:
    """Return the body as a JSON object; None when it is not one or is encoded."""
    if response.headers.get("Content-Encoding", "identity") != "identity":
        return None
    return json_object(raw)


def json_object(raw: bytes) -> dict[str, Any] | None:
    """Parse bytes as a JSON object; None when they are not one."""
    try:
        body = _DECODER.decode(raw.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None
