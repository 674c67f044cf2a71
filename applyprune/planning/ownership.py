"""Whose is it: what an object's label, managedFields and UID say, held against the record."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from applyprune.planning.managed_fields import own_apply_entry
from applyprune.planning.tracking import PART_OF, set_of

if TYPE_CHECKING:
    from applyprune.model.inventory import Entry
    from applyprune.model.live import LiveObject
    from applyprune.planning.tracking import ApplySetIdentity


class Owner(StrEnum):
    """What may be said of a live object from the point of view of one set."""

    RECORDED = "recorded"
    """The very object that the entry records."""
    CLAIMED = "claimed"
    """It bears our label and our manager's Apply entry, but no entry records it."""
    NOBODY = "nobody"
    """No set has marked it, and no entry records it."""
    OTHER = "other"
    """Another set's label is on it."""


def owner_of(live: LiveObject, entry: Entry | None, target: ApplySetIdentity) -> Owner:
    """Return whose a live object is.

    A label alone proves nothing: controllers copy labels to what they make (Endpoints of a
    Service), which never bears our manager's Apply entry. An entry without a UID is the union
    write's: the object is ours when it was absent then and bears both marks now, or when it is
    the one that was found then.
    """
    label = live.labels.get(PART_OF, "")
    if label and label != target.id:
        return Owner.OTHER
    marked = is_marked(live, target)
    if entry is not None:
        if entry.uid:
            recorded = entry.uid == live.uid
        elif entry.uid_before_apply is None:
            recorded = marked
        else:
            recorded = entry.uid_before_apply == live.uid
        if recorded:
            return Owner.RECORDED
    return Owner.CLAIMED if marked else Owner.NOBODY


def is_marked(live: LiveObject, target: ApplySetIdentity) -> bool:
    """Return whether an object bears both of the set's marks: its label and its Apply entry."""
    return (
        live.labels.get(PART_OF) == target.id and own_apply_entry(live, target.manager) is not None
    )


def other_set(live: LiveObject) -> str:
    """Return the set whose label an object bears, as ``web in namespace shop``; empty if unknown.

    Its field manager tells the name, where it is the one that belongs to the label.
    """
    label = live.labels.get(PART_OF, "")
    for entry in live.managed_fields:
        manager = str(entry.get("manager", ""))
        if label and set_of(manager) == label and manager.count("/") > 1:
            _, namespace, name = manager.split("/")
            return f"{name} in namespace {namespace}"
    return ""


def foreign_owner(live: LiveObject, manager: str) -> str:
    """Return the owner that somebody else has put on an object, as ``Kind/name``; empty for none.

    KEP-3659 has a pruner leave such an object alone. An ownerReference that our own manifest holds
    is ours by managedFields.
    """
    entry = own_apply_entry(live, manager) or {}
    ours = ((entry.get("fieldsV1") or {}).get("f:metadata") or {}).get("f:ownerReferences") or {}
    for owner in live.metadata.get("ownerReferences") or ():
        if f'k:{{"uid":"{owner.get("uid")}"}}' not in ours:
            return f"{owner.get('kind')}/{owner.get('name')}"
    return ""
