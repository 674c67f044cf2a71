"""Find the empty maps and lists of a manifest that controllers have filled.

An empty value often only says that the author has nothing to say: ``rules: []``. It stays with the
controller that has put something there. A person's edit stays a conflict: ``podSelector: {}`` and
``ingress: []`` say a lot. What the set's last apply owned stays the set's: whoever fills that since
has caused drift, or a conflict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from applyprune.model.fieldset import ListItem, Path, has, is_split, to_pointer
from applyprune.planning.applyset import MANAGERS
from applyprune.planning.ownership.conflicts import is_by_hand
from applyprune.planning.ownership.managed_fields import own_apply_entry

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from applyprune.model.live import LiveObject
    from applyprune.values import Packed


def filled_by_others(
    body: Packed,
    live: LiveObject,
    manager: str,
    leaving: Collection[str] = (),
    *,
    owned: Mapping[str, Any],
) -> tuple[tuple[str, str], ...]:
    """Return the JSON pointers of empty values that others have filled, each with who has.

    ``live`` may be metadata only: managedFields show who has put something there. What the set owns
    itself, or something in it, is not left to others. The managers ``leaving`` lose their fields.
    ``owned`` are the fields of the set's last apply.
    """
    ours = own_apply_entry(live, manager)
    others = [
        entry
        for entry in live.managed_fields
        if entry != ours and entry.get("manager") not in leaving
    ]
    if not others:
        return ()
    own = (ours or {}).get("fieldsV1") or {}
    found: list[tuple[str, str]] = []
    for path in _empties(body.value, ()):
        owners = [entry for entry in others if has(entry.get("fieldsV1") or {}, path)]
        if not owners or has(own, path, whole=True):  # guard: own-empty-value
            continue
        if has(owned, path, whole=True):  # guard: emptied-by-the-set
            continue
        # The keys of a map are owned one by one: nobody's keys contradict an empty map.
        is_keyed = any(is_split(entry.get("fieldsV1") or {}, path) for entry in owners)
        names = {str(entry.get("manager", "")) for entry in owners}
        if is_keyed or not any(map(_is_contender, names)):  # guard: edited-empty-value
            found.append((to_pointer(path), " and ".join(sorted(names))))
    return tuple(found)


def _is_contender(manager: str) -> bool:
    """Return whether a manager's value is one that the user should hear of."""
    return manager.startswith(MANAGERS) or is_by_hand(manager)


def _empties(value: object, above: Path) -> Iterator[Path]:
    if value in ({}, [], None):
        yield above
    elif isinstance(value, dict):
        for key, inner in value.items():
            if inner is None or isinstance(inner, dict | list):
                yield from _empties(inner, (*above, key))
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, dict) and isinstance(name := item.get("name"), str):
                yield from _empties(item, (*above, ListItem((("name", name),))))
