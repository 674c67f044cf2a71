"""Decide who owns an object, and whether it is unchanged since our last apply.

The owner follows from the object's label, managedFields and UID, compared with the inventory.

No-op detection: the API server changes our manager's managedFields entry whenever somebody else
changes or removes a field that we own. It does not change the entry for foreign fields and status.
The entry contains paths, not values. So an equal entry is sufficient only together with an equal
generation (every change of a spec increments it) and equal labels and annotations (which do not
affect it), or together with all live values, or with an equal resourceVersion. An equal
resourceVersion is not sufficient alone: whoever may edit the inventory may write any into it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from applyprune.model.fieldset import extracted, left_out
from applyprune.model.inventory import ApplyFingerprint, InventoryEntry, Ownership
from applyprune.model.plan import Desired
from applyprune.planning.applyset import OWNED_BY, PART_OF, ApplySetIdentity, set_of
from applyprune.planning.fields.normalize import (
    canonical_text,
    manifest_digest,
    may_be_secret,
    sent,
)
from applyprune.planning.ownership.managed_fields import is_applied, own_apply_entry, own_mark
from applyprune.planning.ownership.removed_fields import is_contested

if TYPE_CHECKING:
    from applyprune.model.live import LiveObject


class Owner(StrEnum):
    """The owner of a live object from the view of one set."""

    RECORDED = "recorded"
    """It is the object of the inventory entry."""
    CLAIMED = "claimed"
    """It has our label and our manager's Apply entry, but no inventory entry."""
    NOBODY = "nobody"
    """It has no set's label and no inventory entry."""
    OTHER = "other"
    """It has another set's label."""


def owner_of(live: LiveObject, entry: InventoryEntry | None, applyset: ApplySetIdentity) -> Owner:
    """Return the owner of a live object.

    A label alone proves nothing: controllers copy labels to objects that they create (such as the
    Endpoints of a Service), but these never have our manager's Apply entry. An entry without a UID
    comes from the write before the apply. Then the object is ours if it did not exist before and
    now has our label and field manager, or if its UID is that from before the apply.
    """
    label = live.labels.get(PART_OF, "")
    if label and label != applyset.id:
        return Owner.OTHER
    marked = is_marked(live, applyset)
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


def owner_to_apply(
    live: LiveObject, entry: InventoryEntry | None, applyset: ApplySetIdentity
) -> Owner:
    """Return the owner of an object of the input.

    A record alone makes nothing ours: an object with neither label nor field manager is adopted.
    """
    owner = owner_of(live, entry, applyset)
    is_ours = PART_OF in live.labels or is_applied(live, applyset.manager)
    if owner is Owner.RECORDED and not is_ours:  # guard: record-adopts-nothing
        return Owner.NOBODY
    return owner


def ownership_of(entry: InventoryEntry, live: LiveObject, applyset: ApplySetIdentity) -> Ownership:
    """Return whether a set owns an object: the inventory and the object itself must both say so.

    Whoever may edit the inventory's ConfigMap cannot make the set own an object.
    """
    owned = entry.ownership is Ownership.OWNED and has_witness(live, applyset)
    return Ownership.OWNED if owned else Ownership.ADOPTED


def has_witness(live: LiveObject, applyset: ApplySetIdentity) -> bool:
    """Return whether an object has the annotation that says that the set created it.

    Only the set's own Apply entry makes it count: controllers copy annotations to what they create.
    """
    entry = own_apply_entry(live, applyset.manager) or {}
    metadata = (entry.get("fieldsV1") or {}).get("f:metadata") or {}
    is_ours = f"f:{OWNED_BY}" in (metadata.get("f:annotations") or {})
    return is_ours and live.annotations.get(OWNED_BY) == applyset.id


def is_marked(live: LiveObject, applyset: ApplySetIdentity) -> bool:
    """Return whether an object has the set's label and its field manager's Apply entry."""
    return live.labels.get(PART_OF) == applyset.id and is_applied(live, applyset.manager)


def other_set(live: LiveObject) -> str:
    """Return the set whose label an object has, as ``web in namespace shop``; empty if unknown.

    The name comes from the field manager that belongs to the label.
    """
    label = live.labels.get(PART_OF, "")
    for entry in live.managed_fields:
        manager = str(entry.get("manager", ""))
        if label and set_of(manager) == label and manager.count("/") > 1:
            _, namespace, name = manager.split("/")
            return f"{name} in namespace {namespace}"
    return ""


def foreign_owner(live: LiveObject, manager: str) -> str:
    """Return the owner that somebody else has set on an object, as ``Kind/name``; empty if none.

    By KEP-3659, a prune does not delete such an object. An ownerReference of our own manifest is
    ours by managedFields.
    """
    entry = own_apply_entry(live, manager) or {}
    ours = ((entry.get("fieldsV1") or {}).get("f:metadata") or {}).get("f:ownerReferences") or {}
    for owner in live.metadata.get("ownerReferences") or ():
        if f'k:{{"uid":"{owner.get("uid")}"}}' not in ours:
            return f"{owner.get('kind')}/{owner.get('name')}"
    return ""


