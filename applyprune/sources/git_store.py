"""A local bare repository, the store of one source: fetched commits, and the files in them.

A store belongs to one URL and one identity that reads it: tenants never share one.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from applyprune.errors import InputError, UsageError
from applyprune.sources.folders import is_manifest_name
from applyprune.sources.git_program import GitProgram
from applyprune.sources.git_server import REMOTE, GitServer
from applyprune.sources.kustomize import NAMES, ROOT, Included, included, with_rules
from applyprune.sources.source_ignore import ignore_files
from applyprune.sources.tree import (
    Deadline,
    FetchFailed,
    PathNotFound,
    SourceTooLarge,
    TreeLimits,
    clean_path,
    shown_path,
)
from applyprune.system.processes import try_lock
from applyprune.values import dataclass, pattern

if TYPE_CHECKING:
    from applyprune.sources.address import FoundRef, GitSource


_LOCAL_SECONDS = 60.0
"""For what needs no server."""
_LOCAL = "the store of the source"


class GitStore:
    """A store in a folder of its own; processes and threads may share it."""

    def __init__(self, folder: Path) -> None:
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
            if not repository.exists():
                program.run("init", "--quiet", "--bare", "--template=", str(repository))
                (repository / _COMPLETE).touch()
            server = GitServer(program, source)
            if not has_commit(repository, found.oid):
                is_partial = ROOT not in paths and not (repository / NO_FILTER).exists()
                fetch_commit(server, repository, found, is_partial=is_partial)
            if not is_whole(repository, found.oid):
                tree = CommitTree(program, repository, found.commit)
                fetch_files(server, tree, repository, paths, source.limits)
            touch_commit(repository, found.oid)
            compact(program, repository)

    def has(self, oid: str) -> bool:
        """Return whether a commit was fetched; the files of some paths may be missing."""
        return has_commit(self._folder / REPOSITORY, oid)

    def ids(
        self, commit: str, paths: Sequence[str], deadline: Deadline | None = None
    ) -> Mapping[str, tuple[str, str] | None]:
        """Return type and ID of what is at each path of a commit; None where nothing is."""
        cleaned = dict(zip(paths, _clean(paths), strict=True))
        with self._reading(commit, deadline) as tree:
            entries = tree.find(cleaned.values())
            found = {path: (entry.kind, entry.oid) for path, entry in entries.items()}
            if ROOT in cleaned.values():
                found[ROOT] = "tree", tree.root()
        return {path: found.get(clean) for path, clean in cleaned.items()}

    def all_included(
        self, commit: str, paths: Sequence[str], deadline: Deadline | None = None
    ) -> Mapping[str, Included]:
        """Return what each of some paths consists of."""
        cleaned = dict(zip(paths, _clean(paths), strict=True))
        with self._reading(commit, deadline) as tree:
            found = load_closures(tree, tuple(cleaned.values()))
        return {path: found[clean] for path, clean in cleaned.items()}

    def read_all(
        self,
        commit: str,
        paths: Sequence[str],
        limits: TreeLimits | None = None,
        deadline: Deadline | None = None,
        where: str = _LOCAL,
    ) -> Iterator[tuple[str, PathFiles]]:
        """Yield each path with its files, by their paths from the root, or with what is wrong.

        That is PathNotFound for a path without a file, SourceTooLarge, and FetchFailed for anything
        but a plain file.
        """
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
            if not is_initialized(opened[1]):
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


# The folder of a store: one repository, a lock, and the removal of what a killed git has left.


REPOSITORY = "repository"
"""The name of the repository in the folder."""
_LOCK, _COMPLETE = "lock", "complete"
# What git gives another name, or removes, before it ends by itself.
_UNFINISHED = pattern(r".*\.lock|tmp_.*|.*\.keep|shallow_.*|incoming-.*|\.tmp-.*")
_PACK = pattern(r"(pack-[0-9a-f]+)\.(.+)")


@contextlib.contextmanager
def locked(folder: Path, where: str, deadline: Deadline, *, writes: bool) -> Iterator[Path]:
    """Yield the repository of a store; it may not exist yet. Many may read, one may write.

    Before a write, what an earlier one has left unfinished is removed. Raises FetchFailed.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise _unusable(error, where) from None
    try:
        while not try_lock(lock, is_shared=not writes):
            time.sleep(min(0.02, deadline.left(where)))
        repository = folder / REPOSITORY
        if writes:
            try:
                _remove_leftovers(repository)
            except OSError as error:
                raise _unusable(error, where) from None
        yield repository
    finally:
        # Closing it releases the lock; git has not inherited it.
        os.close(lock)


