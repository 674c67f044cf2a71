"""The paths of the command line → the bytes they name, as kubectl reads ``-f`` and ``-R``.

A directory is read with all below it, sorted by name: every file that ends in .yaml, .yml or
.json, hidden ones too (to pass one over would, one day, prune what is in it). Links are followed,
each file and folder is read once. Nothing that cannot be read counts as empty.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from applyprune.errors import InputError, UsageError
from applyprune.model.manifests import Origin
from applyprune.model.visible import visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SUFFIXES = (".yaml", ".yml", ".json")
"""What the name of a manifest in a directory ends in; a file that is named itself may end so."""

MAX_BYTES = 256 * 2**20
"""How much one call reads in all; 100,000 objects are about 30 MB."""

STDIN = "-"
_STDIN_SHOWN = "<stdin>"


@dataclass(frozen=True, slots=True)
class Source:
    """The bytes of one file; ``path`` is fit to be shown."""

    path: str
    data: bytes


def read_sources(
    paths: Sequence[str], stdin: BinaryIO | None = None
) -> Iterator[Source | InputError]:
    """Give every file once, in the order of ``paths``, and what could not be read as an error.

    Raises UsageError for ``-`` twice or without a ``stdin``, and for an empty path.
    """
    _check(paths, stdin)
    seen: set[str] = set()
    left = MAX_BYTES
    for path in paths:
        found: Iterator[Path | InputError | None] = iter([None]) if path == STDIN else _find(path)
        for file in found:
            if isinstance(file, InputError):
                yield file
                continue
            if file is not None and (real := os.path.realpath(file)) in seen:
                continue
            if file is not None:
                seen.add(real)
            source = _read(file, stdin, left)
            if isinstance(source, Source):
                left -= len(source.data)
            yield source


def _check(paths: Sequence[str], stdin: BinaryIO | None) -> None:
    if "" in paths:
        # Path("") is the current directory: not what an unset variable in a script means.
        raise UsageError("an empty path", hint="Is a variable of the script not set?")
    if paths.count(STDIN) > 1:
        raise UsageError("standard input can be read only once", hint="Give - only once.")
    if STDIN in paths and stdin is None:
        raise UsageError("there is no standard input here")


def _find(path: str) -> Iterator[Path | InputError]:
    top = Path(path)
    try:
        is_directory = stat.S_ISDIR(top.stat().st_mode)
    except (OSError, ValueError) as error:
        yield _unreadable(path, error)
        return
    if is_directory:
        yield from _walk(top)
    else:
        yield top


def _walk(top: Path) -> Iterator[Path | InputError]:
    """Give the manifests in a directory and below it, each folder's in the order of names."""
    entered: set[str] = set()
    waiting = [top]
    while waiting:
        path = waiting.pop()
        try:
            mode = path.stat().st_mode
            if stat.S_ISDIR(mode):
                if (real := os.path.realpath(path)) not in entered:
                    entered.add(real)
                    waiting += sorted(path.iterdir(), key=lambda entry: entry.name, reverse=True)
                continue
        except OSError as error:
            # A link that leads nowhere may have led to a manifest, or to a folder of them.
            if "." not in path.name or path.name.endswith(SUFFIXES):
                yield _unreadable(str(path), error)
            continue
        if not path.name.endswith(SUFFIXES):
            continue
        if stat.S_ISREG(mode):
            yield path
        else:
            yield InputError("not a regular file", where=Origin(shown_path(str(path))))


def _read(file: Path | None, stdin: BinaryIO | None, left: int) -> Source | InputError:
    path = _STDIN_SHOWN if file is None else shown_path(str(file))
    try:
        if file is not None:
            with file.open("rb") as stream:
                data = stream.read(left + 1)
        else:
            data = stdin.read(left + 1) if stdin else b""
    except (OSError, ValueError) as error:
        return _unreadable(path, error)
    if len(data) > left:
        what = f"more than {MAX_BYTES // 2**20} MiB of manifests in all"
        return InputError(what, where=Origin(path), hint="Apply them as several sets.")
    return Source(path, data)


def _unreadable(path: str, error: OSError | ValueError) -> InputError:
    why = error.strerror if isinstance(error, OSError) else None
    return InputError("cannot be read", where=Origin(shown_path(path)), why=why or "")


def shown_path(path: str) -> str:
    """Return a path that can be written anywhere: control characters and odd bytes as escapes."""
    return visible(os.fsencode(path).decode("utf-8", "backslashreplace"))
