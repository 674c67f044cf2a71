"""Decide whether the drift of single objects can be set back without a look at the whole set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.errors import ApplypruneError
from applyprune.model.live import AUTOSCALERS, CRD, NAMESPACE
from applyprune.model.plan import Fate
from applyprune.values import replace

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from applyprune.model.identity import GroupKind, Ref
    from applyprune.model.inventory import Inventory
    from applyprune.model.plan import ApplyStep, Desired, Plan

_HOLDS_OTHERS = frozenset({NAMESPACE, CRD})
"""The kinds whose loss is a loss of other objects too."""


class WholeSetNeeded(ApplypruneError):
    """More than the drift of single objects is to be decided; nothing was written."""


def part_to_correct(
    inventory: Inventory,
    refs: Collection[Ref],
    desired: Iterable[Desired],
    kinds: Collection[GroupKind],
) -> Inventory:
    """Return the inventory with only the entries of the objects to correct.

    ``desired`` are those of the input, and ``kinds`` the kinds of the whole input. Raises
    WholeSetNeeded if one of them may be more than a listed object with drift.
    """
    entries = {ref: entry for ref, entry in inventory.entries.items() if ref in refs}
    is_sound = inventory.exists and not (inventory.copied or inventory.hidden_kinds)
    # An autoscaler of the input counts even while it is missing, but it is not read here.
    is_scaled = AUTOSCALERS.group_kind in kinds
    applied = {member.ref for member in desired}
    is_listed = entries.keys() == applied == set(refs) and all(e.uid for e in entries.values())
    holds_others = any(ref.group_kind in _HOLDS_OTHERS for ref in refs)
    if is_scaled or holds_others or not (is_sound and is_listed):
        raise WholeSetNeeded("the whole set must be looked at")  # guard: correction-of-listed
    return replace(inventory, entries=entries)


def refuse_beyond_drift(plan: Plan) -> None:
    """Raise WholeSetNeeded if a plan to correct drift would do more than that."""
    if plan.restored or not all(map(_only_corrects, plan.applies)):
        raise WholeSetNeeded("more than drift was found")  # guard: only-drift


def _only_corrects(step: ApplyStep) -> bool:
    if step.problem is not None:
        return False
    writes = step.fate in {Fate.CHANGE, Fate.CREATE}
    return step.fate is Fate.LEAVE or (writes and step.is_reapplied)
