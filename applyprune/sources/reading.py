"""Read the manifests that paths hold: the only entry point of this package."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, BinaryIO

from applyprune.errors import InputError, raise_all
from applyprune.model.manifest import Manifest, Origin
from applyprune.model.problem import Mark
from applyprune.sources.excerpts import excerpt, lines_of
from applyprune.sources.expansion import expand
from applyprune.sources.files import ignore, read_sources, shown_given
from applyprune.sources.input import Input, point
from applyprune.sources.positions import item_lines
from applyprune.sources.refusal import YAMLFault
from applyprune.sources.stream import read_documents
from applyprune.sources.structure import StructureFault, read_manifest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from applyprune.model.problem import Problem
    from applyprune.sources.dialect import Document
    from applyprune.sources.kustomize import Overlay
    from applyprune.sources.source import Source


def read(
    paths: Sequence[str | Overlay],
    *,
    stdin: BinaryIO | None = None,
    warn: Callable[[Problem], None] = ignore,
) -> Input:
    """Return every manifest that ``paths`` hold, in order, and the texts; ``-`` is ``stdin``.

    A path may be a file, a folder, a pattern, an HTTPS URL, or an Overlay to build. ``warn``
    receives redirects, and what a build writes to standard error.

    An input without manifests is not an error here: the run decides what it means. Raises
    InputError, or InputErrors with all errors, for what cannot be read or is not a manifest, and
    UsageError for invalid paths. No message contains a value of a manifest.
    """
    manifests: list[Manifest] = []
    errors: list[InputError] = []
    texts: dict[str, str] = {}
    full: set[str] = set()
    filled: set[str | Overlay] = set()
    with _without_collector():
        for given in read_sources(paths, stdin, warn):
            source = given.source
            if isinstance(source, InputError):
                errors.append(source)
                continue
            if source is not None:
                text = texts[source.path] = text_of(source)
                for found in read_source(source, text):
                    full.add(given.place)
                    if isinstance(found, Manifest):
                        manifests.append(found)
                    else:
                        errors.append(found)
            if given.place in full:
                filled.add(given.path)
    raise_all(errors)
    empty = tuple(shown_given(path) for path in dict.fromkeys(paths) if path not in filled)
    return Input(tuple(manifests), texts, empty)


def text_of(source: Source) -> str:
    """Return the text of a source, decoded so that its lines can always be shown."""
    return source.data.decode("utf-8", "replace").removeprefix("\ufeff")


def read_source(source: Source, text: str) -> Iterator[Manifest | InputError]:
    """Yield the manifests and the errors of one source in order; ``text`` is its text."""
    for numbered in read_documents(source.data):
        if isinstance(numbered.content, YAMLFault):
            yield _error(numbered.content, source.path, numbered.number, text)
            continue
        for each in expand(numbered.content, partial(item_lines, text)):
            if isinstance(each, YAMLFault):
                where = Origin(source.path, numbered.number, each.line)
                yield _faulty(StructureFault(("items",), each.problem), where, text)
            else:
                yield from _read_object(each, Origin(source.path, numbered.number, each.line), text)


def _read_object(document: Document, origin: Origin, text: str) -> Iterator[Manifest | InputError]:
    result = read_manifest(document.value, origin)
    if isinstance(result, Manifest):
        yield result
        return
    errors = [_faulty(fault, origin, text) for fault in result]
    yield from sorted(errors, key=lambda error: error.origin.line if error.origin else 0)


def _faulty(fault: StructureFault, origin: Origin, text: str) -> InputError:
    place, shown = point({origin.path: text}, origin, [Mark(fault.path)])
    error = InputError(fault.what, where=place, hint=fault.hint, field=fault.path)
    error.excerpt = shown
    return error


def _error(refused: YAMLFault, path: str, document: int, text: str) -> InputError:
    line, column = refused.line, refused.column
    begin, _ = refused.since
    where = Origin(path, document, line, column)
    hint = refused.hint
    if 0 < line <= len(lines_of(text)) and "{{" in lines_of(text)[line - 1]:
        hint = _TEMPLATE
    reason = f"it begins on line {begin}" if begin else ""
    error = InputError(refused.problem, where=where, why=reason, hint=hint)
    width = len(str(line))
    shown = (
        excerpt(text, *refused.since, notes=["from here"], gutter=width),
        excerpt(text, line, column),
    )
    error.excerpt = "\n".join(filter(None, shown))
    return error


_TEMPLATE = "If this is a template, render it first, for example with `helm template`."


@contextmanager
def _without_collector() -> Iterator[None]:
    """Disable the cycle collector: checking a million new objects takes a fifth of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
