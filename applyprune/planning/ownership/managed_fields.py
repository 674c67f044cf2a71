"""Edit managedFields by a guarded JSON patch, to transfer or release an object.

There is no other way to remove a field manager. An apply of only the name would delete data: the
server removes fields that only we own when we stop to own them. Every patch tests that the object
has not changed since it was read. It only changes labels, managedFields and kubectl's annotation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from applyprune.planning.applyset import LAST_APPLIED, PART_OF, set_of, yielded_manager
from applyprune.planning.fields.fieldsv1 import covers

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from applyprune.model.live import LiveObject
    from applyprune.planning.applyset import ApplySetIdentity

if TYPE_CHECKING:
    Operations = Sequence[Mapping[str, Any]]
    Managers = Sequence[Mapping[str, Any]]


_APPLIED_METADATA = ("annotations", "finalizers", "labels", "ownerReferences")
_NOT_OWNED = frozenset({"apiVersion", "kind", "metadata", "status"})


def orphan_patch(live: LiveObject, manager: str) -> Operations:
    """Return the operations (RFC 6902) that remove our label and our manager from ``live``."""
    labels = {key: value for key, value in live.labels.items() if key != PART_OF}
    # A list with one empty entry clears managedFields; the server ignores an empty list.
    managers = _without(live.managed_fields, (manager, yielded_manager(manager)))
    return _patch(live, labels, managers if live.managed_fields else ())


def leave_patch(live: LiveObject, manager: str) -> Operations:
    """Return the operations that remove a manager from ``live``; its fields keep their values."""
    return _patch(live, live.labels, _without(live.managed_fields, (manager,)))


def set_manager(live: LiveObject) -> str:
    """Return the field manager of the set whose label ``live`` has; empty if there is none."""
    managers = (str(entry.get("manager", "")) for entry in live.managed_fields)
    return next((name for name in managers if set_of(name) == live.labels.get(PART_OF)), "")


def release_patch(live: LiveObject) -> Operations:
    """Return the operations that remove a set's label that another tool owns from ``live``.

    Otherwise every take-over would end in a conflict about the label.
    """
    labels = {key: value for key, value in live.labels.items() if key != PART_OF}
    return _patch(live, labels, live.managed_fields)


def foreign_managers(live: LiveObject, asked: Collection[str], *, adopts: bool) -> frozenset[str]:
    """Return the managers on ``live`` whose fields become ours.

    In an adoption, these are kubectl's and Helm's managers, with any operation: the object's owner
    has used them until now. Those in ``asked`` are always taken over.
    """
    return frozenset(
        manager
        for entry in live.managed_fields
        if not entry.get("subresource")
        and (manager := str(entry.get("manager", "")))
        and (manager in asked or (adopts and _is_users_own(manager)))
    )


def migrate_patch(
    live: LiveObject, managers: Collection[str], manager: str, api_version: str
) -> Operations:
    """Return the operations that make our manager own the fields of other managers.

    Our next apply then removes the fields that our manifest lacks. Otherwise these fields would
    stay permanently (kubernetes#99003). The last-applied annotation of client-side apply is removed
    too. client-go's csaupgrade does the same for kubectl's own managers.
    """
    moved = [entry for entry in live.managed_fields if _is_of(entry, {*managers, manager})]
    others = [entry for entry in live.managed_fields if entry not in moved]
    fields: dict[str, Any] = {}
    for entry in moved:
        fields = _united(fields, entry.get("fieldsV1") or {})
    ours = {
        "manager": manager,
        "operation": "Apply",
        "apiVersion": api_version,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    annotations = {key: text for key, text in live.annotations.items() if key != LAST_APPLIED}
    return _patch(live, live.labels, [*others, ours], annotations)


def _is_users_own(manager: str) -> bool:
    return manager in {"before-first-apply", "helm"} or manager.startswith("kubectl")


def _is_of(entry: Mapping[str, Any], managers: Collection[str]) -> bool:
    return entry.get("manager") in managers and not entry.get("subresource")


def _united(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Return the union of two sets of fields (FieldsV1 is a tree of names)."""
    both = {**first, **second}
    return {
        key: _united(first[key], second[key]) if key in first and key in second else value
        for key, value in both.items()
    }


def hand_over_patch(live: LiveObject, *, old: str, new: str, label: str) -> Operations:
    """Return the operations that transfer ``live`` to another set: its label and our fields.

    The server assigns the label to the request's own manager, because the request changes it;
    ``settle_patch`` then corrects the response of this patch.
    """
    return _patch(
        live, {**live.labels, PART_OF: label}, renamed_managers(live.managed_fields, old, new)
    )


def settle_patch(after: LiveObject, managers: Managers) -> Operations:
    """Return the operations that give a transferred object the entries that it must have.

    ``after`` is the object after the transfer, ``managers`` are those entries.
    """
    return _patch(after, dict(after.labels), managers)


def mark_patch(live: LiveObject, api_version: str, applyset: ApplySetIdentity) -> Operations:
    """Return the operations that add the set's label and field manager to ``live``, if missing.

    The field manager gets an Apply entry that owns the label.
    """
    managers = list(live.managed_fields)
    if own_apply_entry(live, applyset.manager) is None:
        managers.append(
            {
                "manager": applyset.manager,
                "operation": "Apply",
                "apiVersion": api_version,
                "fieldsType": "FieldsV1",
                "fieldsV1": {"f:metadata": {"f:labels": {f"f:{PART_OF}": {}}}},
            }
        )
    return _patch(live, {**live.labels, PART_OF: applyset.id}, managers)


def renamed_managers(managers: Managers, old: str, new: str) -> Managers:
    """Return the entries of a transferred object: those of the old manager are the new one's."""
    # The transferred fields include those that the new manager already had.
    names = {old: new, yielded_manager(old): yielded_manager(new)}
    others = [entry for entry in managers if entry.get("manager") not in names.values()]
    return [
        {**entry, "manager": names[name]} if (name := entry.get("manager")) in names else entry
        for entry in others
    ]


def _without(managers: Managers, names: Collection[str]) -> Managers:
    # A list with one empty entry clears managedFields; the server ignores an empty list.
    return [entry for entry in managers if entry.get("manager") not in names] or [{}]


def _patch(
    live: LiveObject,
    labels: Mapping[str, str],
    managers: Managers,
    annotations: Mapping[str, str] | None = None,
) -> Operations:
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


def own_apply_entry(live: LiveObject, manager: str) -> Mapping[str, Any] | None:
    """Return our manager's Apply entry of the main resource; None if there is none."""
    for entry in live.managed_fields:
        if (
            entry.get("manager") == manager
            and entry.get("operation") == "Apply"
            and not entry.get("subresource")
        ):
            return entry
    return None


def times_of(live: LiveObject, manager: str) -> str:
    """Return when a set has last written each of its entries; empty if it has none."""
    own = {manager, yielded_manager(manager)}
    return " ".join(
        str(entry.get("time", "-")) for entry in live.managed_fields if _is_of(entry, own)
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
