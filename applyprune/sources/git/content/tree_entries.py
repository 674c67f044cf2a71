"""The entries of a commit's tree, and which of them may be read: plain files, under names as such.

There is no work tree, so nothing is followed, filtered or fetched: what would need it is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from applyprune.sources.folder_rules import SUFFIXES
from applyprune.sources.remote.fetch_errors import FetchFailed, SourceTooLarge
from applyprune.sources.remote.file_tree import TreeLimits, clean_path
from applyprune.sources.source import shown_path
from applyprune.values import dataclass

_LINK, _SUBMODULE = "120000", "160000"
_POINTER = b"version https://git-lfs.github.com/spec/"
_LONGEST_POINTER = 1024


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of ``git ls-tree``."""

    mode: str
    kind: str
    """``blob``, ``tree``, or ``commit`` for a submodule."""
    oid: str
    path: str
    """From the root; invalid bytes are surrogates."""
    size: int | None = None
    """Bytes; None if it was not asked for, or if the blob was not fetched."""

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file."""
        return self.kind == "blob" and self.mode != _LINK


def parse_entries(out: bytes) -> list[Entry]:
    """Return the entries in the output of ``git ls-tree -z``, with or without ``-l``."""
    entries = []
    for line in out.split(b"\0")[:-1]:
        facts, _, path = line.partition(b"\t")
        mode, kind, oid, *size = facts.decode("ascii").split()
        number = int(size[0]) if size and size[0].isdecimal() else None
        entries.append(Entry(mode, kind, oid, path.decode("utf-8", "surrogateescape"), number))
    return entries


def check_entries(
    entries: Iterable[Entry], limits: TreeLimits, where: str, *, is_build: bool
) -> Sequence[Entry]:
    """Return the files among entries; raise FetchFailed or SourceTooLarge if one may not be read.

    In a build every file counts, whatever its name.
    """
    files, size = [], 0
    seen: dict[str, str] = {}
    for entry in entries:
        if entry.kind == "tree":
            continue
        _check_entry(entry, where)
        files.append(entry)
        size += entry.size or 0
        if len(files) > limits.files:
            raise SourceTooLarge(
                f"the path has more than {limits.files} files",
                location=where,
                hint="Name a folder that has only what the set needs.",
            )
        if size > limits.size:
            raise SourceTooLarge(
                f"the files of the path are larger than {limits.size // 2**20} MiB",
                location=where,
                reason=f"with {shown_path(entry.path)}",
                hint="Name a folder that has only what the set needs.",
            )
        if is_build or entry.path.endswith(SUFFIXES):
            other = seen.setdefault(entry.path.casefold(), entry.path)
            if other != entry.path:
                raise FetchFailed(
                    f"two files differ only in case: {shown_path(other)} and "
                    f"{shown_path(entry.path)}",
                    location=where,
                    reason="on some machines they would be one file, and one of them would be lost",
                    hint="Rename one of them.",
                )
    return files


def _check_entry(entry: Entry, where: str) -> None:
    path = shown_path(entry.path)
    if entry.mode == _SUBMODULE or entry.kind == "commit":
        raise FetchFailed(
            f"{path} is a submodule, and submodules are not fetched",
            location=where,
            hint="Make it a source of its own, or copy its files into the repository.",
        )
    if entry.mode == _LINK:
        raise FetchFailed(
            f"{path} is a symbolic link, and links are not followed",
            location=where,
            hint="Replace it by the file or folder that it leads to.",
        )
    try:
        entry.path.encode("utf-8")
    except UnicodeEncodeError:
        raise FetchFailed(
            f"the name of {path} is not UTF-8", location=where, hint="Rename the file."
        ) from None
    if clean_path(entry.path) != entry.path:
        raise FetchFailed(f"the name of {path} leads out of the tree", location=where)


def check_content(path: str, data: bytes, where: str) -> None:
    """Raise FetchFailed for a pointer of Git LFS: the content is on another server."""
    if len(data) <= _LONGEST_POINTER and data.startswith(_POINTER):
        raise FetchFailed(
            f"{shown_path(path)} is a pointer of Git LFS, and LFS is not supported",
            location=where,
            hint="Keep the manifests themselves in the repository: git lfs migrate export",
        )
