"""The files of a fetched source as input, by the same rules as a local folder.

A kustomization is built in a private folder with the files of the source: regular files only, so
that no link leads out of it. No message names that folder.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from applyprune.errors import InputError
from applyprune.model.manifest import Origin
from applyprune.model.problem import Problem
from applyprune.sources.fetched.remote_bases import remote_base
from applyprune.sources.folder_rules import Found, FoundKustomization, Kind, find, manifests_in
from applyprune.sources.kustomize import NAMES, BuildRules, build_folder, no_kustomization
from applyprune.sources.remote.fetch_errors import FetchFailed, PathNotFound
from applyprune.sources.remote.file_tree import FileTree, clean_path
from applyprune.sources.source import Source, shown_path, too_much
from applyprune.system.files import can_name_file
from applyprune.system.processes import guarding
from applyprune.values import replace

_ROOT = PurePosixPath()
# No server answers at these addresses, and no program can be found.
_OFFLINE = {
    "PATH": "",
    **{
        name: "http://127.0.0.1:1"
        for word in ("http_proxy", "https_proxy", "all_proxy")
        for name in (word, word.upper())
    },
}


def tree_sources(
    tree: FileTree,
    path: str,
    *,
    shown: str,
    limit: int,
    warn: Callable[[Problem], None],
    refuses_remote_bases: bool,
    must_build: bool = False,
) -> Iterator[Source | InputError]:
    """Yield the manifests at a path of a tree and below it, and the errors; see ``folder_rules``.

    ``shown`` is the address of the tree, safe to print: a file is called ``SHOWN//PATH``. ``limit``
    is in bytes, for all sources together. ``warn`` receives what a build writes to standard error.
    With ``refuses_remote_bases``, a kustomization that names anything outside of the tree is an
    error before its build, which has no network and no variable of this process's environment.
    With ``must_build``, a path without a kustomization is an error.
    """
    folders = _TreeFolders(tree.files, shown)
    top = PurePosixPath(path)
    left = limit
    if must_build and not (folders.is_folder(top) and folders.kustomization(top)):
        yield no_kustomization(Origin(folders.shown(top)))
        return
    if not folders.exists(top):
        yield PathNotFound(
            "the source has no such path", location=Origin(folders.shown(top)), hint=_CASE
        )
        return
    source: Source | InputError | None
    for found in find(folders, top):
        match found:
            case FoundKustomization(folder=folder):
                source = _built(folders, folder, left, warn, is_offline=refuses_remote_bases)
            case Found(path=file, is_named=is_named):
                source = _read(folders, file, left, is_named=is_named)
            case InputError():
                source = found
        if isinstance(source, Source):
            left -= len(source.data)
        if source is not None:
            yield source


_CASE = "Check the spelling, and upper and lower case."


class _TreeFolders:
    """The files of a tree as folders; every folder has at least one file below it."""

    def __init__(self, files: Mapping[str, bytes], shown: str) -> None:
        self.files = files
        self.shown_root = shown
        self._children: dict[PurePosixPath, list[PurePosixPath]] = {_ROOT: []}
        for name in files:
            self._add(PurePosixPath(name))

    def _add(self, path: PurePosixPath) -> None:
        parent = path.parent
        if parent not in self._children:
            self._children[parent] = []
            self._add(parent)
        self._children[parent].append(path)

    def is_folder(self, path: PurePosixPath) -> bool:
        return path in self._children

    def exists(self, path: PurePosixPath) -> bool:
        return self.is_folder(path) or str(path) in self.files

    def kind(self, path: PurePosixPath) -> Kind:
        return Kind.FOLDER if self.is_folder(path) else Kind.FILE

    def children(self, folder: PurePosixPath) -> Iterable[PurePosixPath]:
        return self._children[folder]

    def kustomization(self, folder: PurePosixPath) -> PurePosixPath | None:
        return next((path for name in NAMES if str(path := folder / name) in self.files), None)

    def identity(self, folder: PurePosixPath) -> str:
        return str(folder)

    def shown(self, path: PurePosixPath) -> str:
        return self.shown_root if path == _ROOT else f"{self.shown_root}//{shown_path(str(path))}"

    def build_hint(self, folder: PurePosixPath) -> str:
        name = "the root of the source" if folder == _ROOT else shown_path(str(folder))
        return f"Name its folder to have it built: {name}"

    def nested_hint(self, folder: PurePosixPath) -> str:
        return (
            f"Use the path {shown_path(str(folder))} to build it, or a path that contains no "
            "kustomization."
        )


def _read(
    folders: _TreeFolders, file: PurePosixPath, left: int, *, is_named: bool
) -> Source | InputError | None:
    data = folders.files[str(file)]
    if len(data) > left:
        return too_much(folders.shown(file))
    return manifests_in(folders.shown(file), data, is_named=is_named)


def _built(
    folders: _TreeFolders,
    folder: PurePosixPath,
    left: int,
    warn: Callable[[Problem], None],
    *,
    is_offline: bool,
) -> Source | InputError:
    """Write the tree to a private folder, and build a kustomization in it."""
    shown = folders.shown(folder)
    if is_offline:  # guard: remote-bases
        fault = remote_base(folders.files, "" if folder == _ROOT else str(folder))
        if fault is not None:
            where = Origin(folders.shown(PurePosixPath(fault.file)))
            return InputError(fault.what, location=where, reason=fault.reason, hint=fault.hint)
    try:
        with (
            TemporaryDirectory(prefix="applyprune-") as private,
            guarding(Path(private)) as guard,
        ):
            # Kustomize resolves links: of the folder for temporary files, too.
            root = Path(private).resolve() / "source"
            _write(root, folders.files)
            rules = BuildRules(
                shown_text=lambda text: _without(text, root, folders.shown_root), guard=guard
            )
            if is_offline:
                # Windows has no such limits, and no controller.
                from applyprune.system.processes import ProcessLimits  # noqa: PLC0415

                own = {**_OFFLINE, "HOME": private, "TMPDIR": private}
                rules = replace(rules, environ=own, within=ProcessLimits().command())
            return build_folder(str(root / folder), shown, left, warn, rules)
    except OSError as error:
        # Not InvalidSource, which nothing but a change of the source ends.
        return FetchFailed(
            "its files cannot be written for the build",
            location=Origin(shown),
            reason=error.strerror or "",
        )


def _write(root: Path, files: Mapping[str, bytes]) -> None:
    """Write regular files below a new folder, for this user only; raise OSError."""
    root.mkdir(0o700)
    for name, data in files.items():
        if not name or clean_path(name) != name:  # guard: tree-path
            raise OSError(errno.EINVAL, "a file has an invalid path")
        if not all(map(can_name_file, name.split("/"))):
            raise OSError(errno.EINVAL, "a file has a name that this system does not allow")
        path = root / name
        path.parent.mkdir(0o700, parents=True, exist_ok=True)
        # Never through an existing name: two may differ only in case.
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)


def _without(text: str, root: Path, shown: str) -> str:
    """Return a text with the address of the tree instead of its private folder."""
    for name in {f"{root}", root.as_posix()}:
        for end in "/\\":
            text = text.replace(f"{name}{end}", f"{shown}//")
        text = text.replace(name, shown)
    return text
