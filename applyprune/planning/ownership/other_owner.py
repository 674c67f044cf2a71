"""Find out whether another tool runs an object.

People migrate from one tool to another: the new tool applies the object, then it leaves the input
of the old one. A prune must not delete it then. Marks alone prove nothing, because they outlive
their tools, and rendered charts carry Helm's. So a mark counts only if it was not there when the
set took the object in, and is not the manifest's own, or if its manager has written the object
since the set's last apply. An Apply entry counts if it has a field of the set outside ``metadata``:
who only decorates an object does not run it.

For an object that is not the set's own, a mark alone counts: the user can say that it is outdated.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from applyprune.model.fieldset import Path, leaves, owns, to_server
from applyprune.planning.fields.redact import HIDDEN
from applyprune.planning.marks.peer_marks import OwnerMark, owner_marks, owner_named
from applyprune.planning.ownership.managed_fields import own_apply_entry
from applyprune.planning.ownership.owner import SECRET

if TYPE_CHECKING:
    from applyprune.model.inventory import InventoryEntry
    from applyprune.model.live import LiveObject
    from applyprune.planning.applyset import ApplySetIdentity


def marks_of(live: LiveObject) -> tuple[str, ...]:
    """Return the marks of other tools on an object, each as ``KEY=VALUE``; of a Secret as ``KEY=``.

    Anybody may have copied a value of a Secret into an annotation.
    """
    marks = _owner_marks(live)
    secret = _is_secret(live)  # guard: mark-of-a-secret
    return tuple(f"{mark.key}={'' if secret else text}" for mark, text in marks)


def marks_to_record(
    entry: InventoryEntry, live: LiveObject, applyset: ApplySetIdentity
) -> tuple[str, ...]:
    """Return the marks of an object after an apply that say of no other tool that it runs it.

    These are the manifest's own, and those that it had when the set took it in. ``entry`` is from
    before the apply.
    """
    ours = (own_apply_entry(live, applyset.manager) or {}).get("fieldsV1") or {}
    own = {
        mark.key for mark, _ in _owner_marks(live) if owns(ours, ("metadata", mark.part, mark.key))
    }
    is_new = not entry.uid
    return tuple(
        text
        for text in marks_of(live)
        # guard: mark-of-a-later-tool
        if is_new or text in entry.marks or text.partition("=")[0] in own
    )


def other_owner(entry: InventoryEntry, live: LiveObject, applyset: ApplySetIdentity) -> str:
    """Return which other tool runs an object, and what shows that; empty if none does."""
    recorded = entry.fingerprint.time if entry.fingerprint is not None else ""
    for mark, text in _owner_marks(live):
        shown = f"({mark.key}: {HIDDEN if _is_secret(live) else text})"
        if f"{mark.key}={'' if _is_secret(live) else text}" not in entry.marks:
            return f"{mark.tool} has marked it, and the set has not {shown}"
        if recorded and any(
            time > recorded for time in _times(live, ("metadata", mark.part, mark.key), applyset)
        ):
            return f"{mark.tool} has written it since the last apply {shown}"
    return other_applier(live, applyset)


def owned_by_tool(live: LiveObject, applyset: ApplySetIdentity) -> str:
    """Return what of another tool owns an object: ``the Helm release web in namespace shop``.

    Marks that our own last apply has written do not count. Empty if nothing owns it.
    """
    ours = (own_apply_entry(live, applyset.manager) or {}).get("fieldsV1") or {}
    for mark, text in _owner_marks(live):
        if not owns(ours, ("metadata", mark.part, mark.key)):
            if _is_secret(live):
                return mark.named.format(HIDDEN)
            return owner_named(mark, text, live.labels, live.annotations)
    return ""


def _owner_marks(live: LiveObject) -> Iterator[tuple[OwnerMark, str]]:
    """Yield the marks by which other tools own an object; managedFields prove what anybody uses."""
    for mark, text in owner_marks(live.labels, live.annotations):
        path = ("metadata", mark.part, mark.key)
        writers = (
            entry.get("manager")
            for entry in live.managed_fields
            if owns(entry.get("fieldsV1") or {}, path)
        )
        if not mark.managers or not mark.managers.isdisjoint(writers):  # guard: label-of-anybody
            yield mark, text


def _is_secret(live: LiveObject) -> bool:
    """Return whether an object is a Secret: anybody may have copied a value into an annotation."""
    return (live.ref.group, live.ref.kind) == SECRET


def _times(live: LiveObject, path: Path, applyset: ApplySetIdentity) -> Iterator[str]:
    """Yield when each other manager of a field has last written the object, RFC 3339 in UTC."""
    for entry in _others(live, applyset):
        if owns(entry.get("fieldsV1") or {}, path):
            yield str(entry.get("time", ""))


def other_applier(
    live: LiveObject, applyset: ApplySetIdentity, *, but: Collection[str] = ()
) -> str:
    """Return which other manager applies fields of the set; empty if none does.

    Of an object that the set has not applied yet, every field counts. ``but`` are managers that do
    not count.
    """
    own = own_apply_entry(live, applyset.manager)
    for entry in _others(live, applyset):
        if entry.get("operation") != "Apply" or entry.get("manager") in but:
            continue
        theirs = _substance(entry)
        if shared := theirs if own is None else theirs & _substance(own):
            first = min(to_server(path) for path in shared)
            return f"{entry.get('manager')} applies it too ({first})"
    return ""


def _others(live: LiveObject, applyset: ApplySetIdentity) -> Iterator[Mapping[str, Any]]:
    ours = {applyset.manager, applyset.yielded}
    for entry in live.managed_fields:
        if entry.get("manager") not in ours and not entry.get("subresource"):
            yield entry


def _substance(entry: Mapping[str, Any]) -> set[Path]:
    """Return the fields of an entry outside ``metadata`` and ``status``."""
    return {
        path
        for path in leaves(entry.get("fieldsV1") or {})
        if path[0] not in {"metadata", "status"}
    }
