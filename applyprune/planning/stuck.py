"""Why a deleted object is still there, from what the object itself says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.planning.definitions import mapping

if TYPE_CHECKING:
    from applyprune.model.live import Live


def why_terminating(live: Live) -> str:
    """Return the finalizers that hold an object, and what a namespace's conditions name."""
    parts = []
    if live.finalizers:
        parts.append(f"finalizers that have not finished: {', '.join(live.finalizers)}")
    conditions = mapping((live.body or {}).get("status")).get("conditions")
    for condition in conditions if isinstance(conditions, list) else ():
        facts = mapping(condition)
        if facts.get("status") == "True" and str(facts.get("type", "")).startswith("Namespace"):
            parts.append(str(facts.get("message", "")))
    return "; ".join(parts) or "the server has not removed it yet"
