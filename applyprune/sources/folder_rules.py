"""Which files of a folder are manifests: one rule for local folders and for fetched sources.

A folder is read recursively, sorted by name: every file that ends in .yaml, .yml or .json, also
hidden files (a skipped file would one day prune the objects in it). A folder with a kustomization
at its top is built instead. A kustomization further down is an error, because its intent is
unclear. What cannot be read never counts as empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum, auto
from pathlib import PurePath
from typing import Generic, Protocol, TypeVar

from applyprune.errors import InputError
from applyprune.model.manifest import Origin
from applyprune.sources.config_file import is_configuration, is_schema
from applyprune.sources.kustomize import NAMES
from applyprune.sources.source import Source
from applyprune.values import dataclass

SUFFIXES = (".yaml", ".yml", ".json")
"""The suffixes of manifests in a folder; a file that is named explicitly may have any suffix."""

P = TypeVar("P", bound=PurePath)


class Kind(Enum):
    """What a path leads to."""

    FOLDER = auto()
    FILE = auto()
    OTHER = auto()
    """A pipe, a device: reading it may never end."""


class Folders(Protocol[P]):
    """What this module needs of a file system, or of the files of a fetched source."""

    def kind(self, path: P) -> Kind:
        """Return what a path leads to; raise OSError or ValueError."""

    def children(self, folder: P) -> Iterable[P]:
        """Return the paths in a folder, in any order; raise OSError."""

    def kustomization(self, folder: P) -> P | None:
        """Return the kustomization file of a folder, None if it has none; raise OSError."""

    def identity(self, folder: P) -> str:
        """Return a text that is equal for two paths to the same folder."""

    def shown(self, path: P) -> str:
        """Return a path, safe to print."""

    def build_hint(self, folder: P) -> str:
        """Return what to do to have the kustomization in a folder built."""

    def nested_hint(self, folder: P) -> str:
        """Return what to do about a kustomization further down."""


@dataclass(frozen=True, slots=True)
class Found(Generic[P]):
    """A file to read."""

    path: P
    is_named: bool
    """Whether the user named it; otherwise it was found in a folder or by a pattern."""


@dataclass(frozen=True, slots=True)
class FoundKustomization(Generic[P]):
    """A folder to build."""

    folder: P


def find(
    folders: Folders[P], top: P, *, is_named: bool = True
) -> Iterator[Found[P] | FoundKustomization[P] | InputError]:
    """Yield what is to be read or built at a path and below it, in order, and the errors.

    ``is_named`` is false for a path that a pattern has found.
    """
    try:
        kind = folders.kind(top)
        if kind is Kind.FOLDER and folders.kustomization(top) is not None:
            yield FoundKustomization(top)
            return
    except (OSError, ValueError) as error:
        yield unreadable(folders.shown(top), error)
        return
    if kind is Kind.FOLDER:
        yield from _walk(folders, top)
    elif top.name in NAMES:
        yield InputError(
            "a kustomization is not a manifest",
            location=Origin(folders.shown(top)),
            hint=folders.build_hint(_parent(top)),
        )
    elif is_named or kind is Kind.FILE:
        yield Found(top, is_named)
    else:
        yield _irregular(folders.shown(top))


def manifests_in(
    shown: str, data: bytes, *, is_named: bool, config_hint: str = ""
) -> Source | InputError | None:
    """Return the content of a file as input; None for our own configuration or its schema.

    ``shown`` is the file's path, safe to print. A file that the user named is never skipped.
    """
    if is_schema(data) and not is_named:
        return None
    if not is_configuration(data):
        return Source(shown, data)
    if not is_named:
        return None
    return InputError(
        "an applyprune configuration is not a manifest", location=Origin(shown), hint=config_hint
    )


def unreadable(shown: str, error: OSError | ValueError) -> InputError:
    """Return the error for a path that the system cannot read; ``shown`` is safe to print."""
    reason = error.strerror if isinstance(error, OSError) else None
    return InputError("cannot be read", location=Origin(shown), reason=reason or "")


def _walk(folders: Folders[P], top: P) -> Iterator[Found[P] | InputError]:
    """Yield the manifests in a folder and below it, sorted by name within each folder."""
    entered: set[str] = set()
    waiting = [top]
    while waiting:
        path = waiting.pop()
        try:
            kind = folders.kind(path)
            if kind is Kind.FOLDER:
                if (identity := folders.identity(path)) in entered:
                    continue
                entered.add(identity)
                if (kustomization := folders.kustomization(path)) is not None:
                    yield _nested(folders, kustomization, top)
                    continue
                waiting += sorted(
                    folders.children(path), key=lambda child: child.name, reverse=True
                )
                continue
        except OSError as error:
            # A broken link may have led to a manifest, or to a folder of manifests.
            yield unreadable(folders.shown(path), error)
            continue
        if not path.name.endswith(SUFFIXES):
            continue
        if kind is Kind.FILE:
            yield Found(path, is_named=False)
        else:
            yield _irregular(folders.shown(path))


def _irregular(shown: str) -> InputError:
    # Reading a pipe without a writer would never end.
    return InputError("not a regular file", location=Origin(shown))


def _nested(folders: Folders[P], kustomization: P, top: P) -> InputError:
    return InputError(
        f"found a kustomization in a subfolder of {folders.shown(top)}",
        location=Origin(folders.shown(kustomization)),
        reason="it may be meant to be built, or to be the base of another build",
        hint=folders.nested_hint(_parent(kustomization)),
    )


def _parent(path: P) -> P:
    return path.parent
