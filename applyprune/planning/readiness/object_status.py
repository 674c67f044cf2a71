"""How an object of a set is now: its readiness, its age, and whether it is what was applied."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from applyprune.errors import ApplypruneError, NotReady, RunFailed, as_problem
from applyprune.model.display import and_more, seconds_since
from applyprune.model.events import ObjectStatus, Readiness, Status
from applyprune.model.live import Absent, LiveObject, Unknown
from applyprune.planning.annotations import READY_WHEN, WAIT
from applyprune.planning.drift import drifted_from_record, recorded_drift
from applyprune.planning.ownership.owner import Owner, other_set, owner_of
from applyprune.planning.readiness.cel import Rule, compile_rule
from applyprune.planning.readiness.kstatus import assess
from applyprune.planning.readiness.wait_rules import Wait

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime

    from applyprune.model.inventory import InventoryEntry
    from applyprune.model.live import State
    from applyprune.model.problem import Problem
    from applyprune.planning.applyset import ApplySetIdentity

_SHOWN = 5


def object_status(
    entry: InventoryEntry,
    state: State,
    target: ApplySetIdentity,
    now: datetime,
    *,
    fields: bool = False,
) -> ObjectStatus:
    """Return how an object stands; ``state`` is of a full read, ``fields`` asks for its drift.

    The age is by the clock of ``now``, which need not be the server's.
    """
    if isinstance(state, Unknown):
        told = f"it could not be looked at: {state.problem.kind}"
        readiness = Readiness(Status.UNKNOWN, told)
        return ObjectStatus(entry.ref, readiness, entry.ownership, None)
    if isinstance(state, Absent):
        return ObjectStatus(entry.ref, _absent(entry, state), entry.ownership, None)
    if owner_of(state, entry, target) is Owner.OTHER:
        named = other_set(state)
        told = f"what is there belongs to another set{f': {named}' if named else ''}"
        return ObjectStatus(entry.ref, Readiness(Status.NOT_FOUND, told), entry.ownership, None)
    age = _age(state, now)
    drifted = drifted_from_record(entry, state, target.manager)
    return ObjectStatus(
        ref=entry.ref,
        readiness=_readiness(state, age),
        ownership=entry.ownership,
        age=age,
        drifted=drifted,
        drift=recorded_drift(state, target.manager) if fields and drifted else (),
    )


def is_waited_for(state: State) -> bool:
    """Return whether an object counts for the set's being ready; its annotation may say no."""
    return not isinstance(state, LiveObject) or state.annotations.get(WAIT) != Wait.SKIP


def status_warning(entry: InventoryEntry, state: State, target: ApplySetIdentity) -> Problem | None:
    """Return what is to be warned of: an object that is not there, not known, or not ours now."""
    if isinstance(state, Unknown):
        return as_problem(RunFailed(f"{entry.ref} is not known", reason=str(state.problem)))
    if isinstance(state, Absent):
        return as_problem(
            RunFailed(f"{entry.ref} is not there", reason=_absent(entry, state).message)
        )
    owner = owner_of(state, entry, target)
    if owner is Owner.OTHER:
        return as_problem(RunFailed(f"{entry.ref} belongs to another set now"))
    if owner is not Owner.RECORDED and entry.uid:
        return as_problem(
            RunFailed(
                f"{entry.ref} is not the object that the set has applied",
                reason="it was deleted and created again: its UID is another",
                hint=f"See: applyprune inventory check {target.arguments}",
            )
        )
    return None


def unattributed_drift(one: ObjectStatus) -> Problem | None:
    """Return what is to be said of an object that has drifted in fields that nothing names."""
    if not one.drifted or one.drift:
        return None
    return as_problem(
        RunFailed(
            f"{one.ref} has drifted, and nothing tells in which fields",
            reason="what somebody removes, or applies in the set's own name, leaves no other owner",
            hint="The next apply puts it right.",
        )
    )


def verdict(counted: Collection[ObjectStatus]) -> ApplypruneError | None:
    """Return what objects that count amount to: RunFailed, NotReady, or None when all are ready."""
    unknown = [one for one in counted if one.readiness.status is Status.UNKNOWN]
    if unknown:
        return RunFailed(f"{_count(unknown, counted)} not known: {_names(unknown)}")
    unready = [one for one in counted if one.readiness.status is not Status.CURRENT]
    if unready:
        return NotReady(f"{_count(unready, counted)} not ready: {_names(unready)}")
    return None


def _count(ones: Sequence[ObjectStatus], of: Collection[ObjectStatus]) -> str:
    return f"{len(ones)} of the set's {len(of)} objects {'is' if len(ones) == 1 else 'are'}"


def _names(ones: Sequence[ObjectStatus]) -> str:
    return and_more([one.ref.short for one in ones], _SHOWN)


def _absent(entry: InventoryEntry, state: Absent) -> Readiness:
    if not state.proven:
        return Readiness(Status.UNKNOWN, "nothing proves whether it is there")
    if not entry.uid:
        return Readiness(Status.NOT_FOUND, "no apply of it was ever confirmed; apply again")
    return Readiness(Status.NOT_FOUND, "somebody has deleted it, or its TTL has removed it")


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


@cache
def _rule(text: str) -> Rule:
    return compile_rule(text, where=READY_WHEN)


def _age(live: LiveObject, now: datetime) -> float | None:
    return seconds_since(live.metadata.get("creationTimestamp"), now)
