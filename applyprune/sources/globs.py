"""A pattern → the paths that a shell would put in its place.

As in a shell, a name that begins with a dot is matched only by a pattern that does; ``**`` stands
for any number of folders. Python's ``glob`` takes a folder that cannot be read for an empty one,
and what is in it would be pruned; here that is an error.
"""

from __future__ import annotations

import os
import re
import stat
from fnmatch import translate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MAGIC = re.compile(r"[*?[]")
_ANY_DEPTH = "**"


def is_pattern(path: str) -> bool:
    """Return whether a path has ``*``, ``?`` or ``[``, and nothing there has that very name."""
    return _MAGIC.search(path) is not None and not os.path.lexists(path)


def expand(pattern: str) -> list[str]:
    """Return the paths that match, sorted; raises OSError for a folder that cannot be read."""
    root, parts = _split(pattern)
    return sorted(dict.fromkeys(_matches(root, parts, frozenset())))


def _split(pattern: str) -> tuple[str, Sequence[str]]:
    root = "/" if pattern.startswith("/") else ""
    return root, [part for part in pattern.split("/") if part]


def _matches(folder: str, parts: Sequence[str], above: frozenset[str]) -> Iterator[str]:
    """Yield what matches ``parts`` in a folder; ``above`` are those that ``**`` has entered."""
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
        fits = re.compile(translate(part)).match
        for name in _names(folder):
            if fits(name) and (part.startswith(".") or not name.startswith(".")):
                yield from _matches(_join(folder, name), rest, above)


def _at_any_depth(folder: str, parts: Sequence[str], above: frozenset[str]) -> Iterator[str]:
    """Yield what matches ``parts``, which begins with ``**``; links are followed, but no circle."""
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
    """Return whether a folder has a path; raises OSError where that cannot be told."""
    try:
        os.lstat(path)
    except NotADirectoryError:
        return False
    except FileNotFoundError:
        # A link to a folder that is gone has nothing either: that is no answer.
        os.stat(folder or ".")  # noqa: PTH116
        return False
    return True


def _is_folder(path: str) -> bool:
    """Return whether a path is a folder; raises OSError where that cannot be told.

    A link that leads nowhere may have led to one.
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
