"""Events as plain JSON data: the schema ``applyprune.dev/output/v1``.

Every event is an object whose ``event`` names it and whose other keys are the event's fields in
camelCase. Only what SHOWN names is ever taken apart: a type that is new has to be entered there
before a field of it reaches anybody, and bodies, digests and live objects never do.
Within v1 keys and words are only added; none is taken away or gets another meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, get_args

from applyprune.model.events import Compared, Drift, Event, Pending
from applyprune.model.findings import Finding
from applyprune.model.inventory import Entry, LastRun
from applyprune.model.manifests import Origin
from applyprune.model.plan import ApplyStep, Plan
from applyprune.model.problems import Mark, Problem
from applyprune.model.readiness import Readiness
from applyprune.model.refs import Ref
from applyprune.output.changes import changes, json_patch

if TYPE_CHECKING:
    from applyprune.model.plan import RemoveStep

SCHEMA = "applyprune.dev/output/v1"
EVENTS: tuple[type, ...] = get_args(Event)
SHOWN = (*EVENTS, Drift, Entry, Finding, LastRun, Mark, Origin, Pending, Problem, Readiness, Ref)
"""What is shown field by field; a Plan has a shape of its own, anything else has none."""
LEFT_OUT: Mapping[type, frozenset[str]] = {
    # For the next run only: by it that run knows that nothing has changed.
    Entry: frozenset({"digest", "evidence"}),
    # For the repair only: what it is to write, and the live object.
    Finding: frozenset({"entry", "live", "resource"}),
}
"""Fields that no output has."""


def shape(event: Event) -> dict[str, Any]:
    """Return an event as JSON data; a comparison also as a patch and as a list of changes."""
    told = {"event": word(type(event)), **_record(event)}
    return told | differences(event) if isinstance(event, Compared) else told


def differences(compared: Compared) -> dict[str, Any]:
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
    if isinstance(value, Origin):
        # A place has no line 0: what a reader gets is a number, or that there is none.
        return {key: one or None for key, one in _record(value).items()}
    return _record(value)


def plan_data(plan: Plan) -> dict[str, Any]:
    """Return of a plan what is to be done about each object and why, and never a body."""
    steps: tuple[ApplyStep | RemoveStep, ...] = (*plan.applies, *plan.removals)
    return {
        "objects": [_step(one) for one in steps],
        "noPrune": plan.no_prune,
        "refusal": data(plan.refusal),
        "recovered": [data(entry.ref) for entry in plan.recovered],
        "restored": plan.restored,
    }


def word(event: type) -> str:
    """Return the name of a kind of event, ``done`` for example."""
    return event.__name__[:1].lower() + event.__name__[1:]


def camel(name: str) -> str:
    """Return ``exitCode`` for ``exit_code``."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _record(value: object) -> dict[str, Any]:
    kind: type = type(value)
    return {key: data(getattr(value, name)) for name, key in _keys(kind)}


@cache
def _keys(kind: type) -> tuple[tuple[str, str], ...]:
    """Return each field of a type that is shown, and its key."""
    if kind not in SHOWN:
        raise TypeError(f"a {kind.__name__} is not for output")
    hidden = LEFT_OUT.get(kind, frozenset())
    return tuple((one.name, camel(one.name)) for one in fields(kind) if one.name not in hidden)


def _step(step: ApplyStep | RemoveStep) -> dict[str, Any]:
    desired = step.desired if isinstance(step, ApplyStep) else None
    return {
        "ref": data(step.entry.ref),
        "action": str(step.action),
        "reason": step.reason,
        "origin": data(desired.origin) if desired else None,
        "problem": data(step.problem),
    }
