"""What somebody else has changed in an object since our last apply of the very same manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from applyprune.model.events import Drift
from applyprune.planning.digests import is_secret
from applyprune.planning.evidence import same_apply_entry
from applyprune.planning.field_paths import MISSING, to_pointer, value_at
from applyprune.planning.field_sets import leaves, owns
from applyprune.planning.managed_fields import own_apply_entry
from applyprune.planning.masking import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from applyprune.model.inventory import Entry
    from applyprune.model.live import LiveObject
    from applyprune.model.plan import Desired
    from applyprune.planning.field_paths import Path
    from applyprune.planning.tracking import ApplySetIdentity

    Managers = Sequence[Mapping[str, Any]]


def drifted_from_manifest(
    one: Desired, entry: Entry | None, live: LiveObject | None, manager: str
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
