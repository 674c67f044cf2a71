"""Events as plain JSON data: the schema ``applyprune.dev/output/v1``.

Every event is an object whose ``event`` names it; the names and keys are those of ``wire_names``.
Only what is entered there is ever taken apart: a type or a field that is new has to be entered
before it reaches anybody, and bodies, digests and live objects never do.
Within v1 keys and words are only added; none is taken away or gets another meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any

from applyprune.model.events import ObjectDiff
from applyprune.model.manifest import Origin
from applyprune.model.plan import ApplyStep, Plan
from applyprune.output.changes import changes, json_patch
from applyprune.output.wire_names import EVENT_NAMES, KEYS

if TYPE_CHECKING:
    from applyprune.model.events import Event
    from applyprune.model.plan import RemoveStep

SCHEMA = "applyprune.dev/output/v1"


def shape(event: Event) -> dict[str, Any]:
    """Return an event as JSON data; a comparison also as a patch and as a list of changes."""
    told = {"event": EVENT_NAMES[type(event)], **_record(event)}
    return told | differences(event) if isinstance(event, ObjectDiff) else told


def differences(compared: ObjectDiff) -> dict[str, Any]:
    """Return what differs: as an RFC 6902 patch, and each difference with its values."""
    return {"patch": json_patch(compared), "changes": changes(compared)}


def data(value: object) -> Any:
    """Return a value that an event holds as JSON data; raise TypeError for one not to be shown."""
    if isinstance(value, StrEnum):
        return str(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, Mapping):
        return {str(key): data(one) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return [data(one) for one in value]
    if isinstance(value, Plan):
        return plan_data(value)
    return _record(value)


def plan_data(plan: Plan) -> dict[str, Any]:
    """Return of a plan what is to be done about each object and why, and never a body."""
    steps: tuple[ApplyStep | RemoveStep, ...] = (*plan.applies, *plan.removals)
    return {
        "objects": [_step(one) for one in steps],
        "pruneSkipReason": plan.no_prune,
        "pruneBlocked": data(plan.refusal),
        "recovered": [data(entry.ref) for entry in plan.recovered],
        "restored": plan.restored,
    }


def _record(value: object) -> dict[str, Any]:
    kind: type = type(value)
    record = {key: data(getattr(value, name)) for name, key in _keys(kind)}
    if isinstance(value, Origin):
        # A place has no line 0: what a reader gets is a number, or that there is none.
        return {key: one or None for key, one in record.items()}
    return record


@cache
def _keys(kind: type) -> tuple[tuple[str, str], ...]:
    """Return each field of a type that is shown, and its key; raise TypeError for one without."""
    keys = KEYS.get(kind)
    if keys is None:
        raise TypeError(f"a {kind.__name__} is not for output")
    unnamed = {one.name for one in fields(kind)} - keys.keys()
    if unnamed:
        raise TypeError(f"no key on the wire for {kind.__name__}: {', '.join(sorted(unnamed))}")
    return tuple((name, key) for name, key in keys.items() if key is not None)


def _step(step: ApplyStep | RemoveStep) -> dict[str, Any]:
    desired = step.desired if isinstance(step, ApplyStep) else None
    return {
        "ref": data(step.entry.ref),
        "action": str(step.action),
        "reason": step.reason,
        "origin": data(desired.origin) if desired else None,
        "problem": data(step.problem),
    }
