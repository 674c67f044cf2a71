"""The status of a Bundle: its conditions, and when it is due again.

Times, and the replica, change only together with something else, so an idle reconcile writes
nothing, and neither does a restart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from applyprune.clock import BOOT_CLOCK, Clock
from applyprune.controller.queue import retry_delay, with_jitter
from applyprune.controller.reasons import MISSING_REASONS, STALLED_REASONS, ConditionType, Reason
from applyprune.controller.result import RunResult
from applyprune.controller.task import (
    NO_DRIFT_THEN,
    Answer,
    ReconcileHistory,
    SourceState,
)
from applyprune.model.fate import Outcome
from applyprune.model.inventory import HolderObservation
from applyprune.model.live import mapping, whole_number
from applyprune.model.problem import ProblemKind
from applyprune.values import replace

if TYPE_CHECKING:
    from applyprune.controller.drift import DriftReport
    from applyprune.controller.pending_plan import PendingPlan
    from applyprune.controller.spec import BundleSpec

UNOBSERVED = -1
"""The default of observedGeneration in the CRD: no generation was tried."""
FAILING_SHOWN = 10
_NOT_STALLED = "it is not stalled"
_MESSAGE = 1024


class ReconcileResult(Struct, frozen=True):
    ready: ConditionStatus
    reason: Reason
    message: str
    """What is wrong, in short; the objects that fail have messages of their own."""
    revision: str = ""
    """The revision of the source; empty if it was not read."""
    run_result: RunResult | None = None
    """None without a run."""
    pending: PendingPlan | None = None
    """What of the run's plan waits for an approval."""
    retries: bool = False
    """Whether it is retried before ``interval`` is over."""
    observation: HolderObservation | None = None
    """What was seen of another run that holds the inventory; None if none does."""
    done: bool = False
    """Whether nothing is left to do for a removal."""
    drift: DriftReport | None = None
    """What it says about drift; None if it knows nothing about it."""
    details: str = ""
    """What an Event and the log say beyond the message."""
    source: SourceState | None = None
    """The state of the source on another host that it has applied; None if there is none."""
    handles: bool = True
    """Whether what reconcile-now asks for is handled with it."""
    is_checked_again: bool = False
    """Whether its source, which cannot be used, is checked again: a retry beside its own."""


class ConditionStatus(StrEnum):
    """The new status of the Ready condition; ``SAME`` keeps the old one, if suspended."""

    READY = "True"
    NOT_READY = "False"
    WAITING = "Unknown"
    SAME = ""


def status_after(
    before: Mapping[str, Any],
    result: ReconcileResult,
    *,
    generation: int,
    now: str,
    requested: str = "",
    inventory: tuple[str, str] | None = None,
    replica: str = "",
) -> dict[str, Any]:
    """Return the status after a reconcile.

    ``requested`` is the value of the annotation that requested it. ``inventory`` is the
    ConfigMap's name and the set's id. ``replica`` is who writes it if anything else has changed.
    ``now`` is the time of changes, RFC 3339 in UTC.
    """
    status = {"observedGeneration": UNOBSERVED, **before}
    # A suspended Bundle shows the last generation that was tried, as in Flux: otherwise a change of
    # the spec and of suspend in one edit would be ready without an apply.
    if result.ready is not ConditionStatus.SAME:  # guard: suspended-generation always
        status["observedGeneration"] = generation
    if requested and result.handles:
        status["lastHandledReconcileAt"] = requested
    if result.source is not None:
        status["source"] = _source(before, result.source, generation)
    if inventory is not None:
        status["inventory"] = {"name": inventory[0], "set": inventory[1]}
    if result.revision:
        status["lastAttemptedRevision"] = result.revision
        if result.ready is ConditionStatus.READY:
            status["lastAppliedRevision"] = result.revision
    if (run := result.run_result) is not None and (run.plan is not None or run.failing):
        status["objects"] = _counts(run, before.get("objects") or {})
        _put(status, "failing", _failing(run))
    if run is not None and run.plan is not None:
        _put(status, "pendingPlan", _pending(before, result, now))
        if run.changed:
            status["lastChange"] = _change(run, now)
    for key, value in (result.drift.fields if result.drift is not None else {}).items():
        _put(status, key, value)
    status["conditions"] = _conditions(before, _wanted(result), generation, now)
    if status != before:  # guard: replica-alone always
        _put(status, "replica", replica)
    return status


