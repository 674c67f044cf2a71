"""A path of a Git repository, read as a Bundle's is: by a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.errors import InputError
from applyprune.sources.git_server import find_ref
from applyprune.sources.git_store import GitStore
from applyprune.sources.tree import Deadline, FileTree

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from applyprune.sources.address import GitSource
    from applyprune.sources.git_store import PathFiles


def fetch_git(source: GitSource, path: str, folder: Path) -> FileTree:
    """Return the files of a path, by their paths from the root; ``folder`` is that of a store."""
    deadline = Deadline(source.timeout)
    store, found = GitStore(folder), find_ref(source, deadline)
    store.fetch(source, found, [path], deadline)
    found_files = store.read_all(found.commit, [path], source.limits, deadline, source.parts.shown)
    return FileTree(_only(found_files), found.revision)


def read_path(store: GitStore, commit: str, path: str) -> Mapping[str, bytes]:
    """Return the files of a path in a commit that a store has."""
    return _only(store.read_all(commit, [path]))


def _only(found: Iterable[tuple[str, PathFiles]]) -> Mapping[str, bytes]:
    ((_, files),) = found
    if isinstance(files, InputError):
        raise files
    return files
