"""What was read: the manifests, and the texts that messages about them can point into."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, overload

from applyprune.model.manifests import Manifest, Origin
from applyprune.model.problems import Mark
from applyprune.sources.excerpts import document_around, excerpt, lines_of
from applyprune.sources.positions import locate

if TYPE_CHECKING:
    from applyprune.model.problems import Field, Problem

_LONGEST = 50_000
"""In how many lines of an object a field is looked for; the longest CRDs have half of that."""
_BEGIN = re.compile(r"(?:---)?[ \t]*(?:-[ \t]+)*")


@dataclass(frozen=True, slots=True)
class Input(Sequence[Manifest]):
    """The manifests in their order; ``texts`` are those of their sources, by the origins' path."""

    manifests: tuple[Manifest, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict, repr=False)
    empty: tuple[str, ...] = ()

    @overload
    def __getitem__(self, index: int) -> Manifest: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Manifest, ...]: ...
    def __getitem__(self, index: int | slice) -> Manifest | tuple[Manifest, ...]:
        """Return one manifest, or several."""
        return self.manifests[index]

    def __len__(self) -> int:
        """Return how many manifests there are."""
        return len(self.manifests)

    def pointed(self, problem: Problem) -> Problem:
        """Return a problem with the line and column of its field, and what stands there.

        One that is about no place in these texts comes back as it is.
        """
        if problem.origin is None or problem.excerpt:
            return problem
        marks = problem.marks or ((Mark(problem.field),) if problem.field else ())
        first, excerpts = point(self.texts, problem.origin, marks)
        where = str(first) if problem.where == str(problem.origin) else problem.where
        return replace(problem, origin=first, where=where, excerpt=excerpts)


def point(texts: Mapping[str, str], origin: Origin, marks: Sequence[Mark]) -> tuple[Origin, str]:
    """Return the place of the first mark of an object, and the lines of all of them.

    The place of a field that is missing is that of the nearest one around it; where there is none,
    it is that of the object.
    """
    found: dict[tuple[Origin, str], list[str]] = {}
    for mark in marks:
        home = mark.origin or origin
        if home.path in texts:
            path, place = _nearest(texts[home.path], home, mark.field)
            key = path[-1] if path and isinstance(path[-1], str) else ""
            found.setdefault((place, key), []).append(mark.note)
    if not found:
        return origin, ""
    # Of one object's fields those come first that stand first.
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
    """Return the longest part of a path that has a place in the text, and that place."""
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
