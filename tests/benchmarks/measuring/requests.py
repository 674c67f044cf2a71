"""The requests of one process, as the API server's audit log shows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.support.api import REVIEWS, WRITES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True)
class Requests:
    """How many requests there were."""

    total: int
    writes: int
    """Those that may change something: no dry run, no review of one's own rights."""


def requests_by(agent: str, events: Iterable[Mapping[str, Any]]) -> Requests:
    """Count the requests whose User-Agent begins so, each once: a watch has two events."""
    theirs = [
        event
        for event in events
        if str(event.get("userAgent", "")).startswith(agent)
        and (event["verb"], event["stage"]) != ("watch", "ResponseComplete")
    ]
    return Requests(len(theirs), sum(map(_is_write, theirs)))


def _is_write(event: Mapping[str, Any]) -> bool:
    return (
        event["verb"] in WRITES
        and "dryRun=All" not in event["requestURI"]
        and not event["requestURI"].startswith(REVIEWS)
        and not (event.get("requestObject") or {}).get("dryRun")
    )
