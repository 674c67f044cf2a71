"""Read a path of a repository once, for a command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.sources.git.git_store import GitStore
from applyprune.sources.git.program.deadline import Deadline
from applyprune.sources.git.ref_lookup import find_ref
from applyprune.sources.git.signatures import Verification, verify
from applyprune.sources.remote.file_tree import FileTree

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.sources.git.git_source import GitSource


def fetch_git(
    source: GitSource, path: str, folder: Path, *, verification: Verification | None = None
) -> FileTree:
    """Return the files of a path, by their paths from the root, with ``main@sha1:…``.

    With a kustomization in it, they are all files that it names. ``folder`` is that of a store; it
    may be new. Raises the errors of a source, within its timeout.
    """
    deadline = Deadline(source.timeout)
    store = GitStore(folder)
    found = find_ref(source, deadline)
    store.fetch(source, found, [path], deadline)
    where = source.parts.shown
    if verification is not None:
        verify(store, found, verification, where, deadline)
    files = store.read(found.commit, path, source.limits, deadline, where)
    return FileTree(files, found.revision)
