"""A bare repository without a work tree: the commits of one source, and the files in them.

It holds the latest content of one URL as one identity may read it: tenants share no store.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from applyprune.errors import InputError, UsageError
from applyprune.sources.git.content.commit_tree import CommitTree
from applyprune.sources.git.content.path_reader import Read, read_paths
from applyprune.sources.git.content.store_fetch import (
    NO_FILTER,
    closed,
    compact,
    fetch_commit,
    fetch_files,
    has,
    is_whole,
    note_use,
)
from applyprune.sources.git.content.store_folder import (
    REPOSITORY,
    is_complete,
    locked,
    mark_complete,
)
from applyprune.sources.git.content.tree_entries import Entry
from applyprune.sources.git.kustomize_files import ROOT, Included
from applyprune.sources.git.program.deadline import Deadline
from applyprune.sources.git.program.git_program import GitProgram
from applyprune.sources.git.server.git_server import GitServer
from applyprune.sources.remote.fetch_errors import FetchFailed
from applyprune.sources.remote.file_tree import TreeLimits, clean_path
from applyprune.sources.source import shown_path

if TYPE_CHECKING:
    from applyprune.sources.git.git_ref import FoundRef
    from applyprune.sources.git.git_source import GitSource

_LOCAL_SECONDS = 60.0
"""For what needs no server."""
_LOCAL = "the store of the source"


class GitStore:
    """A store in a folder of its own; processes and threads may share it."""

    def __init__(self, folder: Path) -> None:
        """Create nothing yet."""
        self._folder = folder

    def fetch(
        self,
        source: GitSource,
        found: FoundRef,
        paths: Sequence[str] = (ROOT,),
        deadline: Deadline | None = None,
    ) -> None:
        """Fetch what a commit has at some paths, and what their kustomizations name.

        What the store has already is not fetched again. Raises the errors of a source; then the
        store is as before, but for whole packs. For a path that does not exist nothing is fetched.
        """
        paths = _clean(paths)
        where = source.parts.shown
        deadline = deadline or Deadline(source.timeout)
        with self._open(where, deadline, source.limits, writes=True) as (program, repository):
            self._create(program, repository)
            server = GitServer(program, source)
            if not has(repository, found.oid):
                is_partial = ROOT not in paths and not (repository / NO_FILTER).exists()
                fetch_commit(server, repository, found, is_partial=is_partial)
            if not is_whole(repository, found.oid):
                tree = CommitTree(program, repository, found.commit)
                fetch_files(server, tree, repository, paths, source.limits)
            note_use(repository, found.oid)
            compact(program, repository)

    def has(self, oid: str) -> bool:
        """Return whether a commit was fetched; the files of some paths may be missing."""
        return has(self._folder / REPOSITORY, oid)

    def ids(
        self, commit: str, paths: Sequence[str], deadline: Deadline | None = None
    ) -> Mapping[str, tuple[str, str] | None]:
        """Return type and ID of what is at each path of a commit; None where nothing is."""
        cleaned = dict(zip(paths, _clean(paths), strict=True))
        with self._reading(commit, deadline) as tree:
            entries = tree.find(cleaned.values())
            root = ("tree", tree.root()) if ROOT in cleaned.values() else None
        return {path: _id(entries.get(clean)) if clean else root for path, clean in cleaned.items()}

    def included(self, commit: str, path: str, deadline: Deadline | None = None) -> tuple[str, ...]:
        """Return the paths that a path consists of: with a kustomization, all that it names.

        It is the root alone if that cannot be determined.
        """
        return self.all_included(commit, [path], deadline)[path].paths

    def all_included(
        self, commit: str, paths: Sequence[str], deadline: Deadline | None = None
    ) -> Mapping[str, Included]:
        """Return what each of some paths consists of, and what on other hosts it names."""
        cleaned = dict(zip(paths, _clean(paths), strict=True))
        with self._reading(commit, deadline) as tree:
            found = closed(tree, tuple(cleaned.values()))
        return {path: found[clean] for path, clean in cleaned.items()}

    def read(
        self,
        commit: str,
        path: str,
        limits: TreeLimits | None = None,
        deadline: Deadline | None = None,
        where: str = _LOCAL,
    ) -> Mapping[str, bytes]:
        """Return the files that a path consists of, by their paths from the root.

        Raises PathNotFound for a path without a file, SourceTooLarge, and FetchFailed for anything
        but a plain file.
        """
        ((_, found),) = self.read_all(commit, [path], limits, deadline, where)
        if isinstance(found, InputError):
            raise found
        return found

    def read_all(
        self,
        commit: str,
        paths: Sequence[str],
        limits: TreeLimits | None = None,
        deadline: Deadline | None = None,
        where: str = _LOCAL,
    ) -> Iterator[tuple[str, Read]]:
        """Yield each path with its files, as ``read`` returns them, or with what it raises."""
        if not paths:
            return
        given: dict[str, list[str]] = {}
        for path, clean in zip(paths, _clean(paths), strict=True):
            given.setdefault(clean, []).append(path)
        with self._reading(commit, deadline, where) as tree:
            for clean, found in read_paths(tree, list(given), limits or TreeLimits(), where):
                for path in given[clean]:
                    yield path, found

    @contextmanager
    def opened(
        self, where: str = _LOCAL, deadline: Deadline | None = None
    ) -> Iterator[tuple[GitProgram, Path]]:
        """Yield what reads the store: a program and the repository; raises FetchFailed."""
        deadline = deadline or Deadline(_LOCAL_SECONDS)
        with self._open(where, deadline, TreeLimits(), writes=False) as opened:
            if not is_complete(opened[1]):
                raise FetchFailed("nothing was fetched yet", location=where)
            yield opened

    @contextmanager
    def _reading(
        self, commit: str, deadline: Deadline | None, where: str = _LOCAL
    ) -> Iterator[CommitTree]:
        with self.opened(where, deadline) as (program, repository):
            yield CommitTree(program, repository, commit)

    @contextmanager
    def _open(
        self, where: str, deadline: Deadline, limits: TreeLimits, *, writes: bool
    ) -> Iterator[tuple[GitProgram, Path]]:
        with (
            locked(self._folder, where, deadline, writes=writes) as repository,
            GitProgram(where, deadline, limits.size) as program,
        ):
            yield program, repository

    def _create(self, program: GitProgram, repository: Path) -> None:
        if repository.exists():
            return
        program.run("init", "--quiet", "--bare", "--template=", str(repository))
        mark_complete(repository)


def _clean(paths: Sequence[str]) -> tuple[str, ...]:
    """Return paths as a FileTree has them; raise UsageError for one that is not inside the tree."""
    cleaned = []
    for path in paths:
        clean = clean_path(path)
        if clean is None or not path.isprintable():
            raise UsageError(
                f"invalid path of the source: {shown_path(path[:100])}",
                hint="A path is relative to the root of the repository, without . and ..",
            )
        cleaned.append(clean)
    return tuple(cleaned)


def _id(entry: Entry | None) -> tuple[str, str] | None:
    return None if entry is None else (entry.kind, entry.oid)