SECRET = ("", "Secret")
STUCK = ("scheduling.k8s.io", "PriorityClass")
"""The only built-in kind whose generation never changes."""
# The metadata that a manifest may set; a change of it does not affect the generation.
_UNCOUNTED = ("annotations", "finalizers", "labels", "ownerReferences")


def fingerprint_of(live: LiveObject, manager: str, schema: int | None) -> ApplyFingerprint | None:
    """Return the fingerprint of a confirmed apply; None if our managedFields entry is missing."""
    mark = own_mark(live, manager)
    if mark is None:
        return None
    managed_fields, time = mark
    return ApplyFingerprint(
        resource_version=live.resource_version,
        generation=live.generation,
        managed_fields=managed_fields,
        time=time,
        schema=schema,
    )


def owned_fields_of(live: LiveObject, manager: str) -> str:
    """Return the fields that our Apply entry owns, as the inventory records them; empty if none."""
    entry = own_apply_entry(live, manager)
    return "" if entry is None else canonical_text(entry.get("fieldsV1") or {})


def applied_digest(live: LiveObject, manager: str) -> str:
    """Return the digest of the values of the fields that we own, as the digest of a manifest.

    ``live`` is read in full.
    """
    ours = own_apply_entry(live, manager) or {}
    # No manifest has the annotation of ownership.
    witness = ("metadata", "annotations", OWNED_BY)
    owned = left_out(extracted(ours.get("fieldsV1") or {}, live.body), [witness])
    named = {key: live.metadata[key] for key in ("name", "namespace") if key in live.metadata}
    values = {
        **owned,
        "apiVersion": ours.get("apiVersion"),
        "kind": live.ref.kind,
        "metadata": {**owned.get("metadata", {}), **named},
    }
    return manifest_digest(values)


def needs_values(desired: Desired, entry: InventoryEntry, live: LiveObject) -> bool:
    """Return whether only the live values can show that nothing has changed.

    This is so for every Secret (no digest of its values is stored). It is also so after a change of
    the resourceVersion, if the generation has changed too, if the kind has no usable generation, or
    if the server has stored other metadata than was sent.
    """
    recorded = entry.fingerprint
    if entry.digest != desired.digest or recorded is None or entry.uid != live.uid:
        return False
    kind = (desired.ref.group, desired.ref.kind)
    is_mentioned = kind == SECRET or desired.packed.mentions("stringData")
    if is_mentioned and may_be_secret(desired.body):
        return True
    if recorded.resource_version == live.resource_version:
        return False
    if kind == STUCK or live.generation is None or live.generation != recorded.generation:
        return True
    return bool(entry.stored) and not values_match(desired, live)


def unchanged(
    desired: Desired, entry: InventoryEntry, live: LiveObject, *, manager: str, schema: int | None
) -> bool:
    """Return whether another apply of the manifest would change nothing.

    ``schema`` is the CRD's generation for a custom resource (a new schema changes what is read
    without a change of the object), and None for any other kind. In doubt, return False: a repeated
    apply is harmless.
    """
    recorded = entry.fingerprint
    if entry.digest != desired.digest or entry.uid != live.uid or recorded is None:
        return False
    if recorded.schema != schema or live.terminating:
        return False
    if not same_apply_entry(recorded, live, manager):  # guard: own-apply-entry
        return False
    if is_contested(desired, live, manager):  # guard: null-set-again
        return False
    if needs_values(desired, entry, live):
        if live.body is None:
            return False
        # What admission has rewritten stays as it was rewritten: no write would change that.
        is_as_stored = bool(entry.stored) and applied_digest(live, manager) == entry.stored
        return is_as_stored or values_match(desired, live)
    return recorded.resource_version == live.resource_version or values_match(desired, live)


def values_match(desired: Desired, live: LiveObject) -> bool:
    """Return whether the live object has the values that we send, as far as it was read.

    If the object was not read in full, compare the metadata; others may have added to our lists.
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
        return all(any(holds(item, other) for other in there) for item in wanted)
    return holds(wanted, live)


def same_apply_entry(recorded: ApplyFingerprint, live: LiveObject, manager: str) -> bool:
    """Return whether our manager's Apply entry is unchanged since the last apply."""
    return own_mark(live, manager) == (recorded.managed_fields, recorded.time)


def is_last_applied(
    desired: Desired, entry: InventoryEntry, live: LiveObject, manager: str
) -> bool:
    """Return whether our last confirmed apply sent this manifest, and still owns what it owned."""
    recorded = entry.fingerprint
    return (
        recorded is not None
        and entry.digest == desired.digest
        and entry.uid == live.uid
        and same_apply_entry(recorded, live, manager)
    )


def holds(wanted: object, live: object) -> bool:
    """Return whether the live object has every value of the manifest; compare lists item by item.

    Fields that are only in the live object are ignored. A list of another length or order is a
    difference, and also a value that the server has rewritten: then the manifest is sent.
    """
    if isinstance(wanted, dict):
        return isinstance(live, dict) and all(
            key in live and holds(value, live[key]) for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        return (
            isinstance(live, list)
            and len(wanted) == len(live)
            and all(holds(item, other) for item, other in zip(wanted, live, strict=True))
        )
    return type(wanted) is type(live) and wanted == live