def _source(before: Mapping[str, Any], state: SourceState, generation: int) -> Mapping[str, Any]:
    """Return which content was found for the path, by a check that began when.

    The time is that of the first check which has found it for this generation.
    """
    known = mapping(before.get("source"))
    content = state.content
    if content is None:
        return known
    found = {"path": state.path, "content": content.content, "generation": generation}
    if found.items() <= known.items():
        return known
    return {**found, "revision": content.revision, "checkedAt": state.checked}


def progressing_status(
    before: Mapping[str, Any], generation: int, now: str, *, replica: str = ""
) -> dict[str, Any]:
    """Return the status while a new generation is being applied."""
    # observedGeneration does not change: the new generation has not been applied yet.
    status = {"observedGeneration": UNOBSERVED, **before}
    _put(status, "replica", replica)
    applies = f"generation {generation} is being applied"
    status["conditions"] = _conditions(
        before,
        {
            ConditionType.READY: ("Unknown", Reason.PROGRESSING, applies),
            ConditionType.RECONCILING: ("True", Reason.PROGRESSING, "a run is under way"),
            ConditionType.STALLED: ("False", Reason.PROGRESSING, _NOT_STALLED),
        },
        generation,
        now,
    )
    return status


def _counts(run: RunResult, before: Mapping[str, int]) -> dict[str, int]:
    """Return how many objects the set has, as far as the run knows it."""
    # An input with errors has no plan, but its other objects were checked.
    counts = {
        "total": before.get("total", 0) if run.size is None else run.size,
        "failing": len(run.failing),
        "elsewhere": run.elsewhere,
    }
    return {**before, **{name: count for name, count in counts.items() if count is not None}}


def with_elsewhere(before: Mapping[str, Any], elsewhere: int | None) -> Mapping[str, Any]:
    """Return the status that says, before the first write, that a set gets objects elsewhere.

    A status that does not say that it has none need not be changed.
    """
    if not elsewhere or known_elsewhere(before) != 0:
        return before
    return {**before, "objects": {**before["objects"], "elsewhere": elsewhere}}


def known_elsewhere(status: Mapping[str, Any]) -> int | None:
    """Return how many objects of the set outlive the Bundle's namespace; None if unknown."""
    return whole_number(status, "objects", "elsewhere")


def _wanted(result: ReconcileResult) -> dict[ConditionType, tuple[str, Reason, str]]:
    """Return the new conditions; only Ready, or PruneBlocked, says what is wrong."""
    reason = result.reason
    stalled = reason in STALLED_REASONS
    retries = (result.retries or result.is_checked_again) and not stalled
    suspended = result.ready is ConditionStatus.SAME
    waits = result.ready is ConditionStatus.WAITING
    awaited = result.message if result.run_result is None else "its objects are not ready yet"
    wanted = {
        ConditionType.RECONCILING: ("True", reason, awaited)
        if waits
        else ("True", Reason.RETRYING, f"it is retried after {reason}")
        if retries
        else ("False", reason, result.message if suspended else "no run is under way"),
        ConditionType.STALLED: ("True", reason, f"{reason} needs a change: a retry would not help")
        if stalled
        else ("False", reason, _NOT_STALLED),
    }
    if not suspended:
        wanted[ConditionType.READY] = (str(result.ready), reason, result.message)
    if (run := result.run_result) is not None and run.plan is not None:
        wanted[ConditionType.PRUNE_BLOCKED] = _blocked(run, result.pending)
    if result.drift is not None and result.drift.condition is not None:
        wanted[ConditionType.DRIFTED] = result.drift.condition
    return wanted


