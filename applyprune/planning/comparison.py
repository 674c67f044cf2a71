"""Compare two states of an object: what changes, how it is shown, what cannot change in place."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from applyprune.errors import ApplypruneError, Invalid, RunFailed
from applyprune.model.events import ObjectDiff
from applyprune.model.fieldset import (
    MISSING,
    NO_FIELDS,
    FieldSet,
    ListItem,
    Path,
    SetMember,
    Writer,
    from_pointer,
    is_at,
    is_under,
    list_item,
    value_at,
    without_fields,
)
from applyprune.model.identity import Ref
from applyprune.model.inventory import InventoryEntry, Ownership
from applyprune.model.kinds import Trait, kinds_with
from applyprune.model.live import LiveObject, mapping
from applyprune.model.options import Options, PruneAlso
from applyprune.model.plan import ApplyStep, Desired, RemoveStep
from applyprune.model.problem import Field, Mark
from applyprune.model.text import and_more
from applyprune.planning.applyset import LAST_APPLIED, ApplySetIdentity
from applyprune.planning.conflicts import (
    drift_before,
    excluding_fields,
    has_new_values,
    last_owned,
    migrated_first,
    overlap,
    steps_of,
)
from applyprune.planning.managed_fields import (
    BEFORE_FIRST_APPLY,
    as_stored,
    going_marks,
    ignored_paths_of,
    own_fields,
    own_writer,
    recorded_fields,
    taken,
)
from applyprune.planning.marks import RECREATE, leave_mark, orphan_mark, unknown_mark
from applyprune.planning.normalize import (
    IgnoreRule,
    body_to_send,
    ignored_paths,
    may_be_secret,
    other_values,
)
from applyprune.planning.ownership import (
    Owner,
    fingerprint_of,
    foreign_owner,
    is_marked,
    other_owner,
    owner_of,
    ownership_of,
)
from applyprune.planning.secrets import Body, masked
from applyprune.planning.server_errors import (
    clean_message,
    dotted,
    error_fields,
    stored_fields,
)
from applyprune.planning.staying_fields import holding_fields
from applyprune.values import hiding, pattern, replace


class Comparison(Struct, frozen=True):
    """An object before and after, as a dry run has it; Secret values are not masked yet."""

    step: ApplyStep
    before: LiveObject | None
    """The object in full; None if it would be created."""
    body: Mapping[str, Any] | None
    """The object afterwards."""
    after: LiveObject | None = None
    """The server's reply; None if something else has computed ``body``."""
    not_checked: str = ""
    """What the server could not check, in words."""

    __repr__ = hiding("before", "body", "after")


def diff_of(
    comparison: Comparison,
    rules: Sequence[IgnoreRule],
    recorded: Mapping[Ref, InventoryEntry],
    manager: str,
) -> ObjectDiff:
    """Return a comparison as it is shown: without ignored fields, and with Secrets masked.

    ``recorded`` are the entries of the inventory as read, ``manager`` is the set's field manager.
    """
    desired = comparison.step.desired
    ref, before, after = desired.ref, comparison.before, comparison.after
    ignored = ignored_paths(rules, ref)
    states = _states(comparison)
    # Mask the whole object first: a rule that ignores the kind must not unmask a Secret.
    then, now = (_without(state, ignored) for state in masked(*states, desired.body))
    drifted, drift = drift_before(desired, recorded.get(ref), before, after, manager)
    return ObjectDiff(
        ref,
        comparison.step.fate,
        then,
        now,
        desired.origin,
        comparison.not_checked,
        drifted=drifted,
        drift=tuple(
            one
            for one in drift
            if not any(is_under(from_pointer(one.path), path) for path in ignored)
        ),
    )


def removal_diff(step: RemoveStep, live: LiveObject, *, not_checked: str = "") -> ObjectDiff:
    body, _ = masked(without_bookkeeping(live.body or {"metadata": live.metadata}), None)
    return ObjectDiff(step.entry.ref, step.fate, body, None, not_checked=not_checked)


def has_changed(
    comparison: Comparison, rules: Sequence[IgnoreRule], *, but: Iterable[Path] = ()
) -> bool:
    """Return whether an object changes, apart from its bookkeeping and the ignored fields.

    ``but`` are other fields that do not count.
    """
    ignored = (*ignored_paths(rules, comparison.step.desired.ref), *but)
    then, now = (_without(state, ignored) for state in _states(comparison))
    return then != now


