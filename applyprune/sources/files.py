"""Read the input that the command line names: files, folders, patterns, URLs, builds.

A folder is read recursively, sorted by name: every file that ends in .yaml, .yml or .json, also
hidden files (a skipped file would one day prune the objects in it). Links are followed. Each file
and folder is read once. A folder with a kustomization at its top is built instead. A kustomization
further down is an error, because its intent is unclear. What cannot be read never counts as empty.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeAlias

from applyprune.errors import InputError, UsageError
from applyprune.model.manifest import Origin
from applyprune.model.problem import Problem
from applyprune.sources.config_file import is_configuration, is_schema
from applyprune.sources.glob import expand, is_pattern
from applyprune.sources.https import check_url, download, is_url, shown_url
from applyprune.sources.kustomize import NAMES, Overlay, build, kustomization_in
from applyprune.sources.source import MAX_BYTES, Source, shown_path, too_much

SUFFIXES = (".yaml", ".yml", ".json")
"""The suffixes of manifests in a folder; a file that is named explicitly may have any suffix."""

STDIN = "-"
_STDIN_SHOWN = "<stdin>"


@dataclass(frozen=True, slots=True)
class _File:
    """A file to read."""

    path: Path
    named: bool
    """Whether the user named it; otherwise it was found in a folder or by a pattern."""


@dataclass(frozen=True, slots=True)
class _Url:
    url: str


_Place: TypeAlias = _File | _Url | Overlay | None


@dataclass(frozen=True, slots=True)
class Given:
    """One source that a path leads to."""

    path: str | Overlay
    """The path on the command line."""
    place: str
    """The identity of the source: two sources with the same place are the same."""
    source: Source | InputError | None
    """The content or the error; None for a repeated source, and for our own configuration file."""


def ignore(problem: Problem) -> None:
    """Discard a warning."""
    del problem


def read_sources(
    paths: Sequence[str | Overlay],
    stdin: BinaryIO | None = None,
    warn: Callable[[Problem], None] = ignore,
) -> Iterator[Given]:
    """Yield every source once, in the order of ``paths``; a source that cannot be read as an error.

    Raises UsageError for ``-`` twice or without a ``stdin``, for an empty path and for an
    unsupported URL. ``warn`` receives the warnings about sources that could be read.
    """
    _check(paths, stdin)
    seen: set[str] = set()
    left = MAX_BYTES
    for path in paths:
        for place in _places(path):
            if isinstance(place, InputError):
                yield Given(path, "", place)
                continue
            if (identity := _identity(place)) in seen:
                yield Given(path, identity, None)
                continue
            seen.add(identity)
            source = _read(place, stdin, left, warn)
            if isinstance(source, Source):
                left -= len(source.data)
            yield Given(path, identity, source)


def _check(paths: Sequence[str | Overlay], stdin: BinaryIO | None) -> None:
    if "" in paths or Overlay("") in paths:
        # Path("") is the current directory; an unset variable in a script does not mean that.
        raise UsageError("empty path", hint="Check for an unset variable in the script.")
    if paths.count(STDIN) > 1:
        raise UsageError("standard input can be read only once", hint="Use - only once.")
    if STDIN in paths and stdin is None:
        raise UsageError("standard input is not available")
    for path in paths:
        if isinstance(path, str) and is_url(path):
            check_url(path)


def shown_given(path: str | Overlay) -> str:
    """Return one of the paths, safe to print."""
    if isinstance(path, Overlay):
        return shown_path(path.folder)
    if path == STDIN:
        return _STDIN_SHOWN
    return shown_url(path) if is_url(path) else shown_path(path)


def _places(path: str | Overlay) -> Iterator[_Place | InputError]:
    if isinstance(path, Overlay):
        yield path
    elif path == STDIN:
        yield None
    elif is_url(path):
        yield _Url(path)
    elif is_pattern(path):
        yield from _expand(path)
    else:
        yield from _find(path)


def _identity(place: _Place) -> str:
    """Return the identity of a place: equal for two places that are the same."""
    match place:
        case _File(path=path):
            return os.path.realpath(path)
        case Overlay(folder=folder):
            return f"{os.path.realpath(folder)} built"
        case _Url(url=url):
            return url
    return STDIN


def _expand(pattern: str) -> Iterator[_Place | InputError]:
    try:
        found = expand(pattern)
    except OSError as error:
        yield _unreadable(str(error.filename or pattern), error)
        return
    if not found:
        yield InputError(
            "no file matches",
            location=Origin(shown_path(pattern)),
            hint="** matches any number of folders; to match a hidden name, begin with a dot.",
        )
    for path in found:
        yield from _find(path, named=False)


def _find(path: str, *, named: bool = True) -> Iterator[_Place | InputError]:
    top = Path(path)
    try:
        mode = top.stat().st_mode
        is_directory = stat.S_ISDIR(mode)
        if is_directory and kustomization_in(top) is not None:
            yield Overlay(path)
            return
    except (OSError, ValueError) as error:
        yield _unreadable(path, error)
        return
    if is_directory:
        yield from _walk(top)
    elif top.name in NAMES:
        folder = shown_path(str(top.parent))
        yield InputError(
            "a kustomization is not a manifest",
            location=Origin(shown_path(path)),
            hint=f"Build its folder: -k {folder}",
        )
    elif named or stat.S_ISREG(mode):
        yield _File(top, named)
    else:
        yield _irregular(top)


def _walk(top: Path) -> Iterator[_Place | InputError]:
    """Yield the manifests in a folder and below it, sorted by name within each folder."""
    entered: set[str] = set()
    waiting = [top]
    while waiting:
        path = waiting.pop()
        try:
            mode = path.stat().st_mode
            if stat.S_ISDIR(mode):
                if (real := os.path.realpath(path)) in entered:
                    continue
                entered.add(real)
                if (kustomization := kustomization_in(path)) is not None:
                    yield _nested(kustomization, top)
                    continue
                waiting += sorted(path.iterdir(), key=lambda entry: entry.name, reverse=True)
                continue
        except OSError as error:
            # A broken link may have led to a manifest, or to a folder of manifests.
            yield _unreadable(str(path), error)
            continue
        if not path.name.endswith(SUFFIXES):
            continue
        if stat.S_ISREG(mode):
            yield _File(path, named=False)
        else:
            yield _irregular(path)


def _irregular(path: Path) -> InputError:
    # Reading a pipe without a writer would never end.
    return InputError("not a regular file", location=Origin(shown_path(str(path))))


def _nested(kustomization: Path, top: Path) -> InputError:
    folder = shown_path(str(kustomization.parent))
    return InputError(
        f"found a kustomization in a subfolder of {shown_path(str(top))}",
        location=Origin(shown_path(str(kustomization))),
        reason="it may be meant to be built, or to be the base of another build",
        hint=f"Use -k {folder} to build it, or -f with paths that contain no kustomization.",
    )


def _read(
    place: _Place, stdin: BinaryIO | None, left: int, warn: Callable[[Problem], None]
) -> Source | InputError | None:
    """Return the content of a place; None for our own configuration file in a folder."""
    match place:
        case _Url(url=url):
            return download(url, left, warn)
        case Overlay():
            return build(place, left, warn)
    path = _STDIN_SHOWN if place is None else shown_path(str(place.path))
    try:
        if place is not None:
            with place.path.open("rb") as stream:
                data = stream.read(left + 1)
        else:
            data = stdin.read(left + 1) if stdin else b""
    except (OSError, ValueError) as error:
        return _unreadable(path, error)
    if len(data) > left:
        return too_much(path)
    if is_schema(data) and place is not None and not place.named:
        return None
    if is_configuration(data):
        if place is not None and not place.named:
            return None
        return InputError(
            "an applyprune configuration is not a manifest",
            location=Origin(path),
            hint=f"Pass it as configuration: --config {path}",
        )
    return Source(path, data)


def _unreadable(path: str, error: OSError | ValueError) -> InputError:
    reason = error.strerror if isinstance(error, OSError) else None
    return InputError("cannot be read", location=Origin(shown_path(path)), reason=reason or "")
