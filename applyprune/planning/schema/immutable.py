"""Fields that cannot be changed in place: whether a recreation may resolve that, and which fields.

The server's own words contain its internal structs, so the fields are found by comparison: of the
live object, of what is sent, and of what the server would create now.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from applyprune.errors import ApplypruneError, Invalid, RunFailed, as_problem
from applyprune.model.identity import GroupKind
from applyprune.model.inventory import InventoryEntry, Ownership
from applyprune.model.live import CRD, NAMESPACE
from applyprune.model.options import Options
from applyprune.model.plan import Desired
from applyprune.model.problem import Mark, Problem
from applyprune.model.text import and_more
from applyprune.planning.annotations import RECREATE, not_understood, orphan_mark
from applyprune.planning.applyset import ApplySetIdentity
from applyprune.planning.marks.apply_mark import left_alone
from applyprune.planning.ownership.other_owner import other_owner
from applyprune.planning.ownership.owner import (
    Owner,
    foreign_owner,
    is_marked,
    owner_of,
    ownership_of,
)
from applyprune.planning.schema.changed_fields import ChangedField, changed_fields
from applyprune.planning.schema.server_errors import clean_message, dotted, error_fields
from applyprune.values import pattern

if TYPE_CHECKING:
    from applyprune.model.live import LiveObject

_SHOWN = 5
NOT_ALLOWED = "that is not allowed"
"""The obstacle if nobody has allowed it."""
NOT_CREATED = "the server would not create it again as it is now"
"""The obstacle if a trial has failed."""
# The wording of apimachinery's validation, and of the strategies of single kinds.
_IMMUTABLE = pattern(
    r"immutable|may not (?:be )?change|cannot (?:be )?change|once set|updates to .* are forbidden"
)
# Which fields may be changed: "for fields other than 'replicas' and 'template' are forbidden".
_CHANGEABLE = pattern(r"(?:other than|except) (.*)", re.DOTALL)
_NAME = pattern(r"[A-Za-z][\w.]*(?:\[\*\][\w.]*)*")
_UNPROCESSABLE = 422
_NEVER = frozenset(
    {
        NAMESPACE,
        CRD,
        GroupKind("", "PersistentVolume"),
        GroupKind("", "PersistentVolumeClaim"),
    }
)


def is_worth_a_trial(error: ApplypruneError) -> bool:
    """Return whether a rejected update may be about an immutable field.

    Neither the code nor the text proves it, so a trial is needed: a server dry run of a create. An
    error about metadata never needs a trial.
    """
    if not isinstance(error, Invalid) or error.code != _UNPROCESSABLE:
        return False
    fields = [cause.get("field", "") for cause in error.causes]
    return not any(field.split(".")[0] == "metadata" for field in fields)


def why_not(
    desired: Desired,
    entry: InventoryEntry,
    live: LiveObject,
    applyset: ApplySetIdentity,
    options: Options,
) -> str:
    """Return why an object may not be recreated; empty if it may."""
    kind = desired.ref.group_kind
    if kind in _NEVER:
        return f"a {kind.kind} is never recreated"
    if marked := _mark_against(desired, live):
        return marked
    adopted = ownership_of(entry, live, applyset) is Ownership.ADOPTED  # guard: witness-recreate
    if adopted and not options.prune.prune_adopted:
        return "it was adopted, not created, by this set (--prune-adopted)"
    if owner_of(live, entry, applyset) is not Owner.RECORDED or not is_marked(live, applyset):
        return "it does not have this set's label and field manager any more"
    if owner := foreign_owner(live, applyset.manager):
        return f"it belongs to {owner}, by its ownerReferences"
    other = other_owner(entry, live, applyset)  # guard: other-owner-recreate
    if other and not options.prune.prune_shared:
        return f"{other} (--prune-shared)"
    if not (options.apply.recreate or desired.recreate):
        return NOT_ALLOWED
    return ""


def _mark_against(desired: Desired, live: LiveObject) -> str:
    """Return which annotation forbids to delete an object, or may forbid it; empty if none does."""
    if rule := orphan_mark(live.metadata) or desired.orphan_reason:
        return f"it is marked {rule}"
    if rule := left_alone(live.metadata, {}):  # guard: left-alone-recreate
        return f"it is marked {rule}"
    unknown = not_understood(live.metadata, live.ref.group_kind)  # guard: mark-before-recreation
    return f"{unknown} is not understood" if unknown else ""


def not_recreated(desired: Desired, obstacle: str) -> Problem:
    """Return the problem of an object whose manifest asks to recreate it, which is not allowed."""
    return as_problem(
        RunFailed(
            f"{desired.ref} was not recreated",
            reason=obstacle,
            hint=f"To change it in place, remove the annotation {RECREATE}.",
        ),
        where=desired.origin,
    )


def says_immutable(error: ApplypruneError) -> bool:
    """Return whether the server says in words that a field cannot be changed."""
    return _IMMUTABLE.search(error.message) is not None


def explained(
    desired: Desired,
    error: Invalid,
    obstacle: str,
    live: LiveObject,
    created: Mapping[str, Any] | None,
    manager: str,
) -> RunFailed:
    """Return the failure for a rejected change of immutable fields; it names them and both values.

    ``created`` is the object as the server would create it now; None if it would not.
    """
    found = changed_fields(desired, live, created, manager)
    changes = [change for change in found if _is_meant(change, error)]
    is_open = obstacle == NOT_ALLOWED
    ending = "cannot be changed in place" + (
        "; --recreate deletes and creates it" if is_open else ""
    )
    if changes:
        named = and_more([str(change) for change in changes], _SHOWN)
        message, reason = f"{desired.ref}: {named} {ending}", ""
        marks = tuple(Mark(change.place, change.values) for change in changes if change.place)
    else:
        message, reason = f"{desired.ref} {ending}", clean_message(error.message)
        marks = error_fields(error, desired.body)
    hint = (
        f"To allow it for this object alone: the annotation {RECREATE}: allowed."
        if is_open
        else f"It cannot be recreated: {obstacle}."
    )
    return RunFailed(message, location=desired.origin, reason=reason, hint=hint, marks=marks)


def _is_meant(change: ChangedField, error: Invalid) -> bool:
    """Return whether an error is about a changed field; a cause may name what is around it."""
    if not error.causes:
        return True
    path = dotted(change.path)
    return any(_covers(cause, path) for cause in error.causes)


def _covers(cause: Mapping[str, str], path: str) -> bool:
    field = cause.get("field", "")
    # The server derives a list from a single value: clusterIPs.
    forms = {field, re.sub(r"s\[0\]$", "", field)}
    if not any(_is_part(path, form) or _is_part(form, path) for form in forms):
        return False
    changeable = _CHANGEABLE.search(cause.get("message", ""))
    names: Sequence[str] = _NAME.findall(changeable[1]) if changeable else ()
    any_item = re.sub(r"\[\d+\]", "[*]", path)
    return not any(
        _is_part(any_item, name) or _is_part(any_item, f"{field}.{name}") for name in names
    )


def _is_part(path: str, above: str) -> bool:
    """Return whether a dotted path equals another one, or leads to a part of its value."""
    rest = path.removeprefix(above)
    return path.startswith(above) and (not rest or rest[0] in ".[")