def _states(comparison: Comparison) -> tuple[Body, Body]:
    has_status = "status" in comparison.step.desired.body
    before = comparison.before
    states = (before.body if before is not None else None), comparison.body
    mirrors = _mirrors(comparison, states)

    def shown(state: Body) -> Body:
        known = None if state is None else without_bookkeeping(state, status=has_status)
        return _without(known, mirrors)

    then, now = map(shown, states)
    return then, now


_ANNOTATIONS = ("metadata", "annotations")


def _mirrors(comparison: Comparison, states: Iterable[Body]) -> Sequence[Path]:
    """Return the annotations that only show a status, or fields of another API version.

    The conversion to this version makes them, so nobody has written them: ``autoscaling/v1`` shows
    its conditions so. Where no writer is recorded, none is known to be such.
    """
    known = [live for live in (comparison.before, comparison.after) if live is not None]
    writers = [one for live in known for one in live.writers]
    if not writers:
        return ()
    ours = mapping(comparison.step.desired.body["metadata"].get("annotations"))
    names = {
        name
        for state in states
        for name in mapping(mapping((state or {}).get("metadata")).get("annotations"))
    } - ours.keys()
    return [
        (*_ANNOTATIONS, name)
        for name in names
        if not any((*_ANNOTATIONS, name) in one.fields for one in writers)
    ]


def _without(state: Body, ignored: Sequence[Path]) -> Body:
    return without_fields(state, ignored) if state is not None and ignored else state


def changes_ownership(before: LiveObject, after: LiveObject, manager: str) -> bool:
    """Return whether a set owns other fields afterwards: the server writes that too."""
    then, now = (fingerprint_of(live, manager, None) for live in (before, after))
    return then is None or now is None or then.managed_fields != now.managed_fields


# States of an object, without the server's own metadata, or as an apply would make them.


_BOOKKEEPING = frozenset(
    {"creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"}
)


def without_bookkeeping(body: Mapping[str, Any], *, status: bool = False) -> Mapping[str, Any]:
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


def removed_fields(
    step: ApplyStep, after: LiveObject, applyset: ApplySetIdentity
) -> tuple[Path, ...]:
    """Return the fields that the apply of a step removes after fields have changed hands.

    ``after`` is the response of a dry run, which cannot migrate the fields first. What the second
    manager of the set has stays, and so does what becomes ours and is left to others.
    """
    migration, ignored = step.migration, ignored_paths_of(step.desired)
    others = migrated_first(step.live, migration, applyset) - migration.managers
    others -= {applyset.yielded}
    wanted = body_to_send(step.desired)
    going: list[FieldSet] = [going_marks(migration, step.desired.packed)]
    staying: list[FieldSet] = []
    ours = own_writer(after, applyset.manager)
    is_untracked = step.live is not None and not step.live.writers
    for one in after.writers:
        if one == ours:
            continue  # the manifest shows what it has; an empty map does not keep what was in it
        if is_untracked and one.manager == BEFORE_FIRST_APPLY:
            continue  # the server has just invented it; the real apply finds an entry of ours
        is_others = one.manager in others and not one.subresource
        part = one.fields if is_others else taken(one, migration, step.desired.packed)
        going.append(as_stored(part, step.desired.ref.group_kind))
        staying.append(as_stored(one.fields - part, step.desired.ref.group_kind))
    if migration.restores:
        going.append(recorded_fields(migration))
    gone = [
        path
        for fields in going
        for path in fields.leaves()
        if not any(path in other for other in staying)
    ]
    # A list item goes with its last owner, whoever owns something in it.
    stay = {path for fields in staying for path in fields.items()}
    items = [path for fields in going for path in fields.items() if path not in stay]
    return tuple(
        path
        for path in (*gone, *items)
        if value_at(wanted, path) is MISSING and not any(is_under(path, one) for one in ignored)
    )


def renamed(body: Mapping[str, Any], *, name: str, namespace: str) -> Mapping[str, Any]:
    """Return a body with another name and, if it has a namespace, another namespace."""
    metadata = {**(body.get("metadata") or {}), "name": name}
    if namespace:
        metadata["namespace"] = namespace
    return {**body, "metadata": metadata}


