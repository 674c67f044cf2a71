"""Decide which adopted objects become owned, with ``--adopt-as owned``.

A later prune deletes them. So an object that another set or another tool may run stays adopted,
unless ``--adopt=all`` says that it is meant to become the set's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.model.inventory import Ownership
from applyprune.model.live import IN_EACH_NAMESPACE
from applyprune.model.options import Adopt
from applyprune.planning.ownership.other_owner import other_applier, owned_by_tool
from applyprune.planning.ownership.owner import Owner, foreign_owner

if TYPE_CHECKING:
    from applyprune.model.identity import Ref
    from applyprune.model.live import LiveObject
    from applyprune.model.options import ApplyOptions
    from applyprune.model.plan import Migration
    from applyprune.planning.applyset import ApplySetIdentity


def adopted_as_owned(kept: str) -> str:
    """Return the reason of an adoption as owned; ``kept`` says what keeps the object all the same.

    It is empty if a later prune deletes it.
    """
    if kept:
        return f"adopted, as owned; a later prune orphans it: {kept}"
    return "adopted, as owned: a later prune deletes it"


def may_own(
    ref: Ref,
    live: LiveObject,
    owner: Owner,
    migration: Migration,
    applyset: ApplySetIdentity,
    options: ApplyOptions,
) -> bool:
    """Return whether an adopted object becomes owned.

    ``migration`` are the fields that become the set's own, so their managers no longer count.
    """
    if options.adopt_as is not Ownership.OWNED:
        return False
    if (ref.group_kind, ref.name) in IN_EACH_NAMESPACE:
        return False  # a controller would create it again
    if foreign_owner(live, applyset.manager):
        return False  # no prune deletes it
    if options.adopt is Adopt.ALL:
        return True
    # guard: own-nothing-of-others
    return owner is not Owner.OTHER and not _other_tool(live, migration, applyset)


def _other_tool(live: LiveObject, migration: Migration, applyset: ApplySetIdentity) -> str:
    """Return which other tool may run an object; empty if none does."""
    return owned_by_tool(live, applyset) or other_applier(live, applyset, but=migration.managers)
