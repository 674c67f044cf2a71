"""Read managedFields, and say what they must be: what an apply takes, releases and removes first.

``requests.py`` makes patches of it, each of which tests that the object has not changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from applyprune.errors import InputError, RunFailed, UsageError
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
    to_pointer,
    value_at,
    with_value,
    without_fields,
)
from applyprune.model.kinds import DAEMON_SET, POD, SECRET, Trait, kinds_with, row_of
from applyprune.model.live import field, mapping
from applyprune.model.options import Adopt, ApplyOptions
from applyprune.model.plan import Desired, Migration, OnConflict
from applyprune.planning.applyset import (
    LAST_APPLIED,
    OWNED_BY,
    PART_OF,
    ApplySetIdentity,
    set_of,
    yielded_manager,
)
from applyprune.planning.marks import (
    CONFLICTS,
    IGNORE_FIELDS,
    PURE_KEYS,
    TOOL_MANAGERS,
    is_wish,
    owner_marks,
    pure_marks,
)
from applyprune.planning.normalize import (
    REPLICAS,
    IgnoreRule,
    digest,
    is_ignored_by_default,
    split_pointers,
)
from applyprune.planning.references import template_path
from applyprune.values import remembered, replace

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from applyprune.model.fieldset import Step
    from applyprune.model.identity import GroupKind, Ref
    from applyprune.model.inventory import InventoryEntry
    from applyprune.model.live import LiveObject
    from applyprune.model.problem import Origin, Problem
    from applyprune.values import Packed


WITNESS: Path = ("metadata", "annotations", OWNED_BY)
"""The annotation of ownership."""
OWN_MARKS: Sequence[Path] = (("metadata", "labels", PART_OF), WITNESS)
"""What the set itself writes on each of its objects."""
APPLIED_METADATA = ("annotations", "finalizers", "labels", "ownerReferences")
"""The metadata that a manifest may set."""
_NOT_OWNED = frozenset({"apiVersion", "kind", "metadata", "status"})


def is_applied(live: LiveObject, manager: str) -> bool:
    """Return whether a field manager has an Apply entry in managedFields."""
    return own_writer(live, manager) is not None


def own_writer(live: LiveObject, manager: str) -> Writer | None:
    """Return our manager's Apply entry of the main resource; None if there is none."""
    return _own_writer(live.writers, manager)


def _own_writer(writers: Iterable[Writer], manager: str) -> Writer | None:
    for one in writers:
        if one.manager == manager and one.operation == "Apply" and not one.subresource:
            return one
    return None


def own_fields(live: LiveObject, manager: str) -> FieldSet:
    """Return the fields of our Apply entry; empty if there is none."""
    ours = own_writer(live, manager)
    return NO_FIELDS if ours is None else ours.fields


def other_writers(live: LiveObject, manager: str) -> Iterator[Writer]:
    """Yield the entries of everybody else; the second manager of the set is not one of them."""
    ours, yielded = own_writer(live, manager), yielded_manager(manager)
    for one in live.writers:
        if one != ours and one.manager != yielded:
            yield one


def own_apply_digest(live: LiveObject, manager: str) -> tuple[str, str] | None:
    """Return the digest of our Apply entry, and its time; None if there is no such entry."""
    return _own_apply_digest(live.packed_managers, manager)


@remembered
def _own_apply_digest(
    managers: Sequence[Mapping[str, Any]], manager: str
) -> tuple[str, str] | None:
    ours = _own_writer(map(Writer, managers), manager)
    if ours is None:
        return None
    return digest([ours.entry.get("apiVersion"), ours.entry.get("fieldsV1")]), ours.time


def owns_all(live: LiveObject, manager: str, body: Mapping[str, Any]) -> bool:
    """Return whether our manager's Apply entry has everything that a manifest sets.

    An entry without a time has been written by our patch, and the apply has not followed yet.
    """
    ours = own_writer(live, manager)
    if ours is None:
        return False
    if not ours.time:
        return True
    metadata = {key: body["metadata"].get(key) for key in APPLIED_METADATA}
    fields = {key: value for key, value in body.items() if key not in _NOT_OWNED}
    return ours.fields.covers({**fields, "metadata": metadata})