def overlaid(there: Any, wanted: Any) -> Any:
    """Return a live object with every value of a manifest in it; lists are replaced as a whole.

    This predicts an apply, except for the fields that it removes: only the server knows these.
    """
    if not (isinstance(there, dict) and isinstance(wanted, dict)):
        return wanted
    return there | {name: overlaid(there.get(name), value) for name, value in wanted.items()}


def predicted(there: Any, wanted: Any, owned: FieldSet) -> Any:
    """Return a live object as an apply would leave it, as far as its record tells that.

    ``owned`` are the set's own fields: they tell the items of lists apart, and what the manifest
    gives up.
    """
    below = owned.below
    if isinstance(there, dict) and isinstance(wanted, dict):
        kept = {name: value for name, value in there.items() if name in wanted or name not in below}
        return kept | {
            name: predicted(there.get(name), value, below.get(name, NO_FIELDS))
            for name, value in wanted.items()
        }
    owners = [(step, inner) for step, inner in below.items() if not isinstance(step, str)]
    if not (owners and isinstance(there, list) and isinstance(wanted, list)):
        return wanted
    found = []
    for item in wanted:
        owner = next((one for one in owners if is_at(item, one[0])), None)
        if owner is None:
            owner = (_step_to(item, owners[0][0]), NO_FIELDS)
            owners.append(owner)
        step, fields = owner
        before = value_at(there, (step,))
        found.append(item if before is MISSING else predicted(before, item, fields))
    # What is left belongs to others.
    return [*found, *(item for item in there if not any(is_at(item, step) for step, _ in owners))]


def _step_to(item: Any, other: ListItem | SetMember) -> ListItem | SetMember:
    """Return the step to an item, which has the same keys as another one of its list.

    A manifest may have a mapping or a list anywhere, so a step is compared, and never hashed.
    """
    if not isinstance(other, ListItem) or not isinstance(item, dict):
        return SetMember(item)
    return list_item({name: item[name] for name, _ in other.keys if name in item})


def without_excluding(
    desired: Desired, live: LiveObject, paths: Collection[Path], manager: str
) -> Mapping[str, Any]:
    """Return a live object with its manifest, without fields of others and what the set gives up.

    A part goes as a whole if only defaults of the server, which nobody owns, would be left in it.
    An item of a list goes unless another manager has it.
    """
    wanted = body_to_send(desired)
    ours = own_fields(live, manager)
    gone = [
        path
        for path in (*ours.leaves(), *paths)
        if path[0] != "metadata" and value_at(wanted, path) is MISSING
    ]
    held = {
        path
        for one in live.writers
        if one.manager != manager
        for path in one.fields.leaves()
        if path not in gone
    }
    parts = {path[:end] for path in gone for end in range(2, len(path))}
    gone += [
        part
        for part in sorted(parts, key=len)
        if value_at(wanted, part) is MISSING and not any(path[: len(part)] == part for path in held)
    ]
    holding = holding_fields(wanted, live, manager)
    stays = [part for part, path, _ in holding if path not in gone]
    owned = ours.without(("metadata",), *stays)
    merged: Mapping[str, Any] = predicted(without_fields(live.body or {}, gone), wanted, owned)
    return merged


# The fields of a live object that an apply would change.


_LONGEST = 60
_NOT_COMPARED = frozenset({"apiVersion", "kind", "metadata", "status"})
# By what an item of a list is the same item: the merge keys of the built-in kinds.
_MERGE_KEYS = ("name", "mountPath", "devicePath", "containerPort", "port", "key", "ip",
               "topologyKey")  # fmt: skip


class ChangedField(Struct, frozen=True):
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


def changed_fields(
    desired: Desired, live: LiveObject, created: Mapping[str, Any] | None, manager: str
) -> list[ChangedField]:
    """Return the fields outside metadata that an apply would change, in the order of the manifest.

    ``live`` was read in full. ``created`` is the object as the server would create it now: a value
    that the server only writes in another form does not count.
    """
    body = body_to_send(desired)
    before, after = masked(live.body, body, desired.body)
    if may_be_secret(desired.body):
        created = None
    old, new, made = (
        {key: value for key, value in (part or {}).items() if key not in _NOT_COMPARED}
        for part in (before, after, created)
    )
    return list(_in_mapping(old, new, made, own_fields(live, manager), ()))


