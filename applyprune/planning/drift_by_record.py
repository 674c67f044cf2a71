"""What somebody else has changed since the set's last apply, by the server's own bookkeeping.

No manifest is needed, and so nothing can be said of the value that the set wants: managedFields
holds paths. A change that leaves no manager behind is not seen here: an admission policy that
rewrites a field of ours during another's write, and an associative list that was put in another
order. A comparison with the manifests (`diff`) sees these too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.model.events import Drift
from applyprune.planning.evidence import SECRET, same_apply_entry
from applyprune.planning.field_paths import to_pointer, value_at
from applyprune.planning.field_sets import leaves, owns
from applyprune.planning.managed_fields import own_apply_entry
from applyprune.planning.masking import shown
from applyprune.planning.tracking import yielded_manager

if TYPE_CHECKING:
    from applyprune.model.inventory import Entry
    from applyprune.model.live import LiveObject


def drifted_from_record(entry: Entry, live: LiveObject, manager: str) -> bool | None:
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