def is_initialized(repository: Path) -> bool:
    """Return whether a repository was created to its end; else the next write removes it."""
    return (repository / _COMPLETE).is_file()


def _remove_leftovers(repository: Path) -> None:
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


def _unusable(error: OSError, where: str) -> FetchFailed:
    return FetchFailed(
        "the store of the source cannot be used",
        location=where,
        reason=error.strerror or "",
        hint="Check the free space of this machine.",
    )


# Fetch one commit into a store: the whole of it, or without files and then those of some paths.


FULL, PARTIAL = "refs/full", "refs/partial"
"""The references of commits with all files, and of those that may lack some: the two kinds are
never mixed up, or a server would leave out what it believes to be here."""
NO_FILTER = "no-filter"
"""A file in a repository whose server has no filters."""
_TIPS = 3
_FETCH = (
    *("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance"),
    *("--no-recurse-submodules", "--no-show-forced-updates"),
)
_PROMISOR = (
    (f"remote.{REMOTE}.promisor", "true"),
    (f"remote.{REMOTE}.partialclonefilter", "blob:none"),
)
_NO_HAVES = ("fetch.negotiationAlgorithm", "noop")
_ROUNDS = 50
"""How many kustomizations may follow one another."""
_MOST_PACKS = 24
_KEPT_COMMITS = 8


def has_commit(repository: Path, oid: str) -> bool:
    """Return whether a commit or tag was fetched; the files of some paths may be missing."""
    return any((repository / kind / oid).is_file() for kind in (FULL, PARTIAL))


def is_whole(repository: Path, oid: str) -> bool:
    """Return whether a commit or tag was fetched with all its files."""
    return (repository / FULL / oid).is_file()


def touch_commit(repository: Path, oid: str) -> None:
    """Let a commit count as fetched now."""
    for kind in (FULL, PARTIAL):
        with suppress(FileNotFoundError):
            os.utime(repository / kind / oid)


def fetch_commit(server: GitServer, repository: Path, found: FoundRef, *, is_partial: bool) -> None:
    """Fetch a commit, or the tag that names it; ``is_partial``: without files if possible."""
    kind = PARTIAL if is_partial else FULL
    target = f"{kind}/{found.oid}"
    tips = _newest(repository / kind)[:_TIPS]
    arguments = [*_FETCH, "--depth=1", *(("--filter=blob:none",) if is_partial else ())]
    arguments += [f"--negotiation-tip={kind}/{tip}" for tip in tips]
    settings = (*(_PROMISOR if is_partial else ()), *(() if tips else (_NO_HAVES,)))
    try:
        _, err = server.run(
            *arguments,
            REMOTE,
            f"{found.oid}:{target}",
            repository=repository,
            settings=settings,
        )
    except PathNotFound:
        # An old server sends only what a reference names at this moment.
        if not found.name:
            raise
        try:
            _, err = server.run(
                *arguments,
                REMOTE,
                f"+{found.name}:{target}",
                repository=repository,
                settings=settings,
            )
        except PathNotFound:
            raise _ref_moved(server) from None
        if (repository / target).read_text(encoding="ascii").strip() != found.oid:
            (repository / target).unlink()
            raise _ref_moved(server) from None
    if "filtering not recognized" in err:
        (repository / NO_FILTER).touch()


