"""Detect drift: fields of a set that somebody else has changed since the set's last apply.

managedFields names the writers: every entry counts that is not our Apply entry and not about the
status. What has changed is seen in one of two ways:

- With the manifest that was applied last (`diff`), a dry run shows each field that our apply would
  set back, with both values.
- With only the inventory (`status`), managedFields shows each field that somebody else has written
  since. It contains paths and no values, so the desired value is unknown. A removed field has no
  owner and is not named. Two changes leave no manager and are invisible: an admission policy
  rewrites our field during another's write, or an associative list gets another order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from applyprune.model.events import Drift
from applyprune.model.inventory import InventoryEntry
from applyprune.model.live import LiveObject
from applyprune.model.plan import Desired
from applyprune.planning.applyset import OWNED_BY, yielded_manager
from applyprune.planning.fields.fieldsv1 import extracted, leaves, owns
from applyprune.planning.fields.normalize import manifest_digest, may_be_secret
from applyprune.planning.fields.path import (
    MISSING,
    Missing,
    Path,
    left_out,
    to_pointer,
    value_at,
)
from applyprune.planning.fields.redact import shown
from applyprune.planning.ownership.managed_fields import own_apply_entry
from applyprune.planning.ownership.owner import SECRET, same_apply_entry

if TYPE_CHECKING:
    Writer = Mapping[str, Any]


def drifted_from_manifest(
    desired: Desired, entry: InventoryEntry | None, live: LiveObject | None, manager: str
) -> bool:
    """Return whether somebody else has changed an object that an apply would change.

    This is so if its manifest is the last applied manifest. For a Secret, no digest of its values
    is stored, so our managedFields entry must have changed too. A missing object has also drifted.
    """
    if entry is None or not entry.uid or entry.digest != desired.digest:
        return False
    if live is None or not may_be_secret(desired.body):
        return True
    return _is_our_entry_changed(entry, live, manager) is not False


def drifted_from_record(entry: InventoryEntry, live: LiveObject, manager: str) -> bool | None:
    """Return whether a field of the set has been changed since the last apply.

    Return None if unknown, because no apply of this object was ever confirmed.
    """
    if not entry.uid or entry.fingerprint is None:
        return None
    if entry.uid != live.uid:
        return True  # somebody has deleted and recreated it
    return _is_our_entry_changed(entry, live, manager)


def drifted_from_values(entry: InventoryEntry, live: LiveObject, manager: str) -> bool | None:
    """Do what ``drifted_from_record`` does, and compare every value; ``live`` is read in full.

    The fields of our Apply entry, with their live values, are the last applied manifest again,
    unless somebody has changed one of them: then their digest differs. It also differs if the
    server has rewritten a value (``1000m`` is ``1``), so the answer is None then. No digest of a
    Secret's values is stored, so only the record tells.
    """
    drifted = drifted_from_record(entry, live, manager)
    if drifted or live.body is None or may_be_secret(live.body):
        return drifted
    ours = own_apply_entry(live, manager) or {}
    # No manifest has the annotation of ownership.
    witness = ("metadata", "annotations", OWNED_BY)
    owned = left_out(extracted(ours.get("fieldsV1") or {}, live.body), [witness])
    named = {key: live.metadata[key] for key in ("name", "namespace") if key in live.metadata}
    applied = {
        **owned,
        "apiVersion": ours.get("apiVersion"),
        "kind": live.ref.kind,
        "metadata": {**owned.get("metadata", {}), **named},
    }
    # guard: status-values
    return False if manifest_digest(applied) == entry.digest else None


def manifest_drift(before: LiveObject, after: LiveObject, manager: str) -> tuple[Drift, ...]:
    """Return each field that our apply would set back, and its writer.

    ``before`` is the live object and ``after`` the response of a dry run, both read in full.
    """
    writers = _others(before, manager)
    found = []
    for path in leaves((own_apply_entry(after, manager) or {}).get("fieldsV1") or {}):
        wanted = value_at(after.body, path)
        if wanted != value_at(before.body, path):
            found.append(_drift(path, before, writers, _text(wanted, before)))
    return _sorted(found)


def recorded_drift(live: LiveObject, manager: str) -> tuple[Drift, ...]:
    """Return the fields that others own and have written since the set's last apply.

    For a drifted object, these are the fields that the set has lost, and the fields that others
    have added. ``live`` is read in full.
    """
    ours = own_apply_entry(live, manager) or {}
    since, mine = str(ours.get("time", "")), ours.get("fieldsV1") or {}
    # The server stores no time for a write to the scale subresource.
    writers = [
        entry for entry in _others(live, manager) if not (time := _time(entry)) or time >= since
    ]
    paths = {
        to_pointer(path): path
        for entry in writers
        for path in leaves(entry.get("fieldsV1") or {})
        # The status belongs to controllers.
        if path and path[0] != "status" and not owns(mine, path)
    }
    return _sorted(_drift(path, live, writers) for path in paths.values())


def _is_our_entry_changed(entry: InventoryEntry, live: LiveObject, manager: str) -> bool | None:
    """Return whether our managedFields entry has changed since the last apply; None if unknown.

    The server changes it whenever somebody else changes or removes a field of ours.
    """
    if entry.fingerprint is None:
        return None
    return not same_apply_entry(entry.fingerprint, live, manager)


def _others(live: LiveObject, manager: str) -> Sequence[Writer]:
    """Return the managedFields entries of everybody else, without those about the status."""
    ours = {manager, yielded_manager(manager)}
    return [
        entry
        for entry in live.managed_fields
        if entry.get("subresource") != "status"
        and (entry.get("manager") not in ours or entry.get("operation") != "Apply")
    ]


def _drift(path: Path, live: LiveObject, writers: Sequence[Writer], wanted: str = "") -> Drift:
    """Return the drift of one field, by its latest writer; without a writer, it was removed."""
    owners = [entry for entry in writers if owns(entry.get("fieldsV1") or {}, path)]
    writer = max(owners, key=_time, default={})
    operation, subresource = str(writer.get("operation", "")), writer.get("subresource")
    return Drift(
        to_pointer(path),
        wanted,
        _text(value_at(live.body, path), live),
        manager=str(writer.get("manager", "")),
        operation=f"{operation} of {subresource}" if subresource else operation,
        time=_time(writer),
    )


def _text(value: Any | Missing, live: LiveObject) -> str:
    # The manifest may contain a label of a Secret, but masking every field is simple and safe.
    secret = may_be_secret(live.body or {}) or (live.ref.group, live.ref.kind) == SECRET
    return "none" if value is MISSING else shown(value, secret=secret)


def _time(entry: Writer) -> str:
    return str(entry.get("time", ""))


def _sorted(found: Iterable[Drift]) -> tuple[Drift, ...]:
    return tuple(sorted(found, key=lambda drift: drift.path))
