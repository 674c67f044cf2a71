"""Drift and conflicts: find them, tell them apart, explain them.

Drift is a field of the set that an Update has changed since the set's last apply. Any other field
of the manifest that another manager owns is a conflict.
"""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from functools import lru_cache
from typing import Any, TypeAlias

from applyprune.errors import ApplypruneError, Conflict
from applyprune.model.fieldset import (
    MISSING,
    Drift,
    FieldSet,
    ListItem,
    MissingType,
    Path,
    Writer,
    from_server,
    to_pointer,
    to_server,
    value_at,
)
from applyprune.model.identity import Ref
from applyprune.model.inventory import InventoryEntry
from applyprune.model.kinds import SECRET, SERVICE
from applyprune.model.live import LiveObject, one_line
from applyprune.model.options import Adopt, ApplyOptions, Conflicts, Options, parse_duration
from applyprune.model.plan import ApplyStep, Desired, Migration, OnConflict
from applyprune.model.problem import ContestedField, ManagerConflict, Problem, ProblemKind
from applyprune.model.text import and_more, counted, time_of
from applyprune.planning.applyset import MANAGERS, PART_OF, ApplySetIdentity
from applyprune.planning.field_writers import Contest, is_by_hand
from applyprune.planning.managed_fields import (
    BEFORE_FIRST_APPLY,
    OWN_MARKS,
    UNKNOWN,
    manager_by_label,
    other_writers,
    own_fields,
)
from applyprune.planning.marks import CONFLICTS
from applyprune.planning.normalize import (
    REPLICAS,
    body_to_send,
    is_ignorable,
    may_be_secret,
    other_values,
)
from applyprune.planning.ownership import (
    applied_digest,
    digest_of_fields,
    has_values,
    same_apply_entry,
)
from applyprune.planning.secrets import value_text
from applyprune.planning.server_errors import clean_message
from applyprune.values import Packed, pattern, replace

# The wording of apimachinery's managedfields/internal/conflict.go; an Update names its version.
_CAUSE = pattern(
    r'conflict with "(?P<manager>(?:[^"\\]|\\.)*)"'
    r'(?: with subresource "(?P<subresource>[^"]*)")?'
    r"(?P<update> using \S+)?(?: at (?P<time>\S+))?"
)
_LINE = "\n    "
_MOST_LINES = 20


def conflicting_managers(error: Conflict) -> frozenset[str]:
    return frozenset(
        owner.manager for owners in owners_by_field(error).values() for owner in owners
    )


def without_marks(error: Conflict, live: LiveObject | None, applyset: ApplySetIdentity) -> Conflict:
    """Return a conflict without the marks of another set: the run replaces them before the apply.

    These are its label, and its annotation of ownership.
    """
    if live is None or live.labels.get(PART_OF, applyset.id) == applyset.id:
        return error
    causes = [cause for cause in error.causes if cause.get("field") not in _SERVERS_MARKS]
    return Conflict(
        error.message,
        code=error.code,
        status_reason=error.status_reason,
        causes=causes,
        reason=error.problem.reason,
    )


def skip_reason(desired: Desired, error: ApplypruneError) -> str:
    """Return why an object is skipped, as its manifest asks; empty if it fails instead."""
    asks = desired.conflicts is OnConflict.SKIP
    if not (asks and isinstance(error, Conflict) and error.causes):
        return ""
    fields = [
        f"{name} is owned by {' and '.join(owner.manager for owner in owners)}"
        for name, owners in owners_by_field(error).items()
    ]
    return f"{CONFLICTS}: skip, and {and_more(fields, _MOST_LINES)}"


_ASKED = {OnConflict(word): word for word in Conflicts}


def own_options(desired: Desired, options: Options) -> ApplyOptions:
    """Return the options of one object: its manifest may say what happens to its conflicts."""
    asked = options.apply.conflicts
    asked = _ASKED.get(desired.conflicts, asked)  # guard: own-conflicts
    if options.diff.drift_only:
        asked = Conflicts.FORCE  # nothing is written
    return replace(options.apply, conflicts=asked)


def forces(
    desired: Desired, live: LiveObject | None, options: Options, applyset: ApplySetIdentity
) -> bool:
    """Return whether to apply an object with force."""
    if desired.conflicts is OnConflict.SKIP:
        return False
    if own_options(desired, options).conflicts is not Conflicts.FORCE:
        return False
    if live is None or options.apply.adopt is Adopt.ALL:
        return True
    return not _may_be_anothers(live, applyset)  # guard: other-set -> True


def _may_be_anothers(live: LiveObject, applyset: ApplySetIdentity) -> bool:
    """Return whether another set has applied an object that has no label: it may still list it."""
    ours = {applyset.manager, applyset.yielded}
    appliers = {one.manager for one in live.writers} - ours
    return PART_OF not in live.labels and any(one.startswith(MANAGERS) for one in appliers)


