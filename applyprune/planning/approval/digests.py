"""Digest a plan: all of it, and its deletions alone.

A digest depends on what the plan does, and not on the order or the form of its input.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from applyprune.model.plan import Fate
from applyprune.planning.applyset import ApplySetIdentity
from applyprune.planning.approval.planned_objects import (
    PlannedObject,
    deleted_objects,
    names,
    state_of,
    steps_by_ref,
    without_state,
)
from applyprune.planning.approval.shaping_options import shaping_options
from applyprune.planning.fields.normalize import canonical
from applyprune.values import pattern

if TYPE_CHECKING:
    from applyprune.model.options import Options
    from applyprune.model.plan import ApplyStep, Plan, RemoveStep

_ALGORITHM = "sha256:"
_DIGEST = pattern(r"sha256:[0-9a-f]{64}")


def plan_digest(plan: Plan, applyset: ApplySetIdentity, options: Options) -> str:
    """Return the digest of a whole plan: of the set, the options, and every object.

    Every write of the inventory changes it, so a plan that has run once has another one.
    """
    before = {"inventory": plan.inventory, "mode": str(options.mode)}
    after = {
        "options": shaping_options(options),
        "recovered": sorted([*names(entry.ref), entry.uid] for entry in plan.recovered),
        "set": [applyset.name, applyset.namespace],
        "source": options.source,
    }
    # The canonical JSON of it all in parts, one for each object: there may be 100,000.
    found = hashlib.sha256(canonical(before)[:-1] + b',"objects":[')
    for number, step in enumerate(steps_by_ref(plan)):
        found.update(b"," * bool(number) + canonical(_whole(step)))
    found.update(b"]," + canonical(after)[1:])
    return f"{_ALGORITHM}{found.hexdigest()}"


def deletions_digest(applies: Iterable[ApplyStep], removals: Iterable[RemoveStep]) -> str:
    """Return the digest of what would be deleted: each object by UID, with its cascade.

    It is empty if nothing would be deleted.
    """
    deleted = sorted(
        [*names(planned.ref), str(planned.fate), planned.uid, _cascade(planned)]
        for planned in deleted_objects(applies, removals)
    )
    return digest_of(deleted) if deleted else ""


def digest_of(value: object) -> str:
    """Return the digest of JSON data, as the user sees and gives it: ``sha256:`` and 64 digits."""
    return f"{_ALGORITHM}{hashlib.sha256(canonical(value)).hexdigest()}"


def is_digest(text: str) -> bool:
    """Return whether a text has the form of a digest."""
    return _DIGEST.fullmatch(text) is not None


def _whole(step: ApplyStep | RemoveStep) -> list[object]:
    planned = without_state(step)
    # A check by the server changes the digest only where it finds a deletion.
    fate = planned.fate if planned.fate is Fate.RECREATE else planned.decided
    # What is left as it is may change, for example its number of replicas.
    state = "" if fate is Fate.LEAVE else state_of(step)
    known = [str(fate), planned.manifest, planned.uid, state]
    return [*names(planned.ref), *known, _cascade(planned)]


def _cascade(planned: PlannedObject) -> list[list[str]]:
    return sorted([*names(cascaded.ref), cascaded.uid] for cascaded in planned.cascade)
