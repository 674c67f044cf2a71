"""Find the fields of a live object that an apply would change."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from applyprune.model.fieldset import MISSING, fields_below, is_at
from applyprune.model.problem import Field
from applyprune.planning.fields.normalize import may_be_secret, sent
from applyprune.planning.fields.redact import masked
from applyprune.planning.ownership.managed_fields import own_apply_entry
from applyprune.planning.schema.server_errors import dotted
from applyprune.values import dataclass

if TYPE_CHECKING:
    from applyprune.model.live import LiveObject
    from applyprune.model.plan import Desired

_LONGEST = 60
_NOT_COMPARED = frozenset({"apiVersion", "kind", "metadata", "status"})
# By what an item of a list is the same item: the merge keys of the built-in kinds.
_KEYS = ("name", "mountPath", "devicePath", "containerPort", "port", "key", "ip", "topologyKey")


@dataclass(frozen=True, slots=True)
class ChangedField:
    """A field with its live value and its desired one; a Secret's values are masked."""

    path: Field
    before: Any
    """The live value; MISSING if there is none."""
    after: Any
    """The desired value; MISSING if the manifest does not have the field any more."""

    @property
    def place(self) -> Field:
        """Return the field of the manifest that shows it: the nearest one for a removed field."""
        return self.path[:-1] if self.after is MISSING else self.path

    @property
    def values(self) -> str:
        """Return both values: ``web:1 → web:2``."""
        return f"{_shown(self.before)} → {_shown(self.after)}"

    def __str__(self) -> str:
        """Return ``spec.containers[0].image: web:1 → web:2``."""
        return f"{dotted(self.path)}: {self.values}"


def changed_fields(
    desired: Desired, live: LiveObject, created: Mapping[str, Any] | None, manager: str
) -> list[ChangedField]:
    """Return the fields outside metadata that an apply would change, in the order of the manifest.

    ``live`` was read in full. ``created`` is the object as the server would create it now: a value
    that the server only writes in another form does not count.
    """
    body = sent(desired)
    before, after = masked(live.body, body, desired.body)
    if may_be_secret(desired.body):
        created = None
    entry = own_apply_entry(live, manager) or {}
    parts = (
        {key: value for key, value in (part or {}).items() if key not in _NOT_COMPARED}
        for part in (before, after, created)
    )
    old, new, made = parts
    return list(_in_mapping(old, new, made, entry.get("fieldsV1") or {}, ()))


def _changes(
    before: Any, after: Any, made: Any, owned: Mapping[str, Any] | None, path: Field
) -> Iterator[ChangedField]:
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _in_mapping(before, after, made, owned, path)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _in_list(before, after, made, owned, path)
    elif before != after and (made is MISSING or made != before):
        yield ChangedField(path, before, after)


def _in_mapping(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    made: Any,
    owned: Mapping[str, Any] | None,
    path: Field,
) -> Iterator[ChangedField]:
    steps = fields_below(owned) if owned else {}
    known = made if isinstance(made, dict) else {}
    for key, wanted in after.items():
        if key in before:
            inner = steps.get(key)
            yield from _changes(before[key], wanted, known.get(key, MISSING), inner, (*path, key))
        elif not isinstance(made, dict) or key in made:  # else the server drops it
            yield ChangedField((*path, key), MISSING, wanted)
    for key, value in before.items():
        if key not in after and (owned == {} or key in steps) and known.get(key) != value:
            yield ChangedField((*path, key), value, MISSING)


def _in_list(
    before: list[Any],
    after: list[Any],
    made: Any,
    owned: Mapping[str, Any] | None,
    path: Field,
) -> Iterator[ChangedField]:
    steps = fields_below(owned) if owned else {}
    known = made if isinstance(made, list) else []
    matched = set()
    for at, wanted in enumerate(after):
        there = _same_item(wanted, at, before)
        if there is None:
            yield ChangedField((*path, at), MISSING, wanted)
            continue
        matched.add(there)
        created = _same_item(wanted, at, known)
        inner = next(
            (
                inner
                for step, inner in steps.items()
                if not isinstance(step, str) and is_at(before[there], step)
            ),
            None,
        )
        value = MISSING if created is None else known[created]
        yield from _changes(before[there], wanted, value, inner, (*path, at))
    for at, value in enumerate(before):
        is_ours = owned == {} or any(
            not isinstance(step, str) and is_at(value, step) for step in steps
        )
        if at not in matched and is_ours:
            yield ChangedField((*path, at), value, MISSING)


def _same_item(wanted: Any, at: int, items: list[Any]) -> int | None:
    """Return the index of the same item of a list; None if it has none."""
    key = next((key for key in _KEYS if isinstance(wanted, dict) and key in wanted), "")
    if key:
        found = (
            index
            for index, one in enumerate(items)
            if isinstance(one, dict) and one.get(key) == wanted[key]
        )
        return next(found, None)
    return at if at < len(items) else None


def _shown(value: Any) -> str:
    """Return a value on one line, in full or only its size."""
    if value is MISSING:
        return "none"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if not text.isprintable():
        text = json.dumps(value)
    if len(text) <= _LONGEST:
        return text
    if isinstance(value, str):
        return f"({len(value)} characters)"
    return f"({len(value)} {'items' if isinstance(value, list) else 'fields'})"