def migrated_first(
    live: LiveObject | None, migration: Migration, applyset: ApplySetIdentity
) -> frozenset[str]:
    """Return the managers whose fields are migrated first, so that they cannot conflict.

    Of an object without managedFields, the server says that ``before-first-apply`` has them. It is
    migrated too, but may conflict all the same: see ``unrecorded_conflict``.
    """
    taken = live is not None and live.labels.get(PART_OF, applyset.id) != applyset.id
    old = {manager_by_label(live)} if live is not None and taken else set()
    invented = {BEFORE_FIRST_APPLY} if live is not None and not live.writers else set()
    return frozenset({applyset.yielded, *migration.managers, *old, *invented})


# Fields of which nobody knows who has written them: somebody has cleared managedFields, or wrote
# before there were any. No record means a conflict, and not permission.


def is_unrecorded(step: ApplyStep) -> bool:
    """Return whether the record of who has written an object is missing, or was made up since.

    It is not, if the user or the manifest says that such fields are taken.
    """
    live, request = step.live, step.request
    takes = step.desired.conflicts is OnConflict.FORCE
    if live is None or request is None or request.force or takes:
        return False
    return not live.writers or BEFORE_FIRST_APPLY in step.migration.proven


def unrecorded_conflict(
    step: ApplyStep, before: LiveObject, after: LiveObject | None, manager: str, options: Options
) -> Conflict | None:
    """Return the conflict with whoever has written fields without a record; None if there is none.

    ``before`` was read in full. ``after`` is the object by the dry run of a forced apply: texts
    differ by defaults and quantities, and the server's own result does not. Without one, what may
    differ counts. If the recorded fields still have the recorded values, nobody has changed them;
    of the values of a Secret there is no record. If they have others, that is drift, which the
    options may revert.
    """
    recorded = _fields(step.migration.recorded or "{}")
    reverts = own_options(step.desired, options).reverts_drift
    somebody = Writer({"manager": UNKNOWN})
    fields = [
        (path, somebody)
        for path in _unrecorded_fields(step, before, after, manager)
        if value_at(before.body, path) is not MISSING
        and path not in _OURS
        and not (reverts and path in recorded)  # guard: unrecorded-drift
    ]
    words = counted(len(fields), "field", "is", "are")
    return _conflict(f"{words} owned by {UNKNOWN}", fields) if fields else None


def _unrecorded_fields(
    step: ApplyStep, before: LiveObject, after: LiveObject | None, manager: str
) -> Iterator[Path]:
    """Yield each field that an apply would change or remove, and that has no record."""
    desired, migration = step.desired, step.migration
    recorded = _fields(migration.recorded or "{}")
    invented = [one.fields for one in before.writers if one.manager == BEFORE_FIRST_APPLY]

    def is_recorded(path: Path) -> bool:
        return bool(before.writers) and not any(fields.names(path) for fields in invented)

    if (last := migration.last) is not None and not may_be_secret(desired.body):
        now = digest_of_fields(before, recorded, last.api_version)
        if now == last.values_digest:  # guard: recorded-values never
            return
    body = body_to_send(desired)
    if after is None:
        wanted, paths = body, _paths(body)
    else:
        wanted, paths = after.body or {}, own_fields(after, manager).leaves()
    for path in paths:
        is_as_before = has_values(value_at(wanted, path), value_at(before.body, path))
        if not (is_as_before or is_recorded(path)):  # guard: unrecorded-field never
            yield path
    for path in recorded.leaves():
        if value_at(body, path) is MISSING and not is_recorded(path):
            yield path


def _paths(value: Mapping[str, Any], above: Path = ()) -> Iterator[Path]:
    """Yield the path of each value that is not a mapping, but for the identity of the object."""
    for name, inner in value.items():
        path = (*above, name)
        if isinstance(inner, Mapping) and inner:
            yield from _paths(inner, path)
        elif path not in _IDENTITY:
            yield path


_IDENTITY: frozenset[Path] = frozenset(
    {("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace")}
)
_LABEL: Path = ("metadata", "labels", PART_OF)
_OURS = frozenset(OWN_MARKS)
_SERVERS_MARKS = frozenset(map(to_server, _OURS))