def entry_times(live: LiveObject, manager: str) -> str:
    """Return when a set has last written each of its entries; empty if it has none."""
    own = {manager, yielded_manager(manager)}
    return " ".join(
        str(one.entry.get("time", "-"))
        for one in live.writers
        if one.manager in own and not one.subresource
    )


def manager_by_label(live: LiveObject) -> str:
    """Return the field manager of the set whose label ``live`` has; empty if there is none."""
    label = live.labels.get(PART_OF, "")
    managers = (one.manager for one in live.writers) if label else ()
    return next((name for name in managers if set_of(name) == label), "")


FORMER = "applyprune-orphaned"
"""The manager that an orphaned object keeps; it belongs to no set, and no output names it."""


# The fields of other managers that become the set's own before an apply.
#
# Only what provably belongs to the set is taken: what its last confirmed apply owned, and what its
# manifest contains. An adoption also takes what the managers have declared that the object was
# applied with until now: otherwise these fields would stay permanently (kubernetes#99003;
# client-go's csaupgrade does the same). Finalizers and ownerReferences are never taken: the next
# apply would remove them.
#
# The marks by which other tools know their objects are taken with an adoption, whoever owns them,
# unless the manifest sets them: the apply removes them then. Only those of the values that were
# read when that was decided: another value may be of another owner.
#
# An object without managedFields must get an entry before its first apply. Otherwise the server
# books every field to ``before-first-apply``, whoever has written it (structured-merge-diff,
# ``skipnonapplied.go``).


BEFORE_FIRST_APPLY = "before-first-apply"
"""The server's name for whoever has written an object that had no managedFields."""
UNKNOWN = "somebody unknown"
"""The same in our words."""
_INVENTED = (BEFORE_FIRST_APPLY, "Update")
_DECLARED = frozenset({("kubectl-client-side-apply", "Update"), ("kubectl", "Apply")})
_PROTECTED: Sequence[Path] = (("metadata", "finalizers"), ("metadata", "ownerReferences"))


def migration_of(
    live: LiveObject,
    entry: InventoryEntry | None,
    options: ApplyOptions,
    *,
    manager: str,
    adopts: bool,
) -> Migration:
    """Return what becomes the set's own; ``entry`` is that of an object of the set, else None.

    ``adopts`` is whether the set takes the object in. What another tool has is adopted on purpose
    only: with ``--adopt=all``, or with its manager in ``--take-over``.
    """
    asked = options.take_over
    if adopts and options.adopt is Adopt.ALL:
        asked = asked | _managers_of_tools(live)
    whole: set[tuple[str, str]] = set()
    named: set[tuple[str, str]] = set()
    proven: frozenset[str] = frozenset()
    for one in live.writers:
        if one.subresource:
            continue
        name = one.manager, one.operation
        declares = adopts and _declares(one, live)
        if one.manager in asked or declares:
            whole.add(name)
        if one.manager in options.take_over and not declares:
            named.add(name)
        if name == _INVENTED and not adopts:
            proven = frozenset({BEFORE_FIRST_APPLY})
    last = entry if entry is not None and entry.owned_fields and not adopts else None
    restores = last is not None and not is_applied(live, manager)
    return Migration(
        frozenset(whole),
        proven,
        last,
        restores,
        frozenset(named),
        options.no_default_ignore,
        _marks(live) if adopts else (),  # guard: marks-of-the-adopted -> _marks(live)
    )


def _managers_of_tools(live: LiveObject) -> frozenset[str]:
    """Return the field managers of the tools whose marks an object has; Helm's in any case."""
    tools = {mark.tool for mark, _ in owner_marks(live.labels, live.annotations)}
    return frozenset().union(*(TOOL_MANAGERS.get(tool, ()) for tool in {"Helm", *tools}))


def _marks(live: LiveObject) -> tuple[tuple[Path, str], ...]:
    found = pure_marks(live.ref.group_kind, live.labels, live.annotations)
    texts = {"labels": live.labels, "annotations": live.annotations}
    return tuple((("metadata", part, key), texts[part][key]) for part, key in found)


def with_marks_of(migration: Migration, live: LiveObject) -> Migration:
    """Return a migration without the marks that an object does not have any more."""
    if not migration.marks:
        return migration
    there = {*_marks(live)}
    # guard: mark-of-another-owner -> migration.marks
    marks = tuple(one for one in migration.marks if one in there)
    return replace(migration, marks=marks)


