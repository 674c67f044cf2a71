"""Decide whether an object with another set's label belongs to that set.

Anybody who may change labels may write any label, and the name of a field manager is free text. So
the label counts only if the inventory of the set that it names lists the UID of the object.
Otherwise the object stays in our inventory, and the run reports it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from applyprune.errors import RunFailed
from applyprune.planning.applyset import PART_OF, ApplySetIdentity
from applyprune.planning.ownership.managed_fields import is_applied
from applyprune.values import dataclass

if TYPE_CHECKING:
    from applyprune.model.identity import Ref
    from applyprune.model.inventory import Inventory, InventoryEntry
    from applyprune.model.live import LiveObject


@dataclass(frozen=True, slots=True)
class OtherSet:
    """What is known of the set that a foreign label names."""

    named: str = ""
    """Its name, as ``web in namespace shop``; empty if there is no inventory with this id."""
    uids: frozenset[str] = frozenset()
    """The UIDs of all objects that its inventory lists."""
    is_read: bool = True
    """Whether it is known what the set lists."""


def other_set_in(inventory: Inventory | None) -> OtherSet:
    """Return the set of an inventory; ``inventory`` is None if none has the label's id.

    A copied or restored inventory may list what the set does not have any more.
    """
    if inventory is None:
        return OtherSet()
    named = f"{inventory.name} in namespace {inventory.namespace}"
    if inventory.copied:
        return OtherSet(named, is_read=False)
    entries = inventory.entries.values()
    # An adoption is listed by the UID from before the apply until a reply has confirmed it.
    uids = {entry.uid or entry.uid_before_apply for entry in entries}
    return OtherSet(named, frozenset(uid for uid in uids if uid))


UNREAD = OtherSet(is_read=False)
"""A set whose inventory could not be read."""


def foreign_label(live: LiveObject, applyset: ApplySetIdentity) -> str:
    """Return the label of another set that an object has; empty if it has none."""
    label = live.labels.get(PART_OF, "")
    return "" if label == applyset.id else label


def is_listed_elsewhere(live: LiveObject, others: Mapping[str, OtherSet]) -> bool:
    """Return whether the set whose label an object has lists its UID."""
    other = others.get(live.labels.get(PART_OF, ""), UNREAD)
    return live.uid in other.uids  # guard: listed-elsewhere


def is_label_unproven(
    entry: InventoryEntry,
    live: LiveObject,
    others: Mapping[str, OtherSet],
    applyset: ApplySetIdentity,
) -> bool:
    """Return whether an object of ours has the label of a set that is not known to list it.

    It is ours if it is the listed object, or still has our manager's Apply entry.
    """
    if not foreign_label(live, applyset) or is_listed_elsewhere(live, others):
        return False
    return entry.uid == live.uid or is_applied(live, applyset.manager)


def unproven_label(
    ref: Ref, live: LiveObject, others: Mapping[str, OtherSet], applyset: ApplySetIdentity
) -> RunFailed:
    """Return the problem of an object of ours whose label names a set that does not list it."""
    label = live.labels.get(PART_OF, "")
    # A forged entry can name any object: nobody must be told to label that.
    applied = is_applied(live, applyset.manager)
    where = f" -n {ref.namespace}" if ref.namespace else ""
    fix = f"kubectl label --overwrite {ref.short}{where} {PART_OF}={applyset.id}"
    return RunFailed(
        f"{ref} has the label of another set, which is not known to list it",
        reason=f"its label {PART_OF} is {label}, and {what_is_known(label, others)}",
        hint=f"To give it this set's label again: {fix}"
        if applied
        else f"The set's field manager has not applied it: see {_check(applyset)}",
    )


def _check(applyset: ApplySetIdentity) -> str:
    return f"applyprune inventory check {applyset.arguments}"


def what_is_known(label: str, others: Mapping[str, OtherSet]) -> str:
    """Return in words why a foreign label proves nothing."""
    other = others.get(label, UNREAD)
    if not other.is_read:
        named = f"the inventory of {other.named}" if other.named else "the inventory of that set"
        return f"{named} could not be read, or is a copy"
    if not other.named:
        return "there is no inventory with this id"
    return f"the inventory of {other.named} does not list its UID"
