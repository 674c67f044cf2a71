"""Detect drift: fields of a set that somebody else has changed since the set's last apply.

managedFields names the writers: every entry counts that is not our Apply entry and not about the
status. What has changed is seen in one of two ways:

- With the manifest that was applied last (`diff`), a dry run shows each field that our apply would
  set back, with both values.
- With only the inventory (`status`), the fields are those that our last apply owned and that we own
  no longer. Both lists contain paths and no values, so the desired value is unknown. Two changes
  leave no manager and are invisible: an admission policy rewrites our field during another's write,
  or an associative list gets another order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from applyprune.model.fieldset import (
    MISSING,
    Drift,
    Missing,
    Path,
    leaves,
    owns,
    to_pointer,
    value_at,
)
from applyprune.model.inventory import InventoryEntry
from applyprune.model.live import LiveObject
from applyprune.model.plan import ApplyStep, Desired
from applyprune.planning.applyset import yielded_manager
from applyprune.planning.fields.normalize import may_be_secret, sent
from applyprune.planning.fields.redact import shown
from applyprune.planning.fields.stored_value import is_stored
from applyprune.planning.ownership.managed_fields import own_apply_entry
from applyprune.planning.ownership.owner import SECRET, applied_digest, same_apply_entry
from applyprune.planning.ownership.shared_fields import last_owned

if TYPE_CHECKING:
    Writer = Mapping[str, Any]


def drifted_from_manifest(
    desired: Desired, entry: InventoryEntry | None, live: LiveObject | None, manager: str
) -> bool | None:
    """Return whether somebody else has changed an object that an apply would change.

    This is so if its manifest is the last applied manifest; a missing object has also drifted. With
    another manifest, and for a Secret, of whose values no digest is stored, the record tells.
    Return None if unknown, because no apply of this object was ever confirmed, or not the last one.
    """
    if entry is None:
        return False
    if not entry.uid:
        return None
    is_same_manifest = entry.digest == desired.digest and not may_be_secret(desired.body)
    if live is None or is_same_manifest:
        return True
    return drifted_from_record(entry, live, manager)


def drifted_from_record(entry: InventoryEntry, live: LiveObject, manager: str) -> bool | None:
    """Return whether a field of the set has been changed since the last apply.

    Return None if unknown: no apply of this object was ever confirmed, or a later one may have
    changed it.
    """
    if not entry.uid or entry.fingerprint is None:
        return None
    if entry.uid != live.uid:
        return True  # somebody has deleted and recreated it
    if not entry.digest:
        # A change may be that of the unconfirmed apply, within the same second of the entry's time.
        return False if entry.fingerprint.resource_version == live.resource_version else None
    # The server changes our entry whenever somebody else changes or removes a field of ours.
    return not same_apply_entry(entry.fingerprint, live, manager)


def drifted_from_values(entry: InventoryEntry, live: LiveObject, manager: str) -> bool | None:
    """Do what ``drifted_from_record`` does, and compare every value; ``live`` is read in full.

    The fields of our Apply entry, with their live values, are the last applied manifest again,
    unless somebody has changed one of them: then their digest differs. The server may also have
    rewritten a value later, so the answer is None then. No digest of a Secret's values is stored,
    so only the record tells.
    """
    drifted = drifted_from_record(entry, live, manager)
    if drifted or live.body is None or may_be_secret(live.body):
        return drifted
    # guard: status-values
    return False if applied_digest(live, manager) == (entry.stored or entry.digest) else None


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


def recorded_drift(entry: InventoryEntry, live: LiveObject, manager: str) -> tuple[Drift, ...]:
    """Return the fields of the set's last apply that the set has lost since, each with its writer.

    A field without a writer was removed. ``live`` is read in full.
    """
    writers = _others(live, manager)
    return _sorted(_drift(path, live, writers) for path in _lost(entry, live, manager))


DELETED = Drift("", "", "none")
"""The drift of an object that somebody has deleted."""


def may_have_drifted(step: ApplyStep, manager: str) -> bool:
    """Return whether a step meets drift, as far as the metadata of its object shows.

    Of an object that must be sent although its manifest is the last applied one, values may differ.
    """
    if step.live is None or (step.request is None and not step.keeps_drift):
        return False
    return step.is_reapplied or step.keeps_drift or any(_lost(step.entry, step.live, manager))


def step_drift(step: ApplyStep, manager: str) -> tuple[Drift, ...]:
    """Return what others have changed since the last apply, and the manifest has otherwise.

    ``step.live`` was read in full. Where the record names no field, values of the last applied
    manifest differ: a list has another order, or admission has rewritten a field during a write of
    somebody else.
    """
    live, body = step.live, sent(step.desired)
    if live is None or live.body is None:
        return step.drift
    writers = _others(live, manager)
    lost = [path for path in _lost(step.entry, live, manager) if differs(body, live, path)]
    if not lost and (step.is_reapplied or step.keeps_drift):
        lost = [path for path in _paths(body) if differs(body, live, path)]
    return _sorted(_drift(path, live, writers, _text(value_at(body, path), live)) for path in lost)


def _lost(entry: InventoryEntry, live: LiveObject, manager: str) -> Iterator[Path]:
    """Yield the fields of the set's last apply that are not the set's any more."""
    mine = (own_apply_entry(live, manager) or {}).get("fieldsV1") or {}
    return (path for path in leaves(last_owned(entry)) if not owns(mine, path))


def differs(body: Mapping[str, Any], live: LiveObject, path: Path) -> bool:
    """Return whether a manifest sets a field to another value than the live one."""
    wanted = value_at(body, path)
    return wanted is not MISSING and not is_stored(wanted, value_at(live.body, path), str(path[-1]))


def _paths(value: object, above: Path = ()) -> Iterator[Path]:
    """Yield the path of each field of a manifest that is not a mapping."""
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _paths(inner, (*above, str(key)))
    elif above:
        yield above


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
