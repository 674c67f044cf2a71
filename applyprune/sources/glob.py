"""Expand a pattern into paths, as a shell does.

As in a shell, only a pattern that begins with a dot matches a name that begins with a dot, and
``**`` matches any number of folders. Python's ``glob`` treats a folder that cannot be read as
empty, so the objects in it would be pruned; here that is an error.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from fnmatch import translate

from applyprune.system.files import IGNORES_CASE, split_path
from applyprune.values import pattern

_MAGIC = pattern(r"[*?[]")
_FLAGS = re.IGNORECASE if IGNORES_CASE else re.NOFLAG
_ANY_DEPTH = "**"


def is_pattern(path: str) -> bool:
    """Return whether a path has ``*``, ``?`` or ``[``, and no file has exactly that name."""
    _, parts = split_path(path)
    return any(map(_MAGIC.search, parts)) and not os.path.lexists(path)


def expand(pattern: str) -> list[str]:
    """Return the paths that match, sorted; raises OSError for a folder that cannot be read."""
    root, parts = split_path(pattern)
    return sorted(dict.fromkeys(_matches(root, parts, frozenset())))


def _matches(folder: str, parts: Sequence[str], above: frozenset[str]) -> Iterator[str]:
    """Yield the paths in a folder that match ``parts``; ``above`` are the folders ``**`` is in."""
    if not parts:
        yield folder
        return
    part, rest = parts[0], parts[1:]
    if part == _ANY_DEPTH:
        yield from _at_any_depth(folder, parts, above)
    elif not _MAGIC.search(part):
        path = _join(folder, part)
        if _is_there(folder, path):
            yield from _matches(path, rest, above)
    else:
        fits = re.compile(translate(part), _FLAGS).match
        for name in _names(folder):
            if fits(name) and (part.startswith(".") or not name.startswith(".")):
                yield from _matches(_join(folder, name), rest, above)


def _at_any_depth(folder: str, parts: Sequence[str], above: frozenset[str]) -> Iterator[str]:
    """Yield the paths that match ``parts``, which begins with ``**``; follow links, not cycles."""
    rest = parts[1:]
    real = os.path.realpath(folder)
    if real in above:
        return
    if rest:
        yield from _matches(folder, rest, above)
    for name in _names(folder):
        path = _join(folder, name)
        if name.startswith("."):
            continue
        if _is_folder(path):
            yield from _at_any_depth(path, parts, above | {real})
        elif not rest:
            yield path


def _is_there(folder: str, path: str) -> bool:
    """Return whether a folder has a path; raises OSError if unknown."""
    try:
        os.lstat(path)
    except NotADirectoryError:
        return False
    except FileNotFoundError:
        # A broken link to a folder has no entries either: then the answer is unknown.
        os.stat(folder or ".")  # noqa: PTH116
        return False
    return True


def _is_folder(path: str) -> bool:
    """Return whether a path is a folder; raises OSError if unknown.

    A broken link may have led to a folder.
    """
    return stat.S_ISDIR(os.stat(path).st_mode)  # noqa: PTH116


def _join(folder: str, name: str) -> str:
    # Not a Path: the pattern's own ./ and ../ stay as the user wrote them.
    return os.path.join(folder, name)  # noqa: PTH118


def _names(folder: str) -> Sequence[str]:
    try:
        return os.listdir(folder or ".")  # noqa: PTH208
    except NotADirectoryError:
        return ()
