"""Read the streamed reply to a watch, line by line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import h11

_READ = 64 * 1024
_MAX_EVENT = 2 * 1024 * 1024


class BrokenReply(Exception):
    """A reply that is not complete, or not what a watch sends."""


class RefusedReply(Exception):
    """A reply that is not a watch."""

    def __init__(self, code: int) -> None:
        super().__init__(f"the server replied {code}")
        self.code = code


async def reply_lines(
    connection: h11.Connection, reader: asyncio.StreamReader
) -> AsyncGenerator[bytes, None]:
    """Yield an empty line when the reply begins, and each of its lines.

    Raises RefusedReply for a reply that is not streamed.
    """
    parts: list[bytes] = []
    size = 0
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(_READ))
        elif isinstance(event, h11.Response):
            if event.status_code != 200:
                raise RefusedReply(event.status_code)
            yield b""
        elif isinstance(event, h11.Data):
            *ends, rest = bytes(event.data).split(b"\n")
            for end in ends:
                line = b"".join((*parts, end))
                # Of a huge object there is no hint; those of the others are not lost by it.
                if line.strip() and size <= _MAX_EVENT:
                    yield line
                parts, size = [], 0
            size += len(rest)
            parts = [*parts, rest] if size <= _MAX_EVENT else []
        elif isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
            return


def parsed_line(line: bytes) -> dict[str, Any]:
    """Return an event; raises BrokenReply for anything else."""
    try:
        item = json.loads(line)
    except (ValueError, RecursionError):
        item = None
    if not isinstance(item, dict):
        raise BrokenReply("it sent an invalid event")
    return item
