"""Requests of controllers, as the API server's audit log shows them."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterator

    from applyprune.localplane import Plane

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
OBJECT, LEASE, WATCH = "object", "lease", "watch"
_AGENT = re.compile(rb'"userAgent":"applyprune/')


@dataclass(slots=True)
class Requests:
    """Requests of one stretch of time."""

    kinds: Counter[str] = field(default_factory=Counter)
    """How many there were of each kind: ``get bundles``, ``list configmaps 403``."""
    total: int = 0
    """Without those about Leases."""
    objects: int = 0
    """Those at the objects of Bundles."""
    lists: int = 0
    reads: int = 0
    """Those of single objects."""
    writes: int = 0
    """Without those of Leases."""
    watches: int = 0
    shared: int = 0
    """Those for all Bundles of an account, a worker or the controller: watches, refused lists of
    the whole cluster, documents, and the list of Bundles."""
    reconciles: int = 0
    """Each reads its inventory once."""
    names: Counter[str] = field(default_factory=Counter)
    """How many there were about each Bundle, its inventory and its objects, by their name."""

    def __iadd__(self, other: Requests) -> Self:
        """Add what was found later."""
        self.kinds += other.kinds
        self.names += other.names
        for one in ("total", "objects", "lists", "reads", "writes", "watches", "shared"):
            setattr(self, one, getattr(self, one) + getattr(other, one))
        self.reconciles += other.reconciles
        return self

    @property
    def beyond(self) -> int:
        """Return how many were not at an object of a Bundle."""
        return self.total - self.objects

    def add(self, event: dict[str, Any]) -> None:
        """Count one request."""
        verb, ref = event["verb"], event.get("objectRef") or {}
        plural, name = ref.get("resource", ""), ref.get("name", "")
        if plural == "leases":
            return
        self.total += 1
        code = event.get("responseStatus", {}).get("code", 0)
        path = "/".join(filter(None, (plural, ref.get("subresource", ""))))
        what = path or event["requestURI"].partition("?")[0]
        self.kinds[f"{verb} {what}{f' {code}' if code >= 400 else ''}"] += 1
        is_refused = (verb, code) == ("list", 403)
        is_first = (verb, plural) == ("list", "bundles")
        self.shared += verb == "watch" or not plural or is_refused or is_first
        if verb == "watch":
            self.watches += 1
        elif verb == "list":
            self.lists += 1
        elif verb in WRITES:
            self.writes += 1
        else:
            self.reads += bool(plural)
        is_inventory = plural == "configmaps" and name.startswith("applyprune-")
        self.reconciles += is_inventory and verb == "get"
        self.names[name.removeprefix("applyprune-").partition(".")[0]] += verb != "watch"
        self.objects += name.startswith("app-") and plural not in {"bundles", "events"}

    def table(self, each: int) -> str:
        """Return the kinds, most frequent first, with their number for each of so many."""
        return "\n".join(
            f"  {count / max(each, 1):8.2f}  {kind}" for kind, count in self.kinds.most_common(30)
        )


class AuditLog:
    """The audit log of a plane, read a stretch at a time; it may be very long."""

    def __init__(self, plane: Plane) -> None:
        """Begin at its end."""
        assert plane.audit_log is not None
        self._log = plane.audit_log
        self._at = 0
        self.skip()

    def skip(self) -> None:
        """Begin at its end again."""
        self._at = self._log.stat().st_size

    def requests(self) -> Requests:
        """Return the requests since the last call, those of controllers only."""
        found = Requests()
        for event in self._events():
            found.add(event)
        return found

    def _events(self) -> Iterator[dict[str, Any]]:
        with self._log.open("rb") as file:
            file.seek(self._at)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._at += len(line)
                if _AGENT.search(line) is None:
                    continue
                event = json.loads(line)
                if is_counted(event):
                    yield event


def is_counted(event: dict[str, Any]) -> bool:
    """Return whether an event stands for a request: a watch has another one when it ends."""
    stage = "ResponseStarted" if event["verb"] == "watch" else "ResponseComplete"
    return bool(event["stage"] == stage)
