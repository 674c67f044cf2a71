"""Decide which objects of the input are not applied: an annotation or the rule for drift says so.

Drift of an object that is left shows in its step. Nothing is sent for it, so its entry still says
what the last apply has left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.model.fieldset import FieldWriter, leaves
from applyprune.model.live import LiveObject, NotListed, Unknown
from applyprune.model.options import OnDrift
from applyprune.model.plan import OUTSIDE, ApplyRule, ApplyStep, Desired, Fate
from applyprune.planning.diff.drift import DELETED, differs, step_drift
from applyprune.planning.fields.normalize import may_be_secret, sent
from applyprune.planning.marks.apply_mark import left_alone
from applyprune.planning.ownership.managed_fields import own_apply_entry
from applyprune.planning.ownership.owner import Owner, is_marked, owner_of, same_apply_entry
from applyprune.values import replace

if TYPE_CHECKING:
    from applyprune.model.inventory import InventoryEntry
    from applyprune.model.live import Missing, State
    from applyprune.model.options import Options
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


DRIFTED = "its manifest has not changed, so its drift stays"
CONTENDED = "somebody keeps changing it back"


def was_applied(desired: Desired, entry: InventoryEntry | None) -> bool:
    """Return whether the last confirmed apply of a listed object has sent the same manifest.

    What an interrupted run has marked to be deleted or orphaned is applied again in any case.
    """
    if entry is None or not entry.uid or entry.digest != desired.digest:
        return False
    is_marked_so = entry.orphan_reason == desired.orphan_reason
    return is_marked_so and not (entry.deleting or entry.orphaning)


def step_of_drifted(
    desired: Desired,
    entry: InventoryEntry | None,
    live: LiveObject,
    manager: str,
    options: Options,
    *,
    schema_changes: bool,
) -> ApplyStep | None:
    """Return the step of an object that is left as it is until its manifest changes; else None.

    ``schema_changes`` says that this run changes the CRD of its kind.
    """
    if entry is None or live.terminating:
        return None
    if options.apply.on_drift is not OnDrift.KEEP:  # guard: kept-drift
        return None
    if schema_changes or options.apply.reapply_all or not was_applied(desired, entry):
        return None
    if _has_new_values(desired, entry, live, manager):  # guard: changed-secret
        return None
    return _kept(ApplyStep(desired, Fate.LEAVE, entry, live, is_reapplied=True), entry, DRIFTED)


def _has_new_values(
    desired: Desired, entry: InventoryEntry, live: LiveObject, manager: str
) -> bool:
    """Return whether the manifest of a Secret has other values than were applied last.

    No digest shows it. So a field that the set still owns, and that differs, has changed here.
    """
    if not may_be_secret(desired.body) or live.body is None or entry.uid != live.uid:
        return False
    if entry.fingerprint is not None and same_apply_entry(entry.fingerprint, live, manager):
        return True
    mine = (own_apply_entry(live, manager) or {}).get("fieldsV1") or {}
    return any(differs(sent(desired), live, path) for path in leaves(mine))


def step_of_deleted(
    step: ApplyStep, entry: InventoryEntry | None, state: Missing, options: Options
) -> ApplyStep:
    """Return the step that creates an object; as LEAVE if somebody has deleted it, and that stays.

    Only a proof that it does not exist counts: what a list lacks is created as usual.
    """
    on_drift = options.apply.on_drift
    is_known = was_applied(step.desired, entry) and not isinstance(state, NotListed)
    if on_drift is OnDrift.FAIL or entry is None or not is_known:
        return step
    step = replace(step, drift=(DELETED,), is_reapplied=True)
    if on_drift is OnDrift.KEEP and not options.apply.reapply_all:  # guard: kept-deletion
        return _kept(step, entry, DRIFTED)
    return without_contended(step, entry, options)


def with_drift(
    step: ApplyStep, entry: InventoryEntry | None, manager: str, options: Options
) -> ApplyStep:
    """Return a step with its drift; as LEAVE if that is of a manager that keeps changing it back.

    ``step.live`` was read in full, and ``entry`` is the recorded one.
    """
    drifted = replace(step, drift=step_drift(step, manager))
    return drifted if entry is None else without_contended(drifted, entry, options)


def without_contended(step: ApplyStep, entry: InventoryEntry, options: Options) -> ApplyStep:
    """Return a step as LEAVE if one of its fields is contended; it stays listed."""
    ref = step.desired.ref
    writers = [FieldWriter.of(ref, drift.path, drift.manager) for drift in step.drift]
    found = any(known.covers(writer) for known in options.contended for writer in writers)
    if not found:  # guard: contended-object
        return step
    return _kept(step, entry, CONTENDED)


def _kept(step: ApplyStep, entry: InventoryEntry, reason: str) -> ApplyStep:
    left = replace(step, fate=Fate.LEAVE, reason=reason, request=None, reverts=(), keeps_drift=True)
    return _listed(left, entry)
