"""Prepare two states of an object for a comparison, without the server's own metadata."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from applyprune.model.fieldset import (
    MISSING,
    Path,
    leaves,
    left_out,
    less,
    owned_items,
    owns,
    value_at,
)
from applyprune.model.live import LiveObject
from applyprune.model.plan import ApplyStep
from applyprune.planning.applyset import LAST_APPLIED
from applyprune.planning.fields.normalize import sent
from applyprune.planning.ownership.managed_fields import own_apply_entry
from applyprune.planning.ownership.migration import INVENTED, moved, recorded_fields

_BOOKKEEPING = frozenset(
    {"creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"}
)


def substance(body: Mapping[str, Any], *, status: bool = False) -> Mapping[str, Any]:
    """Return an object without the fields that every write or dry run changes.

    Also remove its status, unless ``status`` says that the manifest sets it, and kubectl's
    last-applied annotation, which our apply never writes.
    """
    kept = {key: value for key, value in body.items() if key != "status" or status}
    metadata = {
        key: value for key, value in (body.get("metadata") or {}).items() if key not in _BOOKKEEPING
    }
    if LAST_APPLIED in (annotations := metadata.get("annotations") or {}):
        left = {key: value for key, value in annotations.items() if key != LAST_APPLIED}
        metadata["annotations"] = left
        if not left:
            del metadata["annotations"]
    return {**kept, "metadata": metadata}


def dropped(
    step: ApplyStep, after: LiveObject, others: Collection[str], manager: str
) -> tuple[Path, ...]:
    """Return the fields that the apply of a step removes after fields have changed hands.

    ``after`` is the response of a dry run, which cannot migrate the fields first. ``others`` are
    the managers whose fields are taken for another reason than the step's migration.
    """
    migration = step.migration
    wanted = sent(step.desired)
    leaving: list[Mapping[str, Any]] = []
    staying: list[Mapping[str, Any]] = []
    ours = own_apply_entry(after, manager)
    is_untracked = step.live is not None and not step.live.managed_fields
    for entry in after.managed_fields:
        if entry == ours:
            continue  # the manifest shows what it has; an empty map does not keep what was in it
        fields: Mapping[str, Any] = entry.get("fieldsV1") or {}
        name = entry.get("manager")
        if is_untracked and name == INVENTED:
            continue  # the server has just invented it; the real apply finds an entry of ours
        is_others = name in others and not entry.get("subresource")
        part = fields if is_others else moved(entry, migration, step.desired.packed)
        leaving.append(part)
        staying.append(less(fields, part))
    if migration.restores:
        leaving.append(recorded_fields(migration))
    gone = [
        path
        for fields in leaving
        for path in leaves(fields)
        if not any(owns(other, path) for other in staying)
    ]
    # A list item goes with its last owner, whoever owns something in it.
    kept = {path for fields in staying for path in owned_items(fields)}
    items = [path for fields in leaving for path in owned_items(fields) if path not in kept]
    return tuple(path for path in (*gone, *items) if value_at(wanted, path) is MISSING)


def without(body: Mapping[str, Any], paths: Collection[Path]) -> Mapping[str, Any]:
    """Return a body without the fields at ``paths``."""
    return left_out(body, paths) if paths else body


def renamed(body: Mapping[str, Any], *, name: str, namespace: str) -> Mapping[str, Any]:
    """Return a body with another name and, if it has a namespace, another namespace."""
    metadata = {**(body.get("metadata") or {}), "name": name}
    if namespace:
        metadata["namespace"] = namespace
    return {**body, "metadata": metadata}


def overlaid(live: LiveObject | None, wanted: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a live object with every value of a manifest in it; lists are replaced as a whole.

    This predicts an apply, except for the fields that it removes: only the server knows these.
    """
    there: Mapping[str, Any] = (live.body if live else None) or {}
    return {**there, **{name: _overlaid(there.get(name), value) for name, value in wanted.items()}}


def _overlaid(there: Any, wanted: Any) -> Any:
    if not (isinstance(there, dict) and isinstance(wanted, dict)):
        return wanted
    return there | {name: _overlaid(there.get(name), value) for name, value in wanted.items()}
