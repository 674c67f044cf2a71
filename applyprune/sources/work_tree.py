"""The Git work tree of a local input: its files as of a commit, and the commit that it is of.

Nothing is written into the repository or the work tree, and no program that the repository
configures is run.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from applyprune.errors import InputError, UsageError
from applyprune.model.inventory import RunSource, short_commit
from applyprune.model.text import and_more
from applyprune.sources.folders import is_manifest_name, is_pattern, matches_pattern
from applyprune.sources.git_program import GitProgram
from applyprune.sources.git_store import CommitTree, parse_entries
from applyprune.sources.inputs import STDIN, CommitInput, shown_given
from applyprune.sources.kustomize import NAMES, Overlay
from applyprune.sources.moment import without_waiting
from applyprune.sources.source_ignore import FILE as IGNORE_FILE
from applyprune.sources.source_ignore import folders_above
from applyprune.sources.tree import (
    Deadline,
    FetchFailed,
    FileTree,
    PathNotFound,
    TreeLimits,
    is_url,
    shown_path,
)
from applyprune.values import pattern

if TYPE_CHECKING:
    from applyprune.sources.moment import Moment

Given: TypeAlias = "Sequence[str | Overlay]"
"""The paths that a command line names."""
_GIT = ".git"
_BRANCH = pattern(r"origin/([A-Za-z0-9][A-Za-z0-9._/-]*)")
_SECONDS = 60.0
_SHOWN = 3


class WorkTree(Struct, frozen=True):
    """A work tree, and what git calls its directory."""

    root: str
    """Its top folder, absolute."""
    repository: Path


def work_tree_of(path: str) -> WorkTree | None:
    """Return the work tree that a path lies in, or would; None if it lies in none.

    Links in the path stay as they are: a commit has the link, and not what it leads to today.
    """
    folder = os.path.abspath(path)  # noqa: PTH100
    while True:
        entry = Path(folder, _GIT)
        if entry.is_dir():
            return WorkTree(folder, entry)
        if entry.is_file():
            return _linked(folder, entry)
        above = os.path.dirname(folder)  # noqa: PTH120
        if above == folder:
            return None
        folder = above


def _linked(root: str, entry: Path) -> WorkTree | None:
    """Return the work tree of a submodule, or one that ``git worktree`` has added."""
    try:
        word, _, place = entry.read_text("utf-8").strip().partition(" ")
    except (OSError, ValueError):
        return None
    return WorkTree(root, Path(root, place)) if word == "gitdir:" and place else None


def path_in(tree: WorkTree, path: str) -> str:
    """Return a path from the root of its work tree; empty for the root."""
    relative = os.path.relpath(os.path.abspath(path), tree.root)  # noqa: PTH100
    return "" if relative == "." else relative.replace(os.sep, "/")


def folder_or_file(path: str | Overlay) -> str:
    """Return the path that one of the command line names, however it is read."""
    return path.folder if isinstance(path, Overlay) else path


@contextmanager
def _git(where: str) -> Iterator[GitProgram]:
    limits = TreeLimits()
    with GitProgram(where, Deadline(_SECONDS), limits.transfer) as program:
        yield program


# The input as of another commit.


def input_at(paths: Given, revision: str) -> CommitInput:
    """Return the files of an input as of a commit of its work tree.

    Raises UsageError for an input that lies in no work tree, or in two, and PathNotFound for a
    revision that the repository does not have.
    """
    shown = short_commit(shown_path(revision))
    with opened(paths, revision) as (tree, commit, files):
        meant = [(path, each) for path in paths for each in _meant(path, tree, files)]
        found = dict(files.read_all(dict.fromkeys(each for _, each in meant), TreeLimits()))
    trees = {
        each: content if isinstance(content, InputError) else FileTree(content, commit)
        for each, content in found.items()
    }
    parts = [(path, each, trees[each]) for path, each in meant]
    return CommitInput(commit, shown, parts)


def files_above(paths: Given, revision: str, name: str) -> Sequence[Sequence[tuple[str, bytes]]]:
    """Return the files of a name in the folders of an input and above them, as of a commit.

    Each path has its own, in their order from the root, with where they are. Raises as
    ``input_at``.
    """
    found = []
    with opened(paths, revision) as (tree, _, files):
        for path in paths:
            for each in _meant(path, tree, files):
                folders = [*folders_above(each), *([each] if files.kind(each) == "tree" else [])]
                places = sorted({f"{folder}/{name}".lstrip("/") for folder in folders}, key=len)
                read = [(place, files.read(place)) for place in places]
                shown = short_commit(shown_path(revision))
                found.append([(f"{shown}//{place}", data) for place, data in read if data])
    return found


@contextmanager
def opened(
    paths: Given, revision: str, option: str = "--at", *, sizes: bool = True
) -> Iterator[tuple[WorkTree, str, CommitTree]]:
    """Yield the one work tree that paths lie in, a commit of its repository, and its files.

    ``option`` is what names the revision. Without ``sizes``, the names and IDs of files are
    enough, which a partial clone has. Raises as ``input_at``.
    """
    tree, shown = _common_work_tree(paths, option), short_commit(shown_path(revision))
    with _git(shown) as program:
        commit = _commit(program, tree, revision)
        incomplete = partial(_incomplete, shown)
        files = CommitTree(program, tree.repository, commit, damaged=incomplete, sizes=sizes)
        yield tree, commit, files


def _common_work_tree(paths: Given, option: str = "--at") -> WorkTree:
    found: WorkTree | None = None
    for path in map(folder_or_file, paths):
        shown = _named(path)
        if path == STDIN or is_url(path):
            raise UsageError(
                f"{shown} has no commit",
                hint=f"Give {option} with files and folders of a work tree.",
            )
        tree = work_tree_of(path)
        if tree is None:
            raise UsageError(f"{shown} is in no Git work tree, so it has no commit")
        if found is not None and found.root != tree.root:
            raise UsageError(
                f"{shown} is in the work tree {shown_path(tree.root)}, and another path in "
                f"{shown_path(found.root)}",
                hint=f"Give {option} with the paths of one work tree.",
            )
        found = tree
    if found is None:
        raise UsageError(f"{option} needs the files or folders whose commit is meant")
    return found


def _commit(program: GitProgram, tree: WorkTree, revision: str) -> str:
    """Return the ID of a commit; raise PathNotFound if the repository does not have it."""
    code, out, _ = program.try_run(
        *("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"),
        repository=tree.repository,
    )
    if not code:
        return out.decode("ascii").strip()
    raise PathNotFound(
        f"the repository has no commit {shown_path(revision)}",
        location=shown_path(tree.root),
        hint=f"Get it first: {_fetch(tree, revision)}",
    )


def _fetch(tree: WorkTree, revision: str) -> str:
    """Return the command that gets what a repository lacks."""
    common = tree.repository
    with suppress(OSError, ValueError):
        common /= (common / "commondir").read_text("utf-8").strip()
    is_shallow = (common / "shallow").exists()
    if branch := _BRANCH.fullmatch(revision):
        # A clone of one branch, or a shallow one, fetches no other unless it is named.
        depth = "--depth=1 " if is_shallow else ""
        return f"git fetch {depth}origin +refs/heads/{branch[1]}:refs/remotes/{revision}"
    if is_shallow:
        return "git fetch --unshallow"
    is_id = all(char in "0123456789abcdef" for char in revision)
    return f"git fetch origin {revision}" if is_id else "git fetch --tags"


def _incomplete(shown: str) -> FetchFailed:
    return FetchFailed(
        "the repository lacks files of the commit",
        location=shown,
        hint="Is it a partial clone? Check it: git fsck. Nothing of it was changed.",
    )


def _meant(path: str | Overlay, tree: WorkTree, files: CommitTree) -> Sequence[str]:
    """Return the paths from the root of the work tree that one of the command line means."""
    inside = path_in(tree, folder_or_file(path))
    if isinstance(path, Overlay) or not is_pattern(path) or files.kind(inside) is not None:
        return [inside]
    found = [name for name in files.names if matches_pattern(inside, name, files.kind(name))]
    if not found:
        raise PathNotFound("no file matches", location=f"{shown_path(path)} in this commit")
    return found


# The commit that an input is of.


def source_of(paths: Given, moment: Moment) -> RunSource:
    """Return where an input came from, by what was read and what the work tree has checked out.

    Each file that was read is compared with that of the commit, by its digest: what Git ignores
    counts too. Without git or a commit, only the paths are known; no run fails for that.
    """
    named = and_more([_named(path) for path in map(folder_or_file, paths)], _SHOWN)
    try:
        tree = next(filter(None, (work_tree_of(path) for path in _local(paths))), None)
        if tree is None:
            return RunSource(named)
        named = _shown(paths, tree)
        with _git(shown_path(tree.root)) as program:
            commit = _commit(program, tree, "HEAD")
            return RunSource(
                named, commit, _differs(program, tree, commit, moment), _again(paths, tree)
            )
    except (InputError, OSError, ValueError):
        return RunSource(named)


def _local(paths: Given) -> Iterator[str]:
    for path in map(folder_or_file, paths):
        if path != STDIN and not is_url(path):
            yield path


def _named(path: str) -> str:
    return "standard input" if path == STDIN else shown_given(path)


def source_at(paths: Given, commit: str) -> RunSource:
    """Return the same for an input that was read from a commit."""
    tree = _common_work_tree(paths)
    return RunSource(_shown(paths, tree), commit, paths=_again(paths, tree))


def _shown(paths: Given, tree: WorkTree) -> str:
    """Return the paths as they are from the root; what is not in the work tree as it was given."""
    inside = {path: path_in(tree, path) or "." for path in _local(paths)}
    names = [
        _named(path) if (found := inside.get(path, "..")).startswith("..") else shown_path(found)
        for path in map(folder_or_file, paths)
    ]
    return and_more(names, _SHOWN)


def _again(paths: Given, tree: WorkTree) -> Mapping[str, tuple[str, ...]]:
    """Return what reads the input again; empty if a part is not in the work tree."""
    found: dict[str, tuple[str, ...]] = {}
    for path in paths:
        text = folder_or_file(path)
        inside = "" if text == STDIN or is_url(text) else (path_in(tree, text) or ".")
        if not inside or inside.startswith("..") or shown_path(inside) != inside:
            return {}
        key = "kustomize" if isinstance(path, Overlay) else "filename"
        found[key] = (*found.get(key, ()), inside)
    return found


def _differs(program: GitProgram, tree: WorkTree, commit: str, moment: Moment) -> bool:
    """Return whether the commit has other files than those that were read."""
    files = {_place_in(tree, path): path for path in moment.files}
    folders = {_place_in(tree, path): names for path, names in moment.folders.items()}
    read = {*files, *folders}
    if any(path.startswith("../") for path in read):
        return True
    tops = [path for path in read if path and not read.intersection(folders_above(path))]
    out = program.run(
        *("ls-tree", "-r", "-z", "-l", "--full-tree", commit, "--", *([] if "" in read else tops)),
        repository=tree.repository,
    )
    known = {entry.path: entry.oid for entry in parse_entries(out)}
    if any(known.get(name) not in digests(path, len(commit)) for name, path in files.items()):
        return True
    return any(_is_missing(name, folders) for name in known if is_read(name))


def _place_in(tree: WorkTree, path: str) -> str:
    """Return the path of what was read; a build has followed all links."""
    inside = path_in(tree, path)
    if not inside.startswith("../"):
        return inside
    return path_in(WorkTree(os.path.realpath(tree.root), tree.repository), os.path.realpath(path))


def digests(path: str, length: int) -> tuple[str, ...]:
    """Return the IDs that Git gives a file, as ``blob_ids``; none if it cannot be read."""
    try:
        with open(path, "rb", opener=without_waiting) as stream:
            return blob_ids(stream.read(), length)
    except OSError:
        return ()


def blob_ids(data: bytes, length: int) -> tuple[str, str]:
    """Return the IDs that Git gives a content: as it is, and with its line ends as Unix has them.

    ``length`` says how many digits an ID of the repository has.
    """
    algorithm = (
        "sha1" if length == len(hashlib.sha1(usedforsecurity=False).hexdigest()) else "sha256"
    )

    def of(data: bytes) -> str:
        content = b"blob %d\0" % len(data) + data
        return hashlib.new(algorithm, content, usedforsecurity=False).hexdigest()

    found = of(data)
    return found, of(data.replace(b"\r\n", b"\n")) if b"\r\n" in data else found


def is_read(path: str) -> bool:
    """Return whether a file of a folder may have to do with what is read there."""
    name = PurePosixPath(path).name
    return is_manifest_name(name) or name in NAMES or name == IGNORE_FILE


def _is_missing(path: str, folders: Mapping[str, Iterable[str]]) -> bool:
    """Return whether a folder that was read lacks a file of the commit, or the folder with it."""
    name = path
    for folder in folders_above(path):
        below = name.removeprefix(f"{folder}/") if folder else name
        if folder in folders and below.partition("/")[0] not in folders[folder]:
            return True
    return False
