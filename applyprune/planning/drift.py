"""Detect drift: what others have changed in an object since our last apply.

With the manifest (`diff`), drift is what an apply of the same manifest would set back. Without the
manifest (`status`), drift is read from managedFields, which contains paths and no values, so the
desired value is unknown. Two changes are then invisible, because they leave no manager: an
admission policy rewrites our field during another's write, or an associative list gets another
order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from applyprune.model.events import Drift
from applyprune.planning.applyset import yielded_manager
from applyprune.planning.fields.fieldsv1 import leaves, owns
from applyprune.planning.fields.normalize import is_secret
from applyprune.planning.fields.path import MISSING, to_pointer, value_at
from applyprune.planning.fields.redact import shown
from applyprune.planning.ownership.managed_fields import own_apply_entry
from applyprune.planning.ownership.owner import SECRET, same_apply_entry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from applyprune.model.inventory import InventoryEntry
    from applyprune.model.live import LiveObject
    from applyprune.model.plan import Desired
    from applyprune.planning.applyset import ApplySetIdentity
    from applyprune.planning.fields.path import Path

if TYPE_CHECKING:
    Managers = Sequence[Mapping[str, Any]]


def drifted_from_manifest(
    desired: Desired, entry: InventoryEntry | None, live: LiveObject | None, manager: str
) -> bool:
    """Return whether somebody else has changed an object that an apply would change.

    This is so if its manifest is the last applied manifest. For a Secret, no digest of its values
    is stored, so our managedFields entry must have changed too. A missing object has also drifted.
    """
    if entry is None or not entry.uid or entry.digest != desired.digest:
        return False
    if live is None or not is_secret(desired.body):
        return True
    return entry.fingerprint is None or not same_apply_entry(entry.fingerprint, live, manager)


def manifest_drift(
    before: LiveObject, after: LiveObject, applyset: ApplySetIdentity
) -> tuple[Drift, ...]:
    """Return each field that our apply would set back, and its writer.

    ``before`` is the live object and ``after`` the response of a dry run, both read in full.
    """
    ours = own_apply_entry(after, applyset.manager)
    secret = is_secret(before.body or {})
    found = []
    for path in leaves((ours or {}).get("fieldsV1") or {}):
        wanted, there = value_at(after.body, path), value_at(before.body, path)
        if wanted != there:
            found.append(_drift(path, wanted, there, before, applyset, secret=secret))
    return tuple(sorted(found, key=lambda drift: drift.path))


def _drift(
    path: Path,
    wanted: object,
    there: object,
    live: LiveObject,
    applyset: ApplySetIdentity,
    *,
    secret: bool,
) -> Drift:
    writer = _writer(live, path, applyset)
    # Labels and the like of a Secret are not secret, but masking every field is simple and safe.
    wants, found = (
        "none" if value is MISSING else shown(value, secret=secret) for value in (wanted, there)
    )
    return Drift(
        to_pointer(path),
        wants,
        found,
        manager=str(writer.get("manager", "")),
        operation=_operation(writer),
        time=str(writer.get("time", "")),
    )


def _writer(live: LiveObject, path: Path, applyset: ApplySetIdentity) -> Mapping[str, Any]:
    """Return the latest foreign entry that owns a field; empty if the field was removed."""
    owners = [
        entry for entry in _foreign(live, applyset) if owns(entry.get("fieldsV1") or {}, path)
    ]
    return max(owners, key=lambda entry: str(entry.get("time", "")), default={})


def _foreign(live: LiveObject, applyset: ApplySetIdentity) -> Iterator[Mapping[str, Any]]:
    ours = {applyset.manager, applyset.yielded}
    for entry in live.managed_fields:
        if entry.get("subresource") != "status" and (
            entry.get("manager") not in ours or entry.get("operation") != "Apply"
        ):
            yield entry


def _operation(writer: Mapping[str, Any]) -> str:
    subresource = writer.get("subresource")
    operation = str(writer.get("operation", ""))
    return f"{operation} of {subresource}" if subresource else operation


def drifted_from_record(entry: InventoryEntry, live: LiveObject, manager: str) -> bool | None:
    """Return whether a field of the set has been changed since the last apply.

    Return None if unknown, because no apply of this object was ever confirmed.
    """
    if not entry.uid or entry.fingerprint is None:
        return None
    if entry.uid != live.uid:
        return True  # somebody has deleted and recreated it
    if entry.fingerprint.resource_version == live.resource_version:
        return False
    # The server changes our entry whenever somebody else changes or removes a field of ours.
    return not same_apply_entry(entry.fingerprint, live, manager)


def recorded_drift(live: LiveObject, manager: str) -> tuple[Drift, ...]:
    """Return the fields that others own and have written since the set's last apply.

    For a drifted object, these are the fields that the set has lost, and the fields that others
    have added. A removed field has no owner, so it is not included. ``live`` is read in full.
    Values of Secrets are masked.
    """
    ours = own_apply_entry(live, manager) or {}
    since, mine = str(ours.get("time", "")), ours.get("fieldsV1") or {}
    secret = (live.ref.group, live.ref.kind) == SECRET
    found: dict[str, Drift] = {}
    for entry in live.managed_fields:
        who, time = str(entry.get("manager", "")), str(entry.get("time", ""))
        # The status belongs to controllers.
        if who in {manager, yielded_manager(manager)} or entry.get("subresource") == "status":
            continue
        # The server stores no time for a write to the scale subresource.
        if time and time < since:
            continue
        for path in leaves(entry.get("fieldsV1") or {}):
            if path and path[0] != "status" and not owns(mine, path):
                pointer = to_pointer(path)
                found[pointer] = Drift(
                    path=pointer,
                    wanted="",
                    found=shown(value_at(live.body, path), secret=secret),
                    manager=who,
                    operation=str(entry.get("operation", "")),
                    time=time,
                )
    return tuple(found[pointer] for pointer in sorted(found))
