"""Decide what an apply does with an object of the input that exists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.model.plan import ApplyStep, Fate
from applyprune.planning.adoption.as_owned import adopted_as_owned, may_own
from applyprune.planning.adoption.left_alone import step_of_drifted, step_of_left, was_applied
from applyprune.planning.inventory.entry_before_apply import entry_before_apply
from applyprune.planning.ownership.default_rules import may_be_autoscaled, with_autoscaler
from applyprune.planning.ownership.empty_fields import filled_by_others
from applyprune.planning.ownership.foreign_label import is_label_unproven, unproven_label
from applyprune.planning.ownership.managed_fields import set_manager
from applyprune.planning.ownership.migration import migration_of
from applyprune.planning.ownership.obstacle import obstacle
from applyprune.planning.ownership.other_owner import owned_by_tool
from applyprune.planning.ownership.owner import Owner, owner_of, owner_to_apply, unchanged
from applyprune.planning.ownership.shared_fields import last_owned
from applyprune.planning.ownership.takings import taken_from
from applyprune.planning.prune.recreation import recreated_on_change
from applyprune.planning.prune.removal import kept_as_owned
from applyprune.planning.requests import apply_request, takes_over
from applyprune.planning.snapshot import CHANGING
from applyprune.values import replace

if TYPE_CHECKING:
    from collections.abc import Collection

    from applyprune.model.inventory import InventoryEntry
    from applyprune.model.live import LiveObject
    from applyprune.model.options import Options
    from applyprune.model.plan import Desired
    from applyprune.model.problem import Problem
    from applyprune.planning.applyset import ApplySetIdentity
    from applyprune.planning.snapshot import ClusterSnapshot


def existing_step(
    desired: Desired,
    entry: InventoryEntry | None,
    live: LiveObject,
    snapshot: ClusterSnapshot,
    applyset: ApplySetIdentity,
    options: Options,
) -> ApplyStep:
    """Decide about an object of the input that exists; ``entry`` is its entry, if it has one."""
    fresh = entry_before_apply(desired, live, None, applyset)
    if (left := step_of_left(desired, entry, fresh, live, applyset)) is not None:
        return left
    desired = with_autoscaler(desired, snapshot.autoscalers, options.apply.no_default_ignore)
    if desired.ref.namespace in snapshot.unread_autoscalers:
        off = options.apply.no_default_ignore
        desired = replace(desired, is_scaling_unknown=may_be_autoscaled(desired, off))
    if snapshot.pruned_autoscalers:
        desired = replace(desired, pruned_autoscalers=snapshot.pruned_autoscalers)
    judged = owner_to_apply(live, entry, applyset)
    # An interrupted adoption has not marked the object yet.
    owner = judged if entry is None or entry.uid else owner_of(live, entry, applyset)
    known = owner is Owner.RECORDED and entry is not None
    fence = known and entry is not None and entry.deleting
    union = entry_before_apply(desired, live, entry if known else None, applyset)
    lost = entry is not None and is_label_unproven(entry, live, snapshot.others, applyset)
    unproven = unproven_label(desired.ref, live, snapshot.others, applyset) if lost else None
    # The record of an interrupted adoption does not say that it was meant.
    is_free = judged in {Owner.NOBODY, Owner.CLAIMED}
    tool = owned_by_tool(live, applyset) if is_free else ""
    if (problem := obstacle(desired, live, judged, options, unproven, tool)) is not None:
        # An existing entry stays; an object that is not ours gets no entry.
        return refused_step(
            desired, entry or replace(union, uid_before_apply=live.uid), problem, live
        )
    # An adoption is not complete until a response has confirmed it.
    adopts = not known or entry is None or (not entry.uid and entry.uid_before_apply is not None)
    migration = migration_of(
        live, entry if known else None, options.apply, manager=applyset.manager, adopts=adopts
    )
    leaving = {applyset.yielded, *migration.managers, set_manager(live)}
    desired = _without_filled(desired, live, union, applyset, leaving)
    takes = takes_over(desired, live, applyset, migration)
    schema = snapshot.schemas.get(desired.ref.group_kind)
    if (
        known
        and entry is not None
        and not (options.apply.reapply_all or fence or takes or entry.orphaning)
        and not (options.tries_rewritten and entry.stored)  # guard: tried-again
        and entry.orphan_reason == desired.orphan_reason
    ):
        knows_schema = desired.ref.group_kind not in snapshot.schemas or schema is not None
        if knows_schema and unchanged(
            desired, entry, live, manager=applyset.manager, schema=schema
        ):
            # Other objects may have changed its wave; this is recorded with the next write.
            listed = replace(
                entry,
                wave=desired.wave,
                depends_on=desired.depends_on,
                job=union.job,
                crd=entry.crd if schema is None else desired.resource.full_plural,
            )
            return ApplyStep(desired, Fate.LEAVE, listed, live)
    changing = schema == CHANGING
    drifted = step_of_drifted(
        desired, entry, live, applyset.manager, options, schema_changes=changing
    )
    if drifted is not None:
        return drifted
    owns = not known and may_own(desired.ref, live, owner, migration, applyset, options.apply)
    request = apply_request(
        desired, live, applyset, options, migration=migration, fence=fence, owns=owns or None
    )
    adopted = f"adopted: it existed and belonged to {tool or _whom(owner)}"
    if owns:
        kept = kept_as_owned(desired.orphan_reason, live, applyset)
        adopted = adopted_as_owned(kept)
    reasons = (*(() if known else (adopted,)), *desired.left)
    step = ApplyStep(
        desired,
        Fate.CHANGE if known else Fate.ADOPT,
        union,
        live,
        reason="; ".join(reasons),
        fence=fence,
        migration=migration,
        becomes_owned=owns,
        takes_over=takes,
        is_reapplied=not changing and was_applied(desired, entry),
        request=request,
        taken_from=taken_from(
            desired,
            live,
            owner,
            applyset,
            migrate=migration.managers,
            forced=request.force,
            tool=tool,
        ),
    )
    if not known or entry is None:
        return step
    return recreated_on_change(step, entry, applyset, options)


def _without_filled(
    desired: Desired,
    live: LiveObject,
    entry: InventoryEntry,
    applyset: ApplySetIdentity,
    leaving: Collection[str],
) -> Desired:
    """Return a manifest whose empty values are left to others that have filled them, and say so."""
    filled = filled_by_others(
        desired.packed, live, applyset.manager, leaving, owned=last_owned(entry)
    )
    if not filled:
        return desired
    return replace(
        desired,
        ignored=(*desired.ignored, *(pointer for pointer, _ in filled)),
        left=(*desired.left, *(f"{pointer} is left to {who}" for pointer, who in filled)),
    )


def _whom(owner: Owner) -> str:
    return {
        Owner.OTHER: "another set",
        Owner.CLAIMED: "this set, but is not in its inventory",
    }.get(owner, "no set")


def refused_step(
    desired: Desired, entry: InventoryEntry, problem: Problem, live: LiveObject | None
) -> ApplyStep:
    """Return the step of an object that may not be applied."""
    where = problem.location or str(desired.origin)
    return ApplyStep(desired, Fate.REFUSE, entry, live, problem=replace(problem, location=where))
