"""Whose is it: what an object's label, managedFields and UID say, held against the record.

Detect no-ops: how a run knows that an object is unchanged since our last apply.

The API server alters our manager's managedFields entry on every outside change or removal of a
field that we own, and leaves it alone for foreign fields and status. The entry holds paths, not
values, so it is believed only together with an unmoved generation (which any change of a spec
moves) and the live labels and annotations (which move none), or with all of the live values; an
unmoved resourceVersion needs neither.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from applyprune.model.inventory import ApplyFingerprint
from applyprune.planning.applyset import PART_OF, set_of
from applyprune.planning.fields.normalize import digest, sent
from applyprune.planning.ownership.managed_fields import own_apply_entry

if TYPE_CHECKING:
    from applyprune.model.inventory import InventoryEntry
    from applyprune.model.live import LiveObject
    from applyprune.model.plan import Desired
    from applyprune.planning.applyset import ApplySetIdentity


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


def owner_of(live: LiveObject, entry: InventoryEntry | None, target: ApplySetIdentity) -> Owner:
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


SECRET = ("", "Secret")
# The one built-in kind with a generation that no change moves.
_STUCK = ("scheduling.k8s.io", "PriorityClass")
# What a manifest may say in its metadata; a change of it moves no generation.
_UNCOUNTED = ("annotations", "finalizers", "labels", "ownerReferences")


def fingerprint_of(live: LiveObject, manager: str, schema: int | None) -> ApplyFingerprint | None:
    """Return the fingerprint of a confirmed reply; None when our entry is not in it."""
    entry = own_apply_entry(live, manager)
    if entry is None:
        return None
    return ApplyFingerprint(
        resource_version=live.resource_version,
        generation=live.generation,
        managed_fields=digest([entry.get("apiVersion"), entry.get("fieldsV1")]),
        time=str(entry.get("time", "")),
        schema=schema,
    )


def needs_values(desired: Desired, entry: InventoryEntry, live: LiveObject) -> bool:
    """Return whether only the live values can show that nothing has changed.

    So it is for every Secret (no digest of its values is kept) and, once its resourceVersion has
    moved, for an object whose generation has moved too, or of a kind that has none to trust.
    """
    recorded = entry.fingerprint
    if entry.digest != desired.digest or recorded is None or entry.uid != live.uid:
        return False
    kind = (desired.ref.group, desired.ref.kind)
    if kind == SECRET:
        return True
    if recorded.resource_version == live.resource_version:
        return False
    return kind == _STUCK or live.generation is None or live.generation != recorded.generation


def unchanged(
    desired: Desired, entry: InventoryEntry, live: LiveObject, *, manager: str, schema: int | None
) -> bool:
    """Return whether sending the manifest again would move nothing.

    ``schema`` is the CRD's generation for a custom resource (a schema change alters what is read
    without touching the object), None for everything else. When in doubt the answer is no:
    a repeated apply is harmless.
    """
    recorded = entry.fingerprint
    if entry.digest != desired.digest or entry.uid != live.uid or recorded is None:
        return False
    if recorded.schema != schema or live.terminating:
        return False
    if needs_values(desired, entry, live):
        return (
            live.body is not None
            and same_apply_entry(recorded, live, manager)
            and values_match(desired, live)
        )
    if recorded.resource_version == live.resource_version:
        return True
    return same_apply_entry(recorded, live, manager) and values_match(desired, live)


def values_match(desired: Desired, live: LiveObject) -> bool:
    """Return whether the values that we send are there, as far as they were read.

    Of an object that was not read in full that is its metadata, where others may add to our lists.
    """
    body = sent(desired)
    if live.body is not None:
        return holds(body, live.body)
    wanted = body["metadata"]
    return all(
        _includes(wanted[key], live.metadata.get(key)) for key in _UNCOUNTED if wanted.get(key)
    )


def _includes(wanted: object, live: object) -> bool:
    if isinstance(wanted, list):
        there = live if isinstance(live, list) else []
        return all(any(holds(one, other) for other in there) for one in wanted)
    return holds(wanted, live)


def same_apply_entry(recorded: ApplyFingerprint, live: LiveObject, manager: str) -> bool:
    """Return whether our manager's Apply entry is the one that the last apply left."""
    now = fingerprint_of(live, manager, recorded.schema)
    return now is not None and (now.managed_fields, now.time) == (
        recorded.managed_fields,
        recorded.time,
    )


def holds(wanted: object, live: object) -> bool:
    """Return whether every value of the manifest stands in the live object, lists item by item.

    Fields that only the server knows are passed over; a list of another length or order is a
    difference, and so is a value that the server has rewritten: then the manifest is sent.
    """
    if isinstance(wanted, dict):
        return isinstance(live, dict) and all(
            key in live and holds(value, live[key]) for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        return (
            isinstance(live, list)
            and len(wanted) == len(live)
            and all(holds(one, other) for one, other in zip(wanted, live, strict=True))
        )
    return type(wanted) is type(live) and wanted == live
