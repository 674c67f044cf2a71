"""Decide about Jobs with ``ttlSecondsAfterFinished`` that do not exist any more.

A TTL counts from the end of a Job, so it cannot have removed one before its creation plus the TTL.
It removes failed Jobs too.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from applyprune.model.inventory import InventoryEntry, JobRecord
from applyprune.model.live import field, items, text, whole_number
from applyprune.model.text import time_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from applyprune.model.live import LiveObject
    from applyprune.model.plan import Desired

FINISHED = "finished, and removed by its TTL"
LEAVING = "finished, and being removed by its TTL"
UNKNOWN_RESULT = "it is gone, and no run has recorded that it completed: its result is unknown"
DELETED = "somebody deleted it: its TTL cannot have removed it yet"
_TTL = ("spec", "ttlSecondsAfterFinished")


def job_record(
    desired: Desired, live: LiveObject, before: InventoryEntry | None
) -> JobRecord | None:
    """Return what the inventory keeps of a live Job with a TTL; None for any other object.

    ``before`` is its entry so far.
    """
    if not desired.has_ttl:
        return None
    known = before.job if before is not None and before.uid == live.uid else None
    recorded = known.ttl if known is not None else whole_number(desired.body, *_TTL)
    ttl = recorded if live.body is None else whole_number(live.body, *_TTL)
    created = text(live.metadata, "creationTimestamp")
    if ttl is None or time_of(created) is None:
        return known
    completed = _has_completed(live) or (known is not None and known.completed)
    return JobRecord(created, ttl, completed=completed)


def is_complete(body: Mapping[str, Any]) -> bool:
    """Return whether a Job has completed, by its condition; a failed one has not."""
    return any(
        text(item, "type") == "Complete" and text(item, "status") == "True"
        for item in items(body, "status", "conditions")
    )


def was_deleted(record: JobRecord | None, at: datetime | None) -> bool:
    """Return whether somebody has deleted a Job that is absent at a time of the server's clock."""
    created = None if record is None else time_of(record.created)
    if record is None or created is None or at is None:
        return False
    return at < created + timedelta(seconds=record.ttl)  # guard: before-ttl


def _has_completed(live: LiveObject) -> bool:
    """Return whether a Job has completed, as far as was read: only then it has this time."""
    if live.body is not None:
        return is_complete(live.body)
    return any(
        entry.get("subresource") == "status"
        and field(entry, "fieldsV1", "f:status", "f:completionTime") is not None
        for entry in live.managed_fields
    )