def going_marks(migration: Migration, body: Packed) -> FieldSet:
    """Return the marks that go with the apply of a manifest: those that it does not set."""
    if not migration.marks:
        return NO_FIELDS
    manifest = body.value
    return FieldSet.of(
        *(
            path
            for path, _ in migration.marks
            # guard: mark-of-the-manifest always
            if value_at(manifest, path) in (MISSING, None)
        )
    )


def gives_way(live: LiveObject, manager: str, operation: str) -> bool:
    """Return whether an adoption takes all that a manager has in an object."""
    entries = (one for one in live.writers if (one.manager, one.operation) == (manager, operation))
    is_tool = manager in _managers_of_tools(live)
    return is_tool or any(_declares(one, live) for one in entries)


def _declares(writer: Writer, live: LiveObject) -> bool:
    """Return whether a manager has declared what an object was applied with until now."""
    if (writer.manager, writer.operation) in _DECLARED:
        return True
    # kubectl may have any name. It writes the manifest into an annotation by the same request.
    is_kubectls = writer.operation == "Update" and LAST_APPLIED in live.annotations
    return is_kubectls and ("metadata", "annotations", LAST_APPLIED) in writer.fields


_REPLICAS = from_pointer(REPLICAS)


def sets_replicas(desired: Desired) -> bool:
    """Return whether a manifest sets the replicas."""
    is_mentioned = desired.packed.mentions("replicas")
    return is_mentioned and value_at(desired.body, _REPLICAS) is not MISSING


def loses_replicas(
    desired: Desired, live: LiveObject, migration: Migration, applyset: ApplySetIdentity
) -> bool:
    """Return whether an apply would remove the live replicas, of which the manifest sets none.

    The set owns them, or they become its own before the apply.
    """
    ours = {applyset.manager, manager_by_label(live)}
    return any(
        _REPLICAS in (one.fields if one.manager in ours else taken(one, migration, desired.packed))
        for one in live.writers
        if not one.subresource
    )


def has_migration(live: LiveObject, migration: Migration, body: Packed, manager: str) -> bool:
    """Return whether fields must change hands before ``body`` may be applied to an object."""
    if not live.writers:  # guard: untracked-object never
        return True
    # guard: restored-fields never with untracked-object
    if migration.restores and not is_applied(live, manager):
        return True
    if going_marks(migration, body) - own_fields(live, manager):
        return True
    return any(taken(one, migration, body) for one in other_writers(live, manager))


def taken(writer: Writer, migration: Migration, body: Packed) -> FieldSet:
    """Return which fields of a writer become ours; ``body`` is that of the manifest.

    The body is parsed only for a manager that the user has named, or of which fields are proven,
    and if there are marks of other tools.
    """
    if writer.subresource:
        return NO_FIELDS
    return _of_manager(writer, migration, body) | (writer.fields & going_marks(migration, body))


def _of_manager(writer: Writer, migration: Migration, body: Packed) -> FieldSet:
    name = writer.manager, writer.operation
    if name in migration.named:
        return _takeable(writer.fields).without(*_ignored_by_rules(writer, migration, body))
    if name in migration.whole:
        return _takeable(writer.fields).without(*_marks_that_stay(writer, migration, body))
    if writer.manager in migration.proven:
        proven = writer.fields & recorded_fields(migration)
        return proven | _takeable(writer.fields.set_by(body.value))
    return NO_FIELDS


def _ignored_by_rules(writer: Writer, migration: Migration, body: Packed) -> Iterator[Path]:
    """Yield what the default rules leave to a manager, of what the manifest lacks."""
    manifest = body.value
    for path in writer.fields.leaves():
        is_ignored = is_ignored_by_default(path, manifest, migration.rules_off)
        if is_ignored and value_at(manifest, path) is MISSING:  # guard: left-at-a-takeover never
            yield path


_ALL_TOOLS = frozenset[str]().union(*TOOL_MANAGERS.values())


_SELECTED_BY = "app.kubernetes.io/"
"""The prefix of labels by which Services, policies and monitors select."""


