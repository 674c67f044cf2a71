"""The renewals of a lock: the only writes of a run that nothing but time causes."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.support.fault_proxy import Exchange


class Renewals:
    """Tells renewals from other requests, so that a count of those is the same on any machine.

    No lease is so long that a busy machine never renews it.
    """

    def __init__(self) -> None:
        """Have seen none."""
        self._lock = threading.Lock()
        self._seen: dict[tuple[str, str], int] = {}

    def is_one(self, body: Mapping[str, Any]) -> bool:
        """Return whether a write of this body is a renewal; it must be asked of each write once."""
        header = (body.get("data") or {}).get("header")
        if header is None or not (holder := json.loads(header).get("holder")):
            return False
        key = (body["metadata"]["name"], holder["run"])
        with self._lock:
            before = self._seen.get(key, 0)
            self._seen[key] = max(before, holder["renewals"])
        return bool(holder["renewals"] > before)

    def is_sent(self, exchange: Exchange) -> bool:
        """Return whether a request is a renewal."""
        return exchange.method == "PUT" and self.is_one(json.loads(exchange.body))


def without_renewals(exchanges: Iterable[Exchange]) -> list[Exchange]:
    """Return the requests that time did not cause."""
    renewals = Renewals()
    return [one for one in exchanges if not renewals.is_sent(one)]
