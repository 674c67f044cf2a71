"""Handle paths to fields, as the server prints them and as JSON pointers, and the values there.

An item of a list is identified by its keys, and a member of a set by its value, never by an index.
Server-side apply does the same, regardless of the order of a list.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Final, Literal, TypeAlias

from applyprune.values import dataclass, pattern


@dataclass(frozen=True, slots=True)
class ListItem:
    """A step to the items of a list that have these keys."""

    keys: tuple[tuple[str, Any], ...]
    """The names and values of the keys, sorted by name."""


@dataclass(frozen=True, slots=True)
class SetMember:
    """A step to the member of a set that has this value."""

    value: Any


class _Nothing(Enum):
    MISSING = "missing"


Step: TypeAlias = str | ListItem | SetMember
Path: TypeAlias = tuple[Step, ...]

MISSING: Final = _Nothing.MISSING
"""The result for a missing field; null is a value."""
Missing: TypeAlias = Literal[_Nothing.MISSING]

_JSON = json.JSONDecoder()
_WORD = pattern(r"[A-Za-z_][\w.-]*")
_KEY = pattern(r"[\w.-]+(?==)")
_NAME = pattern(r"[^/\[\]]+")
_BAD_TILDE = pattern(r"~(?![01])")


def from_pointer(text: str) -> Path:
    """Parse ``/spec/containers[name="c"]/image``, a JSON pointer that names items by their keys.

    Raises ValueError with the reason.
    """
    if not text.startswith("/"):
        raise ValueError("a JSON pointer must begin with /")
    path: list[Step] = []
    rest = text
    while rest:
        found = _NAME.match(rest, 1) if rest[0] == "/" else None
        if found is None:
            raise ValueError("it has an empty part" if rest[0] == "/" else f"unexpected {rest!r}")
        if _BAD_TILDE.search(found[0]):
            raise ValueError("write ~ as ~0, and / in a name as ~1")
        path.append(found[0].replace("~1", "/").replace("~0", "~"))
        rest = rest[found.end() :]
        if rest.startswith("["):
            step, rest = bracketed(rest)
            path.append(step)
    return tuple(path)


def to_pointer(path: Path) -> str:
    """Return the pointer for a path; ``from_pointer`` is the inverse."""
    parts = []
    for step in path:
        match step:
            case str():
                parts.append("/" + step.replace("~", "~0").replace("/", "~1"))
            case ListItem(keys):
                parts.append(
                    f"[{','.join(f'{key}={json.dumps(key_value)}' for key, key_value in keys)}]"
                )
            case SetMember(value):
                parts.append(f"[={json.dumps(value)}]")
    return "".join(parts)


def to_server(path: Path) -> str:
    """Return a path as the server prints it: ``.spec.containers[name="c"].image``."""
    text = ""
    for step in path:
        if isinstance(step, str):
            text += f".{step}"
        elif isinstance(step, ListItem):
            text += f"[{','.join(f'{name}={json.dumps(value)}' for name, value in step.keys)}]"
        else:
            text += f"[={json.dumps(step.value)}]"
    return text


def from_server(text: str, body: object) -> Path | None:
    """Return the path that ``.spec.containers[name="c"].image`` means in a body; None if missing.

    The server prints names without quotes, and names may contain dots
    (``.metadata.labels.app.kubernetes.io/name``): only the names in the body show where each name
    ends.
    """
    if not text:
        return ()
    if text.startswith(".") and isinstance(body, dict):
        rest = text[1:]
        for name in sorted(
            (inner for inner in body if rest.startswith(inner)), key=len, reverse=True
        ):
            after = rest[len(name) :]
            if after and after[0] not in ".[":
                continue
            if (path := from_server(after, body[name])) is not None:
                return (name, *path)
    elif text.startswith("[") and isinstance(body, list):
        try:
            step, after = bracketed(text)
        except ValueError:
            return None
        for inner in body:
            if is_at(inner, step) and (path := from_server(after, inner)) is not None:
                return (step, *path)
    return None


def value_at(body: object, path: Path) -> Any | Missing:
    """Return the value at a path; if several items have the keys, the value of the first item.

    An item that has all the keys itself comes before one whose defaults match.
    """
    for step in path:
        if isinstance(step, str):
            body = body.get(step, MISSING) if isinstance(body, dict) else MISSING
        else:
            items = [item for item in body if is_at(item, step)] if isinstance(body, list) else []
            body = max(items, key=lambda item: _has_keys(item, step), default=MISSING)
        if body is MISSING:
            return MISSING
    return body


def left_out(body: Mapping[str, Any], paths: Iterable[Path]) -> dict[str, Any]:
    """Return the body without the fields at the paths, and without mappings that become empty."""
    left: Any = dict(body)
    for path in paths:
        left = _without(left, path)
        if left is MISSING:
            return {}
    return dict(left)


def put(body: Mapping[str, Any], path: Path, value: Any) -> dict[str, Any]:
    """Return the body with a value at a path; missing parents are created."""
    return dict(_put(body, path, value))


def is_at(item: object, step: ListItem | SetMember) -> bool:
    """Return whether ``step`` identifies an item of a list.

    A missing key counts as a default that matches, unless the item has none of the keys.
    """
    if isinstance(step, SetMember):
        return type(item) is type(step.value) and item == step.value
    if not isinstance(item, dict) or not any(key in item for key, _ in step.keys):
        return False
    return all(item.get(key, value) == value for key, value in step.keys)


def _has_keys(item: object, step: Step) -> bool:
    return (
        isinstance(item, dict)
        and isinstance(step, ListItem)
        and all(key in item for key, _ in step.keys)
    )


def is_under(path: Path, above: Path) -> bool:
    """Return whether a path equals ``above``, or leads to a part of its value."""
    return len(path) >= len(above) and all(
        _covers(wide, narrow) for wide, narrow in zip(above, path, strict=False)
    )


def item(keys: Mapping[str, Any]) -> ListItem:
    """Return the step that identifies an item by its keys."""
    return ListItem(tuple(sorted(keys.items())))


def _covers(wide: Step, narrow: Step) -> bool:
    if isinstance(wide, ListItem) and isinstance(narrow, ListItem):
        return set(wide.keys) <= set(narrow.keys)
    return wide == narrow


def bracketed(text: str) -> tuple[ListItem | SetMember, str]:
    """Parse ``[name="c"]`` or ``[="x"]``; return the step and the text after it."""
    if text.startswith("[="):
        value, end = _value(text, 2)
        if text[end : end + 1] != "]":
            raise ValueError(f"missing ] in {text!r}")
        return SetMember(value), text[end + 1 :]
    keys: dict[str, Any] = {}
    at = 1
    while True:
        found = _KEY.match(text, at)
        if found is None:
            raise ValueError(f'name an item of a list by its key, as in [name="x"]: {text!r}')
        keys[found[0]], at = _value(text, found.end() + 1)
        if text[at : at + 1] == "]":
            return item(keys), text[at + 1 :]
        if text[at : at + 1] != ",":
            raise ValueError(f"missing ] in {text!r}")
        at += 1


def _value(text: str, at: int) -> tuple[Any, int]:
    try:
        value, end = _JSON.raw_decode(text, at)
    except ValueError:
        if (word := _WORD.match(text, at)) is None:
            raise ValueError(f"invalid value {text[at:]!r}") from None
        return word[0], word.end()
    return value, end


def _without(value: Any, path: Path) -> Any | Missing:
    step, rest = path[0], path[1:]
    if isinstance(step, str):
        if not isinstance(value, dict) or step not in value:
            return value
        inner = _without(value[step], rest) if rest else MISSING
        left = {**value, step: inner}
        if inner is MISSING:
            del left[step]
        return left or MISSING
    if not isinstance(value, list) or not any(is_at(element, step) for element in value):
        return value
    items: Sequence[Any] = [
        inner for element in value if (inner := _narrowed(element, step, rest)) is not MISSING
    ]
    return items or MISSING


def _narrowed(item: Any, step: ListItem | SetMember, rest: Path) -> Any | Missing:
    if not is_at(item, step):
        return item
    return _without(item, rest) if rest else MISSING


def _put(body: Any, path: Path, value: Any) -> Any:
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(step, str):
        known = body if isinstance(body, dict) else {}
        return {**known, step: _put(known.get(step), rest, value)}
    items = list(body) if isinstance(body, list) else []
    place = next((at for at, item in enumerate(items) if is_at(item, step)), len(items))
    empty = step.value if isinstance(step, SetMember) else dict(step.keys)
    there = items[place] if place < len(items) else empty
    return [*items[:place], _put(there, rest, value), *items[place + 1 :]]
