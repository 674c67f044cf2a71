"""The addresses of a server that somebody else has named: resolved once, checked, then pinned."""

from __future__ import annotations

import queue
import socket
import threading
from typing import TYPE_CHECKING

from applyprune.sources.remote.fetch_errors import FetchFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from applyprune.http import AddressRules
    from applyprune.sources.git.program.deadline import Deadline

_CONNECT = 5.0


def checked_addresses(
    rules: AddressRules, host: str, port: int, where: str, deadline: Deadline
) -> Sequence[str]:
    """Return every address of a host; raise FetchFailed if one of them is refused, or none is."""
    addresses = _resolve(host, port, where, deadline)
    for address in addresses:
        fault = rules.fault(address)
        if fault:  # guard: refused-git-address
            raise refused(fault, where)
    return addresses


def refused(fault: str, where: str) -> FetchFailed:
    """Return the error for an address that the controller does not connect to."""
    return FetchFailed(
        f"the URL leads to {fault}",
        location=where,
        hint="If this is intended, allow its network: --allow-source-cidr of the controller.",
    )


def reachable(addresses: Sequence[str], port: int, where: str, deadline: Deadline) -> str:
    """Return the first address that accepts a connection, or the first one if none does."""
    for address in addresses if len(addresses) > 1 else ():
        wait = min(_CONNECT, deadline.left(where))
        try:
            with socket.create_connection((address, port), wait):
                return address
        except OSError:
            continue
    return addresses[0]


def _resolve(host: str, port: int, where: str, deadline: Deadline) -> Sequence[str]:
    answer: queue.SimpleQueue[Sequence[str]] = queue.SimpleQueue()

    def ask() -> None:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            found = []
        answer.put(tuple(dict.fromkeys(str(one[4][0]) for one in found)))

    # In a thread: nothing else can limit the resolver.
    threading.Thread(target=ask, name="resolve", daemon=True).start()
    try:
        addresses = answer.get(timeout=deadline.left(where))
    except queue.Empty:
        raise deadline.passed(where) from None
    if not addresses:
        raise FetchFailed(
            "the repository cannot be read",
            location=where,
            reason="the name of the server cannot be resolved",
            hint="Check the URL.",
        )
    return addresses
