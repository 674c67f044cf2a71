"""The check and the fetch of a source on another host, in worker processes, and their cache.

What is written into the cache was completely read and verified.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct, field
from msgspec.structs import astuple

from applyprune.clock import CLOCK, Clock
from applyprune.controller.task import (
    SLOW,
    CheckResult,
    CheckTask,
    FetchResult,
    FetchTask,
    SourceContent,
)
from applyprune.errors import InputError, UsageError
from applyprune.http import SILENCE, Patience, addresses_of, one_try
from applyprune.model.problem import Problem
from applyprune.planning.normalize import digest
from applyprune.sources.address import FoundRef, GitSource
from applyprune.sources.git_server import find_ref
from applyprune.sources.git_signatures import GitVerification, SignatureMode, verify
from applyprune.sources.git_store import GitStore, PathFiles
from applyprune.sources.kustomize import FilesOfTree, included
from applyprune.sources.oci_artifact import FoundArtifact, OciSource, fetch_artifact, find_artifact
from applyprune.sources.oci_cosign import verification
from applyprune.sources.tree import Deadline, FetchFailed, no_such_path
from applyprune.values import hiding, replace

_Contents: TypeAlias = dict[str, SourceContent | Problem]


def check_source(
    task: CheckTask, clock: Clock = CLOCK, is_wanted: Callable[[], bool] | None = None
) -> CheckResult:
    """Ask what the reference of a source means now; nothing of it is read.

    Raises Stopped soon after ``is_wanted`` returns false.
    """
    # Both come from a worker of this controller.
    remote: RemoteSource = pickle.loads(task.remote)  # noqa: S301
    transport = replace(remote.transport, timeout=task.timeout)
    known = pickle.loads(task.tip) if task.tip else None  # noqa: S301
    began = clock.now()
    try:
        found = _found(transport, Patience(SILENCE, is_wanted))
    except (InputError, UsageError) as error:
        result = CheckResult(task.tip, problem=error.problem)
    else:
        result = (
            CheckResult(task.tip)
            if found == known
            else CheckResult(pickle.dumps(found), is_new=True)
        )
    if clock.now() - began <= SLOW:
        return result
    return replace(result, address=_address(transport))


def _found(transport: SourceTransport, patience: Patience) -> FoundRef | FoundArtifact:
    with refused_disk():
        match transport:
            case GitSource() as git:
                return find_ref(git, Deadline(git.timeout, patience))
            case OciSource() as oci:
                return find_artifact(oci, patience)


def _address(transport: SourceTransport) -> str:
    """Return an address of the host of a source, or its name if that means none."""
    host = urlsplit(transport.url).hostname or ""
    try:
        with one_try(SLOW):
            return addresses_of(host, 443, None)[0]
    except OSError:
        return host


def fetch_source(task: FetchTask, cache: SourceCache) -> FetchResult:
    """Put into the cache what of the task's paths is new in what a check has found."""
    # Both come from a worker of this controller.
    remote: RemoteSource = pickle.loads(task.remote)  # noqa: S301
    transport = replace(remote.transport, timeout=task.timeout)
    found = pickle.loads(task.tip)  # noqa: S301
    verified_by = remote.verification
    try:
        with refused_disk():
            match transport:
                case GitSource() as git:
                    contents = _git(git, verified_by, found, task, cache)
                case OciSource() as oci:
                    contents = _oci(oci, verified_by, found, task, cache)
            cache.trim(cache.stores / task.place)
    except (InputError, UsageError) as error:
        return FetchResult(problem=error.problem)
    return FetchResult(contents)


def _git(
    source: GitSource,
    verified_by: SourceVerification | None,
    found: FoundRef,
    task: FetchTask,
    cache: SourceCache,
) -> _Contents:
    deadline = Deadline(source.timeout)
    store = GitStore(cache.store(task.place))
    shown = source.parts.shown
    store.fetch(source, found, deadline)
    if verified_by is not None:
        signed = GitVerification(SignatureMode(verified_by.mode), verified_by.keys)
        verify(store, found, signed, shown, deadline)  # guard: verified-commit
    with store.reading(found.commit, shown, deadline) as tree:
        contents = {
            path: digest([[part, tree.id(part)] for part in tree.included(path).paths])
            for path in task.paths
        }
        return _new(
            *(task, cache, contents, found.revision),
            lambda paths: tree.read_all(paths, source.limits),
        )


def _oci(
    source: OciSource,
    verified_by: SourceVerification | None,
    found: FoundArtifact,
    task: FetchTask,
    cache: SourceCache,
) -> _Contents:
    # guard: verified-artifact -> None
    verify_it = None if verified_by is None else verification(verified_by.keys)
    # An artifact is read as a whole.
    tree = fetch_artifact(source, found, verify=verify_it)
    files = tree.files
    parts = {path: _files_of(files, path) for path in task.paths}
    contents = {
        path: digest([[name, hashlib.sha256(data).hexdigest()] for name, data in part.items()])
        for path, part in parts.items()
    }

    def read(paths: Sequence[str]) -> Iterable[tuple[str, PathFiles]]:
        for path in paths:
            yield path, parts[path] or no_such_path(path, files, "")

    return _new(task, cache, contents, tree.revision, read)


def _files_of(files: Mapping[str, bytes], path: str) -> Mapping[str, bytes]:
    """Return the files that a path consists of: all that a kustomization in it names, too.

    There are none if the path does not exist: rules that hold for it do not count.
    """
    tree = FilesOfTree(files)
    if tree.kind(path) is None:
        return {}
    wanted = included(path, tree).paths
    return {
        name: data
        for name, data in sorted(files.items())
        if any(part in {"", name} or name.startswith(f"{part}/") for part in wanted)
    }