def _ref_moved(server: GitServer) -> FetchFailed:
    return FetchFailed(
        "the reference has moved while it was fetched",
        location=server.where,
        reason="and the server does not send a commit by its ID",
    )


def fetch_files(
    server: GitServer, tree: CommitTree, repository: Path, paths: Sequence[str], limits: TreeLimits
) -> None:
    """Fetch the files of paths that are missing, in one request for each level of kustomizations.

    A path with a kustomization is all that it names.
    """
    most = min(MOST_ENTRIES, limits.files * len(paths))
    for _ in range(_ROUNDS):
        found = known_closures(tree, paths)
        whole = sorted({path for one in found.values() for path in one.paths})
        wanted = [entry for entry in tree.below(whole, most, sizes=False) if entry.is_file]
        if missing := tree.missing([*wanted, *tree.wanted()]):
            _fetch_blobs(server, repository, missing)
        if not tree.unread:
            return
        tree.load()
    raise FetchFailed(
        f"more than {_ROUNDS} kustomizations follow one another", location=server.where
    )


def _fetch_blobs(server: GitServer, repository: Path, oids: Iterable[str]) -> None:
    # Without telling what is here, as git itself fetches what a filter has left out.
    server.run(
        *(*_FETCH, "--filter=blob:none", "--stdin", REMOTE),
        repository=repository,
        settings=(*_PROMISOR, _NO_HAVES),
        stdin="".join(f"{oid}\n" for oid in oids).encode("ascii"),
    )


def known_closures(tree: CommitTree, paths: Sequence[str]) -> Mapping[str, Included]:
    """Return what each path consists of, as far as the kustomizations that are loaded say it.

    ``tree.unread`` then has those that are not loaded. The rules that may leave out a file of the
    path belong to it, too.
    """
    files = [os.path.join(path, name) for path in paths for name in NAMES]  # noqa: PTH118
    above = ignore_files(paths)
    found = tree.find([*files, *sorted(above)])
    builds = {path for path in paths if any(os.path.join(path, name) in found for name in NAMES)}  # noqa: PTH118
    closures = {
        path: included(path, tree) if path in builds else Included((path,)) for path in paths
    }
    others = ignore_files(part for one in closures.values() for part in one.paths) - above
    rules = above & found.keys() | tree.find(sorted(others)).keys()
    return {path: with_rules(one, rules) for path, one in closures.items()}


def load_closures(tree: CommitTree, paths: Sequence[str]) -> Mapping[str, Included]:
    """Return what each path consists of; FetchFailed if a kustomization was not fetched."""
    found = known_closures(tree, paths)
    while tree.unread:
        tree.load()
        found = known_closures(tree, paths)
    return found


def compact(program: GitProgram, repository: Path) -> None:
    """Once there are many packs, keep the latest commits in one, and delete the others."""
    packs = repository / "objects" / "pack"
    old = [file for file in packs.iterdir() if file.name.startswith("pack-")]
    if sum(file.suffix == ".pack" for file in old) <= _MOST_PACKS:
        return
    refs = [
        repository / kind / name for kind in (FULL, PARTIAL) for name in _newest(repository / kind)
    ]
    refs.sort(key=lambda file: file.stat().st_mtime, reverse=True)
    kept = [str(file.relative_to(repository)) for file in refs[:_KEPT_COMMITS]]
    objects = program.run(
        *("rev-list", "--objects", "--missing=allow-any", "--no-object-names", *kept),
        repository=repository,
    )
    name = program.run(
        *("pack-objects", "--quiet", "--window=0", str(packs / "pack")),
        repository=repository,
        stdin=objects,
    )
    new = f"pack-{name.decode('ascii').strip()}"
    if any(file.suffix == ".promisor" for file in old):
        (packs / f"{new}.promisor").touch()
    # From here on nothing is needed but the new pack: a kill leaves too much, and never too little.
    commits = program.run(
        *("for-each-ref", "--format=%(objectname)%0a%(*objectname)", *kept), repository=repository
    ).decode("ascii")
    for file in refs[_KEPT_COMMITS:]:
        file.unlink()
    shallow = repository / "shallow"
    lines = set(shallow.read_text(encoding="ascii").split()) & set(commits.split())
    written = repository / "shallow_new"
    written.write_text("".join(f"{line}\n" for line in sorted(lines)), encoding="ascii")
    written.replace(shallow)
    for file in old:
        if file.stem != new:
            file.unlink()


