"""Fields of objects: paths, sets of names as in FieldsV1, and who has changed a field.

An item of a list is identified by its keys, and a member of a set by its value, never by an index.
Server-side apply does the same, regardless of the order of a list.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct, field

from applyprune.model.identity import Ref
from applyprune.values import pattern


class ListItem(Struct, frozen=True):
    """A step to the items of a list that have these keys."""

    keys: tuple[tuple[str, Any], ...]
    """The names and values of the keys, sorted by name."""


class SetMember(Struct, frozen=True):
    """A step to the member of a set that has this value."""

    value: Any


Step: TypeAlias = str | ListItem | SetMember
Path: TypeAlias = tuple[Step, ...]


class _Nothing(Enum):
    MISSING = "missing"


MISSING: Final = _Nothing.MISSING
"""The result for a missing field; null is a value."""
MissingType: TypeAlias = Literal[_Nothing.MISSING]


# Sets of fields, as FieldsV1 in a managedFields entry writes them: a tree of names.
#
# ``f:`` names a field, ``k:`` an item of a list by its keys, ``v:`` a member of a set, and ``.``
# the parent itself. A name with nothing below it is owned as a whole.


class FieldSet(Struct, frozen=True, dict=True):
    """A set of fields; what is below a name is parsed once."""

    fields_v1: Mapping[str, Any] = field(default_factory=dict)
    """The set as FieldsV1 writes it."""

    @classmethod
    def of(cls, *paths: Path) -> FieldSet:
        """Return the set of some fields."""
        found = cls()
        for path in paths:
            fields: dict[str, Any] = {}
            for step in reversed(path):
                fields = {_name(step): fields}
            found |= cls(fields)
        return found

    def __bool__(self) -> bool:
        return bool(self.fields_v1)

    @cached_property
    def below(self) -> Mapping[Step, FieldSet]:
        """Return the fields right below the root, each with those below it."""
        steps = ((_step(name), inner) for name, inner in self.fields_v1.items())
        return {step: FieldSet(inner or {}) for step, inner in steps if step is not None}

    @property
    def has_itself(self) -> bool:
        """Return whether the field above these is owned itself, not only something in it."""
        return _has_itself(self.fields_v1)

    def leaves(self, above: Path = ()) -> Iterator[Path]:
        """Yield the path of each owned field.

        The keys of an item are owned together with its other fields, and are yielded only if no
        other field of the item is owned.
        """
        last = above[-1] if above else ""
        keys = {name for name, _ in last.keys} if isinstance(last, ListItem) else set()
        below = {step: one for step, one in self.below.items() if one.fields_v1 != {".": {}}}
        more = {step: one for step, one in below.items() if step not in keys}
        for step, one in (more or below).items():
            path = (*above, step)
            if one:
                yield from one.leaves(path)
            else:
                yield path

    def items(self, above: Path = ()) -> Iterator[Path]:
        """Yield the path of each list item that is owned itself, not only something in it."""
        for step, one in self.below.items():
            path = (*above, step)
            if isinstance(step, ListItem) and one.has_itself:
                yield path
            yield from one.items(path)

    def __contains__(self, path: Path) -> bool:
        """Return whether a field, something in it, or a value around it as a whole is owned."""
        depth, fields = self._depth(path)
        return depth == len(path) or (depth > 0 and not fields)

    def names(self, path: Path) -> bool:
        """Return whether a field, or something in it, is owned by its own name."""
        return self._depth(path)[0] == len(path)

    def _depth(self, path: Path) -> tuple[int, FieldSet]:
        """Return how many steps of a path are named, and the fields below the last one."""
        fields = self
        for depth, step in enumerate(path):
            below = fields.below.get(step)
            if below is None:
                return depth, fields
            fields = below
        return len(path), fields

    def whole_above(self, path: Path) -> Path:
        """Return the path of the value around a field that is owned as a whole; empty if none."""
        depth, fields = self._depth(path[:-1])
        return path[:depth] if depth and not fields else ()

    def at(self, path: Path) -> FieldSet:
        """Return the owned fields below a path; empty if there are none."""
        depth, fields = self._depth(path)
        return fields if depth == len(path) else NO_FIELDS

    def is_split(self, path: Path) -> bool:
        """Return whether the parts of the value at a path are owned separately."""
        return any(name != "." for name in self.at(path).fields_v1)

    def covers(self, value: Any) -> bool:
        """Return whether everything in a value is owned; empty parts of it do not count.

        The server may have added keys to the items of a list, so an item needs only those it has.
        """
        if not value or not self:
            return True  # nothing to own, or owned as a whole
        below = self.below
        if isinstance(value, Mapping):
            filled = ((key, inner) for key, inner in value.items() if inner)
            return all(key in below and below[key].covers(inner) for key, inner in filled)
        return not isinstance(value, list) or all(
            any(_is_item(step, one) and inner.covers(one) for step, inner in below.items())
            for one in value
        )

    def part_of(self, value: Any) -> Any:
        """Return the part of a value that is owned; the items of a list keep their order."""
        if not self:
            return value
        if isinstance(value, dict):
            return {
                step: inner.part_of(value[step])
                for step, inner in self.below.items()
                if isinstance(step, str) and step in value
            }
        if not isinstance(value, list):
            return value
        steps = [(step, inner) for step, inner in self.below.items() if not isinstance(step, str)]
        return [inner.part_of(one) for one in value for step, inner in steps if is_at(one, step)]

    def set_by(self, value: Any) -> FieldSet:
        """Return the fields that a value sets; it is the body of a manifest, or a part of one."""
        return FieldSet(_set_by(self.fields_v1, value))

    def __or__(self, other: FieldSet) -> FieldSet:
        return FieldSet(_union(self.fields_v1, other.fields_v1))

    def __and__(self, other: FieldSet) -> FieldSet:
        return FieldSet(_intersection(self.fields_v1, other.fields_v1))

    def __sub__(self, other: FieldSet) -> FieldSet:
        return FieldSet(_difference(self.fields_v1, other.fields_v1))

    def without(self, *paths: Path) -> FieldSet:
        """Return the set without some fields and everything in them."""
        left = self.fields_v1
        for path in paths:
            left = _without_path(left, path)
        return FieldSet(left)


NO_FIELDS = FieldSet()


class Writer(Struct, frozen=True, dict=True):
    """An entry of managedFields: who writes which fields, and how."""

    entry: Mapping[str, Any]
    """The entry as the server has it."""

    @cached_property
    def manager(self) -> str:
        return str(self.entry.get("manager") or "")

    @cached_property
    def operation(self) -> str:
        """Return ``Apply`` or ``Update``."""
        return str(self.entry.get("operation") or "")

    @cached_property
    def subresource(self) -> str:
        """Return the subresource that it writes through; empty for the object itself."""
        return str(self.entry.get("subresource") or "")

    @cached_property
    def api_version(self) -> str:
        """Return the version in which the fields are named."""
        return str(self.entry.get("apiVersion") or "")

    @cached_property
    def time(self) -> str:
        """Return the time of its last write, RFC 3339; empty if a patch has made the entry."""
        return str(self.entry.get("time") or "")

    @cached_property
    def fields(self) -> FieldSet:
        return FieldSet(self.entry.get("fieldsV1") or {})

    def with_fields(self, fields: FieldSet) -> Writer:
        return Writer({**self.entry, "fieldsV1": fields.fields_v1})


def _is_item(step: Step, value: Any) -> bool:
    """Return whether a step may lead to this item or member of a list."""
    if isinstance(step, ListItem):
        return isinstance(value, Mapping) and all(
            value.get(name, wanted) == wanted for name, wanted in step.keys
        )
    return isinstance(step, SetMember) and step.value == value


def _set_by(fields: Mapping[str, Any], value: Any) -> dict[str, Any]:
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
        elif kept := _set_by(inner, below):
            found[key] = kept
    return found


def _union(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    both: dict[str, Any] = {**first, **second}
    for key in first.keys() & second.keys():
        one, other = first[key], second[key]
        inner = _union(one, other)
        # One of them has the field itself, and the other has something in it.
        both[key] = {".": {}, **inner} if inner and not (one and other) else inner
    return both


def _intersection(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key in first.keys() & second.keys():
        one, other = first[key] or {}, second[key] or {}
        if one and other:
            if inner := _intersection(one, other):
                found[key] = inner
        elif _has_itself(one) and _has_itself(other):
            found[key] = {}
    return found


def _difference(fields: Mapping[str, Any], taken: Mapping[str, Any]) -> dict[str, Any]:
    left: dict[str, Any] = {}
    for key, value in fields.items():
        inner = value or {}
        if key not in taken:
            left[key] = inner
        elif not inner:
            if not _has_itself(taken[key] or {}):
                left[key] = inner
        # What is taken as a whole is itself only, not what is below it.
        elif kept := _difference(inner, taken[key] or {".": {}}):
            left[key] = kept
    return left


def _has_itself(fields: Mapping[str, Any]) -> bool:
    return not fields or "." in fields


def _without_path(fields: Mapping[str, Any], path: Path) -> dict[str, Any]:
    left: dict[str, Any] = {}
    for name, inner in fields.items():
        if _step(name) != path[0] or (inner == {} and path[1:]):
            left[name] = inner
        elif path[1:] and (below := _without_path(inner, path[1:])):
            left[name] = below
    return left


def _step(name: str) -> Step | None:
    kind, _, text = name.partition(":")
    match kind:
        case "f":
            return text
        case "k":
            return list_item(json.loads(text))
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


# Values at paths.


def value_at(body: object, path: Path) -> Any | MissingType:
    """Return the value at a path; if several items have the keys, the value of the first item.

    An item that has all the keys itself comes before one whose defaults match.
    """
    for step in path:
        if isinstance(step, str):
            body = body.get(step, MISSING) if isinstance(body, dict) else MISSING
        else:
            items = [item for item in body if is_at(item, step)] if isinstance(body, list) else []
            keys = [key for key, _ in step.keys] if isinstance(step, ListItem) else ()
            whole = (item for item in items if keys and all(key in item for key in keys))
            body = next(whole, items[0] if items else MISSING)
        if body is MISSING:
            return MISSING
    return body


def without_fields(body: Mapping[str, Any], paths: Iterable[Path]) -> dict[str, Any]:
    """Return the body without the fields at the paths, and without mappings that become empty."""
    left: Any = dict(body)
    for path in paths:
        left = _without(left, path)
        if left is MISSING:
            return {}
    return dict(left)


def _without(value: Any, path: Path) -> Any | MissingType:
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
    items = []
    for element in value:
        if not is_at(element, step):
            items.append(element)
        elif rest and (inner := _without(element, rest)) is not MISSING:
            items.append(inner)
    return items or MISSING


def with_value(body: Mapping[str, Any], path: Path, value: Any) -> dict[str, Any]:
    """Return the body with a value at a path; missing parents are created."""
    return dict(_put(body, path, value))


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


def is_at(item: object, step: ListItem | SetMember) -> bool:
    """Return whether ``step`` identifies an item of a list.

    A missing key counts as a default that matches, unless the item has none of the keys.
    """
    if isinstance(step, SetMember):
        return type(item) is type(step.value) and item == step.value
    if not isinstance(item, dict) or not any(key in item for key, _ in step.keys):
        return False
    return all(item.get(key, value) == value for key, value in step.keys)


def is_under(path: Path, above: Path) -> bool:
    """Return whether a path equals ``above``, or leads to a part of its value."""
    return len(path) >= len(above) and all(
        set(wide.keys) <= set(narrow.keys)
        if isinstance(wide, ListItem) and isinstance(narrow, ListItem)
        else wide == narrow
        for wide, narrow in zip(above, path, strict=False)
    )


def list_item(keys: Mapping[str, Any]) -> ListItem:
    """Return the step that identifies an item by its keys."""
    return ListItem(tuple(sorted(keys.items())))


# Paths as text.


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


_NAME = pattern(r"[^/\[\]]+")
_BAD_TILDE = pattern(r"~(?![01])")


def to_pointer(path: Path) -> str:
    """Return the pointer for a path; ``from_pointer`` is the inverse."""
    return "".join(
        "/" + step.replace("~", "~0").replace("/", "~1")
        if isinstance(step, str)
        else _in_brackets(step)
        for step in path
    )


def to_server(path: Path) -> str:
    """Return a path as the server prints it: ``.spec.containers[name="c"].image``."""
    return "".join(f".{step}" if isinstance(step, str) else _in_brackets(step) for step in path)


def _in_brackets(step: ListItem | SetMember) -> str:
    keys = step.keys if isinstance(step, ListItem) else (("", step.value),)
    return f"[{','.join(f'{name}={json.dumps(value)}' for name, value in keys)}]"


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
            return list_item(keys), text[at + 1 :]
        if text[at : at + 1] != ",":
            raise ValueError(f"missing ] in {text!r}")
        at += 1


_KEY = pattern(r"[\w.-]+(?==)")
_WORD = pattern(r"[A-Za-z_][\w.-]*")
_JSON = json.JSONDecoder()


def _value(text: str, at: int) -> tuple[Any, int]:
    try:
        value, end = _JSON.raw_decode(text, at)
    except ValueError:
        if (word := _WORD.match(text, at)) is None:
            raise ValueError(f"invalid value {text[at:]!r}") from None
        return word[0], word.end()
    return value, end


class Drift(Struct, frozen=True):
    """A field that differs from the set's last apply; Secret values are masked."""

    path: str
    """The JSON pointer of the field."""
    wanted: str | None
    """The desired value; None if unknown."""
    found: str | None
    """The live value; None if the field was removed."""
    manager: str = ""
    """The field manager that wrote it; empty if unknown."""
    operation: str = ""
    """The operation of that write; empty if unknown."""
    time: str = ""
    """The time of that write, RFC 3339; empty if unknown."""


class ObjectWriter(Struct, frozen=True, order=True):
    """A manager that has changed an object; both are texts, so that a status can hold them."""

    object: str
    """The short name of the object: ``deployment.apps/web``."""
    namespace: str
    """Its namespace; empty for cluster scope."""
    manager: str
    """The field manager; empty if the server's record names none."""

    @classmethod
    def of(cls, ref: Ref, manager: str) -> ObjectWriter:
        """Return the writer of the object ``ref``."""
        return cls(ref.short, ref.namespace, manager)
