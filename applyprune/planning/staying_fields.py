"""What leaves a manifest, and stays because another field manager owns it.

The server removes a field with its last owner. A field that another manager owns too stays as it
is. A list item, or a part of a map, that another manager has a field in stays with that field only,
and is often invalid then: a webhook without its ``sideEffects``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from applyprune.model.fate import Fate
from applyprune.model.fieldset import (
    MISSING,
    ListItem,
    Path,
    Writer,
    from_pointer,
    is_under,
    to_pointer,
    to_server,
    value_at,
)
from applyprune.model.identity import GroupKind
from applyprune.model.live import LiveObject
from applyprune.model.options import Options
from applyprune.model.plan import ApplyStep, Desired
from applyprune.model.text import and_more
from applyprune.planning.applyset import LAST_APPLIED, OWNED_BY, PART_OF, WANTED, ApplySetIdentity
from applyprune.planning.conflicts import absent_part, forces, last_owned
from applyprune.planning.field_writers import is_kubernetes
from applyprune.planning.managed_fields import (
    BEFORE_FIRST_APPLY,
    FORMER,
    as_stored,
    ignored_paths_of,
    manager_by_label,
    other_writers,
    own_fields,
    taken,
)
from applyprune.planning.normalize import body_to_send, is_ignored_by_default

# The fields that hold a part which the manifest gives up. They are released only where the server
# refuses what they leave of it: then the part goes with them, or nothing does.


def holding_fields(
    wanted: Mapping[str, Any], live: LiveObject, manager: str
) -> Iterator[tuple[Path, Path, Writer]]:
    """Yield each field of others that holds a part which a manifest lacks: part, field and entry.

    An item of a list is held only by who has it as an item: what else is in it goes with it.
    """
    for one in other_writers(live, manager):
        if one.subresource == "status":
            continue
        for path in one.fields.leaves():
            part = absent_part(wanted, path) if path[0] != "metadata" else ()
            if part and value_at(live.body, path) is not MISSING and _holds(one, path, part):
                yield part, path, one


def _holds(writer: Writer, path: Path, part: Path) -> bool:
    return all(
        writer.fields.at(path[: depth + 1]).has_itself
        for depth in range(len(part) - 1, len(path))
        if isinstance(path[depth], ListItem)
    )


def held_fields(
    desired: Desired, live: LiveObject, manager: str
) -> tuple[tuple[Path, Writer], ...]:
    """Return the fields of others in the parts that an apply gives up; ``live`` is in full."""
    own = own_fields(live, manager)
    found = holding_fields(body_to_send(desired), live, manager)
    return tuple((path, one) for part, path, one in found if part in own)


def releasable(
    step: ApplyStep,
    live: LiveObject,
    held: Sequence[tuple[Path, Writer]],
    applyset: ApplySetIdentity,
    options: Options,
) -> tuple[tuple[Path, Writer], ...]:
    """Return those of the held fields that an apply may release, by parts.

    Force releases all of them. Without it, a part goes if it was the set's own by its last
    confirmed apply, and if others have only such fields in it as the default rules leave to them.
    """
    if forces(step.desired, live, options, applyset):
        return tuple(held)
    body, off = body_to_send(step.desired), options.apply.no_default_ignore
    recorded = last_owned(step.entry)

    def stays(path: Path, part: Path) -> bool:
        # guard: released-by-default -> False
        return part not in recorded or not is_ignored_by_default(path, body, off)

    parts = [absent_part(body, path) for path, _ in held]
    staying = {part for part, (path, _) in zip(parts, held, strict=True) if stays(path, part)}
    return tuple(one for part, one in zip(parts, held, strict=True) if part not in staying)


def fields_in(
    live: LiveObject, pointers: Iterable[str], manager: str
) -> tuple[tuple[str, str], ...]:
    """Return the fields of others in some parts: JSON pointers, each with its manager."""
    parts = [from_pointer(pointer) for pointer in pointers]
    return tuple(
        sorted(
            (to_pointer(path), one.manager)
            for one in (other_writers(live, manager) if parts else ())
            if one.subresource != "status"
            for path in one.fields.leaves()
            if any(is_under(path, part) for part in parts)
        )
    )


# The fields that stay, in words: of an object that the set has applied, those that its entry loses;
# of one that it adopts, those that its manifest lacks.


_SHOWN = 3
_NEVER_SHOWN = frozenset({LAST_APPLIED, OWNED_BY, PART_OF, WANTED})
_NEVER_TAKEN = frozenset({("metadata", "finalizers"), ("metadata", "ownerReferences")})


def staying_words(
    step: ApplyStep,
    before: LiveObject | None,
    after: LiveObject,
    state: Mapping[str, Any] | None,
    applyset: ApplySetIdentity,
    created: Mapping[str, Any] | None = None,
) -> tuple[str, ...]:
    """Return which fields stay because others own them, a text for each group of owners.

    ``before`` is the object before the apply, ``after`` the reply to it or to its dry run, and
    ``state`` what the object has afterwards. See ``staying_fields`` for ``created``.
    """
    named: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for path, owners in staying_fields(step, before, after, state, applyset, created):
        named[owners].append(to_server(path).removeprefix("."))
    too = "" if step.fate is Fate.ADOPT else " too"
    found = []
    for owners, names in sorted(named.items()):
        stay, it = ("stays", "it") if len(names) == 1 else ("stay", "them")
        own = "owns" if len(owners) == 1 else "own"
        fields = and_more(sorted(names), _SHOWN)
        found.append(f"{fields} {stay}: {' and '.join(owners)} {own} {it}{too}")
    return tuple(found)


def staying_fields(
    step: ApplyStep,
    before: LiveObject | None,
    after: LiveObject,
    state: Mapping[str, Any] | None,
    applyset: ApplySetIdentity,
    created: Mapping[str, Any] | None = None,
) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """Yield each field that stays because others own it, with its owners; see ``staying_words``.

    Of an adopted object, who has updated it may own defaults of the server. They are known by
    ``created``, the object as the server would create it; without it, only what others apply is
    yielded.
    """
    if step.live is None:
        return
    desired, kind = step.desired, step.desired.ref.group_kind
    wanted, ours = body_to_send(desired), own_fields(after, applyset.manager)
    ignored = ignored_paths_of(desired)
    owners: defaultdict[Path, dict[str, None]] = defaultdict(dict)
    for one in _staying(step, after, applyset):
        fields = one.fields - taken(one, step.migration, desired.packed)
        for path in as_stored(fields, kind).leaves():
            owners[path][one.manager] = None
    if not owners:
        return
    if step.fate is Fate.ADOPT:
        applied = _applied(after, kind)
        lost: Iterable[Path] = (path for path in owners if _is_told(path, state, created, applied))
    else:
        lost = own_fields(before, applyset.manager).leaves() if before is not None else ()
    for path in lost:
        if path not in owners or path in ours or value_at(wanted, path) is not MISSING:
            continue
        if path[0] == "status" or path[-1] in _NEVER_SHOWN:
            continue
        if step.fate is Fate.ADOPT and path[:2] in _NEVER_TAKEN:
            continue  # no adoption takes these
        if any(is_under(path, one) for one in ignored) or value_at(state, path) is MISSING:
            continue
        if not is_ignored_by_default(path, wanted, step.migration.rules_off):
            yield path, tuple(sorted(owners[path]))


def _staying(step: ApplyStep, after: LiveObject, applyset: ApplySetIdentity) -> Iterator[Writer]:
    """Yield the entries of others that may keep a field: not those whose object is taken."""
    former = {FORMER, applyset.manager, applyset.yielded, BEFORE_FIRST_APPLY, ""}
    if step.live is not None and step.live.labels.get(PART_OF, applyset.id) != applyset.id:
        former.add(manager_by_label(step.live))
    for one in other_writers(after, applyset.manager):
        is_noise = step.fate is Fate.ADOPT and is_kubernetes(one.manager)
        if one.manager not in former and one.subresource != "status" and not is_noise:
            yield one


def _applied(live: LiveObject, kind: GroupKind) -> Collection[Path]:
    """Return the fields that somebody applies: no entry of an apply has the server's defaults."""
    applies = (one for one in live.writers if one.operation == "Apply")
    return {path for one in applies for path in as_stored(one.fields, kind).leaves()}


def _is_told(
    path: Path,
    state: Mapping[str, Any] | None,
    created: Mapping[str, Any] | None,
    applied: Collection[Path],
) -> bool:
    """Return whether a field that stays at an adoption is known to be no default."""
    if path in applied:
        return True
    return created is not None and value_at(created, path) != value_at(state, path)
