"""Make the entry that the inventory gets before an existing object is applied, and undo that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.model.inventory import InventoryEntry, Ownership
from applyprune.planning.ownership.owner import has_witness
from applyprune.planning.readiness.finished_jobs import job_record
from applyprune.values import replace

if TYPE_CHECKING:
    from applyprune.model.live import LiveObject
    from applyprune.model.plan import Desired
    from applyprune.planning.applyset import ApplySetIdentity


def entry_before_apply(
    desired: Desired,
    live: LiveObject,
    entry: InventoryEntry | None,
    applyset: ApplySetIdentity,
) -> InventoryEntry:
    """Return the entry of an existing object without the digest of an apply.

    ``entry`` is the present entry; None if the object is not the listed one. What the last
    confirmed apply left stays recorded, because the next one may fail: while the object is as it
    was then, nobody has changed it.
    """
    known = entry is not None
    return InventoryEntry(
        ref=desired.ref,
        plural=desired.resource.plural,
        version=desired.resource.version,
        uid_before_apply=live.uid,
        uid=live.uid if known else "",
        ownership=_ownership(entry, live, applyset),
        fingerprint=entry.fingerprint if entry is not None else None,
        owned_fields=entry.owned_fields if entry is not None else "",
        marks=entry.marks if entry is not None else (),
        wave=desired.wave,
        depends_on=desired.depends_on,
        orphan_reason=desired.orphan_reason,
        deleting=entry is not None and entry.deleting,
        job=job_record(desired, live, entry) if known else None,
        crd=entry.crd if entry is not None else "",
    )


def entry_of_untouched(recorded: InventoryEntry, before: InventoryEntry) -> InventoryEntry:
    """Return the entry of an object that a run wanted to apply, and has certainly not changed.

    ``recorded`` is the entry that the run has read, ``before`` the one that it wrote before the
    apply. What either of them keeps from deletion stays.
    """
    return replace(recorded, orphan_reason=before.orphan_reason or recorded.orphan_reason)


def _ownership(
    entry: InventoryEntry | None, live: LiveObject, applyset: ApplySetIdentity
) -> Ownership:
    if entry is None:
        return Ownership.ADOPTED
    # An interrupted run has orphaned it already, so it is adopted again.
    if entry.orphaning and not has_witness(live, applyset):
        return Ownership.ADOPTED
    # An entry with a UID from before the apply, and no confirmed UID, was an adoption.
    if not entry.uid and entry.uid_before_apply is not None:
        return Ownership.ADOPTED
    return entry.ownership