def _new(
    task: FetchTask,
    cache: SourceCache,
    contents: Mapping[str, str],
    revision: str,
    read: Callable[[Sequence[str]], Iterable[tuple[str, PathFiles]]],
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
            found[path] = error.problem
    return found


# A source on another host, as a Bundle names it and its ServiceAccount may read it.


SourceTransport: TypeAlias = GitSource | OciSource


class RemoteSource(Struct, frozen=True):
    """Where a source is, who reads it, and whom it must be from."""

    transport: SourceTransport
    verification: SourceVerification | None = None
    """None if no signature is needed."""

    def place(self, secret: bytes) -> str:
        """Return the name of what is kept of its host.

        It is the same for the same URL, credentials and rules only: tenants with other credentials
        share nothing. ``secret`` is the controller's, so the name tells nothing about these.
        """
        transport = self.transport
        addresses = transport.addresses
        return _name(secret, transport.url, astuple(transport.credentials), addresses)

    def check(self, secret: bytes) -> str:
        """Return the name of the check of its reference, for all Bundles that need the same one."""
        verification = self.verification
        keys = sorted(verification.keys.items()) if verification is not None else []
        mode = verification.mode if verification is not None else ""
        version = astuple(self.transport.ref)
        return _name(secret, self.place(secret), version, mode, keys)


class SourceVerification(Struct, frozen=True):
    """Whose signatures a source must have."""

    mode: str
    """``HEAD``, ``Tag`` or ``TagAndHEAD`` for Git, ``cosign`` for OCI."""
    keys: Mapping[str, bytes] = field(default_factory=lambda: MappingProxyType({}))
    """The public keys, by their names in the Secret."""

    __repr__ = hiding("keys")


def _name(secret: bytes, *parts: object) -> str:
    return hashlib.blake2b(repr(parts).encode(), key=secret, digest_size=20).hexdigest()


# The cache on the disk, within a size; every process of a replica uses it.


_LARGEST_HEAD = 16 * 2**20


class SourceCache(Struct, frozen=True):
    """Two folders: artifacts by the name of their content, and what is kept of Git servers."""

    folder: Path
    limit: int
    """Bytes, for both together; the least recently used are removed first."""

    @property
    def artifacts(self) -> Path:
        return self.folder / "artifacts"

    @property
    def stores(self) -> Path:
        return self.folder / "git"

    def artifact_name(self, place: str, content: str) -> str:
        """Return the name of the artifact with a content that was read from a place.

        Nothing that is read with other credentials has the same name.
        """
        return hashlib.sha256(f"{place}\n{content}".encode()).hexdigest()[:40]

    def has(self, artifact: str) -> bool:
        """Return whether an artifact is there; then it counts as used."""
        with suppress(OSError):
            os.utime(self.artifacts / artifact)
            return True
        return False

    def put(self, artifact: str, files: Mapping[str, bytes]) -> None:
        """Write an artifact: all of it, or nothing. Raises FetchFailed if the disk is full."""
        head = json.dumps([[path, len(data)] for path, data in files.items()]).encode()
        digest = hashlib.sha256(head)
        for data in files.values():
            digest.update(data)
        with refused_disk():
            self.artifacts.mkdir(mode=0o700, parents=True, exist_ok=True)
            partial = self.artifacts / f".{secrets.token_hex(8)}"
            try:
                with partial.open("xb") as stream:
                    stream.write(digest.hexdigest().encode() + b" %d\n" % len(head) + head)
                    stream.writelines(files.values())
                partial.replace(self.artifacts / artifact)
            finally:
                partial.unlink(missing_ok=True)

    def read(self, artifact: str) -> Mapping[str, bytes] | None:
        """Return the files of an artifact; None if it is not there, or not as it was written."""
        try:
            with (self.artifacts / artifact).open("rb") as stream:
                first = stream.readline(100).split()
                head = stream.read(min(int(first[1]), _LARGEST_HEAD))
                digest = hashlib.sha256(head)
                files = {}
                for path, size in json.loads(head):
                    files[path] = stream.read(size)
                    digest.update(files[path])
        except (OSError, ValueError, IndexError, TypeError):
            return None
        if digest.hexdigest().encode() != first[0]:  # guard: whole-artifact never
            return None
        self.has(artifact)
        return files

    def store(self, place: str) -> Path:
        """Return the folder of a Git repository; it counts as used, and may not exist yet."""
        folder = self.stores / place
        with refused_disk():
            self.stores.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(OSError):
            os.utime(folder)
        return folder

    def trim(self, keep: Path | None = None) -> None:
        """Remove what was not used for the longest time, until the rest is within the limit.

        ``keep`` is in use. Whoever needs something that is removed fetches it again.
        """
        found = sorted(self._entries())
        total = sum(size for _, _, size in found)
        for _, path, size in found:
            if total <= self.limit:
                return
            if path == keep:
                continue
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
            total -= size

    def _entries(self) -> Iterator[tuple[float, Path, int]]:
        """Yield each artifact and each repository: when it was used, and its size."""
        for folder in (self.artifacts, self.stores):
            for path in folder.iterdir() if folder.is_dir() else ():
                with suppress(OSError):
                    yield path.stat().st_mtime, path, _size(path)


@contextmanager
def refused_disk() -> Iterator[None]:
    """Turn an error of the disk into FetchFailed: it is one of the Bundle, not of the program."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise FetchFailed(
            "the source cannot be kept", reason=f"the source cache: {reason}"
        ) from error


def _size(path: Path) -> int:
    if not path.is_dir():
        return path.stat().st_size
    return sum(
        (Path(folder) / name).stat().st_size for folder, _, names in os.walk(path) for name in names
    )
