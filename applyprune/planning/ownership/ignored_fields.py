"""Handle the ignored fields of a manifest, and its rule for conflicts.

If we omit a field that only we own, the server resets it (replicas 5 → 1). So a second field
manager of the set owns the field first, with its current value, and only then is it omitted. The
second manager is removed when another manager also owns the field, or when the manifest sets the
field again. Each of these steps is a patch of managedFields, which changes no value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from applyprune.errors import InputError, RunFailed, UsageError, as_problem
from applyprune.model.fieldset import (
    MISSING,
    Path,
    from_pointer,
    is_split,
    is_under,
    leaves,
    owns,
    put,
    to_pointer,
    value_at,
    whole_above,
)
from applyprune.model.live import mapping
from applyprune.model.plan import Desired, OnConflict
from applyprune.planning.annotations import CONFLICTS, IGNORED
from applyprune.planning.applyset import ApplySetIdentity
from applyprune.planning.fields.ignore_rule import IgnoreRule, split_pointers
from applyprune.planning.ownership.managed_fields import own_apply_entry
from applyprune.values import dataclass

if TYPE_CHECKING:
    from applyprune.model.identity import Ref
    from applyprune.model.live import LiveObject
    from applyprune.model.problem import Origin, Problem


@dataclass(frozen=True, slots=True)
class Yields:
    """The steps before a manifest is sent without its ignored fields."""

    release: bool
    """Whether to remove the second field manager first."""
    fields: tuple[Path, ...]
    """The fields that the second field manager must then own; may be empty."""


def conflict_rule(body: Mapping[str, Any]) -> OnConflict:
    """Return the rule of the conflicts annotation."""
    text = mapping(body["metadata"].get("annotations")).get(CONFLICTS)
    return OnConflict(text) if text in {OnConflict.FORCE, OnConflict.SKIP} else OnConflict.FAIL


def ignored_fields(body: Mapping[str, Any], origin: Origin) -> tuple[str, ...]:
    """Return the pointers of the annotation; raises InputError for an invalid pointer."""
    text = str(mapping(body["metadata"].get("annotations")).get(IGNORED, ""))
    found = split_pointers(text)
    for pointer in found:
        try:
            _check(body, IgnoreRule(pointer).path)
        except ValueError as error:
            raise InputError(
                f"invalid {IGNORED}",
                location=origin,
                reason=f"{pointer!r}: {error}",
                hint="Write JSON pointers: /spec/replicas, /metadata/annotations/example.com~1key, "
                'or /spec/template/spec/containers[name="web"]/image for an item of a list.',
                field=("metadata", "annotations", IGNORED),
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
                    f"invalid --ignore rule {rule.text!r}", reason=f"{ref.short}: {error}"
                ) from error
            found.append(rule.pointer)
    return tuple(found)


def with_ignored_fields(body: Mapping[str, Any], pointers: Sequence[str]) -> Mapping[str, Any]:
    """Return a manifest whose annotation lists these pointers too."""
    metadata = body["metadata"]
    annotations = mapping(metadata.get("annotations"))
    given = annotations.get(IGNORED)
    text = ",".join(map(str, (*([given] if given else ()), *pointers)))
    return {**body, "metadata": {**metadata, "annotations": {**annotations, IGNORED: text}}}


def _check(body: Mapping[str, Any], path: Path) -> None:
    lists = [
        path[:depth]
        for depth, step in enumerate(path)
        if isinstance(step, str) and isinstance(value_at(body, path[:depth]), list)
    ]
    if lists:
        above = to_pointer(lists[0])
        raise ValueError(f'name an item of a list by its key, as in {above}[name="x"]')


def yields(desired: Desired, live: LiveObject, applyset: ApplySetIdentity) -> Yields:
    """Return the steps before the apply; ``live`` may be metadata only."""
    paths = _paths(desired)
    second = [entry for entry in live.managed_fields if entry.get("manager") == applyset.yielded]
    if not (paths or second):
        return Yields(release=False, fields=())
    ours = own_apply_entry(live, applyset.manager)
    others = [entry for entry in live.managed_fields if entry != ours and entry not in second]

    def is_left_to_us(leaf: Path) -> bool:
        return any(is_under(leaf, path) for path in paths) and not _is_owned(leaf, others)

    wanted = tuple(leaf for leaf in _leaves((ours,) if ours else ()) if is_left_to_us(leaf))
    held = all(_is_owned(leaf, second) for leaf in wanted)
    stale = not all(is_left_to_us(leaf) for leaf in _leaves(second))
    release = bool(second) and (stale or not held)
    return Yields(release, wanted if release or not held else ())


def kept(live: LiveObject, body: Mapping[str, Any], fields: Iterable[Path]) -> Mapping[str, Any]:
    """Return a body with some fields as in a live object, which was read in full."""
    whole: Mapping[str, Any] = body
    for path in fields:
        if (value := value_at(live.body, path)) is not MISSING:
            whole = put(whole, path, value)
    return whole


def stub(desired: Desired) -> Mapping[str, Any]:
    """Return a body that only identifies an object."""
    metadata = {"name": desired.ref.name}
    if desired.ref.namespace:
        metadata["namespace"] = desired.ref.namespace
    gvk = desired.resource.gvk
    return {"apiVersion": gvk.api_version, "kind": gvk.kind, "metadata": metadata}


def split_fields(desired: Desired, live: LiveObject) -> tuple[tuple[str, Path], ...]:
    """Return the pointers that may lead into a value that is owned as a whole, and its path.

    A list or mapping without separately owned parts is either atomic or empty; only its value shows
    which.
    """
    entries = [entry.get("fieldsV1") or {} for entry in live.managed_fields]
    found = []
    for pointer, path in zip(desired.ignored, _paths(desired), strict=True):
        wholes = [whole for fields in entries if (whole := whole_above(fields, path))]
        if wholes and not any(is_split(fields, wholes[0]) for fields in entries):
            found.append((pointer, wholes[0]))
    return tuple(found)


def split_problem(desired: Desired, live: LiveObject) -> Problem | None:
    """Return the problem of a pointer into an atomic value; ``live`` was read in full."""
    for pointer, whole in split_fields(desired, live):
        if value_at(live.body, whole) not in ({}, [], None, MISSING):
            return as_problem(
                RunFailed(
                    f"{desired.ref} was not applied",
                    location=desired.origin,
                    reason=f"{pointer} is to be ignored, and is part of a value that can only be "
                    "set as a whole",
                    hint=f"Ignore the whole value: {to_pointer(whole)}",
                )
            )
    return None


def _paths(desired: Desired) -> Sequence[Path]:
    return [from_pointer(pointer) for pointer in desired.ignored]


def _leaves(entries: Iterable[Mapping[str, Any]]) -> Iterable[Path]:
    return [leaf for entry in entries for leaf in leaves(entry.get("fieldsV1") or {})]


def _is_owned(leaf: Path, entries: Iterable[Mapping[str, Any]]) -> bool:
    return any(owns(entry.get("fieldsV1") or {}, leaf) for entry in entries)
