"""What a commit in a store consists of, without a request to any server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from applyprune.sources.git.content.tree_entries import Entry, parse_entries
from applyprune.sources.remote.fetch_errors import FetchFailed

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.sources.git.program.git_program import GitProgram

MOST_ENTRIES = 500_000
"""How many files and folders a commit may have in which a kustomization is looked up."""
_AT_ONCE = 1000
_LINE = 256
_LONGEST_PATH = 4096
_LONGEST_FILE = 2**20
"""Bytes of a kustomization file; a longer one counts as unreadable."""


class CommitTree:
    """The tree of one commit; also the Tree in which kustomize_files looks for paths."""

    def __init__(self, program: GitProgram, repository: Path, commit: str) -> None:
        """Read nothing."""
        self._program = program
        self._repository = repository
        self._commit = commit
        self._all: Mapping[str, Entry] | None = None
        self._read: dict[str, bytes | None] = {}
        self.unread: set[str] = set()
        """The blobs that were asked for, and are not loaded yet."""

    def find(self, paths: Iterable[str]) -> Mapping[str, Entry]:
        """Return the entries of the paths that exist; a path is clean, and the root is empty."""
        found: dict[str, Entry] = {}
        wanted = [path for path in dict.fromkeys(paths) if path]
        for start in range(0, len(wanted), _AT_ONCE):
            some = wanted[start : start + _AT_ONCE]
            # With -t also a folder in which another path is.
            listed = self._list(some, "-t", most=MOST_ENTRIES)
            found |= {entry.path: entry for entry in listed}
        return {path: found[path] for path in wanted if path in found}

    def root(self) -> str:
        """Return the object ID of the whole tree."""
        out = self._git("rev-parse", "--verify", f"{self._commit}^{{tree}}")
        return out.decode("ascii").strip()

    def below(self, paths: Sequence[str], most: int, *, sizes: bool) -> list[Entry]:
        """Return the files of the paths; SourceTooLarge if they are more than ``most``."""
        options = ("-r", *(["-l"] if sizes else []))
        if "" in paths:
            return self._list([], *options, most=most)
        found: dict[str, Entry] = {}
        for start in range(0, len(paths), _AT_ONCE):
            some = self._list(paths[start : start + _AT_ONCE], *options, most=most - len(found))
            found |= {entry.path: entry for entry in some}
        return list(found.values())

    def _list(self, paths: Sequence[str], *options: str, most: int) -> list[Entry]:
        out = self._git(
            *("ls-tree", "-z", "--full-tree", *options, self._commit, "--", *paths),
            limit=(most + 1) * (_LINE + _LONGEST_PATH),
            records=(b"\0", most),
        )
        return parse_entries(out)

    def contents(self, entries: Iterable[Entry], size: int) -> Mapping[str, bytes]:
        """Return the content of blobs by their ID; FetchFailed if the store has not got one.

        ``size`` is what they have together, in bytes.
        """
        wanted = list(dict.fromkeys(entry.oid for entry in entries))
        out = self._git(
            *("cat-file", "--batch", "--buffer"),
            stdin="".join(f"{oid}\n" for oid in wanted).encode("ascii"),
            limit=size + _LINE * len(wanted),
        )
        found, at = {}, 0
        for oid in wanted:
            end = out.find(b"\n", at)
            facts = out[at:end].decode("ascii", "replace").split()
            if facts[:2] != [oid, "blob"]:
                raise FetchFailed(
                    "a file of the commit was not fetched", location=self._program.where
                )
            at = end + 1 + int(facts[2])
            found[oid] = out[end + 1 : at]
            at += 1
        return found

    def missing(self, entries: Iterable[Entry]) -> list[str]:
        """Return the IDs of the blobs that the store has not got."""
        wanted = list(dict.fromkeys(entry.oid for entry in entries))
        out = self._git(
            *("cat-file", "--batch-check", "--buffer"),
            stdin="".join(f"{oid}\n" for oid in wanted).encode("ascii"),
            limit=_LINE * (len(wanted) + 1),
        )
        lines = out.decode("ascii", "replace").splitlines()
        return [line.split()[0] for line in lines if line.endswith(" missing")]

    # The Tree of kustomize_files.

    def load_paths(self) -> None:
        """List the whole tree; SourceTooLarge if it has more than MOST_ENTRIES."""
        if self._all is None:
            entries = self._list([], "-r", "-t", most=MOST_ENTRIES)
            self._all = {entry.path: entry for entry in entries}

    def kind(self, path: str) -> str | None:
        """Return ``tree`` for a folder, ``blob`` for anything else; None if it does not exist."""
        self.load_paths()
        entry = (self._all or {}).get(path)
        if not path or (entry is not None and entry.kind == "tree"):
            return "tree"
        return None if entry is None else "blob"

    def read(self, path: str) -> bytes | None:
        """Return the content of a file that is loaded, or note that it is wanted."""
        entry = (self._all or {}).get(path)
        if entry is None or not entry.is_file:
            return None
        if entry.oid not in self._read:
            self.unread.add(entry.oid)
            # Nothing is named yet; what reads this asks again when it is loaded.
            return b"{}"
        return self._read[entry.oid]

    def wanted(self) -> list[Entry]:
        """Return an entry for each blob that was asked for, and is not loaded yet."""
        return [Entry("100644", "blob", oid, "") for oid in sorted(self.unread)]

    def load(self) -> None:
        """Load what was asked for; all of it must be in the store."""
        wanted = self.wanted()
        self.unread.clear()
        out = self._git(
            *("cat-file", "--batch-check=%(objectname) %(objectsize)", "--buffer"),
            stdin="".join(f"{entry.oid}\n" for entry in wanted).encode("ascii"),
        )
        lines = out.decode("ascii", "replace").splitlines()
        if any(line.endswith(" missing") for line in lines):
            raise FetchFailed("a file of the commit was not fetched", location=self._program.where)
        sizes = dict(line.split() for line in lines)
        small = [entry for entry in wanted if _size(sizes, entry) <= _LONGEST_FILE]
        self._read.update({entry.oid: None for entry in wanted})
        total = sum(_size(sizes, entry) for entry in small)
        self._read.update(self.contents(small, total) if small else {})

    def _git(
        self,
        *arguments: str,
        stdin: bytes = b"",
        limit: int = 2**26,
        records: tuple[bytes, int] | None = None,
    ) -> bytes:
        return self._program.run(
            *arguments, repository=self._repository, stdin=stdin, limit=limit, records=records
        )


def _size(sizes: Mapping[str, str], entry: Entry) -> int:
    size = sizes.get(entry.oid, "")
    return int(size) if size.isdecimal() else _LONGEST_FILE + 1
