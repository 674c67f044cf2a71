"""The names in an archive: each leads to one file below the root, on every file system."""

from __future__ import annotations

from applyprune.sources.remote.fetch_errors import FetchFailed, SourceTooLarge
from applyprune.sources.remote.file_tree import clean_path
from applyprune.sources.source import shown_path

_LONGEST = 1024
"""Characters of a path; with the limit on files, it bounds the memory for names."""


class TarNames:
    """The names that were read, and what a further one must not be."""

    def __init__(self, limit: int) -> None:
        """Accept at most ``limit`` files, and as many folders."""
        self._limit = limit
        self._files: set[str] = set()
        self._folders: set[str] = set()
        self._spelled: dict[str, str] = {}

    def add_file(self, name: str) -> str:
        """Return the path of a file.

        Raises FetchFailed for a name that is not relative, leads out of the archive, or is there
        twice, also if only in another case, and SourceTooLarge for too many files.
        """
        path = _path(name)
        if not path or name.endswith("/"):
            raise FetchFailed(f"the archive has a file without a name: {shown_path(name)}")
        if path in self._files:
            raise FetchFailed(f"the archive has two files of one name: {shown_path(name)}")
        if path in self._folders:
            raise _file_and_folder(path)
        self._files.add(path)
        self._check_case(path)
        if len(self._files) > self._limit:
            raise SourceTooLarge(f"the archive has more than {self._limit} files")
        self._add_folders(path.rpartition("/")[0])
        return path

    def add_folder(self, name: str) -> None:
        """Check the name of a folder, which may be there twice; raises as ``add_file``."""
        self._add_folders(_path(name))

    def _add_folders(self, path: str) -> None:
        """Add a folder and those above it, of which the known ones have been checked."""
        while path and path not in self._folders:
            if path in self._files:
                raise _file_and_folder(path)
            self._folders.add(path)
            self._check_case(path)
            if len(self._folders) > self._limit:
                raise SourceTooLarge(f"the archive has more than {self._limit} folders")
            path = path.rpartition("/")[0]

    def _check_case(self, path: str) -> None:
        # guard: names-that-differ-in-case
        if (other := self._spelled.setdefault(path.casefold(), path)) != path:
            raise FetchFailed(
                "the archive has two names that differ only in case: "
                f"{shown_path(other)}, {shown_path(path)}",
                reason="some file systems take them for one file",
            )


def _path(name: str) -> str:
    """Return a name as a path below the root, which itself is empty; raises FetchFailed."""
    path = clean_path(name) if len(name) <= _LONGEST else None
    if path is None:
        raise FetchFailed(
            f"the archive has a name that is too long, or leads out of it: "
            f"{shown_path(name[:_LONGEST])}"
        )
    return path


def _file_and_folder(path: str) -> FetchFailed:
    return FetchFailed(f"the archive has a file and a folder of one name: {shown_path(path)}")