def _marks_that_stay(writer: Writer, migration: Migration, body: Packed) -> Iterator[Path]:
    """Yield the marks of a tool that an adoption leaves, of what the manifest lacks.

    These are the wishes of a user, such as to keep an object, what others may select by, and what
    does not go with the other marks: without one in a template, Pods would be replaced.
    """
    if writer.manager not in _ALL_TOOLS:
        return
    manifest, going = body.value, going_marks(migration, body)
    for path in writer.fields.leaves():
        key, is_own = path[-1], path[0] == "metadata" and len(path) == 3
        stays = (
            (is_own and is_wish(key))  # guard: wish-of-a-user
            or (is_own and str(key).startswith(_SELECTED_BY))  # guard: label-others-select-by
            or key in PURE_KEYS  # guard: mark-in-a-template
        )
        if stays and path not in going and value_at(manifest, path) in (MISSING, None):
            yield path


def as_stored(fields: FieldSet, kind: GroupKind) -> FieldSet:
    """Return the fields of a manager as the server stores them.

    It merges the ``stringData`` of a Secret into ``data``, and books no owner there.
    """
    if kind != SECRET or (plain := fields.below.get("stringData")) is None:
        return fields
    stored = FieldSet({"f:data": plain.fields_v1}) if plain else NO_FIELDS
    return fields.without(("stringData",)) | stored  # guard: revoked-key -> fields


def recorded_fields(migration: Migration) -> FieldSet:
    """Return the fields that the last confirmed apply owned, as far as they may be taken.

    An edited inventory must not give an object the annotation of ownership, nor the next apply a
    finalizer or ownerReference that it would remove.
    """
    if not migration.recorded:
        return NO_FIELDS
    return _takeable(FieldSet(json.loads(migration.recorded)) - FieldSet.of(WITNESS))


def _takeable(fields: FieldSet) -> FieldSet:
    """Return the fields without finalizers and ownerReferences."""
    if not fields.at(("metadata",)):  # only an edited inventory has it as a whole
        fields = fields.without(("metadata",))
    return fields.without(*_PROTECTED)


# What is removed from an object before its manifest is applied.
#
# Server-side apply removes only what the set has owned. A default of the server that nobody owns
# may exclude what the manifest sets, as in kubectl's ``retainKeys``: the ``rollingUpdate`` of a
# Deployment that gets ``strategy: Recreate``, and the ``emptyDir`` of a volume that gets a source.
#
# Our entry in managedFields gets it first, so that the apply itself removes it: all changes in one
# request, or nothing. What another manager owns is never removed without force.


class FieldRemovals(Struct, frozen=True):
    """What an apply removes from an object once the set owns it."""

    of_others: tuple[Path, ...] = ()
    """The fields of others that exclude or hold those of the set."""
    defaults: tuple[Path, ...] = ()
    """The defaults that exclude what the manifest sets."""
    members: tuple[Path, ...] = ()
    """The fields of the manifest that are refused while these defaults are there."""

    def __bool__(self) -> bool:
        """Return whether anything is removed."""
        return bool(self.of_others or self.defaults)


NO_REMOVALS = FieldRemovals()


def removals(
    desired: Desired, live: LiveObject, applyset: ApplySetIdentity, *, force: bool
) -> FieldRemovals:
    """Return what is removed from an object; nothing if it was not read in full."""
    if live.body is None:
        return NO_REMOVALS
    own = own_fields(live, applyset.manager)
    others = [one.fields for one in other_writers(live, applyset.manager)]

    def is_free(path: Path) -> bool:
        # guard: removes-only-unowned -> True
        return force or not any(path in fields for fields in others)

    defaults: list[Path] = []
    members: list[Path] = []
    for default, excluded in _exclusions(desired):
        there = value_at(live.body, default) is not MISSING
        if there and is_free(default) and not own.names(default):
            defaults.append(default)
            members += excluded
    of_others: list[Path] = []
    # Drift has set it, so it goes like the drift; or it is held by fields that are released.
    for path in map(from_pointer, (*desired.excluding, *desired.releasing)):
        value = value_at(live.body, path)
        is_alone = _owns_all(own, path, value) and not any(path in fields for fields in others)
        if value is not MISSING and not is_alone:
            of_others.append(path)
    return FieldRemovals(tuple(of_others), tuple(defaults), tuple(members))


def _owns_all(fields: FieldSet, path: Path, value: Any) -> bool:
    """Return whether everything in the value at a path is owned."""
    inner = fields.at(path)
    return path in fields and (inner.has_itself or inner.covers(value))


