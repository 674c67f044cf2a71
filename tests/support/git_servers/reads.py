"""A path of a Git repository, read as a Bundle's is: by a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.errors import InputError
from applyprune.sources.git_server import find_ref
from applyprune.sources.git_store import GitStore
from applyprune.sources.tree import Deadline, FileTree, TreeLimits

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from applyprune.sources.address import GitSource


def fetch_git(source: GitSource, path: str, folder: Path) -> FileTree:
    """Return the files of a path, by their paths from the root; ``folder`` is that of a store."""
    deadline = Deadline(source.timeout)
    store, found = GitStore(folder), find_ref(source, deadline)
    store.fetch(source, found, deadline)
    return FileTree(read_path(store, found.commit, path, source.limits), found.revision)


def read_path(
    store: GitStore, commit: str, path: str, limits: TreeLimits | None = None
) -> Mapping[str, bytes]:
    """Return the files of a path in a commit that a store has."""
    with store.reading(commit) as tree:
        ((_, files),) = tree.read_all([path], limits or TreeLimits())
    if isinstance(files, InputError):
        raise files
    return files
