"""What cannot be changed in place: whether it may be made anew, and how to say that it may not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.errors import InputError, Invalid, RunFailed
from applyprune.model.identity import GroupKind
from applyprune.model.inventory import Ownership
from applyprune.model.json_access import mapping
from applyprune.model.resources import CRD, NAMESPACE
from applyprune.planning.blaming import clean_message, error_fields
from applyprune.planning.keeping import orphan_mark
from applyprune.planning.ownership import Owner, foreign_owner, is_marked, owner_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from applyprune.errors import ApplypruneError
    from applyprune.model.inventory import Entry
    from applyprune.model.live import LiveObject
    from applyprune.model.manifest import Origin
    from applyprune.model.options import Options
    from applyprune.model.plan import Desired
    from applyprune.planning.tracking import ApplySetIdentity

RECREATE = "applyprune.dev/recreate"

_UNPROCESSABLE = 422
_NEVER = frozenset(
    {
        NAMESPACE,
        CRD,
        GroupKind("", "PersistentVolume"),
        GroupKind("", "PersistentVolumeClaim"),
    }
)


def is_recreation_allowed(metadata: Mapping[str, object], origin: Origin) -> bool:
    """Return whether the manifest itself allows it; raises InputError for a word it cannot mean."""
    word = mapping(metadata.get("annotations")).get(RECREATE)
    if word not in {None, "allowed"}:
        raise InputError(
            f"{RECREATE} is {word!r}",
            where=origin,
            hint='It may be "allowed".',
            field=("metadata", "annotations", RECREATE),
        )
    return word is not None


def is_worth_a_trial(error: ApplypruneError) -> bool:
    """Return whether a refused update may be about a field that cannot be changed.

    Neither the code nor the text says so by itself: the trial is a server dry run of a create. A
    refusal about metadata is never one.
    """
    if not isinstance(error, Invalid) or error.code != _UNPROCESSABLE:
        return False
    fields = [cause.get("field", "") for cause in error.causes]
    return not any(field.split(".")[0] == "metadata" for field in fields)


def why_not(
    one: Desired, entry: Entry, live: LiveObject, target: ApplySetIdentity, options: Options
) -> str:
    """Return why an object may not be deleted and created anew; empty when it may."""
    kind = one.ref.group_kind
    if kind in _NEVER:
        return f"a {kind.kind} is never deleted to be made anew"
    if rule := orphan_mark(live.metadata) or one.orphan_reason:
        return f"it is marked {rule}"
    if entry.ownership is Ownership.ADOPTED and not options.prune_adopted:
        return "it was adopted, not created, by this set (--prune-adopted)"
    if owner_of(live, entry, target) is not Owner.RECORDED or not is_marked(live, target):
        return "it does not bear the marks of this set any more"
    if owner := foreign_owner(live, target.manager):
        return f"it belongs to {owner}, by its ownerReferences"
    if not (options.recreate or one.recreate):
        return "that is not allowed"
    return ""


def explained(one: Desired, error: Invalid, why: str) -> RunFailed:
    """Return the failure of an object that is refused a change; it names the fields."""
    fields = sorted({cause["field"] for cause in error.causes if cause.get("field")})
    why_so = clean_message(error.what)
    named = f": {', '.join(fields)}" if fields and not why_so.startswith(fields[0]) else ""
    hint = (
        f"To delete it and create it anew: --recreate, or the annotation {RECREATE}: allowed."
        if why == "that is not allowed"
        else f"It cannot be made anew: {why}."
    )
    return RunFailed(
        f"{one.ref} cannot be changed in place{named}",
        where=one.origin,
        why=why_so,
        hint=hint,
        marks=error_fields(error, one.body),
    )