def explain_conflict(
    error: Conflict,
    desired: Desired,
    live: LiveObject | None,
    applyset: ApplySetIdentity,
    *,
    reverts: bool,
) -> Problem:
    """Return the conflict, worded for the person who must decide.

    Its reason has both values, the owner and the time of its write; its hint has the ways out. It
    is the same in each try.

    ``live`` is the object in full; None if it could not be read. ``reverts`` says whether the
    fields would be reverted as drift.
    """
    fields = {
        _contested(name, desired, live): tuple(_with_time(owner, live) for owner in owners)
        for name, owners in owners_by_field(error).items()
    }
    pointers = [field.path for field in fields if field.path is not None]
    free = tuple(dict.fromkeys(filter(is_ignorable, pointers)))
    why = {cause.get("reason") for cause in error.causes}
    contest = Contest(
        [owner for owners in fields.values() for owner in owners],
        free if len(free) == len(fields) <= _MOST_LINES else (),
        must_own=not all(map(is_ignorable, pointers)),
        reverts=reverts or DRIFT_EXCLUDES in why,
        adopts=live is not None and PART_OF not in live.labels,
        is_anothers=live is not None and _may_be_anothers(live, applyset),
        holds=HOLDS in why,
        is_marked=desired.conflicts is not OnConflict.UNSET,
    )
    said = one_line(clean_message(error.message)) if why & EXCLUSIONS else ""
    worded = Problem(
        error.kind,
        f"{desired.ref} was not applied",
        location=str(desired.origin),
        reason=_reason(fields, of_removed_fields=contest.holds, said=said),
        hint=contest.ways,
        exit_code=error.exit_code,
        origin=desired.origin,
        conflicts=_by_manager(fields),
        remedy=contest.remedy,
    )
    if not why & EXCLUSIONS or contest.holds:
        return worded
    names = sorted({owner.manager for owner in contest.owners})
    options = " ".join(f"--take-over {name}" for name in names)
    hint, remedy = "These fields exclude those of the manifest. ", ""
    if contest.reverts:
        change = "To overwrite their change with the manifest:"
        hint += f"{change} --conflicts revert\n  "
        remedy = f"{change} spec.drift.policy: Correct"
    hint += f"To remove them: {options}, which takes over all fields of {' and '.join(names)}."
    return replace(worded, hint=hint, remedy=remedy)


_Fields: TypeAlias = "Mapping[ContestedField, Sequence[ManagerConflict]]"
"""The fields in conflict, each with its other owners."""


def _reason(fields: _Fields, *, of_removed_fields: bool, said: str) -> str:
    """Return the fields, one on each line.

    ``of_removed_fields`` says that they hold what has left the manifest, and ``said`` is what the
    server has said of the rest.
    """
    lines = []
    for field, owners in fields.items():
        # As in a diff, from what is there to what the manifest has.
        sides = [] if field.theirs is None else [f"theirs {field.theirs}"]
        sides += [] if field.ours is None else [f"ours {field.ours}"]
        values = [" → ".join(sides)] if sides else []
        who = " and ".join(map(_who, owners))
        lines.append(f"{field.field}: {', '.join([*values, f'owned by {who}'])}")
    whose = "the fields of what has left its manifest" if of_removed_fields else "its fields"
    if len(fields) == 1:
        count = f"another field manager owns one of {whose}"
    else:
        count = f"other field managers own {len(fields)} of {whose}"
    end = f"{_LINE}the server says: {said}" if said else ""
    return f"{count}{_LINE}{and_more(lines, _MOST_LINES, _LINE)}{end}"


def _who(owner: ManagerConflict) -> str:
    how = owner.operation
    if owner.subresource:
        how += f" of {owner.subresource}"
    if owner.manager == UNKNOWN:
        how = "managedFields do not say who"
    detail = ", ".join(filter(None, (how, owner.time)))
    return f"{owner.manager} ({detail})" if detail else owner.manager


def _by_manager(fields: _Fields) -> tuple[ManagerConflict, ...]:
    """Return the conflict as data: each other manager with the fields that it owns."""
    owned: defaultdict[ManagerConflict, list[ContestedField]] = defaultdict(list)
    for field, owners in fields.items():
        for owner in owners:
            owned[owner].append(field)
    found = sorted(owned.items(), key=lambda item: item[0].manager)
    return tuple(replace(owner, fields=tuple(theirs)) for owner, theirs in found)


def _contested(name: str, desired: Desired, live: LiveObject | None) -> ContestedField:
    """Return a field in conflict, with both values if they are known."""
    path = from_server(name, desired.body)
    if path is None:
        return ContestedField(name, None, None, None)
    secret = may_be_secret(desired.body)
    body = live.body if live else None
    theirs = value_text(value_at(body, path), secret=secret) if body else None
    ours = value_text(value_at(desired.body, path), secret=secret)
    return ContestedField(name, to_pointer(path), ours, theirs)


def _with_time(owner: ManagerConflict, live: LiveObject | None) -> ManagerConflict:
    """Return an owner with the time of its last write, if the object has it and the error not."""
    wanted = (owner.manager, owner.operation, owner.subresource)
    for one in live.writers if live and not owner.time else ():
        if (one.manager, one.operation, one.subresource) == wanted:
            return replace(owner, time=one.time)
    return owner


def owners_by_field(error: Conflict) -> Mapping[str, tuple[ManagerConflict, ...]]:
    """Return the other managers of each field in conflict, by the server's name of the field."""
    found: defaultdict[str, dict[ManagerConflict, None]] = defaultdict(dict)
    for cause in error.causes:
        match = _CAUSE.match(cause.get("message", ""))
        owner = ManagerConflict("another manager", "", "", "")
        if match:
            name = match["manager"]
            how = "Update" if match["update"] else "" if name == UNKNOWN else "Apply"
            owner = ManagerConflict(name, how, match["subresource"] or "", match["time"] or "")
        found[cause.get("field", "")][owner] = None
    return {name: tuple(owners) for name, owners in sorted(found.items())}