def _newest(folder: Path) -> list[str]:
    """Return the names of the references in a folder, the latest first."""
    if not folder.is_dir():
        return []
    files = sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime, reverse=True)
    return [file.name for file in files]


# Read the files of many paths of a commit, in about as few processes of git as those of one path.


_BYTES_AT_ONCE = 16 * 2**20
"""Bytes of files that one run of git returns; more only if a single path has more."""
PathFiles: TypeAlias = Mapping[str, bytes] | InputError
"""The files of a path by their paths from the root, or what is wrong with it."""


def read_paths(
    tree: CommitTree, paths: Sequence[str], limits: TreeLimits, where: str
) -> Iterator[tuple[str, PathFiles]]:
    """Yield each clean path with its files, or with its own error: the others are still read.

    The errors are PathNotFound for a path without a file, SourceTooLarge, and FetchFailed for what
    is not a plain file.
    """
    existing = tree.find(paths)
    found = load_closures(tree, paths)
    whole = sorted({part for one in found.values() for part in one.paths})
    try:
        most = min(MOST_ENTRIES, limits.files * len(paths))
        listed = _EntryIndex(tree.below(whole, most, sizes=True))
    except SourceTooLarge as error:
        if len(paths) == 1:
            yield paths[0], error
            return
        for path in paths:
            yield from read_paths(tree, [path], limits, where)
        return
    group: dict[str, Sequence[TreeEntry]] = {}
    size = 0
    for path in paths:
        try:
            if path and path not in existing:
                raise _no_path(path, where)
            files = _checked_files(listed.below(found[path]), found[path], limits, where)
        except InputError as error:
            yield path, error
            continue
        more = sum(entry.size or 0 for entry in files)
        if group and size + more > _BYTES_AT_ONCE:
            yield from _read_group(tree, group, where)
            group, size = {}, 0
        group[path] = files
        size += more
    if group:
        yield from _read_group(tree, group, where)


class _EntryIndex:
    """Entries, sorted: those below a path are found without a look at the others."""

    def __init__(self, entries: Sequence[TreeEntry]) -> None:
        self._entries = sorted(entries, key=lambda entry: entry.path)
        self._names = [entry.path for entry in self._entries]

    def below(self, what: Included) -> list[TreeEntry]:
        if "" in what.paths:
            return self._entries
        found: list[TreeEntry] = []
        for part in what.paths:
            at = bisect_left(self._names, part)
            found += self._entries[at : at + 1] if part in self._names[at : at + 1] else ()
            first = bisect_left(self._names, f"{part}/")
            found += self._entries[first : bisect_left(self._names, f"{part}0")]
        return found


def _checked_files(
    entries: Sequence[TreeEntry], what: Included, limits: TreeLimits, where: str
) -> Sequence[TreeEntry]:
    files = check_entries(entries, limits, where, is_build=what.is_build)
    if not files:
        raise PathNotFound("the commit has no files", location=where)
    return files


def _read_group(
    tree: CommitTree, group: Mapping[str, Sequence[TreeEntry]], where: str
) -> Iterator[tuple[str, PathFiles]]:
    every = [entry for files in group.values() for entry in files]
    try:
        contents = tree.contents(every, sum(entry.size or 0 for entry in every))
    except InputError as error:
        if len(group) == 1:
            yield next(iter(group)), error
            return
        for path, files in group.items():
            yield from _read_group(tree, {path: files}, where)
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
        hint="Paths are case-sensitive. Check the path of the source.",
    )


