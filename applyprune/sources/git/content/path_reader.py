"""Read the files of many paths of a commit, with as many processes of git as one path needs."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from applyprune.errors import InputError
from applyprune.sources.git.content.commit_tree import MOST_ENTRIES
from applyprune.sources.git.content.store_fetch import closed
from applyprune.sources.git.content.tree_entries import Entry, check_content, check_entries
from applyprune.sources.remote.fetch_errors import PathNotFound, SourceTooLarge
from applyprune.sources.source import shown_path

if TYPE_CHECKING:
    from applyprune.sources.git.content.commit_tree import CommitTree
    from applyprune.sources.git.kustomize_files import Included
    from applyprune.sources.remote.file_tree import TreeLimits

_AT_ONCE = 16 * 2**20
"""Bytes of files that are read at once, if one path has no more."""

Read: TypeAlias = Mapping[str, bytes] | InputError
"""The files of a path by their paths from the root, or what is wrong with it."""


def read_paths(
    tree: CommitTree, paths: Sequence[str], limits: TreeLimits, where: str
) -> Iterator[tuple[str, Read]]:
    """Yield each clean path with its files; what is wrong with one is not wrong with the others.

    The errors are PathNotFound for a path without a file, SourceTooLarge, and FetchFailed for what
    is not a plain file.
    """
    existing = tree.find(paths)
    found = closed(tree, paths)
    whole = sorted({part for one in found.values() for part in one.paths})
    try:
        most = min(MOST_ENTRIES, limits.files * len(paths))
        listed = _Listed(tree.below(whole, most, sizes=True))
    except SourceTooLarge as error:
        if len(paths) == 1:
            yield paths[0], error
            return
        for path in paths:
            yield from read_paths(tree, [path], limits, where)
        return
    group: dict[str, Sequence[Entry]] = {}
    size = 0
    for path in paths:
        try:
            if path and path not in existing:
                raise _no_path(path, where)
            files = _checked(listed.below(found[path]), found[path], limits, where)
        except InputError as error:
            yield path, error
            continue
        more = sum(entry.size or 0 for entry in files)
        if group and size + more > _AT_ONCE:
            yield from _contents(tree, group, where)
            group, size = {}, 0
        group[path] = files
        size += more
    if group:
        yield from _contents(tree, group, where)


class _Listed:
    """Entries, sorted: those below a path are found without a look at the others."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = sorted(entries, key=lambda entry: entry.path)
        self._names = [entry.path for entry in self._entries]

    def below(self, what: Included) -> list[Entry]:
        """Return the entries that a path consists of."""
        if "" in what.paths:
            return self._entries
        found: list[Entry] = []
        for part in what.paths:
            at = bisect_left(self._names, part)
            found += self._entries[at : at + 1] if part in self._names[at : at + 1] else ()
            first = bisect_left(self._names, f"{part}/")
            found += self._entries[first : bisect_left(self._names, f"{part}0")]
        return found


def _checked(
    entries: Sequence[Entry], what: Included, limits: TreeLimits, where: str
) -> Sequence[Entry]:
    files = check_entries(entries, limits, where, is_build=what.is_build)
    if not files:
        raise PathNotFound("the commit has no files", location=where)
    return files


def _contents(
    tree: CommitTree, group: Mapping[str, Sequence[Entry]], where: str
) -> Iterator[tuple[str, Read]]:
    every = [entry for files in group.values() for entry in files]
    try:
        contents = tree.contents(every, sum(entry.size or 0 for entry in every))
    except InputError as error:
        if len(group) == 1:
            yield next(iter(group)), error
            return
        for path, files in group.items():
            yield from _contents(tree, {path: files}, where)
        return
    for path, files in group.items():
        found = {entry.path: contents[entry.oid] for entry in files}
        try:
            for name, data in found.items():
                check_content(name, data, where)
        except InputError as error:
            yield path, error
        else:
            yield path, found


def _no_path(path: str, where: str) -> PathNotFound:
    return PathNotFound(
        f"the repository has no path {shown_path(path)} in this commit",
        location=where,
        hint="Upper and lower case count. Check the path of the source.",
    )
