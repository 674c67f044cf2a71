"""From the bytes of a reply to one that can be believed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from applyprune.cluster.request import Reply, Request
from applyprune.errors import Unreachable

if TYPE_CHECKING:
    from urllib3.response import BaseHTTPResponse

    from applyprune.cluster.answer import Answer
    from applyprune.cluster.status import Asker

# Bytes of a reply. The server's own limit for an object is 1.5 MiB and the callers page their
# lists, so nothing comes near; what is longer is no reply of an API server.
MAX_REPLY = 256 * 1024 * 1024
_CHUNK = 1024 * 1024


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


# Made once: it costs as much as the parsing of a small reply.
_DECODER = json.JSONDecoder(parse_constant=_refuse)


def believed(request: Request, answer: Answer) -> Reply | None:
    """Return the answer as a reply when it is a success that can be believed."""
    if answer.status in {200, 201, 202} and answer.body is not None:
        return Reply(answer.status, answer.body, answer.headers)
    conditional = any(name.lower() == "if-none-match" for name, _ in request.headers)
    if answer.status == 304 and conditional:
        return Reply(304, {}, answer.headers)
    return None


def read_body(response: BaseHTTPResponse, asker: Asker) -> bytes:
    """Return the whole body; raises when it is cut off or longer than any real reply."""
    chunks: list[bytes] = []
    size = 0
    while chunk := response.read(_CHUNK, decode_content=False):
        size += len(chunk)
        if size > MAX_REPLY:
            raise Unreachable(
                f"{asker.server} did not answer as an API server:"
                f" its reply is longer than {MAX_REPLY >> 20} MiB"
            )
        chunks.append(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def parsed(raw: bytes, response: BaseHTTPResponse) -> dict[str, Any] | None:
    """Return the body as a JSON object; None when it is not one, or encoded unasked."""
    if response.headers.get("Content-Encoding", "identity") != "identity":
        return None
    return json_object(raw)


def json_object(raw: bytes) -> dict[str, Any] | None:
    """Return the JSON object that the bytes are; None when they are not one."""
    try:
        body = _DECODER.decode(raw.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None