def _in_mapping(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    made: Any,
    owned: FieldSet | None,
    path: Field,
) -> Iterator[ChangedField]:
    steps = owned.below if owned else {}
    is_whole = owned is not None and not owned
    known = made if isinstance(made, dict) else {}
    for key, wanted in after.items():
        if key in before:
            inner = steps.get(key)
            yield from _changes(before[key], wanted, known.get(key, MISSING), inner, (*path, key))
        elif not isinstance(made, dict) or key in made:  # else the server drops it
            yield ChangedField((*path, key), MISSING, wanted)
    for key, value in before.items():
        if key not in after and (is_whole or key in steps) and known.get(key) != value:
            yield ChangedField((*path, key), value, MISSING)


def _changes(
    before: Any, after: Any, made: Any, owned: FieldSet | None, path: Field
) -> Iterator[ChangedField]:
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _in_mapping(before, after, made, owned, path)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _in_list(before, after, made, owned, path)
    elif before != after and (made is MISSING or made != before):
        yield ChangedField(path, before, after)


def _in_list(
    before: list[Any],
    after: list[Any],
    made: Any,
    owned: FieldSet | None,
    path: Field,
) -> Iterator[ChangedField]:
    is_whole = owned is not None and not owned
    known = made if isinstance(made, list) else []

    def inner_of(item: Any) -> FieldSet | None:
        for step, fields in owned.below.items() if owned else ():
            if not isinstance(step, str) and is_at(item, step):
                return fields
        return None

    matched = set()
    for at, wanted in enumerate(after):
        there = _same_item(wanted, at, before)
        if there is None:
            yield ChangedField((*path, at), MISSING, wanted)
            continue
        matched.add(there)
        created = _same_item(wanted, at, known)
        value = MISSING if created is None else known[created]
        item = before[there]
        yield from _changes(item, wanted, value, inner_of(item), (*path, at))
    for at, item in enumerate(before):
        if at not in matched and (is_whole or inner_of(item) is not None):
            yield ChangedField((*path, at), item, MISSING)


def _same_item(wanted: Any, at: int, items: list[Any]) -> int | None:
    """Return the index of the same item of a list; None if it has none."""
    key = next((key for key in _MERGE_KEYS if isinstance(wanted, dict) and key in wanted), "")
    if key:
        found = (
            index
            for index, one in enumerate(items)
            if isinstance(one, dict) and one.get(key) == wanted[key]
        )
        return next(found, None)
    return at if at < len(items) else None


# Fields that cannot be changed in place: which they are, and whether a recreation may help.
#
# The server's own words contain its internal structs, so the fields are found by comparison.


NOT_ALLOWED = "that is not allowed"
"""The obstacle if nobody has allowed it."""
NOT_CREATED = "the server would not create it again as it is now"
"""The obstacle if a trial has failed."""
_SHOWN = 5
# The wording of apimachinery's validation, and of the strategies of single kinds.
_IMMUTABLE = pattern(
    r"immutable|may not (?:be )?change|cannot (?:be )?change|once set|updates to .* are forbidden"
)
# Which fields may be changed: "for fields other than 'replicas' and 'template' are forbidden".
_CHANGEABLE = pattern(r"(?:other than|except) (.*)", re.DOTALL)
_NAME = pattern(r"[A-Za-z][\w.]*(?:\[\*\][\w.]*)*")
_UNPROCESSABLE = 422
_NEVER_RECREATED = kinds_with(Trait.NEVER_RECREATED)
# The options of the command line that a Bundle does not have.
_ALSO_ADOPTED, _ALSO_SHARED = " (--prune-also adopted)", " (--prune-also shared)"


def is_worth_a_trial(error: ApplypruneError) -> bool:
    """Return whether a rejected update may be about an immutable field.

    Neither the code nor the text proves it, so a trial is needed: a server dry run of a create. An
    error about metadata never needs a trial.
    """
    if not isinstance(error, Invalid) or error.code != _UNPROCESSABLE:
        return False
    fields = [cause.get("field", "") for cause in error.causes]
    return not any(field.split(".")[0] == "metadata" for field in fields)


def says_immutable(error: ApplypruneError) -> bool:
    return _IMMUTABLE.search(error.message) is not None


def fields_beside(
    error: Invalid, live: LiveObject, manager: str
) -> tuple[tuple[Path, Writer], ...]:
    """Return the fields of others that may exclude ours: at or beside a field that was refused.

    Beside what the server calls immutable, no field matters.
    """
    named = [
        steps_of(cause["field"])
        for cause in error.causes
        if cause.get("field") and _IMMUTABLE.search(cause.get("message", "")) is None
    ]
    return excluding_fields(live, [steps[:-1] or steps for steps in named], manager)