def unowned_items(
    live: LiveObject, manager: str, created: Mapping[str, Any] | None = None
) -> Iterator[Path]:
    """Yield the items that nobody owns of the lists that the set owns in part.

    ``live`` was read in full. ``created`` is the object as the server would create it now: if the
    server or a webhook adds items of its own to a list, nothing shows which ones are remains. The
    keys of maps are left out: the server's defaults look the same.
    """
    if len({one.api_version for one in live.writers}) > 1:
        return  # in another version, the items may have other names
    own = own_fields(live, manager)
    for path in _owned_lists(own):
        new = value_at(created, path) if created is not None else []
        if not isinstance(new, list) or not all(_has_item(own, path, item) for item in new):
            continue
        items = value_at(live.body, path)
        for item in items if isinstance(items, list) else ():
            if not any(_has_item(one.fields, path, item) for one in live.writers):
                yield from ((*path, part) for part in _parts([item], own.at(path)))


_KEYED = kinds_with(Trait.READ_BY_PODS)
_DATA = ("data", "binaryData")


def unowned_keys(
    live: LiveObject, state: Mapping[str, Any], created: Mapping[str, Any] | None = None
) -> Iterator[Path]:
    """Yield the keys of a ConfigMap or Secret that nobody owns; the server has no defaults there.

    ``state`` is the object as it will be. ``created`` is the object as the server would create it
    now: a key that a webhook adds is none of them.
    """
    kind = live.ref.group_kind
    if kind not in _KEYED or not live.writers:
        return
    owned = [as_stored(one.fields, kind) for one in live.writers]
    for part in _DATA:
        for key in mapping(state.get(part)):
            is_made = created is not None and value_at(created, (part, key)) is not MISSING
            if not is_made and not any((part, key) in fields for fields in owned):
                yield part, key


def _owned_lists(fields: FieldSet, above: Path = ()) -> Iterator[Path]:
    """Yield the path of each list whose items are owned one by one."""
    if any(not isinstance(step, str) for step in fields.below):
        yield above
    for step, inner in fields.below.items():
        if above or step not in {"metadata", "status"}:
            yield from _owned_lists(inner, (*above, step))


def _has_item(fields: FieldSet, path: Path, item: Any) -> bool:
    """Return whether an item of the list at a path is owned, itself or with the whole list."""
    inner = fields.at(path)
    steps = (step for step in inner.below if not isinstance(step, str))
    return path in fields and (not inner or any(is_at(item, step) for step in steps))


def _parts(value: Any, fields: FieldSet) -> Iterator[Step]:
    """Yield the step to each part of a value whose parts are owned as in ``fields``."""
    if isinstance(value, dict):
        yield from value
    named = next((step for step in fields.below if not isinstance(step, str)), None)
    for item in value if isinstance(value, list) else ():
        if isinstance(named, ListItem) and isinstance(item, dict):
            yield list_item({key: item[key] for key, _ in named.keys if key in item})
        elif isinstance(named, SetMember):
            yield SetMember(item)


def may_remove(desired: Desired) -> bool:
    """Return whether only the values of the live object show what is removed from it."""
    return bool(desired.excluding or desired.releasing) or any(_exclusions(desired))


def _exclusions(desired: Desired) -> Iterator[tuple[Path, tuple[Path, ...]]]:
    """Yield each field that the server may have set by default, and what in a body excludes it."""
    kind = desired.ref.group_kind
    path = template_path(kind)
    if path is None or not desired.packed.mentions("spec"):
        return
    body = desired.body
    # Of a DaemonSet, the server takes both.
    if kind != DAEMON_SET and (name := row_of(kind).strategy):
        strategy = mapping(field(body, "spec", name))
        if strategy.get("type") not in {None, "RollingUpdate"} and not strategy.get(
            "rollingUpdate"
        ):
            yield ("spec", name, "rollingUpdate"), (("spec", name, "type"),)
    if kind == POD:
        return
    volumes = field(body, *path, "spec", "volumes")
    for volume in volumes if isinstance(volumes, list) else ():
        sources = [key for key in mapping(volume) if key != "name"]
        if sources and "emptyDir" not in sources and isinstance(name := volume.get("name"), str):
            place: Path = (*path, "spec", "volumes", ListItem((("name", name),)))
            yield (*place, "emptyDir"), tuple((*place, source) for source in sources)


