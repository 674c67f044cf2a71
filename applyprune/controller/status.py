"""What a Bundle's status says after a pass: pure, and the same value when nothing has moved.

A time is written only with a change, so a pass that changes nothing leaves no trace at all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from applyprune.controller.names import APPROVE_PRUNE, STALLING, Condition, Reason
from applyprune.model.events import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from applyprune.controller.following import Followed

Status = dict[str, Any]

FAILING_SHOWN = 10
DOOMED_SHOWN = 20
_MESSAGE = 1024


class Verdict(StrEnum):
    """What a pass says of the Ready condition; of a suspended Bundle it stays what it was."""

    READY = "True"
    NOT_READY = "False"
    SAME = ""


@dataclass(frozen=True, slots=True)
class Pass:
    """What one pass over a Bundle has come to.

    ``done`` says of a removal that nothing is left to do.
    ``retries`` says that it is tried again by itself before ``interval`` is over. ``followed`` is
    the run, where there was one. ``revision`` is the source's, empty where it was not read.
    """

    verdict: Verdict
    reason: Reason
    message: str
    revision: str = ""
    followed: Followed | None = field(default=None, compare=False)
    retries: bool = False
    done: bool = False


def progressing(before: Mapping[str, Any], generation: int, now: str) -> Status:
    """Return the status while a new generation is being worked on."""
    status = dict(before)
    # observedGeneration stays what it was: this one has not been carried out.
    status["conditions"] = _conditions(
        before,
        {
            Condition.READY: ("Unknown", Reason.PROGRESSING, f"generation {generation}"),
            Condition.RECONCILING: ("True", Reason.PROGRESSING, f"generation {generation}"),
        },
        generation,
        now,
    )
    return status


def after(
    before: Mapping[str, Any],
    one: Pass,
    *,
    generation: int,
    now: str,
    asked: str = "",
    inventory: tuple[str, str] | None = None,
) -> Status:
    """Return the status after a pass.

    ``asked`` is the annotation that asked for it, ``inventory`` the ConfigMap's name and the set's
    id, and ``now`` the time, RFC 3339 in UTC, for what has changed.
    """
    status = dict(before)
    status["observedGeneration"] = generation
    if asked:
        status["lastHandledReconcileAt"] = asked
    if inventory is not None:
        status["inventory"] = {"name": inventory[0], "set": inventory[1]}
    if one.revision:
        status["lastAttemptedRevision"] = one.revision
        if one.verdict is Verdict.READY:
            status["lastAppliedRevision"] = one.revision
    if (run := one.followed) is not None and run.plan is not None:
        status["objects"] = {"total": run.total, "failing": len(run.failing)}
        _put(status, "failing", _failing(run))
        _put(status, "pendingPrune", _pending(run))
        if run.changed:
            status["lastChange"] = _change(run, now)
    status["conditions"] = _conditions(before, _wanted(one), generation, now)
    return status


def _wanted(one: Pass) -> dict[Condition, tuple[str, Reason, str]]:
    said = (one.reason, one.message)
    stalled = one.reason in STALLING
    wanted = {
        Condition.RECONCILING: ("True", Reason.RETRYING, one.message)
        if one.retries and not stalled
        else ("False", *said),
        Condition.STALLED: ("True" if stalled else "False", *said),
    }
    if one.verdict is not Verdict.SAME:
        wanted[Condition.READY] = (str(one.verdict), *said)
    if (run := one.followed) is not None and run.plan is not None:
        wanted[Condition.PRUNE_BLOCKED] = _blocked(run)
    return wanted


def _blocked(run: Followed) -> tuple[str, Reason, str]:
    refusal = run.refusal
    if refusal is None or run.plan is None:
        return "False", Reason.NOTHING_TO_DO, "no prune is held back"
    message = f"{refusal.what}: {refusal.why}"
    if run.plan.approval:
        message += f". To approve exactly this: the annotation {APPROVE_PRUNE}={run.plan.approval}"
    return "True", Reason.PRUNE_REFUSED, message


def _conditions(
    before: Mapping[str, Any],
    wanted: Mapping[Condition, tuple[str, Reason, str]],
    generation: int,
    now: str,
) -> list[dict[str, Any]]:
    """Return all four conditions; one of which nothing is said stays, or is made Unknown."""
    known = {one["type"]: one for one in before.get("conditions") or ()}
    conditions = []
    for kind in Condition:
        old = known.get(kind)
        if kind not in wanted and old is not None:
            conditions.append(old)
            continue
        unknown = ("Unknown", Reason.PROGRESSING, "nothing is known yet")
        status, reason, message = wanted.get(kind, unknown)
        moved = old is None or old["status"] != status
        conditions.append(
            {
                "type": str(kind),
                "status": status,
                "reason": str(reason),
                "message": _cut(message),
                "lastTransitionTime": now if old is None or moved else old["lastTransitionTime"],
                "observedGeneration": generation,
            }
        )
    return conditions


def is_ready(status: Mapping[str, Any], generation: int | None) -> bool:
    """Return whether a Bundle is ready as it is now: its last change has been carried out."""
    conditions: Sequence[Mapping[str, Any]] = status.get("conditions") or ()
    return status.get("observedGeneration") == generation and any(
        one.get("type") == Condition.READY and one.get("status") == "True" for one in conditions
    )


def _failing(run: Followed) -> list[dict[str, str]]:
    ordered = sorted(run.failing.values(), key=lambda one: (one.skipped, one.ref))
    return [
        {
            "object": one.ref.short,
            **({"namespace": one.ref.namespace} if one.ref.namespace else {}),
            "message": one.message,
        }
        for one in ordered[:FAILING_SHOWN]
    ]


def _pending(run: Followed) -> dict[str, Any] | None:
    if run.refusal is None or run.plan is None or not run.plan.approval:
        return None
    doomed = sorted(run.doomed)
    names = [f"{one.namespace}/{one.short}" if one.namespace else one.short for one in doomed]
    return {"digest": run.plan.approval, "count": len(doomed), "objects": names[:DOOMED_SHOWN]}


def _change(run: Followed, now: str) -> dict[str, Any]:
    counts = run.outcomes
    removed = (Outcome.PRUNED, Outcome.DELETED, Outcome.ORPHANED, Outcome.REMOVED_FROM_INVENTORY)
    return {
        "time": now,
        "seconds": round(run.elapsed, 1),
        "created": counts[Outcome.CREATED],
        "configured": counts[Outcome.CONFIGURED] + counts[Outcome.RECREATED],
        "removed": sum(counts[one] for one in removed),
    }


def _put(status: Status, key: str, value: object) -> None:
    """Set a field, or take it out when there is nothing to say."""
    if value:
        status[key] = value
    else:
        status.pop(key, None)


def _cut(message: str) -> str:
    return message if len(message) <= _MESSAGE else f"{message[: _MESSAGE - 1]}…"
