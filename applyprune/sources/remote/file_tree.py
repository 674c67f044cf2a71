"""The files of a fetched source, as one value: there is no work tree in which a link could lead."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from applyprune.values import dataclass, field


@dataclass(frozen=True, slots=True)
class FileTree:
    """The regular files of one source, with the version that they are of."""

    files: Mapping[str, bytes] = field(
        default_factory=lambda: MappingProxyType({}), repr=False, hash=False
    )
    """The content of each file, by its path: relative, with ``/``, without ``.`` and ``..``."""
    revision: str = ""
    """What was read, as ``status.lastAppliedRevision`` shows it: ``main@sha1:…``,
    ``1.4.0@sha256:…``."""


@dataclass(frozen=True, slots=True)
class TreeLimits:
    """How much of one source is read; more is SourceTooLarge, and nothing of it is used."""

    files: int = 20_000
    size: int = 256 * 2**20
    """Bytes, for all files together, and for what is transferred."""


def clean_path(path: str) -> str | None:
    """Return a path as a FileTree has it; None for one that could lead out of the tree.

    A folder may end with a slash; the root is empty.
    """
    path = path.removesuffix("/")
    if path in {"", "."}:
        return ""
    parts = path.removeprefix("./").split("/")
    is_safe = not any(part in {"", ".", ".."} for part in parts)
    return "/".join(parts) if is_safe and "\0" not in path else None
