"""One look at a source on another host, and the fetch of what is new in it, in a worker process.

What is written into the cache was completely read and verified.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TypeAlias

from applyprune.controller.fetching.fetch_task import Fetched, FetchTask, SourceContent
from applyprune.controller.fetching.remote_source import RemoteSource, Verification
from applyprune.controller.fetching.source_cache import SourceCache, refused_disk
from applyprune.errors import InputError, UsageError, as_problem
from applyprune.model.problem import Problem
from applyprune.planning.fields.normalize import digest
from applyprune.sources.address import FoundRef, GitSource
from applyprune.sources.archive import (
    ArchiveSource,
    ArchiveVersion,
    Unchanged,
    check_archive,
    fetch_archive,
)
from applyprune.sources.git_server import find_ref
from applyprune.sources.git_signatures import Mode, verify
from applyprune.sources.git_signatures import Verification as SignedBy
from applyprune.sources.git_store import GitStore, Read
from applyprune.sources.kustomize import included
from applyprune.sources.oci_artifact import FoundArtifact, OciSource, fetch_artifact, find_artifact
from applyprune.sources.oci_cosign import verification
from applyprune.sources.tree import Deadline, FileTree, PathNotFound, SourceTooLarge, shown_path
from applyprune.values import replace

_Contents: TypeAlias = dict[str, SourceContent | Problem]


def fetch(task: FetchTask, cache: SourceCache) -> Fetched:
    """Look at a source, and put into the cache what of the task's paths is new."""
    if not task.looks and all(task.paths.values()):
        return Fetched(task.tip)
    # Both come from a worker of this controller.
    remote: RemoteSource = pickle.loads(task.remote)  # noqa: S301
    transport = replace(remote.transport, timeout=task.timeout)
    known = pickle.loads(task.tip) if task.tip else None  # noqa: S301
    verified_by = remote.verification
    try:
        with refused_disk():
            match transport:
                case GitSource() as git:
                    fetched = _git(git, verified_by, known, task, cache)
                case OciSource() as oci:
                    fetched = _oci(oci, verified_by, known, task, cache)
                case ArchiveSource() as archive:
                    fetched = _archive(archive, known, task, cache)
            cache.trim(cache.stores / task.place)
    except (InputError, UsageError) as error:
        return Fetched(task.tip, problem=as_problem(error))
    return fetched


def _git(
    source: GitSource,
    verified_by: Verification | None,
    known: FoundRef | None,
    task: FetchTask,
    cache: SourceCache,
) -> Fetched:
    deadline = Deadline(source.timeout)
    found = find_ref(source, deadline) if task.looks or known is None else known
    if found == known and all(task.paths.values()):
        return Fetched(task.tip)
    store = GitStore(cache.store(task.place))
    shown = source.parts.shown
    problems = _fetched(store, source, found, task, deadline)
    if verified_by is not None:
        signed = SignedBy(Mode(verified_by.mode), verified_by.keys)
        verify(store, found, signed, shown, deadline)  # guard: verified-commit
    paths = tuple(path for path in task.paths if path not in problems)
    consists = store.all_included(found.commit, paths, deadline)
    wanted = {part for one in consists.values() for part in one.paths}
    ids = store.ids(found.commit, tuple(wanted), deadline)

    def read(paths: Sequence[str]) -> Iterable[tuple[str, Read]]:
        return store.read_all(found.commit, paths, source.limits, deadline, where=shown)

    contents = {
        path: digest([[part, ids.get(part)] for part in one.paths])
        for path, one in consists.items()
    }
    new = _new(task, cache, contents, found.revision, read)
    return Fetched(_tip(found, known, task), {**new, **problems})


def _fetched(
    store: GitStore, source: GitSource, found: FoundRef, task: FetchTask, deadline: Deadline
) -> Mapping[str, Problem]:
    """Fetch all paths; return what is wrong with those that are too large.

    One that was never read comes after those that were: it may be of somebody else.
    """
    too_large: dict[str, SourceTooLarge] = {}
    known = tuple(path for path, content in task.paths.items() if content is not None)
    others = tuple(path for path in task.paths if path not in known)
    for group in filter(None, (known, others)):
        try:
            store.fetch(source, found, group, deadline)
        except SourceTooLarge:
            for path in group:
                try:
                    if len(task.paths) == 1:
                        raise
                    store.fetch(source, found, (path,), deadline)
                except SourceTooLarge as own:
                    too_large[path] = own
    if len(too_large) == len(task.paths):
        raise next(iter(too_large.values()))
    return {path: as_problem(error) for path, error in too_large.items()}


