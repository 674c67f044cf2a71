"""Fetch what an address names, as the user who runs the command: with that user's credentials."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from applyprune.errors import InputError
from applyprune.model.problem import Origin
from applyprune.sources.address import GitAddress, GitRef, GitSource, OciAddress, is_commit
from applyprune.sources.git_server import find_ref
from applyprune.sources.git_store import GitStore
from applyprune.sources.tree import Deadline, FileTree, PathNotFound, shown_path
from applyprune.system.processes import ProcessGuard
from applyprune.values import replace

if TYPE_CHECKING:
    from applyprune.sources.address import Address
    from applyprune.sources.oci_artifact import OciSource


def fetch(address: Address) -> FileTree:
    """Return the files of a source, by their paths from its root.

    Of a Git repository, these are the files of the address's path, and for a kustomization all
    files that it names. Raises InputError, which names the address, if the source was not
    completely read, and UsageError for a range of versions that is invalid.
    """
    try:
        match address:
            case GitAddress():
                return _fetch_git(address)
            case OciAddress():
                from applyprune.sources.oci_artifact import fetch_artifact

                return fetch_artifact(artifact_source(address, os.environ))
    except InputError as error:
        where = Origin(address.shown)
        error.problem = replace(error.problem, location=str(where), origin=where)
        raise


def artifact_source(address: OciAddress, environ: Mapping[str, str]) -> OciSource:
    """Return an artifact, with the user's credentials for its registry.

    Raises AuthenticationFailed if the credentials cannot be read.
    """
    from applyprune.sources.oci_artifact import OciSource
    from applyprune.sources.oci_registry import registry_login

    login = registry_login(address.host, environ, address.shown)
    return OciSource(address.name, address.ref, login)


def _fetch_git(address: GitAddress) -> FileTree:
    source = GitSource(address.url, address.ref, uses_user_config=True)
    if address.name:
        source = _resolve_name(source, address.name)
    # A store of its own: another command may fetch the same at this moment.
    with TemporaryDirectory(prefix="applyprune-") as folder, ProcessGuard(Path(folder)):
        return fetch_git(source, address.path, Path(folder) / "store")


def fetch_git(source: GitSource, path: str, folder: Path) -> FileTree:
    """Return the files of a path, by their paths from the root, with ``main@sha1:…``.

    With a kustomization in it, they are all files that it names. ``folder`` is that of a store; it
    may be new. Raises the errors of a source, within its timeout.
    """
    deadline = Deadline(source.timeout)
    store = GitStore(folder)
    found = find_ref(source, deadline)
    store.fetch(source, found, [path], deadline)
    files = store.read(found.commit, path, source.limits, deadline, source.parts.shown)
    return FileTree(files, found.revision)


def _resolve_name(source: GitSource, name: str) -> GitSource:
    """Return a source with what a name means: a commit ID, a branch, or else a tag."""
    if is_commit(name.lower()):
        return replace(source, ref=GitRef(commit=name.lower()))
    if name.startswith("refs/"):
        return replace(source, ref=GitRef(name=name))
    for ref in (GitRef(branch=name), GitRef(tag=name)):
        named = replace(source, ref=ref)
        with suppress(PathNotFound):
            find_ref(named)
            return named
    raise PathNotFound(
        f"the repository has no branch and no tag {shown_path(name)}",
        hint="It may have been deleted or renamed, or the repository is empty.",
    )