class RefusedChange(Struct, frozen=True):
    """A change that the server refuses, and what is known of its object."""

    step: ApplyStep
    live: LiveObject
    """The object, read in full."""
    error: Invalid
    created: Mapping[str, Any] | None
    """The object as the server would create it now; None if it would not."""
    beside: Sequence[tuple[Path, Writer]]
    """The fields of others at or beside those that are refused."""

    def fields(self, manager: str) -> Sequence[ChangedField]:
        """Return the changed fields that the refusal is about."""
        found = changed_fields(self.step.desired, self.live, self.created, manager)
        return _rejected(found, self.error, self.live)

    def repeats_last_apply(self, manager: str) -> bool:
        """Return whether the manifest is the last applied one, also in a Secret's values."""
        step = self.step
        return step.is_reapplied and not has_new_values(step.desired, self.live, manager)

    def is_of_rewritten_values(self, manager: str) -> bool:
        """Return whether only values of a Secret are refused that the server would not store.

        Then what is stored of the last apply does not tell what the manifest was.
        """
        body = self.step.desired.body
        if self.created is None or not may_be_secret(body):
            return False
        rewritten = other_values(body_to_send(self.step.desired), self.created)
        fields = self.fields(manager)
        return bool(fields) and all(one.path in rewritten for one in fields)


def unproven_recreation(change: RefusedChange, manager: str) -> str:
    """Return why nothing proves that the manifest has changed an immutable field; else empty.

    Such a field is one that was refused, that the manifest has with another value, and that nobody
    else has written since the last apply.
    """
    live = change.live
    ours, recorded = own_fields(live, manager), last_owned(change.step.entry)
    others: dict[str, None] = {}
    for one in change.fields(manager):
        steps = steps_of(dotted(one.path))
        there = excluding_fields(live, [steps], manager)
        others.update((writer.manager, None) for _, writer in there)
        is_ours, was_ours = (
            any(overlap(steps, path) for path in fields.leaves()) for fields in (ours, recorded)
        )
        if not there and (is_ours or not was_ours):  # guard: own-immutable-field always
            return ""
    if others:
        return f"{' and '.join(others)} owns the field too"
    return "no field that was refused is one that only this set has written"


def unproven_stored(change: RefusedChange, manager: str) -> str:
    """Return who else has written the stored values that do not fit the CRD; empty if nobody has.

    A status is not a field of the manifest: its controller writes it again.
    """
    places = [steps_of(path) for path in stored_fields(change.error)]
    places = [steps for steps in places if steps[0] != "status"]
    others = {one.manager for _, one in excluding_fields(change.live, places, manager)}
    return f"{' and '.join(sorted(others))} owns the field too" if others else ""


STORED = "its stored values do not fit the schema of its CRD"


def with_stored_values_named(change: RefusedChange, obstacle: str) -> RunFailed:
    """Return the failure for stored values that no apply can change."""
    desired = change.step.desired
    error = RunFailed(
        f"{desired.ref}: {STORED}: {clean_message(change.error.message)}",
        location=desired.origin,
        hint=_way_out(obstacle),
    )
    error.problem = replace(error.problem, remedy=_bundles_way(obstacle, desired))
    return error


def _way_out(obstacle: str) -> str:
    if obstacle == NOT_ALLOWED:
        return (
            "--recreate deletes and creates it. To allow it for this object only: the annotation "
            f"{RECREATE}: allowed."
        )
    return f"It cannot be recreated: {obstacle}."