def after_removal(
    state: Mapping[str, Any], body: Mapping[str, Any], found: FieldRemovals
) -> Mapping[str, Any]:
    """Return the state of an object without what is removed, and with what that has excluded."""
    state = without_fields(state, (*found.of_others, *found.defaults))
    for path in found.members:
        state = with_value(state, path, value_at(body, path))
    return state


# The ignored fields of a manifest, and its rule for conflicts.
#
# If we omit a field that only we own, the server resets it (replicas 5 → 1). So a second field
# manager of the set owns the field first, with its current value, and only then is it omitted. The
# second manager is removed when another manager also owns the field, or when the manifest sets the
# field again. Each of these steps is a patch of managedFields, which changes no value.


def conflict_rule(body: Mapping[str, Any]) -> OnConflict:
    """Return the rule of the conflicts annotation."""
    text = mapping(body["metadata"].get("annotations")).get(CONFLICTS)
    return OnConflict(text) if text in _CONFLICT_RULES else OnConflict.UNSET


_CONFLICT_RULES = frozenset(OnConflict)


def ignored_fields(body: Mapping[str, Any], origin: Origin) -> tuple[str, ...]:
    """Return the pointers of the annotation; raises InputError for an invalid pointer."""
    text = str(mapping(body["metadata"].get("annotations")).get(IGNORE_FIELDS, ""))
    found = split_pointers(text)
    for pointer in found:
        try:
            _check(body, IgnoreRule(pointer).path)
        except ValueError as error:
            raise InputError(
                f"invalid {IGNORE_FIELDS}",
                location=origin,
                reason=f"{pointer!r}: {error}",
                hint="Write JSON pointers: /spec/replicas, /metadata/annotations/example.com~1key, "
                'or /spec/template/spec/containers[name="web"]/image for an item of a list.',
                field=("metadata", "annotations", IGNORE_FIELDS),
            ) from error
    return found


def matching_pointers(
    rules: Iterable[IgnoreRule], ref: Ref, body: Mapping[str, Any]
) -> tuple[str, ...]:
    """Return the pointers of the rules for an object; raises UsageError for what must be sent."""
    found = []
    for rule in rules:
        if rule.matches(ref.group_kind, ref.name):
            try:
                _check(body, rule.path)
            except ValueError as error:
                raise UsageError(
                    f"invalid rule {rule.text!r} in ignore", reason=f"{ref.short}: {error}"
                ) from error
            found.append(rule.pointer)
    return tuple(found)


def _check(body: Mapping[str, Any], path: Path) -> None:
    lists = (
        path[:depth]
        for depth, step in enumerate(path)
        if isinstance(step, str) and isinstance(value_at(body, path[:depth]), list)
    )
    if (above := next(lists, None)) is not None:
        how = f'{to_pointer(above)}[name="x"]'
        raise ValueError(f"name an item of a list by its key, as in {how}")


def with_ignored_fields(body: Mapping[str, Any], pointers: Sequence[str]) -> Mapping[str, Any]:
    """Return a manifest whose annotation lists these pointers too."""
    metadata = body["metadata"]
    annotations = mapping(metadata.get("annotations"))
    given = annotations.get(IGNORE_FIELDS)
    text = ",".join(map(str, (*([given] if given else ()), *pointers)))
    return {**body, "metadata": {**metadata, "annotations": {**annotations, IGNORE_FIELDS: text}}}


class YieldSteps(Struct, frozen=True):
    """The steps before a manifest is sent without its ignored fields."""

    release: bool
    """Whether to remove the second field manager first."""
    fields: tuple[Path, ...]
    """The fields that the second field manager must then own; may be empty."""
    relies_on_others: bool = False
    """Whether the apply gives up fields that stay only because others own them now."""


def yield_steps(desired: Desired, live: LiveObject, applyset: ApplySetIdentity) -> YieldSteps:
    """Return the steps before the apply; ``live`` may be metadata only."""
    paths = ignored_paths_of(desired)
    second = [one.fields for one in live.writers if one.manager == applyset.yielded]
    if not (paths or second):
        return YieldSteps(release=False, fields=())
    others = [one.fields for one in other_writers(live, applyset.manager)]

    def is_ignored(leaf: Path) -> bool:
        return any(is_under(leaf, path) for path in paths)

    def is_only_ours(leaf: Path) -> bool:
        # Who owns a map as such, empty or not, keeps nothing in it.
        return is_ignored(leaf) and not any(fields.names(leaf) for fields in others)

    given = tuple(filter(is_ignored, own_fields(live, applyset.manager).leaves()))
    wanted = tuple(filter(is_only_ours, given))
    held = all(any(leaf in fields for fields in second) for leaf in wanted)
    stale = not all(is_only_ours(leaf) for fields in second for leaf in fields.leaves())
    release = bool(second) and (stale or not held)
    relies = len(given) > len(wanted)
    return YieldSteps(release, wanted if release or not held else (), relies_on_others=relies)


