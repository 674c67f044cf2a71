"""Fetch one commit into a store: the whole of it, or without files and then those of some paths."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from applyprune.sources.git.content.commit_tree import MOST_ENTRIES, CommitTree
from applyprune.sources.git.kustomize_files import Included, included
from applyprune.sources.git.server.git_server import REMOTE, GitServer
from applyprune.sources.kustomize import NAMES
from applyprune.sources.remote.fetch_errors import FetchFailed, PathNotFound

if TYPE_CHECKING:
    from applyprune.sources.git.git_ref import FoundRef
    from applyprune.sources.git.program.git_program import GitProgram
    from applyprune.sources.remote.file_tree import TreeLimits

FULL, PARTIAL = "refs/full", "refs/partial"
"""The references of commits with all files, and of those that may lack some: the two kinds are
never mixed up, or a server would leave out what it believes to be here."""
NO_FILTER = "no-filter"
"""A file in a repository whose server has no filters."""
_ROUNDS = 50
"""How many kustomizations may follow one another."""
_TIPS = 3
_MOST_PACKS = 24
_KEPT = 8
_FETCH = (
    *("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance"),
    *("--no-recurse-submodules", "--no-show-forced-updates"),
)
_PROMISOR = (
    (f"remote.{REMOTE}.promisor", "true"),
    (f"remote.{REMOTE}.partialclonefilter", "blob:none"),
)
_NO_HAVES = ("fetch.negotiationAlgorithm", "noop")


def has(repository: Path, oid: str) -> bool:
    """Return whether a commit or tag was fetched; the files of some paths may be missing."""
    return any((repository / kind / oid).is_file() for kind in (FULL, PARTIAL))


def is_whole(repository: Path, oid: str) -> bool:
    """Return whether a commit or tag was fetched with all its files."""
    return (repository / FULL / oid).is_file()


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
            raise _moved(server) from None
        if (repository / target).read_text(encoding="ascii").strip() != found.oid:
            (repository / target).unlink()
            raise _moved(server) from None
    if "filtering not recognized" in err:
        (repository / NO_FILTER).touch()


def fetch_files(
    server: GitServer, tree: CommitTree, repository: Path, paths: Sequence[str], limits: TreeLimits
) -> None:
    """Fetch the files of paths that are missing, in one request for each level of kustomizations.

    A path with a kustomization is all that it names.
    """
    most = min(MOST_ENTRIES, limits.files * len(paths))
    for _ in range(_ROUNDS):
        found = closures(tree, paths)
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


def closures(tree: CommitTree, paths: Sequence[str]) -> Mapping[str, Included]:
    """Return what each path consists of, as far as the kustomizations that are loaded say it.

    ``tree.unread`` then has those that are not loaded.
    """
    files = [os.path.join(path, name) for path in paths for name in NAMES]  # noqa: PTH118
    found = tree.find(files)
    builds = {path for path in paths if any(os.path.join(path, name) in found for name in NAMES)}  # noqa: PTH118
    return {path: included(path, tree) if path in builds else Included((path,)) for path in paths}


def closed(tree: CommitTree, paths: Sequence[str]) -> Mapping[str, Included]:
    """Return what each path consists of; FetchFailed if a kustomization was not fetched."""
    found = closures(tree, paths)
    while tree.unread:
        tree.load()
        found = closures(tree, paths)
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
    kept = [str(file.relative_to(repository)) for file in refs[:_KEPT]]
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
    for file in refs[_KEPT:]:
        file.unlink()
    shallow = repository / "shallow"
    lines = set(shallow.read_text(encoding="ascii").split()) & set(commits.split())
    written = repository / "shallow_new"
    written.write_text("".join(f"{line}\n" for line in sorted(lines)), encoding="ascii")
    written.replace(shallow)
    for file in old:
        if file.stem != new:
            file.unlink()


def note_use(repository: Path, oid: str) -> None:
    """Let a commit count as fetched now."""
    for kind in (FULL, PARTIAL):
        with suppress(FileNotFoundError):
            os.utime(repository / kind / oid)


def _fetch_blobs(server: GitServer, repository: Path, oids: Iterable[str]) -> None:
    # Without telling what is here, as git itself fetches what a filter has left out.
    server.run(
        *(*_FETCH, "--filter=blob:none", "--stdin", REMOTE),
        repository=repository,
        settings=(*_PROMISOR, _NO_HAVES),
        stdin="".join(f"{oid}\n" for oid in oids).encode("ascii"),
    )


def _newest(folder: Path) -> list[str]:
    """Return the names of the references in a folder, the latest first."""
    if not folder.is_dir():
        return []
    files = sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime, reverse=True)
    return [file.name for file in files]


def _moved(server: GitServer) -> FetchFailed:
    return FetchFailed(
        "the reference has moved while it was fetched",
        location=server.where,
        reason="and the server does not send a commit by its ID",
    )
