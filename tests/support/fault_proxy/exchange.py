"""What the proxy knows about one request, and what a fault may do with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import parse_qsl, urlsplit

Headers = Sequence[tuple[str, str]]


@dataclass(slots=True)
class ServerReply:
    """A whole reply, from the server or made up."""

    status: int
    headers: Headers
    body: bytes


@dataclass(slots=True)
class Exchange:
    """One request and its result; ``number`` counts from 1.

    ``connection`` is the number of the client's connection. ``forwarded`` is true if the request
    was sent to the server; ``server_status`` is the server's reply. ``status`` is the reply to the
    client, None if the client got no whole reply.
    """

    number: int
    connection: int
    method: str
    target: str
    headers: Headers = field(repr=False)
    body: bytes = field(repr=False)
    forwarded: bool = False
    server_status: int | None = None
    status: int | None = None
    reply: bytes = field(default=b"", repr=False)

    @property
    def path(self) -> str:
        """Return the target without its query."""
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        """Return the query; for a repeated key, the last value."""
        return dict(parse_qsl(urlsplit(self.target).query, keep_blank_values=True))

    def header(self, name: str) -> str:
        """Return a header of the request; empty when it is missing."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), "")


class Wire(Protocol):
    """What a fault may do with the connections to the client and to the server."""

    @property
    def exchange(self) -> Exchange:
        """Return the request."""

    def forward(self, *, is_trial: bool = False) -> ServerReply:
        """Send the request to the real server, perhaps as a dry run, and return its reply."""

    def stream(self) -> None:
        """Pass on a watch as it arrives."""

    def send(self, data: bytes) -> None:
        """Send bytes to the client as they are."""

    def reply(self, reply: ServerReply) -> None:
        """Send a whole reply to the client and keep the connection."""

    def close(self) -> None:
        """Close the connection properly."""

    def reset(self) -> None:
        """Reset the connection, as a crash or a firewall does."""

    def wait(self, seconds: float) -> bool:
        """Wait; return False at once if the client or the proxy is gone."""


Fault = Callable[[Wire], None]
Rule = Callable[[Exchange], Fault | None]
