"""Edit managedFields by a guarded JSON patch, to transfer or release an object.

There is no other way to remove a field manager. An apply of only the name would delete data: the
server removes fields that only we own when we stop to own them. Every patch tests that the object
has not changed since it was read. It only changes labels, managedFields and kubectl's annotation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from applyprune.model.fieldset import covers, united
from applyprune.planning.applyset import OWNED_BY, PART_OF, set_of, yielded_manager
from applyprune.planning.fields.normalize import digest
from applyprune.values import remembered

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from applyprune.model.live import LiveObject
    from applyprune.planning.applyset import ApplySetIdentity

if TYPE_CHECKING:
    Operations = Sequence[Mapping[str, Any]]
    Managers = Sequence[Mapping[str, Any]]


# The manager that an orphaned object keeps; it belongs to no set. Its only field is an annotation
# that nobody sets, so that no apply conflicts with it.
_FORMER = "applyprune-orphaned"
_NOBODYS: Mapping[str, Any] = {"f:metadata": {"f:annotations": {"f:applyprune.dev/orphaned": {}}}}
_APPLIED_METADATA = ("annotations", "finalizers", "labels", "ownerReferences")
_NOT_OWNED = frozenset({"apiVersion", "kind", "metadata", "status"})


def orphan_patch(live: LiveObject, manager: str, api_version: str) -> Operations:
    """Return the operations (RFC 6902) that remove our label and our manager from ``live``.

    At least one entry stays in managedFields. The server books the fields of an object without any
    to ``before-first-apply``, and then the next apply conflicts with that, whoever sends it.
    """
    labels = {key: value for key, value in live.labels.items() if key != PART_OF}
    annotations = {key: value for key, value in live.annotations.items() if key != OWNED_BY}
    names = (manager, yielded_manager(manager))
    managers = [entry for entry in live.managed_fields if entry.get("manager") not in names]
    if not managers:  # guard: parting-entry
        managers = [_entry(_FORMER, "Update", api_version, _NOBODYS)]
    return guarded_patch(live, labels, managers, annotations)


def leave_patch(live: LiveObject, manager: str) -> Operations:
    """Return the operations that remove a manager from ``live``; its fields keep their values."""
    managers = [entry for entry in live.managed_fields if entry.get("manager") != manager]
    # A list with one empty entry clears managedFields; the server ignores an empty list.
    return guarded_patch(live, live.labels, managers or [{}])


def set_manager(live: LiveObject) -> str:
    """Return the field manager of the set whose label ``live`` has; empty if there is none."""
    return _set_managers(live.packed_managers).get(live.labels.get(PART_OF, ""), "")


@remembered
def _set_managers(managers: Managers) -> Mapping[str, str]:
    """Return the first field manager of each set, by the ID of the set."""
    found: dict[str, str] = {}
    for entry in managers:
        name = str(entry.get("manager", ""))
        if of := set_of(name):
            found.setdefault(of, name)
    return found


def release_patch(live: LiveObject) -> Operations:
    """Return the operations that remove a set's label that another tool owns from ``live``.

    Otherwise every take-over would end in a conflict about the label.
    """
    labels = {key: value for key, value in live.labels.items() if key != PART_OF}
    return guarded_patch(live, labels, live.managed_fields)


def hand_over_patch(live: LiveObject, *, old: str, new: str, label: str, owned: bool) -> Operations:
    """Return the operations that transfer ``live`` to another set: its label and our fields.

    With ``owned``, the annotation of ownership names that set too; otherwise it is removed.

    The server assigns the label to the request's own manager, because the request changes it;
    ``settle_patch`` then corrects the response of this patch.
    """
    annotations = {key: text for key, text in live.annotations.items() if key != OWNED_BY}
    if owned:
        annotations[OWNED_BY] = label
    return guarded_patch(
        live,
        {**live.labels, PART_OF: label},
        renamed_managers(live.managed_fields, old, new),
        annotations,
    )


def settle_patch(after: LiveObject, managers: Managers) -> Operations:
    """Return the operations that give a transferred object the entries that it must have.

    ``after`` is the object after the transfer, ``managers`` are those entries.
    """
    return guarded_patch(after, dict(after.labels), managers)


def mark_patch(
    live: LiveObject, api_version: str, applyset: ApplySetIdentity, *, owned: bool
) -> Operations:
    """Return the operations that add the set's label and field manager to ``live``, if missing.

    The field manager gets an Apply entry that owns the label. With ``owned``, it also gets the
    annotation of ownership.
    """
    annotations = {**live.annotations, **({OWNED_BY: applyset.id} if owned else {})}
    managers = marked_managers(live, api_version, applyset, owned=owned)
    return guarded_patch(live, {**live.labels, PART_OF: applyset.id}, managers, annotations)


def marked_managers(
    live: LiveObject, api_version: str, applyset: ApplySetIdentity, *, owned: bool
) -> Managers:
    """Return the entries that an object must have after ``mark_patch``."""
    ours = own_apply_entry(live, applyset.manager)
    entry = ours or apply_entry(applyset.manager, api_version, label_fields())
    if owned:
        witness: Mapping[str, Any] = {"f:metadata": {"f:annotations": {f"f:{OWNED_BY}": {}}}}
        entry = {**entry, "fieldsV1": united(entry.get("fieldsV1") or {}, witness)}
    managers = [entry if one == ours else one for one in live.managed_fields]
    return managers if ours is not None else [*managers, entry]


def renamed_managers(managers: Managers, old: str, new: str) -> Managers:
    """Return the entries of a transferred object: those of the old manager are the new one's."""
    # The transferred fields include those that the new manager already had.
    names = {old: new, yielded_manager(old): yielded_manager(new)}
    others = [entry for entry in managers if entry.get("manager") not in names.values()]
    return [
        {**entry, "manager": names[name]} if (name := entry.get("manager")) in names else entry
        for entry in others
    ]