# Conflicts in the state that was read, without asking the server.
#
# Only certain ones count: another manager owns a field, and its live value is another one than the
# manifest's. The server compares lists, mappings and quantities in a form of its own.


_QUANTITY_FIELD = pattern(r"[+-]?[0-9.]+([eE][+-]?[0-9]+|[a-zA-Z]{0,2})")


def visible_conflict(step: ApplyStep, applyset: ApplySetIdentity) -> Conflict | None:
    """Return the conflict that an apply would end with; ``step.live`` was read in full.

    It is worded like the server's own. Return None if the state that was read shows no conflict.
    """
    live = step.live
    if live is None or live.body is None:
        return None
    body = body_to_send(step.desired)
    fields = [
        (path, writer)
        for path, writer in _shared(step, applyset)
        if _differ(value_at(body, path), value_at(live.body, path))
    ]
    text = f"{len(fields)} fields are owned by other field managers"
    return _conflict(text, fields) if fields else None


def _conflict(
    text: str, fields: Iterable[tuple[Path, Writer]], reason: str = "FieldManagerConflict"
) -> Conflict:
    causes = [
        {"reason": reason, "field": to_server(path), "message": _message(writer)}
        for path, writer in fields
    ]
    return Conflict(text, code=409, causes=causes)


def _message(writer: Writer) -> str:
    """Return the words of apimachinery's managedfields/internal/conflict.go."""
    words = [f'conflict with "{writer.manager}"']
    if writer.subresource:
        words.append(f'with subresource "{writer.subresource}"')
    if writer.operation == "Update":
        words.append(f"using {writer.api_version}")
        if writer.time:
            words.append(f"at {writer.time}")
    return " ".join(words)


def _differ(ours: object, theirs: object) -> bool:
    if isinstance(ours, str) and isinstance(theirs, str):
        may_be_equal = _QUANTITY_FIELD.fullmatch(ours) and _QUANTITY_FIELD.fullmatch(theirs)
        return ours != theirs and not may_be_equal
    is_plain = all(isinstance(value, bool) for value in (ours, theirs)) or all(
        isinstance(value, int) and not isinstance(value, bool) for value in (ours, theirs)
    )
    return is_plain and ours != theirs


def shares_fields(step: ApplyStep, applyset: ApplySetIdentity) -> bool:
    """Return whether another manager owns a field that the apply sets without force."""
    return next(_shared(step, applyset), None) is not None


def _shared(step: ApplyStep, applyset: ApplySetIdentity) -> Iterator[tuple[Path, Writer]]:
    request, live = step.request, step.live
    if request is not None and live is not None and not request.force:
        yield from _shared_fields(step, live, applyset)


def drift_to_revert(
    step: ApplyStep, live: LiveObject, applyset: ApplySetIdentity
) -> tuple[tuple[str, str], ...]:
    """Return the drifted fields that a forced apply would revert, each with who has changed it.

    A field is its JSON pointer. Force takes every field that a request sets to another value, so
    there is nothing to return if one of them is in a real conflict, or if ``live`` was not read in
    full.
    """
    if live.body is None:
        return ()
    desired = step.desired
    owned, body = last_owned(step.entry), body_to_send(desired)
    version = desired.resource.gvk.api_version
    for other in _other_managers(live, step.migration, applyset):
        # What is in another version cannot be compared; the metadata is the same in each.
        fields = other.fields.below.keys() - {"metadata", "status"}
        if fields and other.api_version != version:
            return ()  # guard: other-version
    found = []
    for path, other in _shared_fields(step, live, applyset):
        if value_at(body, path) == value_at(live.body, path):
            continue  # both own the same value afterwards
        if other.operation != "Update" or path not in owned:
            return ()  # guard: real-conflict -> continue
        if desired.is_scaling_unknown and to_pointer(path) == REPLICAS:
            return ()  # guard: unread-autoscalers
        found.append((to_pointer(path), other.manager))
    return tuple(sorted(found))


def _shared_fields(
    step: ApplyStep, live: LiveObject, applyset: ApplySetIdentity
) -> Iterator[tuple[Path, Writer]]:
    """Yield each field that a manifest sets and another manager owns, with that manager's entry.

    What changes hands before the apply is left out, and everything if the manifest itself says that
    it takes them, or is skipped then.
    """
    if step.desired.conflicts in {OnConflict.FORCE, OnConflict.SKIP}:
        return
    body = body_to_send(step.desired)
    for one in _other_managers(live, step.migration, applyset):
        for path in one.fields.leaves():
            if path != _LABEL and value_at(body, path) is not MISSING:
                yield path, one


