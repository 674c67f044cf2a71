"""Determine the status of an object of a set: its readiness, its age and its drift."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from applyprune.errors import ApplypruneError, NotReady, RunFailed, as_problem
from applyprune.model.events import ObjectStatus, Readiness, Status
from applyprune.model.inventory import InventoryEntry
from applyprune.model.live import KindDeleted, LiveObject, Missing, NotListed, State, Unknown
from applyprune.model.options import StatusOptions
from applyprune.model.problem import Problem
from applyprune.model.text import and_more, seconds_since
from applyprune.planning.annotations import READY_WHEN, WAIT
from applyprune.planning.applyset import ApplySetIdentity
from applyprune.planning.diff.drift import (
    drifted_from_record,
    drifted_from_values,
    recorded_drift,
)
from applyprune.planning.marks.apply_mark import is_created_once, left_alone
from applyprune.planning.ownership.foreign_label import (
    OtherSet,
    is_label_unproven,
    unproven_label,
)
from applyprune.planning.ownership.managed_fields import own_apply_entry
from applyprune.planning.ownership.owner import Owner, other_set, owner_of
from applyprune.planning.readiness.cel import Rule, compile_rule
from applyprune.planning.readiness.finished_jobs import UNKNOWN_RESULT, was_deleted
from applyprune.planning.readiness.kstatus import assess
from applyprune.planning.readiness.related import Related, explained, for_wait, warnings_about
from applyprune.planning.readiness.wait_rules import Wait
from applyprune.values import replace

if TYPE_CHECKING:
    from datetime import datetime


_SHOWN = 5


def object_status(
    entry: InventoryEntry,
    state: State,
    applyset: ApplySetIdentity,
    now: datetime,
    others: Mapping[str, OtherSet],
    *,
    options: StatusOptions,
    related: Related,
) -> ObjectStatus:
    """Return the status of an object; ``state`` is from a full read.

    ``now`` is the time by the server's clock. ``others`` are the sets of foreign labels.
    """
    if isinstance(state, Unknown):
        readiness = Readiness(Status.UNKNOWN, f"it could not be read: {state.problem.kind}")
        return _without_object(entry, readiness)
    if isinstance(state, Missing):
        readiness = _absent(entry, state, now)
        drifted = _is_absence_drift(entry, state, readiness, now)
        return replace(_without_object(entry, readiness), drifted=drifted)
    if owner_of(state, entry, applyset) is Owner.OTHER and not is_label_unproven(
        entry, state, others, applyset
    ):
        named = other_set(state)
        message = f"it belongs to another set{f': {named}' if named else ''}"
        return _without_object(entry, Readiness(Status.NOT_FOUND, message))
    age = _age(state, now)
    compare = drifted_from_values if options.values else drifted_from_record
    ours = (own_apply_entry(state, applyset.manager) or {}).get("fieldsV1") or {}
    # What is never applied again cannot drift.
    drifted = not is_created_once(state.metadata, ours) and compare(entry, state, applyset.manager)
    readiness = explained(
        _readiness(state, age), state, related, manager=applyset.manager, waited=age or 0.0
    )
    unready = readiness.status is not Status.CURRENT
    return ObjectStatus(
        ref=entry.ref,
        readiness=for_wait(readiness, fail_fast=options.fail_fast),
        ownership=entry.ownership,
        age=age,
        drifted=drifted,
        drift=recorded_drift(entry, state, applyset.manager) if options.drift and drifted else (),
        wave=entry.wave.wave,
        events=warnings_about(state, related) if unready else (),
    )


def unready_objects(states: Iterable[State], now: datetime) -> Sequence[LiveObject]:
    """Return the objects that are not ready: what is around them shows why."""
    return [
        state
        for state in states
        if isinstance(state, LiveObject)
        and _readiness(state, _age(state, now)).status is not Status.CURRENT
    ]


def _without_object(entry: InventoryEntry, readiness: Readiness) -> ObjectStatus:
    return ObjectStatus(entry.ref, readiness, entry.ownership, None, wave=entry.wave.wave)


def _is_absence_drift(
    entry: InventoryEntry, state: Missing, readiness: Readiness, now: datetime
) -> bool | None:
    """Return whether somebody else has deleted an object; None if that is unknown."""
    if readiness.status is Status.CURRENT:
        return False  # it has completed, and its TTL has removed it
    if isinstance(state, NotListed) or not entry.uid:
        return None
    may_have_finished = entry.job is not None and not was_deleted(entry.job, now)
    return None if may_have_finished else True


def is_waited_for(state: State) -> bool:
    """Return whether an object counts for the set's readiness; its annotations may exclude it."""
    if not isinstance(state, LiveObject):
        return True
    return state.annotations.get(WAIT) != Wait.SKIP and not left_alone(state.metadata, {})