def _oci(
    source: OciSource,
    verified_by: Verification | None,
    known: FoundArtifact | None,
    task: FetchTask,
    cache: SourceCache,
) -> Fetched:
    found = find_artifact(source) if task.looks or known is None else known
    if found == known and all(task.paths.values()):
        return Fetched(task.tip)
    # guard: verified-artifact
    verify_it = None if verified_by is None else verification(verified_by.keys)
    tree = fetch_artifact(source, found, verify=verify_it)
    return Fetched(_tip(found, known, task), _of_tree(task, cache, tree))


def _archive(
    source: ArchiveSource, known: ArchiveVersion | None, task: FetchTask, cache: SourceCache
) -> Fetched:
    is_complete = all(task.paths.values())
    version = check_archive(source, known if is_complete else None)
    if isinstance(version, Unchanged):
        return Fetched(task.tip)
    contents = _of_tree(task, cache, fetch_archive(source))
    # The server has only the present archive. One that is read for a new path alone may be newer
    # than what the other paths have: then the next look must still find that it has changed.
    # guard: tip-of-all-paths
    tip = _tip(version, known, task) if task.looks else task.tip
    return Fetched(tip, contents)


def _tip(found: object, known: object, task: FetchTask) -> bytes:
    """Return what was found, pickled; the same bytes if it is what was known."""
    return task.tip if found == known else pickle.dumps(found)


def _of_tree(task: FetchTask, cache: SourceCache, tree: FileTree) -> _Contents:
    """Return the content of each path of a source that is read as a whole."""
    files = tree.files
    parts = {path: _files_of(files, path) for path in task.paths}
    contents = {
        path: digest([[name, hashlib.sha256(data).hexdigest()] for name, data in part.items()])
        for path, part in parts.items()
    }

    def read(paths: Sequence[str]) -> Iterable[tuple[str, Read]]:
        for path in paths:
            absent = PathNotFound(f"the source has no such path: {shown_path(path)}")
            yield path, parts[path] or absent

    return _new(task, cache, contents, tree.revision, read)


def _files_of(files: Mapping[str, bytes], path: str) -> Mapping[str, bytes]:
    """Return the files that a path consists of: all that a kustomization in it names, too."""
    wanted = included(path, _Files(files)).paths
    return {
        name: data
        for name, data in sorted(files.items())
        if any(part in {"", name} or name.startswith(f"{part}/") for part in wanted)
    }


class _Files:
    """The files of a tree, as a kustomization is followed through them."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = files
        parents = {parent for name in files for parent in PurePosixPath(name).parents}
        self._folders = {"" if str(one) == "." else str(one) for one in parents}

    def kind(self, path: str) -> str | None:
        if path in self._files:
            return "blob"
        return "tree" if path in self._folders else None

    def read(self, path: str) -> bytes | None:
        return self._files.get(path)


def _new(
    task: FetchTask,
    cache: SourceCache,
    contents: Mapping[str, str],
    revision: str,
    read: Callable[[Sequence[str]], Iterable[tuple[str, Read]]],
) -> _Contents:
    """Return what is new, or wrong, at the paths; what is new is in the cache then."""
    found: _Contents = {}
    for path, content in contents.items():
        known = task.paths[path]
        if known is None or known.content != content:
            found[path] = SourceContent(content, cache.artifact_name(task.place, content), revision)
    names = {path: one.artifact for path, one in found.items() if isinstance(one, SourceContent)}
    # All at once: a process of git for each of a thousand paths would take minutes.
    for path, files in read([path for path, name in names.items() if not cache.has(name)]):
        try:
            if isinstance(files, InputError):
                raise files
            cache.put(names[path], files)
        except (InputError, UsageError) as error:
            found[path] = as_problem(error)
    return found
