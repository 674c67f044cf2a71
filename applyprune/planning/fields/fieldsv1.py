"""Read FieldsV1: the tree of names that lists the fields of a managedFields entry.

``f:`` names a field, ``k:`` an item of a list by its keys, ``v:`` a member of a set, and ``.`` the
parent itself. A name with nothing below it is owned as a whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from applyprune.planning.fields.path import (
    MISSING,
    ListItem,
    Path,
    SetMember,
    Step,
    is_at,
    item,
    value_at,
)


def leaves(fields: Mapping[str, Any], above: Path = ()) -> Iterator[Path]:
    """Yield the path of each owned field.

    The keys of an item are owned together with its other fields, and are yielded only if no other
    field of the item is owned.
    """
    last = above[-1] if above else ""
    keys = {name for name, _ in last.keys} if isinstance(last, ListItem) else set()
    below = {step: inner for step, inner in fields_below(fields).items() if inner != {".": {}}}
    more = {step: inner for step, inner in below.items() if step not in keys}
    for step, inner in (more or below).items():
        path = (*above, step)
        if inner:
            yield from leaves(inner, path)
        else:
            yield path


def owned_items(fields: Mapping[str, Any], above: Path = ()) -> Iterator[Path]:
    """Yield the path of each list item that is owned itself, not only something in it."""
    for step, inner in fields_below(fields).items():
        path = (*above, step)
        if isinstance(step, ListItem) and _has_itself(inner):
            yield path
        yield from owned_items(inner, path)


def owns(fields: Mapping[str, Any], path: Path) -> bool:
    """Return whether a field is owned, directly or as part of a value that is owned as a whole."""
    for step in path:
        below = fields_below(fields)
        if step not in below:
            return False
        fields = below[step]
        if not fields:
            return True
    return True


def has(fields: Mapping[str, Any], path: Path, *, whole: bool = False) -> bool:
    """Return whether a field, or something in it, is owned.

    With ``whole``, also if it is part of a value that is owned as a whole.
    """
    for depth, step in enumerate(path):
        below = fields_below(fields)
        if step not in below:
            return whole and depth > 0 and not fields
        fields = below[step]
    return True


def extracted(fields: Mapping[str, Any], value: Any) -> Any:
    """Return the part of a value that is owned; the items of a list keep their order."""
    if not fields:
        return value
    below = fields_below(fields)
    if isinstance(value, dict):
        return {
            step: extracted(inner, value[step])
            for step, inner in below.items()
            if isinstance(step, str) and step in value
        }
    if not isinstance(value, list):
        return value
    steps = [(step, inner) for step, inner in below.items() if not isinstance(step, str)]
    return [extracted(inner, one) for one in value for step, inner in steps if is_at(one, step)]


def covers(fields: Mapping[str, Any], value: Any) -> bool:
    """Return whether everything in a value is owned; empty parts of it do not count.

    The server may have added keys to the items of a list, so an item needs only those it has.
    """
    if not value or not fields:
        return True  # nothing to own, or owned as a whole
    below = fields_below(fields)
    if isinstance(value, Mapping):
        filled = ((key, inner) for key, inner in value.items() if inner)
        return all(key in below and covers(below[key], inner) for key, inner in filled)
    return not isinstance(value, list) or all(
        any(_is_item(step, one) and covers(inner, one) for step, inner in below.items())
        for one in value
    )


def _is_item(step: Step, value: Any) -> bool:
    """Return whether a step may lead to this item or member of a list."""
    if isinstance(step, ListItem):
        return isinstance(value, Mapping) and all(
            value.get(name, wanted) == wanted for name, wanted in step.keys
        )
    return isinstance(step, SetMember) and step.value == value


def whole_above(fields: Mapping[str, Any], path: Path) -> Path:
    """Return the path of the value around a field that is owned as a whole; empty if none."""
    for depth, step in enumerate(path[:-1], 1):
        below = fields_below(fields)
        if step not in below:
            return ()
        fields = below[step]
        if not fields:
            return path[:depth]
    return ()


def is_split(fields: Mapping[str, Any], path: Path) -> bool:
    """Return whether the parts of the value at a path are owned separately."""
    for step in path:
        below = fields_below(fields)
        if step not in below:
            return False
        fields = below[step]
    return any(name != "." for name in fields)


def united(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Return the union of two sets of fields."""
    both: dict[str, Any] = {**first, **second}
    for key in first.keys() & second.keys():
        one, other = first[key], second[key]
        inner = united(one, other)
        # One of them has the field itself, and the other has something in it.
        both[key] = {".": {}, **inner} if inner and not (one and other) else inner
    return both


def common(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are in both sets."""
    found: dict[str, Any] = {}
    for key in first.keys() & second.keys():
        one, other = first[key] or {}, second[key] or {}
        if one and other:
            if inner := common(one, other):
                found[key] = inner
        elif _has_itself(one) and _has_itself(other):
            found[key] = {}
    return found


def less(fields: Mapping[str, Any], taken: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a set that are not in the other one."""
    left: dict[str, Any] = {}
    for key, value in fields.items():
        inner = value or {}
        if key not in taken:
            left[key] = inner
        elif not inner:
            if not _has_itself(taken[key] or {}):
                left[key] = inner
        # What is taken as a whole is itself only, not what is below it.
        elif kept := less(inner, taken[key] or {".": {}}):
            left[key] = kept
    return left


def held(fields: Mapping[str, Any], value: Any) -> dict[str, Any]:
    """Return the fields that a value sets; it is the body of a manifest, or a part of one."""
    found: dict[str, Any] = {}
    for key, inner in fields.items():
        if key == ".":
            found[key] = {}
            continue
        step = _step(key)
        below = MISSING if step is None else value_at(value, (step,))
        if below is MISSING:
            continue
        if not inner:
            found[key] = {}
        elif kept := held(inner, below):
            found[key] = kept
    return found


def field_set(path: Path) -> dict[str, Any]:
    """Return the set of one field."""
    fields: dict[str, Any] = {}
    for step in reversed(path):
        fields = {_name(step): fields}
    return fields


def without_path(fields: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return the fields of a set without a field and everything in it."""
    left: dict[str, Any] = {}
    for name, inner in fields.items():
        if _step(name) != path[0] or (inner == {} and path[1:]):
            left[name] = inner
        elif path[1:] and (below := without_path(inner, path[1:])):
            left[name] = below
    return left


def _has_itself(fields: Mapping[str, Any]) -> bool:
    """Return whether the field above these is owned itself, not only something in it."""
    return not fields or "." in fields


def fields_below(fields: Mapping[str, Any]) -> Mapping[Step, Mapping[str, Any]]:
    """Return the fields right below the root of a set, each with those below it."""
    found: dict[Step, Mapping[str, Any]] = {}
    for name, inner in fields.items():
        if (step := _step(name)) is not None:
            found[step] = inner or {}
    return found


def _step(name: str) -> Step | None:
    kind, _, text = name.partition(":")
    match kind:
        case "f":
            return text
        case "k":
            return item(json.loads(text))
        case "v":
            return SetMember(json.loads(text))
        case _:
            return None


def _name(step: Step) -> str:
    match step:
        case ListItem(keys):
            return f"k:{json.dumps(dict(keys), separators=(',', ':'))}"
        case SetMember(value):
            return f"v:{json.dumps(value, separators=(',', ':'))}"
        case _:
            return f"f:{step}"
