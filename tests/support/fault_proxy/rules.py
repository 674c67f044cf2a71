"""Rules: they pick the fault of a request."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING

from tests.support.fault_proxy import faults

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.fault_proxy.exchange import Exchange, Fault, Rule


def always(fault: Fault, *, where: Callable[[Exchange], bool] | None = None) -> Rule:
    """Apply the fault to every request, or to every one that ``where`` picks."""

    def rule(exchange: Exchange) -> Fault | None:
        return fault if where is None or where(exchange) else None

    return rule


def first(count: int, fault: Fault, *, where: Callable[[Exchange], bool] | None = None) -> Rule:
    """Apply the fault to the next ``count`` requests, or to the next that ``where`` picks."""
    seen = itertools.count(1)
    lock = threading.Lock()

    def rule(exchange: Exchange) -> Fault | None:
        if where is not None and not where(exchange):
            return None
        with lock:
            return fault if next(seen) <= count else None

    return rule


def number(wanted: int, fault: Fault) -> Rule:
    """Apply the fault to the request of that number, counted from the proxy's start."""

    def rule(exchange: Exchange) -> Fault | None:
        return fault if exchange.number == wanted else None

    return rule


def blind_after_delete(plural: str, deleted: Fault | None = None) -> Rule:
    """From the first DELETE on, answer each list of a resource with an empty one.

    Each DELETE gets the fault, if there is one.
    """
    empty = b'{"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "items": []}'
    nothing = faults.answer(200, empty, (("Content-Type", "application/json"),))
    began = threading.Event()

    def rule(exchange: Exchange) -> Fault | None:
        if exchange.method == "DELETE":
            began.set()
            return deleted
        is_list = exchange.method == "GET" and exchange.path.endswith(f"/{plural}")
        return nothing if is_list and began.is_set() else None

    return rule