# What a commit in a store consists of, without a request to any server.


MOST_ENTRIES = 500_000
"""How many files and folders a commit may have in which a kustomization is looked up."""
_AT_ONCE = 1000
_LINE = 256
_LONGEST_PATH = 4096
_LONGEST_FILE = 2**20
"""Bytes of a kustomization file; a longer one counts as unreadable."""


class CommitTree:
    """The tree of one commit; also the ``Tree`` of ``kustomize.py``."""

    def __init__(self, program: GitProgram, repository: Path, commit: str) -> None:
        self._program = program
        self._repository = repository
        self._commit = commit
        self._all: Mapping[str, TreeEntry] | None = None
        self._read: dict[str, bytes | None] = {}
        self.unread: set[str] = set()
        """The blobs that were asked for, and are not loaded yet."""

    def find(self, paths: Iterable[str]) -> Mapping[str, TreeEntry]:
        """Return the entries of the paths that exist; a path is clean, and the root is empty."""
        found: dict[str, TreeEntry] = {}
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

    def below(self, paths: Sequence[str], most: int, *, sizes: bool) -> list[TreeEntry]:
        """Return the files of the paths; SourceTooLarge if they are more than ``most``."""
        options = ("-r", *(["-l"] if sizes else []))
        if "" in paths:
            return self._list([], *options, most=most)
        found: dict[str, TreeEntry] = {}
        for start in range(0, len(paths), _AT_ONCE):
            some = self._list(paths[start : start + _AT_ONCE], *options, most=most - len(found))
            found |= {entry.path: entry for entry in some}
        return list(found.values())

    def _list(self, paths: Sequence[str], *options: str, most: int) -> list[TreeEntry]:
        out = self._git(
            *("ls-tree", "-z", "--full-tree", *options, self._commit, "--", *paths),
            limit=(most + 1) * (_LINE + _LONGEST_PATH),
            records=(b"\0", most),
        )
        return parse_entries(out)

    def contents(self, entries: Iterable[TreeEntry], size: int) -> Mapping[str, bytes]:
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

    def missing(self, entries: Iterable[TreeEntry]) -> list[str]:
        """Return the IDs of the blobs that the store has not got."""
        wanted = list(dict.fromkeys(entry.oid for entry in entries))
        out = self._git(
            *("cat-file", "--batch-check", "--buffer"),
            stdin="".join(f"{oid}\n" for oid in wanted).encode("ascii"),
            limit=_LINE * (len(wanted) + 1),
        )
        lines = out.decode("ascii", "replace").splitlines()
        return [line.split()[0] for line in lines if line.endswith(" missing")]

    # The ``Tree`` of ``kustomize.py``.

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
        """Return the content of a file; empty, and noted in ``unread``, if it is not loaded."""
        entry = (self._all or {}).get(path)
        if entry is None or not entry.is_file:
            return None
        if entry.oid not in self._read:
            self.unread.add(entry.oid)
            # The caller asks again after ``load``.
            return b"{}"
        return self._read[entry.oid]

    def wanted(self) -> list[TreeEntry]:
        """Return an entry for each blob that was asked for, and is not loaded yet."""
        return [TreeEntry("100644", "blob", oid, "") for oid in sorted(self.unread)]

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


def _size(sizes: Mapping[str, str], entry: TreeEntry) -> int:
    size = sizes.get(entry.oid, "")
    return int(size) if size.isdecimal() else _LONGEST_FILE + 1


# The entries of a commit's tree, and which of them may be read: plain files, under names as such.
#
# There is no work tree, so nothing is followed, filtered or fetched: what would need it is an
# error.


_LINK, _SUBMODULE = "120000", "160000"
_POINTER = b"version https://git-lfs.github.com/spec/"
_LONGEST_POINTER = 1024


@dataclass(frozen=True, slots=True)
class TreeEntry:
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
