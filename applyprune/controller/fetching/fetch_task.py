"""What a fetch gets and returns: values, because it runs in a process of its own.

The main process keeps them and looks at none of a source: so it imports nothing that reads one.
"""

from __future__ import annotations

from collections.abc import Mapping

from applyprune.model.problem import Problem
from applyprune.values import dataclass, field


@dataclass(frozen=True, slots=True)
class SourceRequest:
    """What a Bundle needs of a source on another host."""

    remote: bytes = field(repr=False)
    """A RemoteSource, pickled."""
    check: str
    """The name of the look at its reference."""
    place: str
    """The name of what is kept of its host."""
    path: str
    """The folder or file in it; empty for the root."""
    interval: float
    """Seconds between two looks at its reference."""
    timeout: float
    """Seconds for one look, with its download."""
    asked: str = ""
    """The value of the annotation reconcile-now: a new one asks for a look now."""
    lost: str = ""
    """The artifact that is no longer in the cache; empty for none."""


@dataclass(frozen=True, slots=True)
class SourceContent:
    """The content of one path of a source."""

    content: str
    """What changes with the content, and with nothing else."""
    artifact: str
    """Its name in the cache."""
    revision: str
    """The version in which this content was first seen, as in ``status.lastAppliedRevision``."""


@dataclass(frozen=True, slots=True)
class SourceState:
    """What is known of a Bundle's source at the beginning of a reconcile."""

    check: str
    path: str
    content: SourceContent | None
    """The last content that was completely read and verified; None if none was yet."""
    problem: Problem | None = None
    """Why the last look, or what it has found, cannot be used."""
    unusable: tuple[Problem, ...] = ()
    """What is wrong with a newer content, instead of which this one was read."""


@dataclass(frozen=True, slots=True)
class FetchTask:
    """One look at a source, and the fetch of what is new in it."""

    remote: bytes = field(repr=False)
    """A RemoteSource, pickled."""
    place: str
    timeout: float
    """Seconds for all of it."""
    paths: Mapping[str, SourceContent | None]
    """The paths that Bundles need, each with the content that is known of it."""
    tip: bytes = b""
    """What the last look has found, pickled; empty before the first."""
    looks: bool = True
    """Whether to look at the reference; else the last look is recent, and only paths are new."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """The result of one look."""

    tip: bytes
    """What the reference means now, pickled; that of the task if that has not changed."""
    paths: Mapping[str, SourceContent | Problem] = field(default_factory=dict)
    """The new content of each path, or why there is none; a path without news is left out."""
    problem: Problem | None = None
    """Why the look has failed, for every path."""
