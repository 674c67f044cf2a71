"""Bind a run to a plan file: make the file, refuse it elsewhere, and hold a new plan to it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from applyprune.errors import PlanOutdated, UsageError
from applyprune.model.plan import IN_PLACE, ApplyStep, Fate, OnConflict, Plan
from applyprune.planning.approval.plan_file import PlanFile, sealed
from applyprune.planning.approval.planned_objects import PlannedObject, planned_objects
from applyprune.planning.approval.shaping_options import changed_options, shaping_options
from applyprune.values import replace

if TYPE_CHECKING:
    from applyprune.model.inventory import Inventory
    from applyprune.model.options import Options
    from applyprune.planning.applyset import ApplySetIdentity

SYSTEM = "kube-system"
"""The Namespace whose UID identifies a cluster."""
_YEAR = 365 * 24 * 3600
_AGAIN = "Make the plan again, and review it again."


def plan_file_of(
    plan: Plan,
    applyset: ApplySetIdentity,
    options: Options,
    *,
    cluster: Mapping[str, str],
    now: datetime,
    valid_for: timedelta,
) -> PlanFile:
    """Return the file of a plan that a run has planned and checked.

    ``cluster`` has the UIDs of the Namespaces that identify the cluster. Raises UsageError if
    nothing identifies it.
    """
    uid, _, generation = plan.inventory.rpartition("/")
    if not (cluster or uid):
        raise UsageError(
            "a plan file must name its cluster, and nothing identifies it",
            reason=f"the Namespaces {SYSTEM} and {applyset.namespace} cannot be read",
            hint=f"Allow the account to get the Namespace {applyset.namespace}.",
        )
    created = now.replace(microsecond=0)
    return sealed(
        PlanFile(
            name=applyset.name,
            namespace=applyset.namespace,
            cluster=cluster,
            inventory_uid=uid,
            generation=int(generation),
            options=shaping_options(options),
            created=created,
            expires=created + valid_for,
            digest=plan.digest,
            deletions=plan.deletions,
            objects=planned_objects(plan),
            recovered=tuple((entry.ref, entry.uid) for entry in plan.recovered),
        )
    )


def refuse_validity(seconds: float) -> None:
    """Refuse a plan file that would be valid for less than a second, or for more than a year."""
    if not 1 <= seconds <= _YEAR:
        raise UsageError("a plan file must be valid for at least 1s, and at most 8760h, a year")


def refuse_other_set(file: PlanFile, applyset: ApplySetIdentity) -> None:
    """Refuse the plan file of another set."""
    if (file.name, file.namespace) != (applyset.name, applyset.namespace):
        raise UsageError(
            f"the plan file is for the set {file.name} in namespace {file.namespace}",
            reason=f"this run is for the set {applyset.name} in namespace {applyset.namespace}",
        )


def refuse_other_options(file: PlanFile, options: Options) -> None:
    """Refuse other options than those that the plan was made with."""
    changes = changed_options(file.options, shaping_options(options))
    if changes:
        raise UsageError(
            "the plan was made with other options",
            reason="; ".join(f"{then} then, {now} now" for then, now in changes),
            hint="Give the same options as for the plan, or make the plan again.",
        )


def refuse_other_cluster(file: PlanFile, cluster: Mapping[str, str]) -> None:
    """Refuse a plan file for another cluster; ``cluster`` has the UIDs of this one's Namespaces."""
    # A Namespace may be replaced in the same cluster, but not kube-system.
    names = sorted(file.cluster.keys() & cluster.keys(), key=lambda name: name != SYSTEM)
    if not names and not file.inventory_uid:
        known = " or ".join(f"the Namespace {name}" for name in sorted(file.cluster))
        raise UsageError(
            "it is unknown whether the plan file is for this cluster",
            reason=f"this account cannot read {known}",
            hint=f"Allow the account to get {known}.",
        )
    if names and file.cluster[names[0]] != cluster[names[0]]:
        raise UsageError(
            "the plan file is for another cluster",
            reason=f"the Namespace {names[0]} has another UID here",
        )


def is_continued(file: PlanFile, inventory: Inventory) -> bool:
    """Return whether an apply of this file was interrupted, or failed in part."""
    plan = inventory.plan
    return plan is not None and plan.checksum == file.checksum and not plan.done


def is_done(file: PlanFile, inventory: Inventory) -> bool:
    """Return whether this file is applied, and nothing has written the inventory since."""
    plan = inventory.plan
    return plan is not None and plan.checksum == file.checksum and plan.done


def as_reviewed(plan: Plan, file: PlanFile) -> Plan:
    """Return a plan that fits the file, with the fates that the server had confirmed for it.

    An object is only recreated if the file says so.
    """
    before = {one.ref: one for one in file.objects}
    applies = (_reviewed(step, before.get(step.desired.ref)) for step in plan.applies)
    return replace(plan, applies=tuple(applies))


def refuse_other_plan(file: PlanFile, plan: Plan, inventory: Inventory) -> None:
    """Refuse a plan with another digest although each of its objects fits the file."""
    if plan.digest == file.digest:
        return
    reason = "the plan made now has another digest"
    if (inventory.uid, inventory.generation) != (file.inventory_uid, file.generation):
        last = inventory.last
        by = f" by {last.who} at {last.at}" if last is not None else ""
        reason = f"the inventory of the set was written meanwhile{by}"
    message = "nothing was written, because the plan no longer fits"
    raise PlanOutdated(message, reason=reason, hint=_AGAIN)


def _reviewed(step: ApplyStep, old: PlannedObject | None) -> ApplyStep:
    if old is None or step.request is None or step.desired.conflicts is OnConflict.SKIP:
        return step  # what may be skipped on a conflict is tried first, as in any run
    step = replace(step, is_checked=True)
    if old.is_checked:
        return replace(step, fate=Fate.LEAVE)
    if old.fate is not Fate.RECREATE or step.fate is Fate.RECREATE:
        return step
    if step.live is None or step.live.uid != old.uid:
        return step
    # Without a delete in the plan, the run first proves that the object can be created again.
    return replace(step, fate=Fate.RECREATE, reason=IN_PLACE)
