"""Read the input that the command line names: files, folders, patterns, URLs, builds, addresses.

What is read in a folder, and what is an error there, is said in ``folder_rules``. Links are
followed. Each file and folder is read once. What cannot be read never counts as empty.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import BinaryIO, TypeAlias

from applyprune.errors import InputError, UsageError
from applyprune.model.manifest import Origin
from applyprune.model.problem import Problem
from applyprune.sources.folder_rules import (
    Found,
    FoundKustomization,
    Kind,
    find,
    manifests_in,
    unreadable,
)
from applyprune.sources.glob import expand, is_pattern
from applyprune.sources.https import check_url, download, is_url
from applyprune.sources.kustomize import Overlay, build, kustomization_in
from applyprune.sources.remote.address import (
    Address,
    is_address,
    parse_address,
    shown_address,
    source_key,
)
from applyprune.sources.remote.url import shown_url
from applyprune.sources.source import MAX_BYTES, Source, shown_path, too_much
from applyprune.values import dataclass, field

STDIN = "-"
_STDIN_SHOWN = "<stdin>"


@dataclass(frozen=True, slots=True)
class _Url:
    url: str


@dataclass(frozen=True, slots=True)
class _Remote:
    """A source on another host."""

    address: Address
    must_build: bool
    """Whether ``-k`` names it."""


_Place: TypeAlias = "Found[Path] | _Url | Overlay | None"


@dataclass(frozen=True, slots=True)
class Given:
    """One source that a path leads to."""

    path: str | Overlay
    """The path on the command line."""
    place: str = field(repr=False)
    """The identity of the source: two sources with the same place are the same. It may have a
    credential."""
    source: Source | InputError | None
    """The content or the error; None for a repeated source, and for our own configuration file."""
    revision: str = ""
    """What was read of a source on another host: ``main@sha1:…``; empty for other sources."""


def ignore(problem: Problem) -> None:
    """Discard a warning."""
    del problem


def read_sources(
    paths: Sequence[str | Overlay],
    stdin: BinaryIO | None = None,
    warn: Callable[[Problem], None] = ignore,
) -> Iterator[Given]:
    """Yield every source once, in the order of ``paths``; a source that cannot be read as an error.

    Raises UsageError for ``-`` twice or without a ``stdin``, for an empty path and for an
    unsupported URL. ``warn`` receives the warnings about sources that could be read.
    """
    _check(paths, stdin)
    reader = _Reader(stdin, warn)
    for path in paths:
        yield from reader.read(path)


def _check(paths: Sequence[str | Overlay], stdin: BinaryIO | None) -> None:
    if "" in paths or Overlay("") in paths:
        # Path("") is the current directory; an unset variable in a script does not mean that.
        raise UsageError("empty path", hint="Check for an unset variable in the script.")
    if paths.count(STDIN) > 1:
        raise UsageError("standard input can be read only once", hint="Use - only once.")
    if STDIN in paths and stdin is None:
        raise UsageError("standard input is not available")
    for path in paths:
        if _remote(path) is None and isinstance(path, str) and is_url(path):
            check_url(path)


def _remote(path: str | Overlay) -> _Remote | None:
    """Return the source on another host that a path names; None if it names none.

    Raises UsageError for an invalid address.
    """
    address = parse_address(path.folder if isinstance(path, Overlay) else path)
    return None if address is None else _Remote(address, isinstance(path, Overlay))


class _Reader:
    """Reads paths one after the other, each file and folder once."""

    def __init__(self, stdin: BinaryIO | None, warn: Callable[[Problem], None]) -> None:
        self._stdin = stdin
        self._warn = warn
        self._left = MAX_BYTES
        self._seen: set[str] = set()
        self._named: dict[str, list[Address]] = {}

    def read(self, path: str | Overlay) -> Iterator[Given]:
        """Yield the sources of one path."""
        for place in _places(path):
            if isinstance(place, InputError):
                yield Given(path, "", place)
            elif isinstance(place, _Remote):
                yield from self._fetched(path, place)
            elif self._is_new(identity := _identity(place)):
                source = _read(place, self._stdin, self._left, self._warn)
                yield self._given(path, identity, source)
            else:
                yield Given(path, identity, None)

    def _fetched(self, path: str | Overlay, remote: _Remote) -> Iterator[Given]:
        """Yield the sources of an address; what an earlier address has given is not new."""
        # Most inputs are local, and these two take a tenth of a start.
        from applyprune.sources.fetch_address import fetch  # noqa: PLC0415
        from applyprune.sources.fetched.tree_input import tree_sources  # noqa: PLC0415

        address = remote.address
        try:
            tree = fetch(address)
        except InputError as error:
            yield Given(path, "", error)
            return
        # Not its repr: that lacks what must not be shown.
        of = str(astuple(source_key(address)))
        found = tree_sources(
            tree,
            address.path,
            shown=self._name(address),
            limit=self._left,
            warn=self._warn,
            refuses_remote_bases=False,
            must_build=remote.must_build,
        )
        for source in found:
            identity = f"{of} {source.path}" if isinstance(source, Source) else ""
            if not identity or self._is_new(identity):
                yield self._given(path, identity, source, tree.revision)
            else:
                yield Given(path, identity, None, tree.revision)

    def _given(
        self,
        path: str | Overlay,
        identity: str,
        source: Source | InputError | None,
        revision: str = "",
    ) -> Given:
        if isinstance(source, Source):
            self._left -= len(source.data)
        return Given(path, identity, source, revision)

    def _is_new(self, identity: str) -> bool:
        is_new = identity not in self._seen
        self._seen.add(identity)
        return is_new

    def _name(self, address: Address) -> str:
        """Return the shown form of a source; another version of it gets a number, as a name."""
        keys = self._named.setdefault(address.shown, [])
        if (key := source_key(address)) not in keys:
            keys.append(key)
        number = keys.index(key) + 1
        return address.shown if number == 1 else f"{address.shown} ({number})"


def shown_given(path: str | Overlay) -> str:
    """Return one of the paths, safe to print."""
    if isinstance(path, Overlay):
        return _shown_folder(path.folder)
    if path == STDIN:
        return _STDIN_SHOWN
    if is_address(path):
        return shown_address(path)
    return shown_url(path) if is_url(path) else shown_path(path)


def _shown_folder(folder: str) -> str:
    return shown_address(folder) if is_address(folder) else shown_path(folder)


def _places(path: str | Overlay) -> Iterator[_Place | _Remote | InputError]:
    if (remote := _remote(path)) is not None:
        yield remote
    elif isinstance(path, Overlay):
        yield path
    elif path == STDIN:
        yield None
    elif is_url(path):
        yield _Url(path)
    elif is_pattern(path):
        yield from _expand(path)
    else:
        yield from _find(path)


def _identity(place: _Place) -> str:
    """Return the identity of a place: equal for two places that are the same."""
    match place:
        case Found(path=path):
            return os.path.realpath(path)
        case Overlay(folder=folder):
            return f"{os.path.realpath(folder)} built"
        case _Url(url=url):
            return url
    return STDIN


def _expand(pattern: str) -> Iterator[_Place | InputError]:
    try:
        found = expand(pattern)
    except OSError as error:
        yield unreadable(shown_path(str(error.filename or pattern)), error)
        return
    if not found:
        yield InputError(
            "no file matches",
            location=Origin(shown_path(pattern)),
            hint="** matches any number of folders; to match a hidden name, begin with a dot.",
        )
    for path in found:
        yield from _find(path, is_named=False)


def _find(path: str, *, is_named: bool = True) -> Iterator[_Place | InputError]:
    for found in find(_LOCAL, Path(path), is_named=is_named):
        # As the user wrote the folder.
        yield Overlay(path) if isinstance(found, FoundKustomization) else found


class _LocalFolders:
    """The files of this machine; links are followed."""

    def kind(self, path: Path) -> Kind:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            return Kind.FOLDER
        return Kind.FILE if stat.S_ISREG(mode) else Kind.OTHER

    def children(self, folder: Path) -> Iterable[Path]:
        return folder.iterdir()

    def kustomization(self, folder: Path) -> Path | None:
        return kustomization_in(folder)

    def identity(self, folder: Path) -> str:
        return os.path.realpath(folder)

    def shown(self, path: Path) -> str:
        return shown_path(str(path))

    def build_hint(self, folder: Path) -> str:
        return f"Build its folder: -k {self.shown(folder)}"

    def nested_hint(self, folder: Path) -> str:
        return (
            f"Use -k {self.shown(folder)} to build it, or -f with paths that contain no "
            "kustomization."
        )


_LOCAL = _LocalFolders()


def _read(
    place: _Place, stdin: BinaryIO | None, left: int, warn: Callable[[Problem], None]
) -> Source | InputError | None:
    """Return the content of a place; None for our own configuration file in a folder."""
    match place:
        case _Url(url=url):
            return download(url, left, warn)
        case Overlay():
            return build(place, left, warn)
    path = _STDIN_SHOWN if place is None else shown_path(str(place.path))
    try:
        if place is not None:
            with place.path.open("rb") as stream:
                data = _at_most(stream, left + 1)
        else:
            data = _at_most(stdin, left + 1) if stdin else b""
    except (OSError, ValueError) as error:
        return unreadable(path, error)
    if len(data) > left:
        return too_much(path)
    is_named = place is None or place.is_named
    config_hint = f"Pass it as configuration: --config {path}"
    return manifests_in(path, data, is_named=is_named, config_hint=config_hint)


_BLOCK = 2**20


def _at_most(stream: BinaryIO, most: int) -> bytes:
    """Return what a stream holds; ``read(most)`` would allocate so much for the smallest file."""
    blocks: list[bytes] = []
    while most > 0 and (block := stream.read(min(most, _BLOCK))):
        blocks.append(block)
        most -= len(block)
    return b"".join(blocks)
