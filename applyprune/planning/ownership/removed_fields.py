"""Decide what is removed from an object before its manifest is applied.

Server-side apply removes only what the set has owned. Two kinds of fields that nobody owns stand in
the way of a manifest:

- A field that the manifest sets to null. If it has a default, the server sets that again.
- A default of the server that excludes what the manifest sets, as in kubectl's ``retainKeys``: the
  ``rollingUpdate`` of a Deployment that gets ``strategy: Recreate``, and the ``emptyDir`` of a
  volume that gets a source.

Our entry in managedFields gets them first, so that the apply itself removes them: all changes in
one request, or nothing. What another manager owns is never removed without force: null is sent
then, and conflicts. What the manifest leaves to others is never removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from applyprune.model.fieldset import (
    MISSING,
    ListItem,
    Path,
    covers,
    field_set,
    fields_below,
    from_pointer,
    has,
    is_at,
    is_under,
    leaves,
    left_out,
    put,
    united,
    value_at,
    without_path,
)
from applyprune.model.live import field, mapping
from applyprune.planning.applyset import yielded_manager
from applyprune.planning.ownership.default_rules import REPLICAS
from applyprune.planning.ownership.managed_fields import (
    apply_entry,
    guarded_patch,
    label_fields,
    own_apply_entry,
)
from applyprune.planning.pod_template import POD, template_path
from applyprune.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from applyprune.model.fieldset import Step
    from applyprune.model.live import LiveObject
    from applyprune.model.plan import Desired
    from applyprune.planning.applyset import ApplySetIdentity
    from applyprune.planning.ownership.managed_fields import Operations

_ROLLING = "RollingUpdate"
_STRATEGIES = {"Deployment": "strategy", "StatefulSet": "updateStrategy"}


@dataclass(frozen=True, slots=True)
class Removals:
    """What an apply removes from an object once the set owns it."""

    nulls: tuple[Path, ...] = ()
    """The fields that the manifest sets to null."""
    defaults: tuple[Path, ...] = ()
    """The defaults that exclude what the manifest sets."""
    members: tuple[Path, ...] = ()
    """The fields of the manifest that are refused while these defaults are there."""
    contested: tuple[Path, ...] = ()
    """The fields that the manifest sets to null, and that others own."""

    def __bool__(self) -> bool:
        """Return whether anything is removed."""
        return bool(self.nulls or self.defaults)


NO_REMOVALS = Removals()


def removed_by_null(desired: Desired) -> Iterator[Path]:
    """Yield each field that a manifest sets to null, but for those that it leaves to others."""
    ignored = [from_pointer(pointer) for pointer in desired.ignored]
    if desired.is_scaling_unknown:
        ignored.append(from_pointer(REPLICAS))
    for path in map(from_pointer, desired.removed):
        # guard: null-of-ignored-field
        if not any(is_under(path, one) or is_under(one, path) for one in ignored):
            yield path


def is_contested(desired: Desired, live: LiveObject, manager: str) -> bool:
    """Return whether another manager owns a field that the manifest sets to null.

    If ``live`` was not read in full, an item of a list may be any that does not have another name.
    """
    if not desired.removed:
        return False
    others = list(_others(live, manager))
    for path in removed_by_null(desired) if others else ():
        if live.body is None:
            if any(_may_have(fields, path) for fields in others):  # guard: null-in-unread-item
                return True
        else:
            found = _as_owned(path, others, live.body)  # guard: null-in-keyed-item
            if any(has(fields, found) for fields in others):
                return True
    return False


def _may_have(fields: Mapping[str, Any], path: Path) -> bool:
    """Return whether a field, or something in it, may be owned, whatever names the items."""
    if not path:
        return True
    step, *rest = path
    return any(
        _may_have(inner, tuple(rest))
        for one, inner in fields_below(fields).items()
        if one == step or (isinstance(step, ListItem) and _may_be(one, step))
    )


def _may_be(one: Step, named: ListItem) -> bool:
    """Return whether the keys of an item do not contradict another name of it."""
    if not isinstance(one, ListItem):
        return False
    keys = dict(one.keys)
    return all(keys.get(key, value) == value for key, value in named.keys)


def may_remove(desired: Desired) -> bool:
    """Return whether only the values of the live object show what is removed from it."""
    return bool(desired.removed) or any(_exclusions(desired))


def removals(
    desired: Desired, live: LiveObject, applyset: ApplySetIdentity, *, force: bool
) -> Removals:
    """Return what is removed from an object; nothing if it was not read in full."""
    if live.body is None:
        return NO_REMOVALS
    ours = own_apply_entry(live, applyset.manager)
    others = list(_others(live, applyset.manager))
    own = (ours or {}).get("fieldsV1") or {}

    def is_free(path: Path) -> bool:
        # guard: removes-only-unowned
        return force or not any(has(fields, path, whole=True) for fields in others)

    defaults: list[Path] = []
    members: list[Path] = []
    for default, excluded in _exclusions(desired):
        there = value_at(live.body, default) is not MISSING
        if there and is_free(default) and not has(own, default):
            defaults.append(default)
            members += excluded
    nulls: list[Path] = []
    contested: list[Path] = []
    for pointed in removed_by_null(desired):
        path = _as_owned(pointed, (own, *others), live.body)
        if (value := value_at(live.body, path)) is MISSING or path in defaults:
            continue
        if not is_free(path):
            # The server finds no conflict in null for a map whose keys are owned one by one.
            owned = [leaf for fields in others for leaf in leaves(fields) if is_under(leaf, path)]
            # The manifest names an item by its name only.
            contested += [(*pointed, *leaf[len(path) :]) for leaf in owned] or [pointed]
        elif not _owns_all(own, path, value):  # what the set owns leaves with the apply
            nulls.append(path)
    if contested:  # the apply will end in a conflict, so nothing may change before it
        return Removals(contested=tuple(contested))
    return Removals(tuple(nulls), tuple(defaults), tuple(members))


def _others(live: LiveObject, manager: str) -> Iterator[Mapping[str, Any]]:
    """Yield the fields of each manager that is not the set's."""
    ours, yielded = own_apply_entry(live, manager), yielded_manager(manager)
    for entry in live.managed_fields:
        if entry != ours and entry.get("manager") != yielded:
            yield entry.get("fieldsV1") or {}


