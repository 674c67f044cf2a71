"""Decide when a Bundle is reconciled again, by its result and what came before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.clock import BOOT_CLOCK, Clock
from applyprune.controller.constants import MISSING, STALLING, Reason
from applyprune.controller.runtime.workqueue import backoff, spread
from applyprune.controller.status import ConditionStatus, ReconcileResult
from applyprune.controller.task import Answer, Past
from applyprune.values import replace

if TYPE_CHECKING:
    from applyprune.controller.bundle import Bundle

_LONGEST_PAUSE = 15.0
"""Seconds, at most, between two looks at what is not ready."""
_LOOK_AGAIN = 120.0
"""Seconds, at most, between two looks for what is missing."""
_SOON = 1.0
"""Seconds, at least, before another look at what may have changed soon."""
_LONGEST_UNWRITTEN = 60.0
_AFTER_LIMIT = 5.0
_LONGEST_AFTER_LIMIT = 600.0


def next_reconcile(
    past: Past,
    bundle: Bundle,
    result: ReconcileResult,
    *,
    removes: bool = False,
    leaves_drift: bool = False,
    clock: Clock = BOOT_CLOCK,
) -> tuple[float, Past]:
    """Return the seconds until the next reconcile, and what it will know of this one.

    ``removes`` says that the Bundle is being deleted, and ``leaves_drift`` that this reconcile has
    failed to set back drift, for a reason that may pass.
    """
    spec, reason, observation = bundle.spec, result.reason, result.observation
    unreverted = past.unreverted + 1 if leaves_drift else 0
    past = replace(past, observation=observation, unreverted=unreverted)
    if observation is not None:
        # Then it has renewed its lock, or has crashed. Neither is a failure of this Bundle.
        return max(_SOON, observation.over_at - clock.now()), past
    if result.ready is ConditionStatus.WAITING:
        return _next_look(past, bundle.timeout, clock.now()), past
    # Of a deleted Bundle, it may get complete without anybody: a kind is served again.
    may_end = removes and reason is Reason.INVENTORY_UNREADABLE
    if not result.retries or (reason in STALLING and not may_end):
        return spread(spec.interval), replace(past, failures=0)
    looks = removes or reason in MISSING
    longest = min(spec.interval, _LOOK_AGAIN) if looks else spec.interval
    past = replace(past, failures=past.failures + 1)
    # A run that was overtaken by another one may soon see what that one has left.
    first = _SOON if reason is Reason.INVENTORY_LOCKED else spec.retry_interval
    delay = backoff(past.failures, first=first, longest=longest)
    if leaves_drift:  # guard: reverts-again-soon
        delay = min(delay, backoff(past.unreverted, first=_SOON, longest=longest))
    return spread(delay), past


def unwritten(past: Past) -> Answer:
    """Return the answer for a reconcile that could not even write a status."""
    failures = past.failures + 1
    delay = spread(backoff(failures, first=_SOON, longest=_LONGEST_UNWRITTEN))
    return Answer(delay, replace(past, failures=failures))


def ended_at_limit(past: Past) -> Answer:
    """Return the answer for a reconcile that has used up all that it may: the next will too."""
    failures = past.failures + 1
    delay = spread(backoff(failures, first=_AFTER_LIMIT, longest=_LONGEST_AFTER_LIMIT))
    return Answer(delay, replace(past, failures=failures))


def _next_look(past: Past, timeout: float, now: float) -> float:
    """Return the seconds until the next look at what is not ready; changes wake it earlier."""
    pause = spread(backoff(past.looks, first=_SOON, longest=_LONGEST_PAUSE))
    if past.waiting_since is None:
        return pause
    return min(pause, max(timeout - (now - past.waiting_since), 0.0))
