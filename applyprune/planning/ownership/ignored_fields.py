"""Fields that a manifest leaves to others, and what it asks for where others own its fields.

A field that we alone own is reset when we leave it out (replicas 5 → 1). So a second field manager
of the set owns it first, with the value that is there, and only then is it left out. That manager
is taken off again when another one has the field as well, or the manifest wants it back: both cost
a patch of managedFields, which moves no value.

``diff --ignore``: fields that are left out of one comparison.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from applyprune.errors import InputError, RunFailed, UsageError
from applyprune.model.json_access import mapping
from applyprune.model.plan import OnConflict
from applyprune.planning.applyset import PART_OF
from applyprune.planning.fields.fieldsv1 import is_split, leaves, owns, whole_above
from applyprune.planning.fields.path import (
    MISSING,
    from_pointer,
    is_under,
    put,
    to_pointer,
    value_at,
)
from applyprune.planning.ownership.managed_fields import own_apply_entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from applyprune.model.identity import Ref
    from applyprune.model.live import LiveObject
    from applyprune.model.manifest import Origin
    from applyprune.model.plan import Desired
    from applyprune.planning.applyset import ApplySetIdentity
    from applyprune.planning.fields.path import Path

CONFLICTS = "applyprune.dev/conflicts"
IGNORED = "applyprune.dev/ignore-fields"

# What names an object, and the mark of its set, can be left to nobody.
_OURS: tuple[Path, ...] = (
    ("apiVersion",),
    ("kind",),
    ("metadata", "name"),
    ("metadata", "namespace"),
    ("metadata", "labels", PART_OF),
)
# Up to a comma or a blank outside of brackets; a bracket without its end is a pointer's mistake.
_POINTER = re.compile(r"""(?:\[(?:"(?:[^"\\]|\\.)*"|[^\]"])*\]|[^\s,\[]|\[)+""")


@dataclass(frozen=True, slots=True)
class Yields:
    """What is to be done before a manifest goes without what it ignores.

    ``release`` takes the second manager off; then it is to own ``fields``, none when that is empty.
    """

    release: bool
    fields: tuple[Path, ...]


def conflict_rule(body: Mapping[str, Any], origin: Origin) -> OnConflict:
    """Return what the annotation asks for; raises InputError for what it cannot mean."""
    text = mapping(body["metadata"].get("annotations")).get(CONFLICTS)
    if text is None:
        return OnConflict.FAIL
    if text not in {OnConflict.FORCE, OnConflict.SKIP}:
        raise InputError(
            f"{CONFLICTS} cannot be read",
            location=origin,
            reason=f"{text!r} is neither force nor skip",
            hint="Without the annotation a conflict fails the object.",
            field=("metadata", "annotations", CONFLICTS),
        )
    return OnConflict(text)


def ignored_fields(body: Mapping[str, Any], origin: Origin) -> tuple[str, ...]:
    """Return the pointers of the annotation; raises InputError for one that cannot be meant."""
    text = str(mapping(body["metadata"].get("annotations")).get(IGNORED, ""))
    found = _POINTER.findall(text)
    for pointer in found:
        try:
            path = from_pointer(pointer)
            _check(body, path)
        except ValueError as error:
            raise InputError(
                f"{IGNORED} cannot be read",
                location=origin,
                reason=f"{pointer!r}: {error}",
                hint="Write JSON pointers: /spec/replicas, /metadata/annotations/example.com~1key, "
                'and /spec/template/spec/containers[name="web"]/image for the item of a list.',
                field=("metadata", "annotations", IGNORED),
            ) from error
    return tuple(found)


def _check(body: Mapping[str, Any], path: Path) -> None:
    for ours in _OURS:
        if is_under(ours, path) or is_under(path, ours):
            raise ValueError(f"{to_pointer(ours)} cannot be left to others")
    lists = [
        path[:depth]
        for depth, step in enumerate(path)
        if isinstance(step, str) and isinstance(value_at(body, path[:depth]), list)
    ]
    if lists:
        above = to_pointer(lists[0])
        raise ValueError(f'an item of a list is named by its key, as in {above}[name="x"]')


def yields(one: Desired, live: LiveObject, target: ApplySetIdentity) -> Yields:
    """Return what is to be done first; ``live`` may be metadata only."""
    paths = _paths(one)
    second = [entry for entry in live.managed_fields if entry.get("manager") == target.yielded]
    if not (paths or second):
        return Yields(release=False, fields=())
    ours = own_apply_entry(live, target.manager)
    others = [entry for entry in live.managed_fields if entry is not ours and entry not in second]

    def is_left_to_us(leaf: Path) -> bool:
        return any(is_under(leaf, path) for path in paths) and not _is_owned(leaf, others)

    wanted = tuple(leaf for leaf in _leaves((ours,) if ours else ()) if is_left_to_us(leaf))
    held = all(_is_owned(leaf, second) for leaf in wanted)
    stale = not all(is_left_to_us(leaf) for leaf in _leaves(second))
    release = bool(second) and (stale or not held)
    return Yields(release, wanted if release or not held else ())


def kept(live: LiveObject, body: Mapping[str, Any], fields: Iterable[Path]) -> Mapping[str, Any]:
    """Return a body with some fields as they are in a live object, which has been read in full."""
    whole: Mapping[str, Any] = body
    for path in fields:
        if (value := value_at(live.body, path)) is not MISSING:
            whole = put(whole, path, value)
    return whole


def stub(one: Desired, live: LiveObject) -> Mapping[str, Any]:
    """Return what names one very object in one very state, and nothing else of it."""
    metadata = {"name": one.ref.name, "uid": live.uid, "resourceVersion": live.resource_version}
    if one.ref.namespace:
        metadata["namespace"] = one.ref.namespace
    gvk = one.resource.gvk
    return {"apiVersion": gvk.api_version, "kind": gvk.kind, "metadata": metadata}


def split_fields(one: Desired, live: LiveObject) -> tuple[tuple[str, Path], ...]:
    """Return the pointers that may lead into what is owned as a whole, and what that is.

    A list or mapping without parts that anybody owns is either atomic or empty, which only its
    value can tell.
    """
    entries = [entry.get("fieldsV1") or {} for entry in live.managed_fields]
    found = []
    for pointer, path in zip(one.ignored, _paths(one), strict=True):
        wholes = [whole for fields in entries if (whole := whole_above(fields, path))]
        if wholes and not any(is_split(fields, wholes[0]) for fields in entries):
            found.append((pointer, wholes[0]))
    return tuple(found)


def refuse_split(one: Desired, live: LiveObject) -> None:
    """Raise RunFailed for a pointer into what goes as a whole; ``live`` has been read in full."""
    for pointer, whole in split_fields(one, live):
        if value_at(live.body, whole) not in ({}, [], None, MISSING):
            raise RunFailed(
                f"{one.ref} was not applied",
                location=one.origin,
                reason=f"{pointer} in {IGNORED} is a part of what the server sets as a whole only",
                hint=f"Ignore all of it: {to_pointer(whole)}",
            )


def _paths(one: Desired) -> Sequence[Path]:
    return [from_pointer(pointer) for pointer in one.ignored]


def _leaves(entries: Iterable[Mapping[str, Any]]) -> Iterable[Path]:
    return [leaf for entry in entries for leaf in leaves(entry.get("fieldsV1") or {})]


def _is_owned(leaf: Path, entries: Iterable[Mapping[str, Any]]) -> bool:
    return any(owns(entry.get("fieldsV1") or {}, leaf) for entry in entries)


@dataclass(frozen=True, slots=True)
class Ignored:
    """One rule: ``kind`` is ``deployment``, ``deployment.apps`` or ``*``, ``name`` a glob."""

    kind: str
    name: str
    path: Path

    def is_about(self, ref: Ref) -> bool:
        """Return whether the rule is about an object."""
        kind = ref.kind.lower()
        kinds = {"*", kind, f"{kind}.{ref.group}" if ref.group else kind}
        return self.kind in kinds and fnmatchcase(ref.name, self.name)


def parse_rule(text: str) -> Ignored:
    """Read ``KIND[/NAME]:/json/pointer``; raises UsageError."""
    # A name of RBAC's may hold colons, and no name a slash.
    about, _, pointer = text.partition(":/")
    kind, slash, name = about.partition("/")
    try:
        path = from_pointer(f"/{pointer}")
    except ValueError as error:
        raise _refused(text, str(error)) from error
    if not kind or (slash and not name):
        raise _refused(text, "it names no kind, or no name after the slash")
    return Ignored(kind.lower(), name or "*", path)


def _refused(text: str, why: str) -> UsageError:
    return UsageError(
        f"--ignore {text!r} is no rule",
        reason=why,
        hint="Write KIND[/NAME]:/json/pointer, as in deployment:/spec/replicas or "
        """'deployment.apps/web-*:/spec/template/spec/containers[name="web"]/image'.""",
    )


def ignored_of(rules: Iterable[Ignored], ref: Ref) -> tuple[Path, ...]:
    """Return what is left out of the comparison of one object."""
    return tuple(rule.path for rule in rules if rule.is_about(ref))
