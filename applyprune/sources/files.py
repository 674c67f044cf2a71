"""What the command line names as input → its bytes: files, folders, patterns, URLs, builds.

A folder is read with all below it, sorted by name: every file that ends in .yaml, .yml or .json,
hidden ones too (to pass one over would, one day, prune what is in it). Links are followed, each
file and folder is read once. One with a kustomization at its top is built instead; a kustomization
further down is an error, for whether it is to be built cannot be told. Nothing that cannot be read
counts as empty.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeAlias

from applyprune.errors import InputError, UsageError
from applyprune.model.manifests import Origin
from applyprune.sources.configuration import is_configuration
from applyprune.sources.download import check_url, download, is_url, shown_url
from applyprune.sources.globs import expand, is_pattern
from applyprune.sources.kustomize import NAMES, Overlay, build, kustomization_in
from applyprune.sources.source import MAX_BYTES, Source, shown_path, too_much

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from applyprune.model.problems import Problem

SUFFIXES = (".yaml", ".yml", ".json")
"""What the name of a manifest in a directory ends in; a file that is named itself may end so."""

STDIN = "-"
_STDIN_SHOWN = "<stdin>"


@dataclass(frozen=True, slots=True)
class _File:
    """A file to be read; ``named`` by the user, or else found in a folder or by a pattern."""

    path: Path
    named: bool


@dataclass(frozen=True, slots=True)
class _Url:
    url: str


_Place: TypeAlias = _File | _Url | Overlay | None


@dataclass(frozen=True, slots=True)
class Given:
    """What one of the paths leads to; ``place`` tells whether two of them are one.

    ``source`` is None for a place that was given before, and for our own configuration among
    others.
    """

    path: str | Overlay
    place: str
    source: Source | InputError | None


def ignore(problem: Problem) -> None:
    """Take a warning that nobody wants."""
    del problem


def read_sources(
    paths: Sequence[str | Overlay],
    stdin: BinaryIO | None = None,
    warn: Callable[[Problem], None] = ignore,
) -> Iterator[Given]:
    """Give every source once, in the order of ``paths``, and what could not be read as an error.

    Raises UsageError for ``-`` twice or without a ``stdin``, an empty path and a URL that is not
    read from. ``warn`` is told what should be known of what could be read.
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
        # Path("") is the current directory: not what an unset variable in a script means.
        raise UsageError("an empty path", hint="Is a variable of the script not set?")
    if paths.count(STDIN) > 1:
        raise UsageError("standard input can be read only once", hint="Give - only once.")
    if STDIN in paths and stdin is None:
        raise UsageError("there is no standard input here")
    for path in paths:
        if isinstance(path, str) and is_url(path):
            check_url(path)


def shown_given(path: str | Overlay) -> str:
    """Return one of the paths, fit to be shown."""
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
    """Return what tells whether two places are one."""
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
            where=Origin(shown_path(pattern)),
            hint="** stands for any number of folders; names with a dot in front need one there.",
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
            "a kustomization is no manifest",
            where=Origin(shown_path(path)),
            hint=f"Build its folder: -k {folder}",
        )
    elif named or stat.S_ISREG(mode):
        yield _File(top, named)
    else:
        yield _irregular(top)


def _walk(top: Path) -> Iterator[_Place | InputError]:
    """Give the manifests in a directory and below it, each folder's in the order of names."""
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
            # A link that leads nowhere may have led to a manifest, or to a folder of them.
            yield _unreadable(str(path), error)
            continue
        if not path.name.endswith(SUFFIXES):
            continue
        if stat.S_ISREG(mode):
            yield _File(path, named=False)
        else:
            yield _irregular(path)


def _irregular(path: Path) -> InputError:
    # To read a pipe that nobody writes to would never end.
    return InputError("not a regular file", where=Origin(shown_path(str(path))))


def _nested(kustomization: Path, top: Path) -> InputError:
    folder = shown_path(str(kustomization.parent))
    return InputError(
        f"a kustomization below {shown_path(str(top))}, which has none",
        where=Origin(shown_path(str(kustomization))),
        why="whether it is to be built, or others are built from it, cannot be told",
        hint=f"Name what is meant: -k {folder} to build it, -f for folders and files without one.",
    )


def _read(
    place: _Place, stdin: BinaryIO | None, left: int, warn: Callable[[Problem], None]
) -> Source | InputError | None:
    """Return what a place holds; None for our own configuration among others."""
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
    if is_configuration(data):
        if place is not None and not place.named:
            return None
        return InputError(
            "the configuration of a set is no manifest",
            where=Origin(path),
            hint=f"Use it as that: --config {path}",
        )
    return Source(path, data)


def _unreadable(path: str, error: OSError | ValueError) -> InputError:
    why = error.strerror if isinstance(error, OSError) else None
    return InputError("cannot be read", where=Origin(shown_path(path)), why=why or "")
