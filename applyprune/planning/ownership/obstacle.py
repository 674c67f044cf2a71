"""Find out why an existing object may not be applied: its name, its state, or its owner."""

from __future__ import annotations

from applyprune.errors import RunFailed, as_problem
from applyprune.model.identity import Ref
from applyprune.model.live import LiveObject
from applyprune.model.options import Adopt, Options
from applyprune.model.plan import Desired
from applyprune.model.problem import Origin, Problem
from applyprune.planning.applyset import PART_OF, SET_ID, SHARD_OF
from applyprune.planning.ownership.ignored_fields import split_problem
from applyprune.planning.ownership.owner import Owner, other_set


def name_error(
    ref: Ref, live: LiveObject, where: Origin | str = "", *, exists: bool = True
) -> RunFailed | None:
    """Return the error for an object whose metadata has another name; None if it has its own.

    ``exists`` is false if only a dry run shows it.
    """
    if not live.other_name:  # guard: other-name
        return None
    will = "was" if exists else "would be"
    namespace = f" -n {ref.namespace}" if ref.namespace else ""
    remove = f"To remove it: kubectl delete {ref.short}{namespace}, or prune it. Before the next "
    remove += "apply, c"
    return RunFailed(
        f"{ref} {will} created with the name {live.other_name}",
        location=where,
        reason="a mutating admission webhook has probably changed its name",
        hint=f"{remove if exists else 'C'}hange the webhook, or the name in the manifest.",
    )


def obstacle(
    desired: Desired,
    live: LiveObject,
    owner: Owner,
    options: Options,
    unproven: RunFailed | None,
    tool: str,
) -> Problem | None:
    """Return why an object may not be applied; None if it may.

    ``unproven`` says that its foreign label proves nothing. ``tool`` is what of another tool owns
    an object that is not the set's own.
    """
    if (error := name_error(desired.ref, live, desired.origin)) is not None:
        return as_problem(error)
    if live.terminating:
        held = ", ".join(live.finalizers)
        return _failed(
            desired,
            f"{desired.ref} is being deleted",
            reason=f"its finalizers have not finished: {held}" if held else "",
            hint="Run again after it is deleted.",
        )
    if SET_ID in live.labels or SHARD_OF in live.labels:
        return _failed(
            desired,
            f"{desired.ref} is the inventory of a set",
            hint="Remove it from the input. To rename a set, use `applyprune inventory move`.",
        )
    if owner is Owner.OTHER and options.apply.adopt is not Adopt.ALL:
        if unproven is not None:
            return as_problem(unproven, where=desired.origin)
        label, named = live.labels[PART_OF], other_set(live)
        find = f" To find that set: kubectl get cm -A -l {SET_ID}={label}"
        return _failed(
            desired,
            f"{desired.ref} belongs to another set",
            reason=named or f"its label {PART_OF} is {label}",
            hint=f"To take it over: --adopt=all.{'' if named else find}",
        )
    if tool and options.apply.adopt is not Adopt.ALL:  # guard: owned-by-tool
        return _failed(
            desired,
            f"{desired.ref} belongs to {tool}",
            reason="its labels or annotations say so, and the other tool may write it again",
            hint="If it shall belong to this set: --adopt=all.",
        )
    if owner is Owner.NOBODY and options.apply.adopt is Adopt.NONE:
        return _failed(
            desired,
            f"{desired.ref} already exists and belongs to no set",
            hint="To adopt it into this set: --adopt=unowned.",
        )
    return split_problem(desired, live) if live.body is not None else None


def _failed(desired: Desired, message: str, *, reason: str = "", hint: str = "") -> Problem:
    return as_problem(RunFailed(message, reason=reason, hint=hint), where=desired.origin)
