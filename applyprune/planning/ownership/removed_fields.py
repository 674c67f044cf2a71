"""Decide what is removed from an object before its manifest is applied.

Server-side apply removes only what the set has owned. Two kinds of fields that nobody owns stand in
the way of a manifest:

- A field that the manifest sets to null. A guarded patch removes it; if the server sets a default
  again, nothing changes.
- A default of the server that excludes what the manifest sets, as in kubectl's ``retainKeys``: the
  ``rollingUpdate`` of a Deployment that gets ``strategy: Recreate``, and the ``emptyDir`` of a
  volume that gets a source. Our entry in managedFields gets it first, so that the apply itself
  removes it: both change in one request, or neither.

What another manager owns is never removed without force: null is sent then, and conflicts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from applyprune.model.json_access import field, mapping
from applyprune.planning.fields.fieldsv1 import (
    field_set,
    has,
    leaves,
    owns,
    united,
    without_path,
)
from applyprune.planning.fields.path import (
    MISSING,
    ListItem,
    Path,
    from_pointer,
    index_pointer,
    is_under,
    left_out,
    put,
    value_at,
)
from applyprune.planning.ownership.managed_fields import (
    apply_entry,
    guarded_patch,
    label_fields,
    own_apply_entry,
)
from applyprune.planning.pod_template import POD, template_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from applyprune.model.identity import GroupKind
    from applyprune.model.live import LiveObject
    from applyprune.model.plan import Desired
    from applyprune.planning.applyset import ApplySetIdentity
    from applyprune.planning.ownership.managed_fields import Operations

_ROLLING = "RollingUpdate"
_STRATEGIES = {"Deployment": "strategy", "StatefulSet": "updateStrategy"}


@dataclass(frozen=True, slots=True)
class Removals:
    """What must be removed from an object before the apply, or by it."""

    nulls: tuple[Path, ...] = ()
    """The fields that a patch removes first."""
    defaults: tuple[Path, ...] = ()
    """The defaults that the apply removes once the set owns them."""
    members: tuple[Path, ...] = ()
    """The fields of the manifest that are refused while these defaults are there."""
    contested: tuple[Path, ...] = ()
    """The fields that the manifest sets to null, and that others own."""

    def __bool__(self) -> bool:
        """Return whether anything is removed."""
        return bool(self.nulls or self.defaults)


NO_REMOVALS = Removals()


def may_remove(desired: Desired) -> bool:
    """Return whether only the values of the live object show what is removed from it."""
    return bool(desired.removed) or any(_exclusions(desired.ref.group_kind, desired.body))


def removals(
    desired: Desired, live: LiveObject, applyset: ApplySetIdentity, *, force: bool
) -> Removals:
    """Return what is removed from an object; nothing if it was not read in full."""
    if live.body is None:
        return NO_REMOVALS
    ours = own_apply_entry(live, applyset.manager)
    others = [
        entry.get("fieldsV1") or {}
        for entry in live.managed_fields
        if entry is not ours and entry.get("manager") != applyset.yielded
    ]
    own = (ours or {}).get("fieldsV1") or {}

    def is_free(path: Path) -> bool:
        # guard: removes-only-unowned
        return force or not any(has(fields, path, whole=True) for fields in others)

    defaults: list[Path] = []
    members: list[Path] = []
    for default, excluded in _exclusions(desired.ref.group_kind, desired.body):
        there = value_at(live.body, default) is not MISSING
        if there and is_free(default) and not has(own, default):
            defaults.append(default)
            members += excluded
    nulls: list[Path] = []
    contested: list[Path] = []
    for path in map(from_pointer, desired.removed):
        if value_at(live.body, path) is MISSING or path in defaults:
            continue
        if not is_free(path):
            # The server finds no conflict in null for a map whose keys are owned one by one.
            inside = [leaf for fields in others for leaf in leaves(fields) if is_under(leaf, path)]
            contested += inside or [path]
        elif not owns(own, path):  # what the set owns leaves with the apply
            nulls.append(path)
    if contested:  # the apply will end in a conflict, so nothing may change before it
        return Removals(contested=tuple(contested))
    return Removals(tuple(nulls), tuple(defaults), tuple(members))


def removal_patch(live: LiveObject, paths: Sequence[Path]) -> Operations:
    """Return the operations that remove fields from ``live``, in the state in which it was read."""
    return [
        {"op": "test", "path": "/metadata/uid", "value": live.uid},
        {"op": "test", "path": "/metadata/resourceVersion", "value": live.resource_version},
        *({"op": "remove", "path": index_pointer(live.body, path)} for path in paths),
    ]


def claim_patch(
    live: LiveObject, paths: Sequence[Path], *, manager: str, api_version: str
) -> Operations:
    """Return the operations that make defaults ours in managedFields; no value changes."""
    ours = own_apply_entry(live, manager)
    entry = ours or apply_entry(manager, api_version, label_fields())
    fields: Mapping[str, Any] = entry.get("fieldsV1") or {}
    managers: list[Mapping[str, Any]] = []
    for one in live.managed_fields:
        left = one.get("fieldsV1") or {}
        if one is not ours and any(has(left, path, whole=True) for path in paths):
            for path in paths:
                left = without_path(left, path)
            managers.append({**one, "fieldsV1": left})
        elif one is not ours:
            managers.append(one)
    for path in paths:
        fields = united(fields, field_set(path))
    return guarded_patch(live, live.labels, [*managers, {**entry, "fieldsV1": fields}])


def with_contested(body: Mapping[str, Any], found: Removals) -> Mapping[str, Any]:
    """Return a body that sets to null what others own: the server answers with the conflict."""
    for path in found.contested:
        body = put(body, path, None)
    return body


def before_removal(body: Mapping[str, Any], found: Removals) -> Mapping[str, Any]:
    """Return a body that the server accepts while the defaults are still there."""
    return left_out(body, found.members) if found.members else body


def after_removal(
    state: Mapping[str, Any], body: Mapping[str, Any], found: Removals
) -> Mapping[str, Any]:
    """Return the state of an object without what is removed, and with what that has excluded."""
    state = left_out(state, (*found.nulls, *found.defaults))
    for path in found.members:
        state = put(state, path, value_at(body, path))
    return state


def _exclusions(
    kind: GroupKind, body: Mapping[str, Any]
) -> Iterator[tuple[Path, tuple[Path, ...]]]:
    """Yield each field that the server may have set by default, and what in a body excludes it."""
    if kind.group == "apps" and (name := _STRATEGIES.get(kind.kind)):
        strategy = mapping(field(body, "spec", name))
        if strategy.get("type") not in {None, _ROLLING} and not strategy.get("rollingUpdate"):
            yield ("spec", name, "rollingUpdate"), (("spec", name, "type"),)
    path = template_path(kind)
    if not path or kind == POD:
        return
    volumes = field(body, *path, "spec", "volumes")
    for volume in volumes if isinstance(volumes, list) else ():
        sources = [key for key in mapping(volume) if key != "name"]
        if sources and "emptyDir" not in sources and isinstance(name := volume.get("name"), str):
            place: Path = (*path, "spec", "volumes", ListItem((("name", name),)))
            yield (*place, "emptyDir"), tuple((*place, source) for source in sources)
