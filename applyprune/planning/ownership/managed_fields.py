"""The one editor of managedFields: an object changes hands by a guarded JSON patch.

Nothing else can take a manager off an object. Applying it stripped to its name would wipe its
data: fields that we alone own go with our ownership. Every patch tests that the object is still the
one that was read, and touches labels, managedFields and
kubectl's own annotation only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from applyprune.planning.applyset import LAST_APPLIED, PART_OF, set_of, yielded_manager

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from applyprune.model.live import LiveObject
    from applyprune.planning.applyset import ApplySetIdentity

if TYPE_CHECKING:
    Operations = Sequence[Mapping[str, Any]]
    Managers = Sequence[Mapping[str, Any]]


def orphan_patch(live: LiveObject, manager: str) -> Operations:
    """Return the operations (RFC 6902) that take our label and our manager off ``live``."""
    labels = {key: value for key, value in live.labels.items() if key != PART_OF}
    # A list of one empty entry is how managedFields is emptied; an empty list is passed over.
    managers = _without(live.managed_fields, (manager, yielded_manager(manager)))
    return _patch(live, labels, managers if live.managed_fields else ())


def leave_patch(live: LiveObject, manager: str) -> Operations:
    """Return the operations that take a manager off ``live``: what it owned stays as it is."""
    return _patch(live, live.labels, _without(live.managed_fields, (manager,)))


def set_manager(live: LiveObject) -> str:
    """Return the field manager of the set whose label ``live`` bears; empty when it has none."""
    managers = (str(entry.get("manager", "")) for entry in live.managed_fields)
    return next((one for one in managers if set_of(one) == live.labels.get(PART_OF)), "")


def release_patch(live: LiveObject) -> Operations:
    """Return the operations that take a label off ``live`` whose owner is no set of ours.

    Another tool's manager owns it; without this every take-over would be a conflict about it.
    """
    labels = {key: value for key, value in live.labels.items() if key != PART_OF}
    return _patch(live, labels, live.managed_fields)


def foreign_managers(live: LiveObject, asked: Collection[str], *, adopts: bool) -> frozenset[str]:
    """Return the managers whose fields become ours, those that are on ``live``.

    At an adoption these are kubectl's and Helm's, by whatever operation: they are how the object's
    owner has managed it until now. ``asked`` are taken over at any time.
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
    """Return the operations that give our manager the fields of others, as its own applies.

    A field that they set and our manifest lacks goes with our next apply then; left with them it
    would stay for ever (kubernetes#99003). The annotation in which client-side apply keeps the
    whole manifest goes as well. client-go's csaupgrade does the same for kubectl's own managers.
    """
    moved = [one for one in live.managed_fields if _is_of(one, {*managers, manager})]
    others = [one for one in live.managed_fields if one not in moved]
    fields: dict[str, Any] = {}
    for one in moved:
        fields = _united(fields, one.get("fieldsV1") or {})
    ours = {
        "manager": manager,
        "operation": "Apply",
        "apiVersion": api_version,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    annotations = {key: one for key, one in live.annotations.items() if key != LAST_APPLIED}
    return _patch(live, live.labels, [*others, ours], annotations)


def _is_users_own(manager: str) -> bool:
    return manager in {"before-first-apply", "helm"} or manager.startswith("kubectl")


def _is_of(entry: Mapping[str, Any], managers: Collection[str]) -> bool:
    return entry.get("manager") in managers and not entry.get("subresource")


def _united(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return the union of two sets of fields (FieldsV1 is a tree of names)."""
    both = {**one, **other}
    return {
        key: _united(one[key], other[key]) if key in one and key in other else value
        for key, value in both.items()
    }


def hand_over_patch(live: LiveObject, *, old: str, new: str, label: str) -> Operations:
    """Return the operations that give ``live`` another set's label, and our fields to its manager.

    The server takes the label for a field that the request's own manager has changed; the reply to
    this patch is what ``settle_patch`` puts right.
    """
    return _patch(live, {**live.labels, PART_OF: label}, _renamed(live.managed_fields, old, new))


def settle_patch(after: LiveObject, before: LiveObject, *, old: str, new: str) -> Operations:
    """Return the operations after which the new manager owns all that the old one did.

    ``after`` is the object as the hand-over left it, ``before`` as it was.
    """
    return _patch(after, dict(after.labels), _renamed(before.managed_fields, old, new))


def mark_patch(live: LiveObject, api_version: str, target: ApplySetIdentity) -> Operations:
    """Return the operations that put a set's marks on ``live``, those of the two that it lacks.

    They are the label, and an Apply entry of the set's manager, which then owns that label.
    """
    managers = list(live.managed_fields)
    if own_apply_entry(live, target.manager) is None:
        managers.append(
            {
                "manager": target.manager,
                "operation": "Apply",
                "apiVersion": api_version,
                "fieldsType": "FieldsV1",
                "fieldsV1": {"f:metadata": {"f:labels": {f"f:{PART_OF}": {}}}},
            }
        )
    return _patch(live, {**live.labels, PART_OF: target.id}, managers)


def _renamed(managers: Managers, old: str, new: str) -> Managers:
    # What the new manager had already is part of what it takes over.
    names = {old: new, yielded_manager(old): yielded_manager(new)}
    others = [one for one in managers if one.get("manager") not in names.values()]
    return [
        {**one, "manager": names[name]} if (name := one.get("manager")) in names else one
        for one in others
    ]


def _without(managers: Managers, names: Collection[str]) -> Managers:
    # A list of one empty entry is how managedFields is emptied; an empty list is passed over.
    return [one for one in managers if one.get("manager") not in names] or [{}]


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
    # The server leaves out what is empty, so there is nothing to change a part of.
    changes = make_patch({"metadata": _filled(before)}, {"metadata": _filled(after)}).patch
    return [
        {"op": "test", "path": "/metadata/uid", "value": live.uid},
        {"op": "test", "path": "/metadata/resourceVersion", "value": live.resource_version},
        *changes,
    ]


def _filled(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in metadata.items() if value}


def own_apply_entry(live: LiveObject, manager: str) -> Mapping[str, Any] | None:
    """Return our manager's Apply entry of the main resource, None when there is none."""
    for entry in live.managed_fields:
        if (
            entry.get("manager") == manager
            and entry.get("operation") == "Apply"
            and not entry.get("subresource")
        ):
            return entry
    return None
