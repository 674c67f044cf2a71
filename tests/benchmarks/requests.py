"""Requests, counted in the audit log of the API server."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.support.api import REVIEWS, WRITES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Event = Mapping[str, Any]


def is_counted(event: Event) -> bool:
    """Return whether an event stands for a request: a watch has another one when it ends."""
    stage = "ResponseStarted" if event["verb"] == "watch" else "ResponseComplete"
    return bool(event["stage"] == stage)


def count(events: Iterable[Event]) -> Counter[str]:
    """Count requests, without those about Leases.

    ``writes`` may change something: they are no dry runs, and no reviews of one's own rights.
    ``objects`` are at the objects of Bundles; ``shared`` are for all Bundles of an account, a
    worker or the controller. Each reconcile reads its inventory once.
    """
    found: Counter[str] = Counter()
    for event in filter(is_counted, events):
        verb, ref = event["verb"], event.get("objectRef") or {}
        plural, name = ref.get("resource", ""), ref.get("name", "")
        if plural == "leases":
            continue
        code = event.get("responseStatus", {}).get("code", 0)
        is_watch, is_list, is_get = verb == "watch", verb == "list", verb == "get"
        is_for_all = is_list and (code == 403 or plural == "bundles")
        found.update(
            requests=1,
            writes=_is_write(event),
            watches=is_watch,
            lists=is_list and not is_for_all,
            reads=is_get and bool(plural),
            shared=is_watch or not plural or is_for_all,
            reconciles=is_get and plural == "configmaps" and name.startswith("applyprune-"),
            objects=name.startswith("app-") and plural not in {"bundles", "events"},
        )
        path = "/".join(filter(None, (plural, ref.get("subresource", ""))))
        what = path or event["requestURI"].partition("?")[0]
        found[f"{verb} {what}{f' {code}' if code >= 400 else ''}"] += 1
    return found


def table(found: Counter[str], each: int) -> str:
    """Return how many there were of each kind for each of so many, most frequent first."""
    kinds = [one for one in found.most_common() if " " in one[0]]
    return "\n".join(f"  {number / max(each, 1):8.2f}  {kind}" for kind, number in kinds[:30])


def _is_write(event: Event) -> bool:
    return (
        event["verb"] in WRITES
        and "dryRun=All" not in event["requestURI"]
        and not event["requestURI"].startswith(REVIEWS)
        and not (event.get("requestObject") or {}).get("dryRun")
    )