def _other_managers(
    live: LiveObject, migration: Migration, applyset: ApplySetIdentity
) -> Iterator[Writer]:
    """Yield the entries of other managers, without the status and what changes hands first."""
    settled = {applyset.manager, *migrated_first(live, migration, applyset)}
    for one in live.writers:
        if one.manager not in settled and one.subresource != "status":
            yield one


# Fields of others that exclude ours: the server refuses what both together would be.
#
# A 422 is not about an immutable field then. The server names a field, by its index in the merged
# object; what excludes it is the field itself or one beside it, such as the limit of a request.


EXCLUDES, DRIFT_EXCLUDES, HOLDS = "FieldManagerExcludes", "DriftExcludes", "FieldManagerHolds"
EXCLUSIONS = frozenset({EXCLUDES, DRIFT_EXCLUDES, HOLDS})
"""The reasons of a cause that names a field which excludes ours; the server has no such reason."""
_STEP = pattern(r"\[([^\]]*)\]|\.?([^.\[\]]+)")
_NUMBER = None


def steps_of(field: str) -> tuple[str | None, ...]:
    """Return the steps to a field that a 422 names; None for a number.

    The server writes the index of an item, whichever it is, and a key of digits alike: ``data[0]``.
    """
    found = (match[1] if match[1] is not None else match[2] for match in _STEP.finditer(field))
    return tuple(_NUMBER if step.isdigit() else step for step in found)


def overlap(steps: Sequence[str | None], path: Path) -> bool:
    """Return whether a path is at, above or below a place."""
    return all(
        (not isinstance(there, str) or there.isdigit()) if step is _NUMBER else there == step
        for step, there in zip(steps, path, strict=False)
    )


def excluding_fields(
    live: LiveObject, places: Iterable[Sequence[str | None]], manager: str
) -> tuple[tuple[Path, Writer], ...]:
    """Return the fields of others at these places, each with its manager's entry."""
    wanted = tuple(places)
    return tuple(
        (path, one)
        for one in _others(live, manager)
        for path in one.fields.leaves()
        if path[0] != "metadata" and any(overlap(steps, path) for steps in wanted)
    )


def excluded_by_drift(
    entry: InventoryEntry, live: LiveObject, beside: Sequence[tuple[Path, Writer]], manager: str
) -> bool:
    """Return whether fields of others exclude ours because somebody has changed the object by hand.

    Then fields of the set are gone since its last apply, and no other applier owns those beside.
    """
    by_update = all(writer.operation == "Update" for _, writer in beside)
    return bool(beside) and by_update and any(_lost(entry, live, manager))


def excluding_parts(
    wanted: Mapping[str, Any], beside: Iterable[tuple[Path, Writer]]
) -> tuple[tuple[str, str], ...]:
    """Return the largest parts of an object that a manifest lacks around these fields.

    Each is a JSON pointer, with the manager of a field in it.
    """
    found: dict[str, str] = {}
    for path, writer in beside:
        if part := absent_part(wanted, path):
            found[to_pointer(part)] = writer.manager
    return tuple(sorted(found.items()))


def absent_part(wanted: Mapping[str, Any], path: Path) -> Path:
    """Return the largest part of an object around a field that a manifest lacks; empty if none."""
    lengths = range(1, len(path) + 1)
    return next((path[:end] for end in lengths if value_at(wanted, path[:end]) is MISSING), ())


def exclusion(
    error: ApplypruneError, fields: Iterable[tuple[Path, Writer]], reason: str
) -> Conflict:
    """Return the conflict with the managers of fields that exclude ours; ``reason`` says how."""
    return _conflict(error.message, fields, reason)


def drifted_fields(reverts: Sequence[tuple[str, str]]) -> str:
    """Return drifted fields in words: ``2 fields that kubectl-patch had changed``."""
    fields, who = counted(len(reverts), "field"), sorted({who for _, who in reverts})
    return f"{fields} that {' and '.join(who)} had changed"


def last_owned(entry: InventoryEntry) -> FieldSet:
    """Return the fields that the set's last confirmed apply owned."""
    return _fields(entry.owned_fields or "{}")


# Most objects of a kind own the same fields.
@lru_cache(64)
def _fields(text: str) -> FieldSet:
    return FieldSet(json.loads(text))


# Drift: what others have changed since the set's last apply, by their entries in managedFields.
#
# Two changes leave no manager and are invisible: an admission policy rewrites our field during
# another's write, or an associative list gets another order.


DELETED = Drift("", None, None)
"""The drift of an object that somebody has deleted."""


