"""What a person must agree to before a run: deletions, recreations, and what is taken from others.

Creations and changes need no question: they can be undone by another apply.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeAlias

from applyprune.model.options import Mode
from applyprune.model.plan import ApplyStep, Fate, Plan, RemoveStep

Consent: TypeAlias = frozenset[Hashable]
"""What somebody agrees to; two plans that need the same consent have equal values."""

_DELETES = frozenset({Fate.PRUNE})
_REMOVES = frozenset({Fate.PRUNE, Fate.ORPHAN, Fate.REMOVE_FROM_INVENTORY})


def needed_consent(plan: Plan, mode: Mode) -> Consent:
    """Return what the plan needs consent for; empty if it needs none.

    To delete a set, every object that leaves it counts, even if it stays in the cluster.
    """
    fates = _REMOVES if mode is Mode.DELETE else _DELETES
    removals = () if plan.no_prune else plan.removals
    return frozenset(
        (
            *(_identity(step) for step in removals if step.fate in fates),
            *(_identity(step) for step in plan.applies if _takes(step)),
        )
    )


def _takes(step: ApplyStep) -> bool:
    return step.fate is Fate.RECREATE or (
        step.fate.is_applied and (bool(step.taken_from) or step.becomes_owned)  # guard: own-asks
    )


def _identity(step: ApplyStep | RemoveStep) -> Hashable:
    """Return what the user has seen of a step, and the UID that the name stands for."""
    uid = step.live.uid if step.live else ""
    taken = step.taken_from if isinstance(step, ApplyStep) else ()
    return (step.fate, step.entry.ref, uid, step.reason, taken)
