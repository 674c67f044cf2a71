"""Two states of one object made fit to be compared: without the server's own bookkeeping."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from applyprune.planning.applyset import LAST_APPLIED
from applyprune.planning.fields.fieldsv1 import leaves, owns
from applyprune.planning.fields.path import left_out
from applyprune.planning.ownership.managed_fields import own_apply_entry

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from applyprune.model.live import LiveObject
    from applyprune.planning.fields.path import Path

_BOOKKEEPING = frozenset(
    {"creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"}
)


def substance(body: Mapping[str, Any], *, status: bool = False) -> Mapping[str, Any]:
    """Return an object without what every write, or a pretended one, alters or leaves.

    Its status goes too, unless ``status`` says that the manifest sets one; and kubectl's own note
    of what it applied last, which no apply of ours ever writes.
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


def dropped(after: LiveObject, migrated: Collection[str], manager: str) -> tuple[Path, ...]:
    """Return the fields that go because nobody wants them once managers have become ours.

    ``after`` is the reply to a dry run, which could not let them change hands first.
    """
    ours = own_apply_entry(after, manager)
    leaving = [
        entry
        for entry in after.managed_fields
        if entry.get("manager") in migrated and not entry.get("subresource") and entry is not ours
    ]
    others = [entry.get("fieldsV1") or {} for entry in after.managed_fields if entry not in leaving]
    return tuple(
        path
        for entry in leaving
        for path in leaves(entry.get("fieldsV1") or {})
        if not any(owns(fields, path) for fields in others)
    )


def without(body: Mapping[str, Any], paths: Collection[Path]) -> Mapping[str, Any]:
    """Return a body without some fields."""
    return left_out(body, paths) if paths else body


def renamed(body: Mapping[str, Any], *, name: str, namespace: str) -> Mapping[str, Any]:
    """Return a body with another name and, where it has one, another namespace."""
    metadata = {**(body.get("metadata") or {}), "name": name}
    if namespace:
        metadata["namespace"] = namespace
    return {**body, "metadata": metadata}


def overlaid(live: LiveObject | None, wanted: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a live object with every value of a manifest in it, lists as a whole.

    That is what an apply makes of it, but for the fields that it takes away; the server knows.
    """
    there: Mapping[str, Any] = (live.body if live else None) or {}
    return {**there, **{name: _overlaid(there.get(name), one) for name, one in wanted.items()}}


def _overlaid(there: Any, wanted: Any) -> Any:
    if not (isinstance(there, dict) and isinstance(wanted, dict)):
        return wanted
    return there | {name: _overlaid(there.get(name), one) for name, one in wanted.items()}