def with_live_values(
    live: LiveObject, body: Mapping[str, Any], fields: Iterable[Path]
) -> Mapping[str, Any]:
    """Return a body with some fields as in a live object, which was read in full."""
    whole: Mapping[str, Any] = body
    for path in fields:
        if (value := value_at(live.body, path)) is not MISSING:
            whole = with_value(whole, path, value)
    return whole


def split_problem(desired: Desired, live: LiveObject) -> Problem | None:
    """Return the problem of a pointer into an atomic value; ``live`` was read in full."""
    for pointer, whole in split_fields(desired, live):
        if value_at(live.body, whole) not in ({}, [], None, MISSING):
            return RunFailed(
                f"{desired.ref} was not applied",
                location=desired.origin,
                reason=f"{pointer} is to be ignored, and is part of a value that can only be "
                "set as a whole",
                hint=f"Ignore the whole value: {to_pointer(whole)}",
            ).problem
    return None


def split_fields(desired: Desired, live: LiveObject) -> tuple[tuple[str, Path], ...]:
    """Return the pointers that may lead into a value that is owned as a whole, and its path.

    A list or mapping without separately owned parts is either atomic or empty; only its value shows
    which.
    """
    found = []
    for pointer, path in zip(desired.ignored, ignored_paths_of(desired), strict=True):
        wholes = [whole for one in live.writers if (whole := one.fields.whole_above(path))]
        if wholes and not any(one.fields.is_split(wholes[0]) for one in live.writers):
            found.append((pointer, wholes[0]))
    return tuple(found)


def ignored_paths_of(desired: Desired) -> list[Path]:
    """Return the paths that the annotation ignore-fields of a manifest names."""
    return [from_pointer(pointer) for pointer in desired.ignored]


# The API versions in managedFields that are no longer served, rewritten.
#
# An entry keeps the version in which its manager has written. Once a CRD no longer serves it, the
# server cannot convert the object to it, and refuses every apply of every manager.


_IDENTITY = ("manager", "operation", "subresource", "apiVersion")


def dead_versions(live: LiveObject, served: Collection[str]) -> frozenset[str]:
    """Return the API versions in managedFields of a custom resource that are not served.

    ``served`` are the API versions of its kind; if they are unknown, nothing is dead.
    """
    if not served:
        return frozenset()
    group = live.ref.group
    return frozenset(
        version
        for version in {one.api_version for one in live.writers}
        if version.startswith(f"{group}/")
        # guard: served-version
        and version not in served
    )


def with_versions(
    state: Mapping[str, Any], live: LiveObject, desired: Desired
) -> Mapping[str, Any]:
    """Return a state of ``live`` whose managedFields the server can read."""
    dead = dead_versions(live, desired.versions)
    writers = rewritten_writers(live, dead, desired.resource.gvk.api_version)
    managers = [one.entry for one in writers]
    return {**state, "metadata": {**state["metadata"], "managedFields": managers}}


def rewritten_writers(
    live: LiveObject, dead: Collection[str], api_version: str
) -> Sequence[Writer]:
    """Return the entries with another API version in place of these."""
    found: dict[tuple[object, ...], Writer] = {}
    for one in live.writers:
        is_dead = one.api_version in dead
        fresh = Writer({**one.entry, "apiVersion": api_version}) if is_dead else one
        # Of two entries with the same of these, the server would drop the fields of one.
        key = tuple(fresh.entry.get(name) for name in _IDENTITY)
        # guard: two-entries-of-a-manager -> (same := found.get(key)) is ...
        if (same := found.get(key)) is not None:
            fresh = Writer({**same.entry, **fresh.entry}).with_fields(same.fields | fresh.fields)
        found[key] = fresh
    return list(found.values())
