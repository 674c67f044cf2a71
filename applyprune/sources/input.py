"""The input of a run: the manifests, and the texts that messages can quote."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, overload

from applyprune.model.manifest import Manifest, Origin
from applyprune.model.problem import Mark
from applyprune.sources.excerpts import document_around, excerpt, lines_of
from applyprune.sources.positions import locate

if TYPE_CHECKING:
    from applyprune.model.problem import Field, Problem

_LONGEST = 50_000
"""How many lines of an object are searched for a field; the longest CRDs have half as many."""
_BEGIN = re.compile(r"(?:---)?[ \t]*(?:-[ \t]+)*")


@dataclass(frozen=True, slots=True)
class Input(Sequence[Manifest]):
    """The manifests of a run, in order, with the texts of their sources."""

    manifests: tuple[Manifest, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The text of each source, by the path of its origins."""
    empty: tuple[str, ...] = ()
    """The paths that hold no manifest, safe to print."""

    @overload
    def __getitem__(self, index: int) -> Manifest: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Manifest, ...]: ...
    def __getitem__(self, index: int | slice) -> Manifest | tuple[Manifest, ...]:
        """Return the manifest at an index, or those of a slice."""
        return self.manifests[index]

    def __len__(self) -> int:
        """Return the number of manifests."""
        return len(self.manifests)

    def pointed(self, problem: Problem) -> Problem:
        """Return the problem with the line and column of its field, and an excerpt of the text.

        Return it unchanged when it has no place in these texts.
        """
        if problem.origin is None or problem.excerpt:
            return problem
        marks = problem.marks or ((Mark(problem.field),) if problem.field else ())
        first, excerpts = point(self.texts, problem.origin, marks)
        where = str(first) if problem.where == str(problem.origin) else problem.where
        return replace(problem, origin=first, where=where, excerpt=excerpts)


def point(texts: Mapping[str, str], origin: Origin, marks: Sequence[Mark]) -> tuple[Origin, str]:
    """Return the place of the first mark of an object, and the lines of all marks.

    A missing field has the place of the nearest field around it, or else the object's place.
    """
    found: dict[tuple[Origin, str], list[str]] = {}
    for mark in marks:
        start = mark.origin or origin
        if start.path in texts:
            path, place = _nearest(texts[start.path], start, mark.field)
            key = path[-1] if path and isinstance(path[-1], str) else ""
            found.setdefault((place, key), []).append(mark.note)
    if not found:
        return origin, ""
    # The fields of one object are in the order of the text.
    places = list(found) if any(mark.origin for mark in marks) else sorted(found)
    first = places[0][0]
    width = max(len(str(place.line)) for place, _ in places)
    parts = []
    for place, key in places:
        text, notes = texts[place.path], found[place, key]
        shown = excerpt(text, place.line, place.column, key=key, notes=notes, gutter=width)
        if shown and place.path != first.path:
            parts.append(f"--> {place}")
        parts += [shown] if shown else []
    return first, "\n".join(parts)


def _nearest(text: str, origin: Origin, path: Field) -> tuple[Field, Origin]:
    """Return the longest prefix of a path that is in the text, and its place."""
    if not 0 < origin.line <= len(lines_of(text)):
        return (), origin
    _, end = document_around(text, origin.line)
    above = origin.line - 1
    own = "\n".join(lines_of(text)[above : min(end, above + _LONGEST)])
    while path:
        if (found := locate(own, 1, path)) is not None:
            return path, replace(origin, line=above + found[0], column=found[1])
        path = path[:-1]
    begin = _BEGIN.match(own)
    return (), replace(origin, column=begin.end() + 1 if begin else 1)