def _blocked(run: RunResult, pending: PendingPlan | None) -> tuple[str, Reason, str]:
    if pending is not None and pending.deletes:
        return "True", pending.reason, pending.message
    if run.refusal is not None and run.refusal.kind is ProblemKind.PRUNE_REFUSED:
        return "True", Reason.PRUNE_REFUSED, run.refusal_message
    return "False", Reason.NOTHING_TO_DO, "no prune is blocked"


def _conditions(
    before: Mapping[str, Any],
    wanted: Mapping[ConditionType, tuple[str, Reason, str]],
    generation: int,
    now: str,
) -> list[dict[str, Any]]:
    """Return every condition; one without a new value keeps its old one, or is Unknown."""
    known = {condition["type"]: condition for condition in before.get("conditions") or ()}
    conditions = []
    for kind in ConditionType:
        old = known.get(kind)
        if kind not in wanted and old is not None:
            conditions.append(old)
            continue
        unknown = ("Unknown", Reason.PROGRESSING, "nothing has been applied yet")
        status, reason, message = wanted.get(kind, unknown)
        changed = old is None or old["status"] != status
        conditions.append(
            {
                "type": str(kind),
                "status": status,
                "reason": str(reason),
                "message": message if len(message) <= _MESSAGE else f"{message[: _MESSAGE - 1]}…",
                "lastTransitionTime": now if old is None or changed else old["lastTransitionTime"],
                "observedGeneration": generation,
            }
        )
    return conditions


def _failing(run: RunResult) -> list[dict[str, str]]:
    return [
        {
            "object": failed.ref.short,
            **({"namespace": failed.ref.namespace} if failed.ref.namespace else {}),
            "message": failed.message,
        }
        for failed in run.failed[:FAILING_SHOWN]
    ]


def _pending(before: Mapping[str, Any], result: ReconcileResult, now: str) -> dict[str, Any] | None:
    if result.pending is None:
        return None
    known = before.get("pendingPlan") or {}
    return result.pending.status(known, revision=result.revision, now=now)


def _change(run: RunResult, now: str) -> dict[str, Any]:
    counts = run.outcomes
    removed = (Outcome.PRUNED, Outcome.DELETED, Outcome.ORPHANED, Outcome.REMOVED_FROM_INVENTORY)
    return {
        "time": now,
        "seconds": round(run.elapsed, 1),
        "created": counts[Outcome.CREATED],
        "updated": counts[Outcome.UPDATED] + counts[Outcome.RECREATED],
        "removed": sum(counts[outcome] for outcome in removed),
    }


def _put(status: dict[str, Any], key: str, value: object) -> None:
    """Set a field, or remove it when its value is empty."""
    if value:
        status[key] = value
    else:
        status.pop(key, None)


# What a status says.


def is_bundle_ready(status: Mapping[str, Any], generation: int | None) -> bool:
    """Return whether a Bundle is ready in its current generation."""
    ready = condition_of(status, ConditionType.READY)
    own = ready.get("observedGeneration", generation) == generation
    return observes_generation(status, generation) and own and ready.get("status") == "True"


def observes_generation(status: Mapping[str, Any], generation: int | None) -> bool:
    """Return whether a status is about this generation: one before it says nothing of it."""
    return status.get("observedGeneration") == generation  # guard: tried-generation -> True


def has_waited(status: Mapping[str, Any], revision: str, generation: int | None) -> bool:
    """Return whether the status says that the wait for this revision has ended without success."""
    ready = condition_of(status, ConditionType.READY)
    return (
        status.get("observedGeneration") == generation
        and status.get("lastAttemptedRevision") == revision
        and (ready.get("status"), ready.get("reason")) == ("False", Reason.NOT_READY)
    )


def condition_of(status: Mapping[str, Any], kind: ConditionType) -> Mapping[str, Any]:
    conditions: Sequence[Mapping[str, Any]] = status.get("conditions") or ()
    return next((condition for condition in conditions if condition.get("type") == kind), {})


def unwatched_in(status: Mapping[str, Any]) -> str:
    """Return why drift is only seen at the interval, as a status says it; empty if it does not."""
    drifted = condition_of(status, ConditionType.DRIFTED)
    if drifted.get("reason") != Reason.NOT_WATCHED:
        return ""
    return str(drifted.get("message", "")).removeprefix(NO_DRIFT_THEN)


