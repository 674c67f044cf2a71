"""A local bare repository, the store of one source: fetched commits, and the files in them.

A store belongs to one URL and one identity that reads it: tenants never share one.
"""

from __future__ import annotations

import os
import shutil
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from applyprune.errors import InputError
from applyprune.sources.folders import is_manifest_name
from applyprune.sources.git_program import GitProgram, failure
from applyprune.sources.git_server import REMOTE, GitServer
from applyprune.sources.kustomize import NAMES, ROOT, Included, included
from applyprune.sources.tree import (
    Deadline,
    FetchFailed,
    PathNotFound,
    SourceTooLarge,
    TreeLimits,
    clean_path,
    no_such_path,
    shown_path,
)
from applyprune.system.processes import try_lock
from applyprune.values import pattern, replace

if TYPE_CHECKING:
    from applyprune.sources.address import FoundRef, GitSource


_LOCAL_SECONDS = 60.0
"""For what needs no server."""
_LOCAL = "the store of the source"


class GitStore:
    """A store in a folder of its own; processes and threads may share it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def fetch(self, source: GitSource, found: FoundRef, deadline: Deadline | None = None) -> None:
        """Fetch a commit with all its files, unless the store has it.

        Raises the errors of a source; then the store is as before, but for whole packs.
        """
        where = source.parts.shown
        deadline = deadline or Deadline(source.timeout)
        with self._open(where, deadline, source.limits, writes=True) as (program, repository):
            if has_commit(repository, found.oid):
                return
            if is_full(repository, source.limits):
                discard(repository)
                with refusals(where):
                    remove_leftovers(repository)
            if not repository.exists():
                program.run("init", "--quiet", "--bare", "--template=", str(repository))
                (repository / _COMPLETE).touch()
            fetch_commit(GitServer(program, source), repository, found)

    def has(self, oid: str) -> bool:
        """Return whether a commit was fetched."""
        return has_commit(self._folder / REPOSITORY, oid)

    @contextmanager
    def reading(
        self, commit: str, where: str = _LOCAL, deadline: Deadline | None = None
    ) -> Iterator[CommitTree]:
        """Yield the tree of a commit that was fetched; raises FetchFailed and SourceTooLarge."""
        with self.opened(where, deadline) as (program, repository):
            yield CommitTree(
                program, repository, commit, damaged=partial(_damaged_store, repository, where)
            )

    @contextmanager
    def opened(
        self, where: str = _LOCAL, deadline: Deadline | None = None
    ) -> Iterator[tuple[GitProgram, Path]]:
        """Yield what reads the store: a program and the repository; raises FetchFailed."""
        deadline = deadline or Deadline(_LOCAL_SECONDS)
        with self._open(where, deadline, TreeLimits(), writes=False) as opened:
            if not is_initialized(opened[1]):
                raise FetchFailed("nothing was fetched yet", location=where)
            yield opened

    @contextmanager
    def _open(
        self, where: str, deadline: Deadline, limits: TreeLimits, *, writes: bool
    ) -> Iterator[tuple[GitProgram, Path]]:
        with (
            locked(self._folder, where, deadline, writes=writes) as repository,
            GitProgram(where, deadline, limits.transfer) as program,
        ):
            yield program, repository


# The folder of a store: one repository, a lock, and the removal of what a killed git has left.


REPOSITORY = "repository"
"""The name of the repository in the folder."""
_LOCK, _COMPLETE = "lock", "complete"
# What git gives another name, or removes, before it ends by itself.
_UNFINISHED = pattern(r".*\.lock|tmp_.*|.*\.keep|shallow_.*|incoming-.*|\.tmp-.*")
_PACK = pattern(r"(pack-[0-9a-f]+)\.(.+)")


@contextmanager
def locked(folder: Path, where: str, deadline: Deadline, *, writes: bool) -> Iterator[Path]:
    """Yield the repository of a store; it may not exist yet. Many may read, one may write.

    Before a write, what an earlier one has left unfinished is removed. Raises FetchFailed.
    """
    with refusals(where):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        while not try_lock(lock, is_shared=not writes):
            time.sleep(min(0.02, deadline.left(where)))
        repository = folder / REPOSITORY
        if writes:
            with refusals(where):
                remove_leftovers(repository)
        yield repository
    finally:
        # Closing it releases the lock; git has not inherited it.
        os.close(lock)


def is_initialized(repository: Path) -> bool:
    """Return whether a repository was created to its end; else the next write removes it."""
    return (repository / _COMPLETE).is_file()


def discard(repository: Path) -> None:
    """Let the next write create it again; who reads the repository meanwhile may go on."""
    (repository / _COMPLETE).unlink(missing_ok=True)


def remove_leftovers(repository: Path) -> None:
    """Remove what a write has left unfinished: files, or the whole of a new repository."""
    if not repository.exists():
        return
    if not (repository / "HEAD").is_file() or not is_initialized(repository):
        shutil.rmtree(repository)
        return
    for top, folders, files in os.walk(repository):
        for name in [*folders, *files]:
            if _UNFINISHED.fullmatch(name):
                _remove(Path(top, name))
    packs = repository / "objects" / "pack"
    for file in packs.iterdir():
        # The index comes last: without it git does not know the pack.
        found = _PACK.fullmatch(file.name)
        if found and not (packs / f"{found[1]}.idx").exists():
            _remove(file)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def refusals(where: str) -> Iterator[None]:
    """Turn an error of the disk into FetchFailed."""
    try:
        yield
    except OSError as error:
        raise FetchFailed(
            "the store of the source cannot be used",
            location=where,
            reason=error.strerror or "",
            hint="Check the free space of this machine.",
        ) from None


# Fetch one commit into a store. What a fetch adds is one pack; once there are many, or large ones,
# the store is created again, because it is only a cache.


_COMMITS = "refs/commits"
"""The references of the commits and tags that were fetched; git tells the server that it has them,
so it sends only what is new."""
_FETCH = (
    *("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance"),
    *("--no-recurse-submodules", "--no-show-forced-updates", "--depth=1"),
)
_MOST_PACKS = 24


def has_commit(repository: Path, oid: str) -> bool:
    """Return whether a commit or tag was fetched."""
    return is_initialized(repository) and (repository / _COMMITS / oid).is_file()


def is_full(repository: Path, limits: TreeLimits) -> bool:
    """Return whether a repository has many packs, or more bytes in them than one fetch may have."""
    packs = [one.stat().st_size for one in (repository / "objects/pack").glob("*.pack")]
    return len(packs) > _MOST_PACKS or sum(packs) > limits.transfer


def fetch_commit(server: GitServer, repository: Path, found: FoundRef) -> None:
    """Fetch a commit, or the tag that names it."""
    target = f"{_COMMITS}/{found.oid}"
    try:
        server.run(*_FETCH, REMOTE, f"{found.oid}:{target}", repository=repository)
    except PathNotFound:
        # An old server sends only what a reference names at this moment.
        if not found.name:
            raise
        try:
            server.run(*_FETCH, REMOTE, f"+{found.name}:{target}", repository=repository)
        except PathNotFound:
            raise _ref_moved(server) from None
        if (repository / target).read_text(encoding="ascii").strip() != found.oid:
            (repository / target).unlink()
            raise _ref_moved(server) from None


def _ref_moved(server: GitServer) -> FetchFailed:
    return FetchFailed(
        "the reference has moved while it was fetched",
        location=server.where,
        reason="and the server does not send a commit by its ID",
    )


def _damaged_store(repository: Path, where: str) -> FetchFailed:
    """Return the error for a store that lacks what was fetched; the next fetch makes a new one.

    It may be a fault of the disk.
    """
    discard(repository)
    return FetchFailed(
        "the store of the source is damaged",
        location=where,
        hint="It is fetched again.",
    )


# What a commit in a store consists of, in a few processes of git for any number of paths.


MOST_ENTRIES = 500_000
"""How many files and folders a commit may have."""
_LARGEST_LIST = 128 * 2**20
"""Bytes of their list: a small tree may name itself many times, at long paths."""
_LINE = 256
_LONGEST_FILE = 2**20
"""Bytes of a kustomization file; a longer one counts as unreadable."""
_BYTES_AT_ONCE = 16 * 2**20
"""Bytes of files that one run of git returns; more only if a single path has more."""
PathFiles: TypeAlias = Mapping[str, bytes] | InputError
"""The files of a path by their paths from the root, or what is wrong with it."""


class CommitTree:
    """The tree of one commit, listed once; also the ``Tree`` of ``kustomize.py``.

    A path is as a FileTree has it, and ROOT is the whole. What is wrong at one path, a link or too
    many files, fails no other.
    """

    def __init__(
        self,
        program: GitProgram,
        repository: Path,
        commit: str,
        *,
        damaged: Callable[[], FetchFailed],
        sizes: bool = True,
    ) -> None:
        """List the tree; SourceTooLarge for more than MOST_ENTRIES.

        ``damaged`` returns the error for a repository that lacks an object of the commit. Without
        ``sizes``, the commit's files may be missing: then only ``small_files`` needs some.
        """
        self._program = program
        self._repository = repository
        self._damaged = damaged
        oid = self._git("rev-parse", "--verify", f"{commit}^{{tree}}").decode().strip()
        self._root = TreeEntry("040000", "tree", oid, ROOT)
        out = self._git(
            *("ls-tree", "-r", "-t", "-z", *(["-l"] if sizes else []), "--full-tree", oid),
            limit=_LARGEST_LIST,
            records=(b"\0", MOST_ENTRIES),
        )
        self._entries = {entry.path: entry for entry in parse_entries(out)}
        self._names = sorted(self._entries)
        self._included: dict[str, Included] = {}
        self._read: dict[str, bytes] = {}

    @property
    def names(self) -> Sequence[str]:
        """Return the paths of all files and folders, sorted."""
        return self._names

    def included(self, path: str) -> Included:
        """Return what a path consists of."""
        if path not in self._included:
            self._included[path] = included(path, self)
        return self._included[path]

    def entry(self, path: str) -> TreeEntry | None:
        """Return what is at a path; None where nothing is."""
        return self._root if path == ROOT else self._entries.get(path)

    def id(self, path: str) -> tuple[str, str] | None:
        """Return type and object ID of what is at a path; None where nothing is."""
        entry = self.entry(path)
        return None if entry is None else (entry.kind, entry.oid)

    def read_all(self, paths: Iterable[str], limits: TreeLimits) -> Iterator[tuple[str, PathFiles]]:
        """Yield each path with its files, by their paths from the root, or with what is wrong.

        That is PathNotFound for a path without a file, SourceTooLarge, and FetchFailed for anything
        but a plain file.
        """
        group: dict[str, Sequence[TreeEntry]] = {}
        size = 0
        for path in paths:
            try:
                files = self._files(path, limits)
            except InputError as error:
                yield path, error
                continue
            more = sum(entry.size or 0 for entry in files)
            if group and size + more > _BYTES_AT_ONCE:
                yield from self._read_group(group)
                group, size = {}, 0
            group[path] = files
            size += more
        if group:
            yield from self._read_group(group)

    def _files(self, path: str, limits: TreeLimits) -> Sequence[TreeEntry]:
        where = self._program.where
        if self.id(path) is None:
            raise no_such_path(path, self._names, where)
        what = self.included(path)
        files = check_entries(self._below(what), limits, where, is_build=what.is_build)
        if not files:
            raise PathNotFound("the commit has no files", location=where)
        return files

    def _below(self, what: Included) -> Iterator[TreeEntry]:
        """Yield the entries of what a path consists of, without a look at the others."""
        for part in what.paths:
            if part == ROOT:
                yield from self._entries.values()
                continue
            if part in self._entries:
                yield self._entries[part]
            # The names of what is in a folder begin with it and a slash, after which comes 0.
            first, end = (bisect_left(self._names, f"{part}{sign}") for sign in "/0")
            for name in self._names[first:end]:
                yield self._entries[name]

    def _read_group(
        self, group: Mapping[str, Sequence[TreeEntry]]
    ) -> Iterator[tuple[str, PathFiles]]:
        contents = self._contents([entry for files in group.values() for entry in files])
        for path, files in group.items():
            found = {entry.path: contents[entry.oid] for entry in files}
            try:
                for name, data in found.items():
                    check_content(name, data, self._program.where)
            except InputError as error:
                yield path, error
            else:
                yield path, found

    def _contents(self, entries: Sequence[TreeEntry]) -> Mapping[str, bytes]:
        """Return the content of blobs by their ID."""
        sizes = {entry.oid: entry.size or 0 for entry in entries}
        out = self._git(
            *("cat-file", "--batch", "--buffer"),
            stdin="".join(f"{oid}\n" for oid in sizes).encode("ascii"),
            limit=sum(sizes.values()) + _LINE * len(sizes),
        )
        found, at = {}, 0
        for oid in sizes:
            end = out.find(b"\n", at)
            facts = out[at:end].decode("ascii", "replace").split()
            if facts[:2] != [oid, "blob"]:
                raise self._damaged()
            at = end + 1 + int(facts[2])
            found[oid] = out[end + 1 : at]
            at += 1
        return found

    def small_files(self, paths: Iterable[str]) -> Mapping[str, bytes]:
        """Return the contents of small files by their paths; nothing for any other path."""
        found = ((path, self._entries.get(path)) for path in paths)
        entries = {path: one for path, one in found if one is not None and one.is_file}
        oids = dict.fromkeys(entry.oid for entry in entries.values())
        if not oids:
            return {}
        out = self._git(
            *("cat-file", "--batch-check"),
            stdin="".join(f"{oid}\n" for oid in oids).encode("ascii"),
            limit=_LINE * len(oids),
        )
        sizes = {}
        for line in out.decode("ascii").splitlines():
            oid, *facts = line.split()
            if facts[:1] != ["blob"]:
                raise self._damaged()
            sizes[oid] = int(facts[1])
        small = [
            replace(entry, size=sizes[entry.oid])
            for entry in entries.values()
            if sizes[entry.oid] <= _LONGEST_FILE
        ]
        contents = self._contents(small)
        return {p: contents[one.oid] for p, one in entries.items() if one.oid in contents}

    # The ``Tree`` of ``kustomize.py``.

    def kind(self, path: str) -> str | None:
        """Return ``tree`` for a folder, ``blob`` for anything else; None if it does not exist."""
        entry = self.entry(path)
        if entry is None:
            return None
        return "tree" if entry.kind == "tree" else "blob"

    def real(self, path: str) -> str:
        """Return the path: links are not followed."""
        return path

    def read(self, path: str) -> bytes | None:
        """Return the content of a small file; None for anything else."""
        entry = self._entries.get(path)
        if entry is None or not entry.is_file or _size(entry) > _LONGEST_FILE:
            return None
        if entry.oid not in self._read:
            self._read |= self._contents([entry, *(() if self._read else self._kustomizations())])
        return self._read[entry.oid]

    def _kustomizations(self) -> Iterator[TreeEntry]:
        """Yield all kustomizations that may be read at once: the others are read one by one."""
        found = (one for one in self._entries.values() if one.path.rpartition("/")[2] in NAMES)
        left = _BYTES_AT_ONCE
        for entry in sorted((one for one in found if one.is_file), key=_size):
            left -= _size(entry) + _LINE
            if left < 0:
                return
            yield entry

    def _git(
        self,
        *arguments: str,
        stdin: bytes = b"",
        limit: int = 2**20,
        records: tuple[bytes, int] | None = None,
    ) -> bytes:
        code, out, err = self._program.try_run(
            *arguments, repository=self._repository, stdin=stdin, limit=limit, records=records
        )
        if not code:
            return out
        error = failure(err, code, self._program.where)
        raise error if isinstance(error, SourceTooLarge) else self._damaged()


def _size(entry: TreeEntry) -> int:
    return _LONGEST_FILE + 1 if entry.size is None else entry.size


# The entries of a commit's tree, and which of them may be read: plain files, under names as such.
#
# There is no work tree, so nothing is followed, filtered or fetched: what would need it is an
# error.


_LINK, _SUBMODULE = "120000", "160000"
_POINTER = b"version https://git-lfs.github.com/spec/"
_LONGEST_POINTER = 1024


class TreeEntry(Struct, frozen=True):
    """One line of ``git ls-tree``."""

    mode: str
    kind: str
    """``blob``, ``tree``, or ``commit`` for a submodule."""
    oid: str
    path: str
    """From the root; invalid bytes are surrogates."""
    size: int | None = None
    """Bytes of a blob; None for anything else."""

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file."""
        return self.kind == "blob" and self.mode != _LINK


def parse_entries(out: bytes) -> list[TreeEntry]:
    """Return the entries in the output of ``git ls-tree -z``, with or without ``-l``."""
    entries = []
    for line in out.split(b"\0")[:-1]:
        facts, _, path = line.partition(b"\t")
        mode, kind, oid, *size = facts.decode("ascii").split()
        number = int(size[0]) if size and size[0].isdecimal() else None
        entries.append(TreeEntry(mode, kind, oid, path.decode("utf-8", "surrogateescape"), number))
    return entries


def check_entries(
    entries: Iterable[TreeEntry], limits: TreeLimits, where: str, *, is_build: bool
) -> Sequence[TreeEntry]:
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
        if is_build or is_manifest_name(entry.path):
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


def _check_entry(entry: TreeEntry, where: str) -> None:
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