def status_warning(
    entry: InventoryEntry,
    state: State,
    applyset: ApplySetIdentity,
    now: datetime,
    others: Mapping[str, OtherSet],
) -> Problem | None:
    """Return a warning about an object that is missing, unknown, or not ours any more.

    ``others`` are the sets of foreign labels.
    """
    if isinstance(state, Unknown):
        return as_problem(
            RunFailed(f"the state of {entry.ref} is unknown", reason=str(state.problem))
        )
    if isinstance(state, Missing):
        readiness = _absent(entry, state, now)
        if readiness.status is Status.CURRENT:
            return None
        return as_problem(RunFailed(f"{entry.ref} does not exist", reason=readiness.message))
    owner = owner_of(state, entry, applyset)
    if is_label_unproven(entry, state, others, applyset):
        return as_problem(unproven_label(entry.ref, state, others, applyset))
    if owner is Owner.OTHER:
        return as_problem(RunFailed(f"{entry.ref} belongs to another set now"))
    if owner is not Owner.RECORDED and entry.uid:
        return as_problem(
            RunFailed(
                f"{entry.ref} is not the object that the set has applied",
                reason="it was deleted and recreated: its UID has changed",
                hint=f"See: applyprune inventory check {applyset.arguments}",
            )
        )
    return None


def unattributed_drift(status: ObjectStatus) -> Problem | None:
    """Return a warning for drift that cannot be attributed to any field."""
    if not status.drifted or status.drift:
        return None
    return as_problem(
        RunFailed(
            f"{status.ref} has drifted, in unknown fields",
            reason="a removed field, or a field applied by the set's manager, has no other owner",
            hint="The next apply restores it.",
        )
    )


def unknown_drift(statuses: Collection[ObjectStatus]) -> Problem | None:
    """Return a warning about live objects of which nobody knows whether they have drifted."""
    unknown = [one for one in statuses if one.drifted is None and one.age is not None]
    if not unknown:
        return None
    return as_problem(
        RunFailed(
            f"it is unknown whether {and_more([one.ref.short for one in unknown], _SHOWN)} "
            f"{'has' if len(unknown) == 1 else 'have'} drifted",
            reason="no apply was confirmed since a run began to apply it",
            hint="Apply again.",
        )
    )


def unproven_values(
    statuses: Collection[ObjectStatus], applyset: ApplySetIdentity
) -> Problem | None:
    """Return a warning about objects whose values differ from those that the set has applied."""
    unknown = [status for status in statuses if status.drifted is None and status.age is not None]
    if not unknown:
        return None
    return as_problem(
        RunFailed(
            f"{len(unknown)} objects may not have the values that the set has applied: "
            f"{_names(unknown)}",
            reason="somebody has changed a value, or the server has rewritten one",
            hint="To compare them with the manifests: "
            f"applyprune diff {applyset.arguments} -f ... --values",
        )
    )


def verdict(counted: Collection[ObjectStatus]) -> ApplypruneError | None:
    """Return the error for the counted objects: RunFailed, NotReady, or None if all are ready."""
    unknown = [status for status in counted if status.readiness.status is Status.UNKNOWN]
    if unknown:
        return RunFailed(f"{_count(unknown, counted)} unknown: {_names(unknown)}")
    unready = [status for status in counted if status.readiness.status is not Status.CURRENT]
    if unready:
        return NotReady(f"{_count(unready, counted)} not ready: {_names(unready)}")
    return None


def _count(statuses: Sequence[ObjectStatus], of: Collection[ObjectStatus]) -> str:
    return f"{len(statuses)} of the set's {len(of)} objects {'is' if len(statuses) == 1 else 'are'}"


def _names(statuses: Sequence[ObjectStatus]) -> str:
    return and_more([status.ref.short for status in statuses], _SHOWN)


def _absent(entry: InventoryEntry, state: Missing, now: datetime) -> Readiness:
    if isinstance(state, NotListed):
        return Readiness(Status.UNKNOWN, "it is unknown whether it exists")
    if isinstance(state, KindDeleted):
        return Readiness(Status.NOT_FOUND, state.reason)
    if not entry.uid:
        return Readiness(Status.NOT_FOUND, "no apply was ever confirmed; apply again")
    if entry.job is None:
        return Readiness(Status.NOT_FOUND, "somebody has deleted it, or its TTL has removed it")
    if was_deleted(entry.job, now):
        return Readiness(Status.NOT_FOUND, "somebody has deleted it")
    if entry.job.completed:
        return Readiness(Status.CURRENT, "it has completed, and its TTL has removed it")
    return Readiness(Status.NOT_FOUND, UNKNOWN_RESULT)


def _readiness(live: LiveObject, age: float | None) -> Readiness:
    if live.body is None:
        return Readiness(Status.UNKNOWN, "it was not read in full")
    text = live.annotations.get(READY_WHEN, "")
    try:
        rule = _rule(text) if text else None
    except ApplypruneError as error:
        return Readiness(Status.UNKNOWN, str(as_problem(error)))
    started = live.annotations.get(WAIT) == Wait.STARTED
    return assess(live.body, waited=age or 0.0, rule=rule, job_started=started)


@lru_cache(maxsize=256)
def _rule(text: str) -> Rule:
    return compile_rule(text, where=READY_WHEN)


def _age(live: LiveObject, now: datetime) -> float | None:
    return seconds_since(live.metadata.get("creationTimestamp"), now)