def drift_before(
    desired: Desired,
    entry: InventoryEntry | None,
    before: LiveObject | None,
    after: LiveObject | None,
    manager: str,
) -> tuple[bool | None, tuple[Drift, ...]]:
    """Return whether somebody else has changed an object that an apply would change, and where.

    This is so if its manifest is the last applied manifest: then the fields are those that the
    apply would revert. A missing object has also drifted. With another manifest, and for a Secret,
    of whose values no digest is stored, the record tells. None is unknown: no apply of this object
    was ever confirmed, or not the last one. ``after`` is the response of a dry run, if there is
    one; both states were read in full.
    """
    if entry is None:
        return False, ()
    if not entry.uid or before is None:
        return bool(entry.uid) or None, ()
    is_same_manifest = repeats_last_apply(desired, entry, before, manager)
    is_proven = is_same_manifest and not may_be_secret(desired.body)
    drifted = is_proven or drifted_from_record(entry, before, manager)
    if not drifted or after is None:
        return drifted, ()
    if not is_same_manifest:
        return drifted, recorded_drift(entry, before, manager)
    reverted = (
        path
        for path in own_fields(after, manager).leaves()
        if value_at(after.body, path) != value_at(before.body, path)
    )
    return drifted, _drift(reverted, before, manager, after.body)


def repeats_last_apply(
    desired: Desired, entry: InventoryEntry, live: LiveObject, manager: str
) -> bool | None:
    """Return whether a manifest is that of the last confirmed apply, also in a Secret's values.

    None is unknown: the values of the Secret were not read.
    """
    if entry.digest != desired.digest:
        return False
    has_new = has_new_values(desired, live, manager) if entry.uid == live.uid else False
    return None if has_new is None else not has_new


def has_new_values(desired: Desired, live: LiveObject, manager: str) -> bool | None:
    """Return whether the manifest of a Secret has other values than were applied last.

    No digest of them is kept, so an equal digest does not tell. But whoever else changes a field of
    the set takes it from the set. So a value that the set still owns, and that differs from the
    live one, has changed in the manifest. None is unknown: the live values were not read.
    """
    if not may_be_secret(desired.body):
        return False
    if live.body is None:
        return None
    ours = own_fields(live, manager)
    return any(path in ours for path in other_values(body_to_send(desired), live.body))


def drifted_from_values(entry: InventoryEntry, live: LiveObject, manager: str) -> bool | None:
    """Do what ``drifted_from_record`` does, and compare every value; ``live`` is read in full.

    The fields of our Apply entry, with their live values, are the last applied manifest again,
    unless somebody has changed one of them: then their digest differs. The server may also have
    rewritten a value later, so the answer is None then. No digest of a Secret's values is stored,
    so only the record tells.
    """
    drifted = drifted_from_record(entry, live, manager)
    if drifted or live.body is None or may_be_secret(live.body):
        return drifted
    # guard: status-values -> False
    return False if applied_digest(live, manager) == entry.values_digest else None


def drifted_from_record(entry: InventoryEntry, live: LiveObject, manager: str) -> bool | None:
    """Return whether a field of the set has been changed since the last apply.

    Return None if unknown: no apply of this object was ever confirmed, or a later one may have
    changed it.
    """
    if not entry.uid or entry.fingerprint is None:
        return None
    if entry.uid != live.uid:
        return True  # somebody has deleted and recreated it
    if not entry.digest:
        # A change may be that of the unconfirmed apply, within the same second of the entry's time.
        return False if entry.fingerprint.resource_version == live.resource_version else None
    # The server changes our entry whenever somebody else changes or removes a field of ours.
    return not same_apply_entry(entry.fingerprint, live, manager)


def recorded_drift(entry: InventoryEntry, live: LiveObject, manager: str) -> tuple[Drift, ...]:
    """Return the fields of the set's last apply that the set has lost since, each with its writer.

    A field without a writer was removed. ``live`` is read in full.
    """
    return _drift(_lost(entry, live, manager), live, manager)


def may_have_drifted(step: ApplyStep, manager: str) -> bool:
    """Return whether a step meets drift, as far as the metadata of its object shows.

    Of an object that must be sent although its manifest is the last applied one, values may differ.
    """
    if step.live is None or (step.request is None and not step.keeps_drift):
        return False
    return step.is_reapplied or step.keeps_drift or any(_lost(step.entry, step.live, manager))


def step_drift(step: ApplyStep, manager: str) -> tuple[Drift, ...]:
    """Return what others have changed since the last apply, and the manifest has otherwise.

    ``step.live`` was read in full. Where the record names no field, values of the last applied
    manifest differ: a list has another order, or admission has rewritten a field during a write of
    somebody else.
    """
    live, body = step.live, body_to_send(step.desired)
    if live is None or live.body is None:
        return step.drift
    lost = [path for path in _lost(step.entry, live, manager) if differs(body, live, path)]
    if not lost and (step.is_reapplied or step.keeps_drift):
        lost = [path for path in _paths(body) if differs(body, live, path)]
    return _drift(lost, live, manager, body)


def _others(live: LiveObject, manager: str) -> Sequence[Writer]:
    """Return the managedFields entries of everybody else, without those about the status."""
    return [one for one in other_writers(live, manager) if one.subresource != "status"]


def _lost(entry: InventoryEntry, live: LiveObject, manager: str) -> Iterator[Path]:
    """Yield the fields of the set's last apply that are not the set's any more."""
    mine = own_fields(live, manager)
    return (path for path in last_owned(entry).leaves() if path not in mine)


