"""Describe connection errors in words."""

from __future__ import annotations

import http.client
from typing import TYPE_CHECKING

from urllib3.exceptions import (
    ConnectTimeoutError,
    EmptyPoolError,
    NameResolutionError,
    NewConnectionError,
    ReadTimeoutError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

# Transient errors. The first that fits an error or one of its causes gives the message, and whether
# the server seems to be unreachable.
_PASSING: tuple[tuple[type[Exception] | tuple[type[Exception], ...], str, bool], ...] = (
    (NameResolutionError, "the name of {server} cannot be resolved", True),
    (ConnectTimeoutError, "{server} cannot be reached: the connection timed out", True),
    (ConnectionRefusedError, "connection refused by {server}", True),
    (EmptyPoolError, "no connection to {server} became free within {seconds} s", False),
    ((ReadTimeoutError, TimeoutError), "{server} sent no complete response in {seconds} s", False),
    (http.client.IncompleteRead, "the response of {server} was cut off", False),
    (http.client.RemoteDisconnected, "{server} closed the connection without a response", False),
    (http.client.HTTPException, "{server} does not speak HTTP", True),
)


def causes(error: BaseException) -> tuple[BaseException, ...]:
    """Return the error and its causes, outermost first."""
    return tuple(_causes(error))


def described(error: BaseException, *, server: str, seconds: float) -> tuple[str, bool]:
    """Return what happened, and whether the server seems to be unreachable.

    ``seconds`` is how long a response was awaited.
    """
    # A refused connection is also a NewConnectionError, which is a kind of ConnectTimeoutError.
    found = [cause for cause in _causes(error) if type(cause) is not NewConnectionError]
    for kinds, what, unreachable in _PASSING:
        if any(isinstance(cause, kinds) for cause in found):
            return what.format(server=server, seconds=f"{seconds:.3g}"), unreachable
    for cause in found:
        if isinstance(cause, OSError) and cause.strerror:
            return f"the connection to {server} broke: {cause.strerror}", False
    return f"the connection to {server} broke: {type(error).__name__}", False


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: list[BaseException] = []
    pending: list[BaseException] = [error]
    while pending:
        current = pending.pop(0)
        if any(current is known for known in seen):
            continue
        seen.append(current)
        yield current
        wrapped = [item for item in current.args if isinstance(item, BaseException)]
        pending += [*wrapped, *([current.__cause__] if current.__cause__ else [])]