def _as_owned(path: Path, owned: Iterable[Mapping[str, Any]], body: Any) -> Path:
    """Return a path with the keys by which managedFields names the items of lists.

    A manifest's pointer names them by their name; the ports of a Service have other keys.
    """
    levels = list(owned)
    found: list[Step] = []
    for given in path:
        below = [fields_below(fields) for fields in levels]
        value, step = value_at(body, (given,)), given
        if isinstance(given, ListItem) and not any(given in names for names in below):
            keyed = (one for names in below for one in names if isinstance(one, ListItem))
            step = next((one for one in keyed if is_at(value, one)), given)
        found.append(step)
        levels, body = [names[step] for names in below if step in names], value
    return tuple(found)


def _owns_all(fields: Mapping[str, Any], path: Path, value: Any) -> bool:
    """Return whether everything in the value at a path is owned."""
    for step in path:
        below = fields_below(fields)
        if step not in below:
            return False
        fields = below[step]
        if not fields:
            return True
    return "." in fields or covers(fields, value)


def claim_patch(
    live: LiveObject, paths: Sequence[Path], *, manager: str, api_version: str
) -> Operations:
    """Return the operations that make fields ours in managedFields; no value changes."""
    ours = own_apply_entry(live, manager)
    entry = ours or apply_entry(manager, api_version, label_fields())
    fields: Mapping[str, Any] = entry.get("fieldsV1") or {}
    managers: list[Mapping[str, Any]] = []
    for one in live.managed_fields:
        left = one.get("fieldsV1") or {}
        if one != ours and any(has(left, path, whole=True) for path in paths):
            for path in paths:
                left = without_path(left, path)
            if left:
                managers.append({**one, "fieldsV1": left})
        elif one != ours:
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


def _exclusions(desired: Desired) -> Iterator[tuple[Path, tuple[Path, ...]]]:
    """Yield each field that the server may have set by default, and what in a body excludes it."""
    kind = desired.ref.group_kind
    path = template_path(kind)
    if path is None or not desired.packed.mentions("spec"):
        return
    body = desired.body
    if kind.group == "apps" and (name := _STRATEGIES.get(kind.kind)):
        strategy = mapping(field(body, "spec", name))
        if strategy.get("type") not in {None, _ROLLING} and not strategy.get("rollingUpdate"):
            yield ("spec", name, "rollingUpdate"), (("spec", name, "type"),)
    if kind == POD:
        return
    volumes = field(body, *path, "spec", "volumes")
    for volume in volumes if isinstance(volumes, list) else ():
        sources = [key for key in mapping(volume) if key != "name"]
        if sources and "emptyDir" not in sources and isinstance(name := volume.get("name"), str):
            place: Path = (*path, "spec", "volumes", ListItem((("name", name),)))
            yield (*place, "emptyDir"), tuple((*place, source) for source in sources)