def _drift(
    paths: Iterable[Path], live: LiveObject, manager: str, wanted: Mapping[str, Any] | None = None
) -> tuple[Drift, ...]:
    """Return the drift of these fields, each by its latest writer; without one, it was removed.

    ``wanted`` has their desired values, if these are known.
    """
    writers = _others(live, manager)
    found = []
    for path in paths:
        owners = [one for one in writers if path in one.fields]
        writer = max(owners, key=lambda one: one.time, default=Writer({}))
        through = f" of {writer.subresource}" if writer.subresource else ""
        found.append(
            Drift(
                to_pointer(path),
                None if wanted is None else _text(value_at(wanted, path), live),
                _text(value_at(live.body, path), live),
                manager=writer.manager,
                operation=writer.operation + through,
                time=writer.time,
            )
        )
    return tuple(sorted(found, key=lambda drift: drift.path))


def _text(value: Any | MissingType, live: LiveObject) -> str | None:
    # The manifest may contain a label of a Secret, but masking every field is simple and safe.
    secret = may_be_secret(live.body or {}) or live.ref.group_kind == SECRET
    return None if value is MISSING else value_text(value, secret=secret)


def differs(body: Mapping[str, Any], live: LiveObject, path: Path) -> bool:
    """Return whether a manifest sets a field to another value than the live one."""
    wanted = value_at(body, path)
    return wanted is not MISSING and not is_stored(wanted, value_at(live.body, path), str(path[-1]))


# Empty maps and lists of a manifest that controllers have filled.
#
# An empty value often only says that the author has nothing to say: `rules: []`. A person's edit
# stays a conflict: `podSelector: {}` and `ingress: []` say a lot.


def filled_by_others(
    body: Packed,
    live: LiveObject,
    manager: str,
    losers: Collection[str] = (),
    *,
    owned: FieldSet,
) -> tuple[tuple[str, str], ...]:
    """Return the JSON pointers of empty values that others have filled, each with who has.

    ``live`` may be metadata only: managedFields show who has put something there. What the set owns
    itself, or something in it, is not left to others. ``losers`` lose their fields,
    and ``owned`` are the fields of the set's last apply.
    """
    others = [one for one in other_writers(live, manager) if one.manager not in losers]
    if not others:
        return ()
    own = own_fields(live, manager)
    found: list[tuple[str, str]] = []
    for path in _empty_values(body.value, ()):
        owners = [one for one in others if one.fields.names(path)]
        if not owners or path in own:  # guard: own-empty-value -> not owners
            continue
        if path in owned:  # guard: emptied-by-the-set never
            continue
        # The keys of a map are owned one by one: nobody's keys contradict an empty map.
        is_keyed = any(one.fields.is_split(path) for one in owners)
        names = {one.manager for one in owners}
        # The user should hear of the value of another set, or of a person.
        is_heard = any(name.startswith(MANAGERS) or is_by_hand(name) for name in names)
        if is_keyed or not is_heard:  # guard: edited-empty-value always
            found.append((to_pointer(path), " and ".join(sorted(names))))
    return tuple(found)


def _empty_values(value: object, above: Path) -> Iterator[Path]:
    if value in ({}, [], None):
        yield above
    elif isinstance(value, dict):
        for key, inner in value.items():
            if inner is None or isinstance(inner, dict | list):
                yield from _empty_values(inner, (*above, key))
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, dict) and isinstance(name := item.get("name"), str):
                yield from _empty_values(item, (*above, ListItem((("name", name),))))


# Values that the server has not stored as they were sent: an admission webhook may change an object
# after the apply has decided who owns which field.


_SHOWN = 5


def rewritten_fields(body: Mapping[str, Any], after: LiveObject, manager: str) -> tuple[str, ...]:
    """Return the fields that have another value in the reply to an apply than in what was sent."""
    if after.body is None:
        return ()
    return tuple(
        to_server(path)
        for path in own_fields(after, manager).leaves()
        if not is_stored(
            value_at(body, path), value_at(after.body, _defaulted(path)), str(path[-1])
        )
    )


def _defaulted(path: Path) -> Path:
    """Return a path without the empty keys of items: the server has filled them in."""
    return tuple(
        ListItem(tuple(key for key in step.keys if key[1] not in ("", None)) or step.keys)
        if isinstance(step, ListItem)
        else step
        for step in path
    )


def _objects(found: Mapping[Ref, tuple[str, ...]]) -> str:
    """Return the objects with their fields, as text; empty if none has any."""
    objects = [
        f"{ref.short} at {and_more(paths, _SHOWN)}" for ref, paths in sorted(found.items()) if paths
    ]
    return and_more(objects, _SHOWN, "; ")


