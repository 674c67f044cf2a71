"""Say from whom an apply takes an object, or fields of it: a person must agree to that."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator

from applyprune.model.fieldset import MISSING, Path, leaves, value_at
from applyprune.model.live import LiveObject
from applyprune.model.plan import ApplyStep, Desired, Fate
from applyprune.planning.applyset import ApplySetIdentity
from applyprune.planning.ownership.managed_fields import set_manager
from applyprune.planning.ownership.migration import INVENTED
from applyprune.planning.ownership.owner import Owner, other_set


def taken_from(
    desired: Desired,
    live: LiveObject,
    owner: Owner,
    applyset: ApplySetIdentity,
    *,
    migrate: Collection[str],
    forced: bool,
    tool: str = "",
) -> tuple[str, ...]:
    """Return who loses the object, or fields of it: field managers, and a set as ``the set web``.

    ``migrate`` are the managers whose fields become ours first; ``forced`` is whether conflicts are
    decided by force. ``tool`` is what of another tool owns it.
    """
    names = set(migrate)
    if owner is Owner.NOBODY:
        names |= {
            str(entry.get("manager", ""))
            for entry in live.managed_fields
            if not entry.get("subresource")
        }
    elif owner is not Owner.OTHER:
        names.discard(INVENTED)  # the fields were ours before somebody cleared managedFields
    if forced:
        names |= set(_losers(desired, live))
    names -= {"", applyset.manager, applyset.yielded}
    if owner is Owner.OTHER:
        named = other_set(live)
        names -= {set_manager(live)}
        names.add(f"the set {named}" if named else "another set")
    names |= {tool} - {""}
    return tuple(sorted(names))


def confirmed_takings(
    step: ApplyStep, before: LiveObject, after: LiveObject, applyset: ApplySetIdentity
) -> tuple[str, ...]:
    """Return ``step.taken_from`` as the server's reply to a dry run confirms it.

    An equal value takes nothing, because both managers own the field then. ``before`` was read in
    full. An adoption takes the object as a whole.
    """
    if step.fate is not Fate.CHANGE:
        return step.taken_from
    kept = _owned(after)
    lost = {name for name, paths in _owned(before).items() if not paths <= kept[name]}
    lost -= {"", INVENTED, applyset.manager, applyset.yielded}
    lost -= {manager for _, manager in step.reverts}  # these fields were the set's own
    return tuple(sorted(lost | (step.migration.managers & {*step.taken_from})))


def _owned(live: LiveObject) -> defaultdict[str, set[Path]]:
    """Return the paths of each manager's fields."""
    owned: defaultdict[str, set[Path]] = defaultdict(set)
    for entry in live.managed_fields:
        owned[str(entry.get("manager", ""))].update(leaves(entry.get("fieldsV1") or {}))
    return owned


def _losers(desired: Desired, live: LiveObject) -> Iterator[str]:
    """Yield the managers of fields that the manifest sets to another value, as far as known."""
    for entry in live.managed_fields:
        for path in leaves(entry.get("fieldsV1") or {}):
            wanted = value_at(desired.body, path)
            if wanted is MISSING or (live.body is not None and value_at(live.body, path) == wanted):
                continue
            yield str(entry.get("manager", ""))
            break