def recreation_obstacle(
    desired: Desired,
    entry: InventoryEntry,
    live: LiveObject,
    applyset: ApplySetIdentity,
    options: Options,
) -> str:
    """Return why an object may not be recreated; empty if it may."""
    kind = desired.ref.group_kind
    if kind in _NEVER_RECREATED:
        return f"a {kind.kind} is never recreated"
    rule = orphan_mark(live.metadata) or desired.orphan_reason
    if rule := rule or leave_mark(live.metadata):  # guard: left-alone-recreate never
        return f"it is marked {rule}"
    unknown = unknown_mark(live.metadata, kind)  # guard: mark-before-recreation -> ""
    if unknown:
        return f"{unknown} is not understood"
    # guard: witness-recreate -> False
    adopted = ownership_of(entry, live, applyset) is Ownership.ADOPTED
    if adopted and PruneAlso.ADOPTED not in options.prune.also:
        return f"it was adopted, not created, by this set{_ALSO_ADOPTED}"
    if owner_of(live, entry, applyset) is not Owner.RECORDED or not is_marked(live, applyset):
        return "it does not have this set's label and field manager any more"
    if owner := foreign_owner(live, applyset.manager):
        return f"it belongs to {owner}, by its ownerReferences"
    other = other_owner(entry, live, applyset)  # guard: other-owner-recreate -> ""
    if other and PruneAlso.SHARED not in options.prune.also:
        return f"{other}{_ALSO_SHARED}"
    return "" if options.apply.recreate or desired.recreate else NOT_ALLOWED


def with_immutable_fields_named(change: RefusedChange, obstacle: str, manager: str) -> RunFailed:
    """Return the failure for a rejected change; it names the fields and both values."""
    desired, changes = change.step.desired, change.fields(manager)
    is_locked = mapping(change.live.body).get("immutable") is True  # a ConfigMap or Secret
    ending = "cannot be changed in place" + (", as it has immutable: true" if is_locked else "")
    if changes:
        named = and_more(list(map(str, changes)), _SHOWN)
        message, reason = f"{desired.ref}: {named} {ending}", ""
        marks = tuple(Mark(one.place, one.values) for one in changes if one.place)
    else:
        message, reason = f"{desired.ref} {ending}", clean_message(change.error.message)
        marks = error_fields(change.error, desired.body)
    hint = _way_out(obstacle)
    error = RunFailed(message, location=desired.origin, reason=reason, hint=hint, marks=marks)
    error.problem = replace(error.problem, remedy=_bundles_way(obstacle, desired))
    return error


def _bundles_way(obstacle: str, desired: Desired) -> str:
    """Return why a Bundle does not recreate an object, and the way out, by its own fields."""
    if obstacle == NOT_ALLOWED:
        return (
            "It is not recreated, because nothing allows that. To allow it: recreate: true in the "
            f"spec, or for this object only the annotation {RECREATE}: allowed"
        )
    why = obstacle.removesuffix(_ALSO_ADOPTED).removesuffix(_ALSO_SHARED)
    way = "To end this, set these fields in the source to their values in the cluster"
    if desired.ref.group_kind not in _NEVER_RECREATED:
        way += ", or delete the object: it is created again"
    return f"It is not recreated: {why}. {way}"


def _rejected(
    found: Sequence[ChangedField], error: Invalid, live: LiveObject
) -> list[ChangedField]:
    """Return the changed fields that an error is about.

    The server may refuse a value that is its own default: nobody has written the ipFamilyPolicy of
    a headless Service that gets an address. Then the error is about what changes beside it.
    """
    if not error.causes:
        return list(found)
    at = [
        change
        for change in found
        if any(_covers(cause, dotted(change.path)) for cause in error.causes)
    ]
    if at:
        return at
    written = [path for one in live.writers for path in one.fields.leaves()]
    refused = [steps_of(cause["field"]) for cause in error.causes if cause.get("field")]
    defaults = [
        steps[:-1] for steps in refused if not any(overlap(steps, path) for path in written)
    ]
    return [
        change
        for change in found
        if any(steps_of(dotted(change.path))[:-1] == steps for steps in defaults)
    ]


def _covers(cause: Mapping[str, str], path: str) -> bool:
    """Return whether a cause is about a changed field; it may name what is around it."""
    field = cause.get("field", "")
    # The server derives a list from a single value: clusterIPs.
    forms = {field, re.sub(r"s\[0\]$", "", field)}
    if not any(_is_part(path, form) or _is_part(form, path) for form in forms):
        return False
    changeable = _CHANGEABLE.search(cause.get("message", ""))
    names: Sequence[str] = _NAME.findall(changeable[1]) if changeable else ()
    any_item = re.sub(r"\[\d+\]", "[*]", path)
    return not any(
        _is_part(any_item, name) or _is_part(any_item, f"{field}.{name}") for name in names
    )


def _is_part(path: str, above: str) -> bool:
    """Return whether a dotted path equals another one, or leads to a part of its value."""
    rest = path.removeprefix(above)
    return path.startswith(above) and (not rest or rest[0] in ".[")
