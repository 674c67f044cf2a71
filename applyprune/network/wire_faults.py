"""What went wrong on the wire, in words."""

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

# What may pass, the first that fits an error or what it was raised from; with it what to say and
# whether the server seems to be out of reach.
_PASSING: tuple[tuple[type[Exception] | tuple[type[Exception], ...], str, bool], ...] = (
    (NameResolutionError, "the name of {server} cannot be resolved", True),
    (ConnectTimeoutError, "{server} cannot be reached: no connection in time", True),
    (ConnectionRefusedError, "nothing listens at {server}", True),
    (EmptyPoolError, "no connection to {server} became free within {seconds} s", False),
    ((ReadTimeoutError, TimeoutError), "{server} gave no complete reply in {seconds} s", False),
    (http.client.IncompleteRead, "the reply of {server} was cut off", False),
    (http.client.RemoteDisconnected, "{server} closed the connection without a reply", False),
    (http.client.HTTPException, "what answers at {server} does not speak HTTP", True),
)


def causes(error: BaseException) -> tuple[BaseException, ...]:
    """Return the error and what it was raised from or wraps, outermost first."""
    return tuple(_causes(error))


def described(error: BaseException, *, server: str, seconds: float) -> tuple[str, bool]:
    """Return what happened, and whether the server seems to be out of reach.

    ``seconds`` is how long a reply was waited for.
    """
    # A refused connection is a NewConnectionError too, and that is a kind of ConnectTimeoutError.
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
