"""Decide which objects of the input are not applied, because an annotation says so."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from applyprune.model.live import LiveObject, Unknown
from applyprune.model.plan import ApplyStep, Desired, Fate
from applyprune.model.plan_values.apply_rules import OUTSIDE, ApplyRule
from applyprune.planning.marks.apply_mark import left_alone
from applyprune.planning.ownership.managed_fields import own_apply_entry
from applyprune.planning.ownership.owner import Owner, is_marked, owner_of

if TYPE_CHECKING:
    from applyprune.model.inventory import InventoryEntry
    from applyprune.model.live import State
    from applyprune.planning.applyset import ApplySetIdentity


def step_of_left(
    desired: Desired,
    entry: InventoryEntry | None,
    fresh: InventoryEntry,
    state: State,
    applyset: ApplySetIdentity,
) -> ApplyStep | None:
    """Return the step of an object that is not applied; None if it is applied as usual.

    ``fresh`` is the entry that a new object would get. A listed object stays listed, so that it
    never counts as one that has left the set.
    """
    live = state if isinstance(state, LiveObject) else None
    if desired.apply is ApplyRule.DISABLED:  # guard: disabled-manifest
        return _left(desired, entry, fresh, live, f"its manifest is marked {desired.apply_mark}")
    if desired.apply is ApplyRule.EXISTS and not isinstance(state, Unknown):
        return _must_exist(desired, fresh, live)
    if live is None:
        return None
    if desired.apply is ApplyRule.ONCE and not live.terminating:
        return _once(desired, entry, fresh, live, applyset)
    ours = (own_apply_entry(live, applyset.manager) or {}).get("fieldsV1") or {}
    if mark := left_alone(live.metadata, ours):  # guard: left-alone
        return _left(desired, entry, fresh, live, f"it is marked {mark} in the cluster")
    return None


def _left(
    desired: Desired,
    entry: InventoryEntry | None,
    fresh: InventoryEntry,
    live: LiveObject | None,
    reason: str,
) -> ApplyStep:
    step = ApplyStep(desired, Fate.LEAVE, fresh, live, reason, is_left_alone=True)
    return replace(step, is_unlisted=True) if entry is None else _listed(step, entry)


def _once(
    desired: Desired,
    entry: InventoryEntry | None,
    fresh: InventoryEntry,
    live: LiveObject,
    applyset: ApplySetIdentity,
) -> ApplyStep:
    """Leave an existing object as it is; it is the set's own only if the set has created it."""
    reason = f"it exists, and its manifest is marked {desired.apply_mark}"
    if entry is None or owner_of(live, entry, applyset) is not Owner.RECORDED:
        return _left(desired, entry, fresh, live, reason)
    # The reply to the create may have been lost.
    uid = entry.uid or (live.uid if is_marked(live, applyset) else "")
    step = ApplyStep(desired, Fate.LEAVE, fresh, live, reason)
    return _listed(step, replace(entry, uid=uid))


def _listed(step: ApplyStep, entry: InventoryEntry) -> ApplyStep:
    """Return a step that keeps an entry, with a mark against deletion that the manifest has now.

    Nothing is sent, so nothing else would record that mark.
    """
    desired = step.desired
    kept = desired.orphan_reason or entry.orphan_reason
    listed = replace(entry, wave=desired.wave, depends_on=desired.depends_on, orphan_reason=kept)
    return replace(step, entry=listed, is_recorded=kept != entry.orphan_reason)


def _must_exist(desired: Desired, fresh: InventoryEntry, live: LiveObject | None) -> ApplyStep:
    # Its state is not part of the plan: somebody else may delete and create it at any time.
    is_there = live is not None and not live.terminating
    return ApplyStep(
        desired,
        Fate.LEAVE,
        fresh,
        reason=OUTSIDE if is_there else f"{OUTSIDE}; it does not exist yet",
        is_unlisted=True,
        is_awaited=not is_there,
    )
