"""Decide which fields of other managers become the set's own before an apply, and make the patch.

Of other managers, only what provably belongs to the set is taken: what its last confirmed apply
owned, and what its manifest contains. An adoption also takes what the managers have declared that
the object was applied with until now: otherwise these fields would stay permanently
(kubernetes#99003; client-go's csaupgrade does the same). Finalizers and ownerReferences are never
taken: the next apply would remove them.

An object without managedFields must get an entry before its first apply. Otherwise the server books
every field to ``before-first-apply``, whoever has written it (structured-merge-diff,
``skipnonapplied.go``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from applyprune.model.fieldset import common, held, less, united
from applyprune.model.options import Adopt, ApplyOptions
from applyprune.model.plan import Migration
from applyprune.planning.applyset import LAST_APPLIED, OWNED_BY
from applyprune.planning.ownership.managed_fields import (
    apply_entry,
    guarded_patch,
    is_applied,
    label_fields,
    own_apply_entry,
    writers,
)

if TYPE_CHECKING:
    from applyprune.model.inventory import InventoryEntry
    from applyprune.model.live import LiveObject
    from applyprune.planning.ownership.managed_fields import Operations
    from applyprune.values import Packed

    Fields = Mapping[str, Any]

INVENTED = "before-first-apply"
"""The server's name for whoever has written an object that had no managedFields."""
_DECLARED = frozenset({("kubectl-client-side-apply", "Update"), ("kubectl", "Apply")})
_HELM = "helm"
_PROTECTED = frozenset({"f:finalizers", "f:ownerReferences"})


def migration_of(
    live: LiveObject,
    entry: InventoryEntry | None,
    options: ApplyOptions,
    *,
    manager: str,
    adopts: bool,
) -> Migration:
    """Return what becomes the set's own; ``entry`` is that of an object of the set, else None.

    ``adopts`` is whether the set takes the object in. A Helm release is adopted on purpose only:
    with ``--adopt=all``, or with its manager in ``--take-over``.
    """
    asked = options.take_over | ({_HELM} if adopts and options.adopt is Adopt.ALL else set())
    there = writers(live.packed_managers)
    whole = {(name, how) for name, how in there if name in asked}
    if adopts:
        whole |= there & _DECLARED
    is_invented = (INVENTED, "Update") in there and not adopts
    recorded = entry.owned_fields if entry is not None and not adopts else ""
    return Migration(
        whole=frozenset(whole),
        proven=frozenset({INVENTED}) if is_invented else frozenset(),
        recorded=recorded,
        api_version="" if entry is None else _api_version(entry),
        restores=bool(recorded) and not is_applied(live, manager),
    )


def has_migration(live: LiveObject, migration: Migration, body: Packed, manager: str) -> bool:
    """Return whether fields must change hands before ``body`` may be applied to an object."""
    if not live.managed_fields:  # guard: untracked-object
        return True
    if migration.restores and not is_applied(live, manager):  # guard: restored-fields
        return True
    return any(moved(one, migration, body) for one in live.managed_fields)


def moved(entry: Mapping[str, Any], migration: Migration, body: Packed) -> Fields:
    """Return which fields of a managedFields entry become ours; ``body`` is that of the manifest.

    An empty result means none. The body is parsed only for a manager of which fields are proven.
    """
    if entry.get("subresource"):
        return {}
    fields: Fields = entry.get("fieldsV1") or {}
    name = str(entry.get("manager", ""))
    if (name, str(entry.get("operation", ""))) in migration.whole:
        return _takeable(fields)
    if name in migration.proven:
        proven = common(fields, recorded_fields(migration))
        return united(proven, _takeable(held(fields, body.value)))
    return {}


def recorded_fields(migration: Migration) -> Fields:
    """Return the fields that the last confirmed apply owned, as far as they may be taken.

    An edited inventory must not give an object the annotation of ownership, nor the next apply a
    finalizer or ownerReference that it would remove.
    """
    if not migration.recorded:
        return {}
    fields: Fields = json.loads(migration.recorded)
    return _takeable(less(fields, {"f:metadata": {"f:annotations": {f"f:{OWNED_BY}": {}}}}))


def migrate_patch(
    live: LiveObject,
    migration: Migration,
    body: Packed,
    *,
    manager: str,
    api_version: str,
) -> Operations:
    """Return the operations that give our manager its fields; kubectl's annotation goes with them.

    An object that has nothing of ours gets an entry that owns the set's label. The apply that
    follows sets the label, so it conflicts with nobody.
    """
    ours = own_apply_entry(live, manager)
    fields: dict[str, Any] = dict((ours or {}).get("fieldsV1") or {})
    if ours is None and migration.restores:
        fields = dict(recorded_fields(migration))
        api_version = migration.api_version
    others: list[Mapping[str, Any]] = []
    for entry in live.managed_fields:
        if entry == ours:
            continue
        if part := moved(entry, migration, body):
            fields = united(fields, part)
            if left := less(entry.get("fieldsV1") or {}, part):
                others.append({**entry, "fieldsV1": left})
        else:
            others.append(entry)
    entry = apply_entry(manager, api_version, fields or label_fields())
    annotations = live.annotations
    if migration.whole:
        annotations = {key: text for key, text in annotations.items() if key != LAST_APPLIED}
    return guarded_patch(live, live.labels, [*others, entry], annotations)


def _takeable(fields: Fields) -> Fields:
    """Return the fields without finalizers and ownerReferences."""
    metadata = {
        key: inner
        for key, inner in (fields.get("f:metadata") or {}).items()
        if key not in _PROTECTED
    }
    rest = {key: inner for key, inner in fields.items() if key != "f:metadata"}
    return {**rest, "f:metadata": metadata} if metadata else rest


def _api_version(entry: InventoryEntry) -> str:
    return f"{entry.ref.group}/{entry.version}" if entry.ref.group else entry.version
