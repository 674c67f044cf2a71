"""Find out whether a manifest is applied in each run, by its own annotation or another tool's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from applyprune.errors import InputError
from applyprune.model.identity import Ref
from applyprune.model.live import mapping
from applyprune.model.plan import ApplyRule
from applyprune.model.problem import Problem, ProblemKind
from applyprune.model.text import and_more
from applyprune.planning.marks.peer_marks import (
    PARTS,
    PEER_MARKS,
    FoundMark,
    Handling,
    Meaning,
    found_marks,
    known_values,
    plain,
    unknown_values,
)

if TYPE_CHECKING:
    from applyprune.model.problem import Manifest, Origin

APPLY = "applyprune.dev/apply"
_RULES = {
    Meaning.LEAVE_OUT: ApplyRule.DISABLED,
    Meaning.EXISTS: ApplyRule.EXISTS,
    Meaning.CREATE_ONLY: ApplyRule.ONCE,
}
"""The rule of each meaning; the one that does least comes first."""
_NAMED = tuple(meaning for meaning in Meaning if meaning.handling is Handling.NAMED)
_LEAVE = frozenset({APPLY}).union(
    mark.key for mark in PEER_MARKS if mark.meaning is Meaning.LEAVE_OUT
)
_SHOWN = 3


def apply_rule(metadata: Mapping[str, object]) -> tuple[ApplyRule, str]:
    """Return whether a manifest is applied in each run, and the annotation that says otherwise.

    Our own annotation decides. Of several marks of other tools, the one that does least decides.
    """
    value = str(mapping(metadata.get("annotations")).get(APPLY, ""))
    if value in {ApplyRule.DISABLED, ApplyRule.EXISTS, ApplyRule.ONCE}:
        return ApplyRule(value), f"{APPLY}: {value}"
    found = {one.mark.meaning: one for one in found_marks(metadata, *_RULES)}
    for meaning, rule in _RULES.items() if found else ():
        if meaning in found:
            return rule, found[meaning].text
    return ApplyRule.ALWAYS, ""


def is_disabled(manifest: Manifest) -> bool:
    """Return whether a manifest is left out."""
    return apply_rule(mapping(manifest.body.get("metadata")))[0] is ApplyRule.DISABLED


def is_created_once(live: Mapping[str, object], ours: Mapping[str, object]) -> bool:
    """Return whether a live object was created by a manifest that asks to leave it alone then.

    ``ours`` is the fieldsV1 of our own Apply entry: only what the manifest has written counts.
    """
    own = {
        part: {
            key: value for key, value in mapping(live.get(part)).items() if key in _own(ours, part)
        }
        for part in PARTS
    }
    return apply_rule(own)[0] is ApplyRule.ONCE


def _own(ours: Mapping[str, object], part: str) -> frozenset[str]:
    """Return the keys of the annotations or labels that our Apply entry has."""
    fields = mapping(mapping(ours.get("f:metadata")).get(f"f:{part}"))
    return frozenset(name.removeprefix("f:") for name in fields)


def left_alone(live: Mapping[str, object], ours: Mapping[str, object]) -> str:
    """Return which annotation of a live object says to leave it alone; empty if none does.

    A value that is not understood says so too. ``ours`` is the fieldsV1 of our own Apply entry:
    what our last apply wrote counts for nothing, because the manifest decides about that.
    """
    for part in PARTS:
        if _LEAVE.isdisjoint(mapping(live.get(part))):
            continue
        own = _own(ours, part)
        there = {key: value for key, value in mapping(live.get(part)).items() if key not in own}
        if part == "annotations" and APPLY in there:
            value = plain(str(there[APPLY]))
            if value not in {ApplyRule.ONCE, ApplyRule.EXISTS}:
                return f"{APPLY}: {value}" if value == ApplyRule.DISABLED else APPLY
        for found in found_marks({part: there}, Meaning.LEAVE_OUT):
            return found.text
        for _, key, _ in unknown_values({part: there}, Meaning.LEAVE_OUT):
            return key
    return ""


def peer_errors(metadata: Mapping[str, object], origin: Origin) -> Iterator[InputError]:
    """Yield an error for each mark of another tool about the apply with an unknown value."""
    for part, key, value in unknown_values(metadata, *_RULES):
        name = "label" if part == "labels" else "annotation"
        words = " or ".join(f'"{known}"' for known in known_values(key))
        yield InputError(
            f"invalid {key}: {value!r}",
            location=origin,
            reason="it may say that the manifest is not applied",
            hint=f"Use {words}, or remove the {name}.",
            field=("metadata", part, key),
        )


def unread_marks(manifests: Iterable[Manifest]) -> Iterator[Problem]:
    """Yield a warning for each mark of another tool that is not read, with all its manifests.

    One that is left out needs none.
    """
    found: dict[str, list[tuple[Manifest, FoundMark]]] = {}
    for manifest in manifests:
        if not any(map(manifest.packed.mentions, PARTS)):
            continue
        marks = list(found_marks(mapping(manifest.body.get("metadata")), *_NAMED))
        if not marks or is_disabled(manifest):
            continue
        for one in marks:
            found.setdefault(one.text, []).append((manifest, one))
    for text, marked in found.items():
        manifest, first = marked[0]
        named = and_more([f"{_name(each)} in {each.origin}" for each, _ in marked], _SHOWN)
        yield Problem(
            kind=ProblemKind.IGNORED_ANNOTATION,
            message=f"the annotation {text} of {first.mark.tool} is not read",
            location=str(manifest.origin),
            origin=manifest.origin,
            field=("metadata", first.part, first.mark.key),
            reason=named,
            hint=f"Use {first.mark.instead} instead.",
        )


def _name(manifest: Manifest) -> str:
    return Ref(manifest.gvk.group, manifest.gvk.kind, "", manifest.name).short
