"""The deletions that somebody has approved, from the first write of their run until all are done.

A digest proves nothing of a part of what it is of. So the run that begins with them records the
whole text that has the approved digest. What is left later may be deleted if that text has it all.
Whoever forges a record gains nothing: no other text has the digest.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct

from applyprune.model.fate import Fate
from applyprune.model.identity import Ref
from applyprune.model.inventory import ApprovedDeletions, InventoryEntry
from applyprune.model.options import Approval, Options
from applyprune.model.plan import ApplyStep, Plan, RemoveStep
from applyprune.planning.applyset import ApplySetIdentity
from applyprune.planning.digests import (
    CASCADE,
    deletion_row,
    deletions_text,
    digest_of_text,
    is_same_run,
    plan_text,
    ref_parts,
    row_of_plan,
    without_state,
)

MOST = 512 * 1024
"""Characters of a record; every renewal of the lock writes it again. 10,000 deletions have less."""
_UNPACKED_LIMIT = 16 * 1024 * 1024


def record_of(
    plan: Plan,
    applyset: ApplySetIdentity,
    options: Options,
    before: ApprovedDeletions | None,
) -> ApprovedDeletions | None:
    """Return what the first write of a run records of its approved deletions; None for nothing.

    ``before`` is the record so far. It stays as long as the runs do nothing but the rest of it, or
    prune nothing at all. With any other plan it ends.
    """
    if plan.continues:
        return before
    given = _given(options)
    if given and plan.deletions:
        text = _text(plan, applyset, options)
        if digest_of_text(text) == given:  # guard: only-approved-is-recorded always
            packed = base64.b64encode(zlib.compress(text, 9)).decode()
            # Without a record, what is left needs another approval.
            return ApprovedDeletions(given, packed) if len(packed) <= MOST else None
    prunes = options.prune.enabled and not (options.applies_part or options.corrects)
    return None if prunes else before


def after_run(
    record: ApprovedDeletions | None, entries: Mapping[Ref, InventoryEntry]
) -> ApprovedDeletions | None:
    """Return the record after a run that has left these entries; None if all of it is done."""
    approved = _read(record) if record is not None else None
    if approved is None:
        return None
    listed = {(*ref_parts(ref), entry.uid) for ref, entry in entries.items()}
    is_left = any((*ref, approved.uid(ref)) in listed for ref in approved.rows)
    return record if is_left else None


def is_rest(
    plan: Plan, record: ApprovedDeletions | None, applyset: ApplySetIdentity, options: Options
) -> bool:
    """Return whether a plan deletes what is left of the approved deletions, and nothing else.

    Each deletion must be an approved one: the same object, by its UID, with no larger cascade. And
    whatever was approved and is not deleted any more must be gone: if it stays, this is another
    plan. Where the whole plan was approved, nothing may be left of it but deletions.
    """
    given = _given(options)
    if record is None or record.digest != given or plan.restored:
        return False
    approved = _read(record)
    if approved is None:
        return False
    if approved.head is not None and not is_same_run(approved.head, plan, applyset, options):
        return False
    return all(approved.has(step) for step in plan.steps)


def _given(options: Options) -> str:
    """Return the digest that is approved: of the deletions, or of the whole plan."""
    is_whole = options.approval is Approval.ALWAYS
    return options.approved_plan if is_whole else options.prune.approved


def _text(plan: Plan, applyset: ApplySetIdentity, options: Options) -> bytes:
    if options.approval is Approval.ALWAYS:
        return b"".join(plan_text(plan, applyset, options))
    return deletions_text(plan.applies, plan.removals)


class _Approved(Struct, frozen=True):
    """What was approved, as far as it deletes."""

    rows: Mapping[tuple[str, ...], Sequence[Any]]
    """The row of each deletion in the digest, by the parts of its ref."""
    head: Mapping[str, Any] | None
    """What else a whole plan is about; None if only deletions were approved."""

    def uid(self, ref: tuple[str, ...]) -> str:
        return str(self.rows[ref][CASCADE - 1])

    def has(self, step: ApplyStep | RemoveStep) -> bool:
        """Return whether a step is a part of what was approved, or leaves its object alone."""
        planned = without_state(step)
        ref = ref_parts(planned.ref)
        row = self.rows.get(ref)
        is_going = isinstance(step, RemoveStep) and step.is_going
        if is_going:
            return True  # its deletion was accepted: nothing is left to decide
        if planned.fate in {Fate.PRUNE, Fate.RECREATE}:
            return row is not None and _is_covered(deletion_row(planned), row)
        if row is not None and planned.uid == self.uid(ref):  # guard: approved-and-staying never
            return False
        is_done = planned.fate is Fate.REMOVE_FROM_INVENTORY and row is not None
        return self.head is None or planned.fate is Fate.LEAVE or is_done


def _is_covered(row: Sequence[Any], approved: Sequence[Any]) -> bool:
    """Return whether a deletion is the approved one; what its cascade would have deleted may go."""
    is_same = _without_cascade(row) == _without_cascade(approved)  # guard: approved-object -> True
    # guard: approved-cascade -> True
    is_within = all(one in approved[CASCADE] for one in row[CASCADE])
    return is_same and is_within


def _without_cascade(row: Sequence[Any]) -> list[Any]:
    return [*row[:CASCADE], *row[CASCADE + 1 :]]


def _read(record: ApprovedDeletions) -> _Approved | None:
    """Return what a record says; None if its text does not have the digest."""
    text = b""
    with suppress(ValueError, zlib.error):
        packed = base64.b64decode(record.packed, validate=True)
        text = zlib.decompressobj().decompress(packed, _UNPACKED_LIMIT)
    if digest_of_text(text) != record.digest:  # guard: forged-approval never
        return None
    # Only this program has written a text with that digest.
    read = json.loads(text)
    rows = read if isinstance(read, list) else [row_of_plan(row) for row in read["objects"]]
    deleted = (str(Fate.PRUNE), str(Fate.RECREATE))
    found = {tuple(row[:4]): row for row in rows if row[4] in deleted}
    return _Approved(found, None if isinstance(read, list) else read)
