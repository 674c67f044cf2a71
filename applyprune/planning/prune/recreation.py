"""Judge recreations by what the garbage collector would delete with the old object."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from applyprune.model.fieldset import owns, value_at
from applyprune.model.identity import Ref
from applyprune.model.inventory import InventoryEntry
from applyprune.model.live import LiveObject
from applyprune.model.options import Options
from applyprune.model.plan import ON_CHANGE, ApplyStep, Desired, Fate, Plan, Recreate
from applyprune.model.problem import Problem
from applyprune.planning.applyset import MANIFEST_DIGEST, ApplySetIdentity
from applyprune.planning.ownership.managed_fields import own_apply_entry
from applyprune.planning.prune.cascade import NOTHING, Cascades, cascade_of
from applyprune.planning.requests import delete_request
from applyprune.planning.schema.immutable import not_recreated, why_not
from applyprune.planning.snapshot import CascadeContents
from applyprune.values import replace


def with_recreations_judged(
    plan: Plan,
    dependants: Mapping[Ref, CascadeContents],
    listed: Collection[Ref],
    options: Options,
) -> Plan:
    """Return a plan whose recreations have their cascades; one that harms others is refused.

    ``dependants`` is what is deleted with each deleted object, ``listed`` are all refs in the
    inventory.
    """
    deleting = {
        step.live.uid
        for step in plan.steps
        if step.live is not None and step.fate in {Fate.PRUNE, Fate.RECREATE}
    }
    cascades = cascades_of(dependants, deleting, listed)

    def judged(step: ApplyStep) -> ApplyStep:
        ref = step.desired.ref
        if step.fate is not Fate.RECREATE or ref not in cascades.found:
            return step
        if problem := refused_recreation_of(ref, cascades, options):
            located = replace(problem, location=str(step.desired.origin))
            return replace(step, fate=Fate.REFUSE, problem=located, request=None, deletion=None)
        told = cascades.described(ref)
        reason = "; ".join(part for part in (step.reason, told) if part)
        return replace(step, reason=reason, cascade=cascades.found[ref].roots)

    return replace(plan, applies=tuple(map(judged, plan.applies)))


def recreated_on_change(
    step: ApplyStep, entry: InventoryEntry, applyset: ApplySetIdentity, options: Options
) -> ApplyStep:
    """Return the step of a listed object; as RECREATE if its manifest asks for it and has changed.

    The object itself must prove that: an inventory that somebody has edited recreates nothing. If
    the last manifest is unknown, it counts as unchanged.
    """
    desired, live = step.desired, step.live
    if live is None or desired.recreate is not Recreate.ON_CHANGE:
        return step
    if not _has_changed(desired, live, applyset.manager):
        return step
    if reason := why_not(desired, entry, live, applyset, options):  # guard: recreation-on-change
        problem = not_recreated(desired, reason)
        return ApplyStep(desired, Fate.REFUSE, entry, live, problem=problem)
    return replace(
        step,
        fate=Fate.RECREATE,
        reason=ON_CHANGE,
        deletion=delete_request(desired.resource, live, options.prune.propagation),
    )


def _has_changed(desired: Desired, live: LiveObject, manager: str) -> bool:
    """Return whether an object was applied by another manifest than this one."""
    path = ("metadata", "annotations", MANIFEST_DIGEST)
    ours = (own_apply_entry(live, manager) or {}).get("fieldsV1") or {}
    applied = live.annotations.get(MANIFEST_DIGEST, "")
    is_known = bool(applied) and owns(ours, path)  # guard: digest-on-the-object
    return is_known and applied != value_at(desired.body, path)


def cascades_of(
    dependants: Mapping[Ref, CascadeContents], deleting: Collection[str], listed: Collection[Ref]
) -> Cascades:
    """Return the cascades of what is recreated; ``deleting`` has the UIDs of what is deleted."""
    found = {ref: cascade_of(NOTHING, deleting, "", owned) for ref, owned in dependants.items()}
    return Cascades(found, listed)


def refused_recreation_of(ref: Ref, cascades: Cascades, options: Options) -> Problem | None:
    """Return why an object may not be recreated because of what it owns; None if it may."""
    problem = cascades.refusal(ref, options.prune.allow_cascade)  # guard: recreation-cascade
    if problem is None:
        return None
    return replace(
        problem,
        message=f"{ref.short} cannot be changed in place, and was not recreated",
        hint=f"To allow exactly this: --allow-cascade {ref.short}",
    )