def event_state(status: Mapping[str, Any]) -> tuple[object, ...]:
    """Return what of a status an Event is about: a retry changes none of it."""
    ready = condition_of(status, ConditionType.READY)
    failing = [(one["object"], one.get("namespace")) for one in status.get("failing") or ()]
    return (
        ready.get("status"),
        ready.get("reason"),
        status.get("lastAttemptedRevision"),
        (status.get("objects") or {}).get("failing"),
        tuple(failing),
        (status.get("pendingPlan") or {}).get("digest"),
    )


# When a Bundle is reconciled again, by its result and what came before.


_LOOK_AGAIN = 120.0
"""Seconds, at most, between two looks for what is missing."""
_SOON = 1.0
"""Seconds, at least, before another look at what may have changed soon."""
_LONGEST_PAUSE = 15.0
"""Seconds, at most, between two looks at what is not ready."""
_LONGEST_UNWRITTEN = 60.0
_AFTER_LIMIT = 5.0
_LONGEST_AFTER_LIMIT = 600.0


def next_reconcile(
    history: ReconcileHistory,
    bundle: BundleSpec,
    result: ReconcileResult,
    *,
    removes: bool = False,
    fails_to_revert: bool = False,
    clock: Clock = BOOT_CLOCK,
) -> tuple[float, ReconcileHistory]:
    """Return the seconds until the next reconcile, and what it will know of this one.

    ``removes`` says that the Bundle is being deleted, and ``fails_to_revert`` that this reconcile
    has failed to revert drift, for a reason that may pass.
    """
    spec, reason, observation = bundle.spec, result.reason, result.observation
    unreverted = history.unreverted + 1 if fails_to_revert else 0
    history = replace(history, observation=observation, unreverted=unreverted)
    if observation is not None:
        # Then it has renewed its lock, or has crashed. Neither is a failure of this Bundle.
        return max(_SOON, observation.over_at - clock.now()), history
    if result.ready is ConditionStatus.WAITING:
        return _next_ready_check(history, bundle.timeout, clock.now()), history
    # Of a deleted Bundle, it may get complete without anybody: a kind is served again.
    may_end = removes and reason is Reason.INVENTORY_UNREADABLE
    if not result.retries or (reason in STALLED_REASONS and not may_end):
        return with_jitter(spec.interval), replace(history, failures=0)
    rechecks = removes or reason in MISSING_REASONS
    longest = min(spec.interval, _LOOK_AGAIN) if rechecks else spec.interval
    history = replace(history, failures=history.failures + 1)
    # A run that was overtaken by another one may soon see what that one has left.
    first = _SOON if reason is Reason.INVENTORY_LOCKED else spec.retry_interval
    delay = retry_delay(history.failures, first=first, longest=longest)
    if fails_to_revert:  # guard: reverts-again-soon never
        delay = min(delay, retry_delay(history.unreverted, first=_SOON, longest=longest))
    return with_jitter(delay), history


def _next_ready_check(history: ReconcileHistory, timeout: float, now: float) -> float:
    """Return the seconds until the next look at what is not ready; changes wake it earlier."""
    pause = with_jitter(retry_delay(history.ready_checks, first=_SOON, longest=_LONGEST_PAUSE))
    if history.waiting_since is None:
        return pause
    return min(pause, max(timeout - (now - history.waiting_since), 0.0))


def unwritten_answer(history: ReconcileHistory) -> Answer:
    """Return the answer for a reconcile that could not even write a status."""
    failures = history.failures + 1
    delay = with_jitter(retry_delay(failures, first=_SOON, longest=_LONGEST_UNWRITTEN))
    return Answer(delay, replace(history, failures=failures))


def ended_at_limit(history: ReconcileHistory) -> Answer:
    """Return the answer for a reconcile that has used up all that it may: the next will too."""
    failures = history.failures + 1
    delay = with_jitter(retry_delay(failures, first=_AFTER_LIMIT, longest=_LONGEST_AFTER_LIMIT))
    return Answer(delay, replace(history, failures=failures))
