"""What somebody else has changed in an object since our last apply of the very same manifest.

What somebody else has changed since the set's last apply, by the server's own bookkeeping.

No manifest is needed, and so nothing can be said of the value that the set wants: managedFields
holds paths. A change that leaves no manager behind is not seen here: an admission policy that
rewrites a field of ours during another's write, and an associative list that was put in another
order. A comparison with the manifests (`diff`) sees these too.
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
    one: Desired, entry: InventoryEntry | None, live: LiveObject | None, manager: str
) -> bool:
    """Return whether an object that an apply would change was changed by somebody else.

    So it is when its manifest is the one that was applied last. Of a Secret no digest of its values
    is kept: there our own managedFields entry must have moved as well. An object that is gone has
    drifted too.
    """
    if entry is None or not entry.uid or entry.digest != one.digest:
        return False
    if live is None or not is_secret(one.body):
        return True
    return entry.fingerprint is None or not same_apply_entry(entry.fingerprint, live, manager)


def manifest_drift(
    before: LiveObject, after: LiveObject, target: ApplySetIdentity
) -> tuple[Drift, ...]:
    """Return each field that our apply would set back, and who has written it.

    ``before`` is the live object and ``after`` the reply to a dry run, both read in full.
    """
    ours = own_apply_entry(after, target.manager)
    secret = is_secret(before.body or {})
    found = []
    for path in leaves((ours or {}).get("fieldsV1") or {}):
        wanted, there = value_at(after.body, path), value_at(before.body, path)
        if wanted != there:
            found.append(_drift(path, wanted, there, before, target, secret=secret))
    return tuple(sorted(found, key=lambda one: one.path))


def _drift(
    path: Path,
    wanted: object,
    there: object,
    live: LiveObject,
    target: ApplySetIdentity,
    *,
    secret: bool,
) -> Drift:
    writer = _writer(live, path, target)
    # Labels and the like of a Secret are no secret, but which is which no path need decide.
    wants, found = (
        "none" if one is MISSING else shown(one, secret=secret) for one in (wanted, there)
    )
    return Drift(
        to_pointer(path),
        wants,
        found,
        manager=str(writer.get("manager", "")),
        operation=_operation(writer),
        time=str(writer.get("time", "")),
    )


def _writer(live: LiveObject, path: Path, target: ApplySetIdentity) -> Mapping[str, Any]:
    """Return the latest foreign entry that owns a field; empty when nobody does: it was removed."""
    owners = [one for one in _foreign(live, target) if owns(one.get("fieldsV1") or {}, path)]
    return max(owners, key=lambda one: str(one.get("time", "")), default={})


def _foreign(live: LiveObject, target: ApplySetIdentity) -> Iterator[Mapping[str, Any]]:
    ours = {target.manager, target.yielded}
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
    """Return whether a field of the set's has been changed since its last apply.

    None where nothing can tell: no apply of this object was ever confirmed.
    """
    if not entry.uid or entry.fingerprint is None:
        return None
    if entry.uid != live.uid:
        return True  # somebody has deleted it and made another one
    if entry.fingerprint.resource_version == live.resource_version:
        return False
    # The server alters our entry on every outside change or removal of a field that is ours.
    return not same_apply_entry(entry.fingerprint, live, manager)


def recorded_drift(live: LiveObject, manager: str) -> tuple[Drift, ...]:
    """Return the fields that others own and have written since the set's last apply.

    Of an object that has drifted these are the fields that the set has lost, and what others have
    added; a field that was removed has no owner any more and is not among them. ``live`` is read in
    full; values of Secrets are masked.
    """
    ours = own_apply_entry(live, manager) or {}
    since, mine = str(ours.get("time", "")), ours.get("fieldsV1") or {}
    secret = (live.ref.group, live.ref.kind) == SECRET
    found: dict[str, Drift] = {}
    for entry in live.managed_fields:
        who, time = str(entry.get("manager", "")), str(entry.get("time", ""))
        # What a controller reports in the status is its own affair.
        if who in {manager, yielded_manager(manager)} or entry.get("subresource") == "status":
            continue
        # The server keeps no time of a write to the scale subresource.
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