def rewritten_problem(found: Mapping[Ref, tuple[str, ...]]) -> Problem | None:
    """Return the warning about rewritten fields, without their values; None if there are none."""
    if not (objects := _objects(found)):
        return None
    reason = "an admission webhook has probably rewritten them, or the server does not know them"
    hint = (
        "Put the stored values into the manifests, or leave these fields out. "
        "With applyprune.dev/ignore-fields, they are only sent at creation."
    )
    if all(path.endswith(_OLD_ACCOUNT) for paths in found.values() for path in paths):
        reason = "serviceAccountName, which stands beside its old name, decides"
        hint = "Leave the field serviceAccount out."
    elif all((ref.group_kind, *paths) == _CLUSTER_IP for ref, paths in found.items() if paths):
        reason = "an empty value does not replace clusterIP: None; any other value is a webhook's"
        hint = "Delete the Service and apply again, or put the stored value into the manifest."
    message = f"the server stores other values than the manifests have: {objects}"
    return Problem(ProblemKind.REWRITTEN_VALUES, message, reason=reason, hint=hint)


def unowned_problem(found: Mapping[Ref, tuple[str, ...]]) -> Problem | None:
    """Return the warning about items that no apply removes; None if there are none."""
    if not (objects := _objects(found)):
        return None
    return Problem(
        ProblemKind.RUN_FAILED,
        f"no manifest and no field manager has these items: {objects}",
        reason="an apply removes only what its set owns",
        hint="Remove them with kubectl edit, or write them into the manifests.",
    )


# The server stores the value of serviceAccountName in both (core/v1, conversion of a PodSpec).
_OLD_ACCOUNT = ".serviceAccount"
_CLUSTER_IP = (SERVICE, ".spec.clusterIP")


# Whether the server has stored a value as it was sent, perhaps in another form. It writes a
# quantity as it likes (`1000m` as `1`), leaves out what is empty, and fills in what is left out.


_QUANTITY = pattern(
    r"(?P<number>[+-]?(?:\d+\.?\d*|\.\d+))"
    r"(?:(?P<two>[KMGTPE])i|(?P<ten>[numkMGTPE])|[eE](?P<e>[+-]?\d{1,2}))?"
)
_POWERS = {"n": -3, "u": -2, "m": -1, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
# 0 means "choose one" here; elsewhere it is a value.
_CHOSEN_FOR_ZERO = frozenset(
    {
        "failureThreshold", "healthCheckNodePort", "hostPort", "matchingPrecedence", "nodePort",
        "periodSeconds", "successThreshold", "targetPort", "timeoutSeconds",
    }
)  # fmt: skip
# The server completes these lists itself.
_COMPLETED = frozenset({"clusterIPs", "finalizers", "ipFamilies"})


def is_stored(wanted: object, stored: object, name: str = "") -> bool:
    """Return whether ``stored`` is the value of a field ``name`` after ``wanted`` was sent.

    Both may be missing. Whatever the server adds to mappings, to their lists, and to what is empty
    does not count.
    """
    # The server fills in an address for an empty one, but not in the place of None.
    if wanted == "" and name == "clusterIP":
        return stored != "None"
    if wanted is MISSING or wanted is None or wanted in ("", [], {}):
        return True
    if isinstance(wanted, dict):
        there: dict[str, Any] = stored if isinstance(stored, dict) else {}
        return all(is_stored(value, there.get(key), key) for key, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(stored, list) and _is_list_stored(wanted, stored, name)
    if isinstance(wanted, bool) or isinstance(stored, bool):
        return wanted is stored or (wanted is False and stored in (None, MISSING))
    if wanted == 0 and (stored in (None, MISSING) or name in _CHOSEN_FOR_ZERO):
        return True
    is_text = isinstance(wanted, str) and isinstance(stored, str)
    forms = _FORMS if is_text else (_quantity,)
    return wanted == stored or any(_is_same(read, str(wanted), str(stored)) for read in forms)


def _is_same(read: _Form, wanted: str, stored: str) -> bool:
    with suppress(ValueError):
        return (form := read(wanted)) is not None and form == read(stored)
    return False


def _is_list_stored(wanted: list[Any], stored: list[Any], name: str) -> bool:
    """Return whether all items are stored in their order, perhaps among others if mappings."""
    if name not in _COMPLETED and not all(isinstance(item, dict) for item in wanted):
        return len(wanted) == len(stored) and all(map(is_stored, wanted, stored))
    rest = iter(stored)
    return all(any(is_stored(item, other) for other in rest) for item in wanted)


def _quantity(text: str) -> Decimal | None:
    """Return the number that a quantity means; None for anything else."""
    if (found := _QUANTITY.fullmatch(text)) is None:
        return None
    number = Decimal(found["number"])
    if found["two"]:
        return number * Decimal(1024) ** _POWERS[found["two"]]
    return number.scaleb(int(found["e"] or 0) + 3 * _POWERS.get(found["ten"] or "", 0))


def _bytes(text: str) -> bytes:
    """Return what a text in base64 means; it may have several lines."""
    return base64.b64decode("".join(text.split()), validate=True)


_Form: TypeAlias = "Callable[[str], object]"
_FORMS: tuple[_Form, ...] = (_quantity, parse_duration, time_of, _bytes)
