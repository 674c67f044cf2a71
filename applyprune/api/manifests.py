"""Load the manifests of a run, from files and from Python objects."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, BinaryIO, TypeAlias

from applyprune.model.problem import Problem
from applyprune.sources import Input, Overlay, read, read_objects
from applyprune.values import replace

Path: TypeAlias = "str | os.PathLike[str]"


def load(
    *paths: Path | Overlay,
    kustomize: Path | Sequence[Path] = (),
    objects: Iterable[Mapping[str, Any]] = (),
    stdin: BinaryIO | None = None,
    warn: Callable[[Problem], None] | None = None,
) -> Input:
    """Return the manifests of files, folders, patterns, URLs, kustomizations and objects.

    A URL is that of a document or an archive, or the address of a Git repository or an OCI
    artifact, as ``-f`` of the command line takes it. ``-`` is ``stdin``, by default the process's
    own. ``kustomize`` names folders to build. ``objects`` are plain JSON data, and are copied.
    ``warn`` gets redirects of URLs, and what a build writes to standard error.

    Raises InputError, with every error of the input, and UsageError for a path that is invalid.
    """
    builds = [kustomize] if isinstance(kustomize, str | os.PathLike) else kustomize
    given = [one if isinstance(one, Overlay) else os.fspath(one) for one in paths]
    # A process may have been started without standard input.
    source = stdin or getattr(sys.stdin, "buffer", None)
    overlays = [Overlay(os.fspath(folder)) for folder in builds]
    found = read([*given, *overlays], stdin=source, warn=warn or _ignore)
    return replace(found, manifests=(*found.manifests, *read_objects(objects)))


def _ignore(problem: Problem) -> None:
    del problem