def apply_entry(manager: str, api_version: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an Apply entry for managedFields."""
    return _entry(manager, "Apply", api_version, fields)


def label_fields() -> Mapping[str, Any]:
    """Return the field set of the set's label alone."""
    return {"f:metadata": {"f:labels": {f"f:{PART_OF}": {}}}}


def _entry(
    manager: str, operation: str, api_version: str, fields: Mapping[str, Any]
) -> Mapping[str, Any]:
    return {
        "manager": manager,
        "operation": operation,
        "apiVersion": api_version,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }


def guarded_patch(
    live: LiveObject,
    labels: Mapping[str, str],
    managers: Managers,
    annotations: Mapping[str, str] | None = None,
) -> Operations:
    """Return the operations that make these changes to ``live``, in the state in which it was read.

    Without ``annotations``, they stay.
    """
    # Imported here: most runs never edit managedFields.
    from jsonpatch import make_patch

    before = {
        "labels": dict(live.labels),
        "annotations": dict(live.annotations),
        "managedFields": list(live.managed_fields),
    }
    kept = live.annotations if annotations is None else annotations
    after = {
        "labels": dict(labels),
        "annotations": dict(kept),
        "managedFields": list(managers),
    }
    # The server omits empty maps, so a patch cannot change a part of an empty map.
    changes = make_patch({"metadata": _filled(before)}, {"metadata": _filled(after)}).patch
    return [
        {"op": "test", "path": "/metadata/uid", "value": live.uid},
        {"op": "test", "path": "/metadata/resourceVersion", "value": live.resource_version},
        *changes,
    ]


def _filled(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in metadata.items() if value}


def is_applied(live: LiveObject, manager: str) -> bool:
    """Return whether a field manager has an Apply entry in managedFields."""
    return own_apply_entry(live, manager) is not None


def own_apply_entry(live: LiveObject, manager: str) -> Mapping[str, Any] | None:
    """Return our manager's Apply entry of the main resource; None if there is none."""
    return _own_entry(live.packed_managers, manager)


def _own_entry_in(managers: Managers, manager: str) -> Mapping[str, Any] | None:
    for entry in managers:
        if (
            entry.get("manager") == manager
            and entry.get("operation") == "Apply"
            and not entry.get("subresource")
        ):
            return entry
    return None


_own_entry = remembered(_own_entry_in)


def own_mark(live: LiveObject, manager: str) -> tuple[str, str] | None:
    """Return the digest of our Apply entry, and its time; None if there is no such entry."""
    return _own_mark(live.packed_managers, manager)


@remembered
def _own_mark(managers: Managers, manager: str) -> tuple[str, str] | None:
    entry = _own_entry_in(managers, manager)
    if entry is None:
        return None
    return digest([entry.get("apiVersion"), entry.get("fieldsV1")]), str(entry.get("time", ""))


@remembered
def writers(managers: Managers) -> frozenset[tuple[str, str]]:
    """Return the managers of the main resource, each with its operation."""
    return frozenset(
        (str(one.get("manager", "")), str(one.get("operation", "")))
        for one in managers
        if not one.get("subresource")
    )


def times_of(live: LiveObject, manager: str) -> str:
    """Return when a set has last written each of its entries; empty if it has none."""
    own = {manager, yielded_manager(manager)}
    return " ".join(
        str(entry.get("time", "-"))
        for entry in live.managed_fields
        if entry.get("manager") in own and not entry.get("subresource")
    )


def owns_all(live: LiveObject, manager: str, body: Mapping[str, Any]) -> bool:
    """Return whether our manager's Apply entry has everything that a manifest sets.

    An entry without a time has been written by our patch, and the apply has not followed yet.
    """
    entry = own_apply_entry(live, manager)
    if entry is None:
        return False
    if not entry.get("time"):
        return True
    metadata = {key: body["metadata"].get(key) for key in _APPLIED_METADATA}
    fields = {key: value for key, value in body.items() if key not in _NOT_OWNED}
    return covers(entry.get("fieldsV1") or {}, {**fields, "metadata": metadata})
