"""Paths → manifests: the one entry point of this package."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, BinaryIO

from applyprune.errors import InputError, InputErrors
from applyprune.model.manifests import Manifest, Origin
from applyprune.sources.expansion import expand
from applyprune.sources.files import ignore, read_sources
from applyprune.sources.positions import item_lines, locate
from applyprune.sources.refusal import Refused
from applyprune.sources.stream import read_documents
from applyprune.sources.structure import read_manifest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from applyprune.model.problems import Problem
    from applyprune.sources.dialect import Document
    from applyprune.sources.kustomize import Overlay
    from applyprune.sources.source import Source


def read(
    paths: Sequence[str | Overlay],
    *,
    stdin: BinaryIO | None = None,
    warn: Callable[[Problem], None] = ignore,
) -> tuple[Manifest, ...]:
    """Return every manifest that ``paths`` hold, in their order; ``-`` is ``stdin``.

    A path may be a file, a folder, a pattern, an HTTPS URL, or an Overlay to be built. ``warn`` is
    told of redirects, and of what a build says.

    None at all is no error here: what that means is for the run to decide. Raises InputError, or
    InputErrors with all of them, for whatever cannot be read or is no manifest, and UsageError for
    paths that make no sense. No message holds a value of a manifest.
    """
    manifests: list[Manifest] = []
    errors: list[InputError] = []
    with _without_collector():
        for source in read_sources(paths, stdin, warn):
            if isinstance(source, InputError):
                errors.append(source)
                continue
            for found in read_source(source):
                if isinstance(found, Manifest):
                    manifests.append(found)
                else:
                    errors.append(found)
    if errors:
        raise errors[0] if len(errors) == 1 else InputErrors(errors)
    return tuple(manifests)


def read_source(source: Source) -> Iterator[Manifest | InputError]:
    """Give the manifests and the errors of one file in their order."""
    text = source.data.decode("utf-8", "replace").removeprefix("\ufeff")
    for numbered in read_documents(source.data):
        if isinstance(numbered.content, Refused):
            yield _error(numbered.content, source.path, numbered.number)
            continue
        for each in expand(numbered.content, partial(item_lines, text)):
            if isinstance(each, Refused):
                yield _error(each, source.path, numbered.number)
            else:
                yield from _read_object(each, Origin(source.path, numbered.number, each.line), text)


def _read_object(document: Document, origin: Origin, text: str) -> Iterator[Manifest | InputError]:
    result = read_manifest(document.value, origin)
    if isinstance(result, Manifest):
        yield result
        return
    errors = []
    for fault in result:
        path = fault.path
        # A field that is missing has no place: the nearest one around it has.
        while path and (place := locate(text, origin.line, path)) is None:
            path = path[:-1]
        line = place[0] if path and place else origin.line
        where = Origin(origin.path, origin.document, line)
        errors.append((line, InputError(fault.what, where=where, hint=fault.hint)))
    for _, error in sorted(errors, key=itemgetter(0)):
        yield error


def _error(refused: Refused, path: str, document: int) -> InputError:
    why = f"it begins in line {refused.since}" if refused.since else ""
    where = Origin(path, document, refused.line)
    return InputError(refused.problem, where=where, why=why, hint=refused.hint)


@contextmanager
def _without_collector() -> Iterator[None]:
    """Keep the cycle collector from looking at a million new objects: a fifth of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
