"""The one editor of managedFields: an object changes hands by a guarded JSON patch.

Nothing else can take a manager off an object. Applying it stripped to its name would wipe its
data: fields that we alone own go with our ownership. Every patch tests that the object is still the
one that was read, and touches labels and managedFields only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from applyprune.planning.evidence import own_apply_entry
from applyprune.planning.tracking import PART_OF, set_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from applyprune.model.live import Live
    from applyprune.planning.tracking import SetIdentity

    Operations = Sequence[Mapping[str, Any]]
    Managers = Sequence[Mapping[str, Any]]


def abandon_patch(live: Live, manager: str) -> Operations:
    """Return the operations (RFC 6902) that take our label and our manager off ``live``."""
    labels = {key: value for key, value in live.labels.items() if key != PART_OF}
    # A list of one empty entry is how managedFields is emptied; an empty list is passed over.
    managers = _without(live.managed_fields, lambda one: one.get("manager") == manager) or [{}]
    return _patch(live, labels, managers if live.managed_fields else ())


def set_manager(live: Live) -> str:
    """Return the field manager of the set whose label ``live`` bears; empty when it has none."""
    managers = (str(entry.get("manager", "")) for entry in live.managed_fields)
    return next((one for one in managers if set_of(one) == live.labels.get(PART_OF)), "")


def release_patch(live: Live) -> Operations:
    """Return the operations that take a label off ``live`` whose owner is no set of ours.

    Another tool's manager owns it; without this every take-over would be a conflict about it.
    """
    labels = {key: value for key, value in live.labels.items() if key != PART_OF}
    return _patch(live, labels, live.managed_fields)


def hand_over_patch(live: Live, *, old: str, new: str, label: str) -> Operations:
    """Return the operations that give ``live`` another set's label, and our fields to its manager.

    The server takes the label for a field that the request's own manager has changed; the reply to
    this patch is what ``settle_patch`` puts right.
    """
    return _patch(live, {**live.labels, PART_OF: label}, _renamed(live.managed_fields, old, new))


def settle_patch(after: Live, before: Live, *, old: str, new: str) -> Operations:
    """Return the operations after which the new manager owns all that the old one did.

    ``after`` is the object as the hand-over left it, ``before`` as it was.
    """
    return _patch(after, dict(after.labels), _renamed(before.managed_fields, old, new))


def mark_patch(live: Live, api_version: str, target: SetIdentity) -> Operations:
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
    others = _without(managers, lambda one: one.get("manager") == new)
    return [{**one, "manager": new} if one.get("manager") == old else one for one in others]


def _without(managers: Managers, is_out: Callable[[Mapping[str, Any]], bool]) -> Managers:
    return [one for one in managers if not is_out(one)]


def _patch(live: Live, labels: Mapping[str, str], managers: Managers) -> Operations:
    # Imported here: most runs never edit managedFields.
    from jsonpatch import make_patch

    before = {"labels": dict(live.labels), "managedFields": list(live.managed_fields)}
    after = {"labels": dict(labels), "managedFields": list(managers)}
    # The server leaves out what is empty, so there is nothing to change a part of.
    changes = make_patch({"metadata": _filled(before)}, {"metadata": _filled(after)}).patch
    return [
        {"op": "test", "path": "/metadata/uid", "value": live.uid},
        {"op": "test", "path": "/metadata/resourceVersion", "value": live.resource_version},
        *changes,
    ]


def _filled(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in metadata.items() if value}
