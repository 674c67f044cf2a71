"""Turn the fetched content of a Bundle's source into texts of manifests: decrypted, and built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from applyprune.errors import InputError, raise_all
from applyprune.model.problem import Problem
from applyprune.sources.inputs import tree_sources
from applyprune.sources.sops import decrypt, encrypted_files
from applyprune.sources.tree import DecryptionFailed, FileTree, Source, error_of

if TYPE_CHECKING:
    from applyprune.controller.fetching.fetch_task import (
        SourceContent,
        SourceRequest,
        SourceState,
    )
    from applyprune.controller.fetching.source_cache import SourceCache

_LARGEST = 64 * 2**20
"""Bytes for all texts of one source."""


class SourceAwaited(Exception):
    """The content of the source is not there yet; the reconcile goes on when it is."""

    def __init__(self, lost: str = "") -> None:
        """Keep the name of the artifact that was there before; empty for none."""
        super().__init__("the source is being fetched")
        self.lost = lost


def content_of(request: SourceRequest, state: SourceState | None) -> SourceContent:
    """Return the last good content of a source.

    Raises SourceAwaited if the source was not read yet, and the InputError that says why it cannot
    be read.
    """
    if state is None or (state.check, state.path) != (request.check, request.path):
        raise SourceAwaited
    if state.content is None:
        if state.problem is None:
            raise SourceAwaited
        raise error_of(state.problem)
    return state.content


def remote_texts(
    request: SourceRequest,
    content: SourceContent,
    cache: SourceCache,
    keys: Mapping[str, bytes] | None,
    warn: Callable[[Problem], None],
) -> list[Source]:
    """Return the texts of the manifests in a content; ``keys`` decrypt it, if it is encrypted.

    Raises SourceAwaited if the cache has lost it, and InputError.
    """
    files = cache.read(content.artifact)
    if files is None:
        raise SourceAwaited(content.artifact)
    files = _decrypted(files, request.path, keys)
    tree = FileTree(files, content.revision)
    found = list(
        tree_sources(
            tree,
            request.path,
            shown="",
            limit=_LARGEST,
            warn=warn,
            refuses_remote_bases=True,
        )
    )
    raise_all([one for one in found if isinstance(one, InputError)])
    return [one for one in found if isinstance(one, Source)]


def _decrypted(
    files: Mapping[str, bytes], path: str, keys: Mapping[str, bytes] | None
) -> Mapping[str, bytes]:
    """Return the files of a source, those at its path decrypted.

    Of a kustomization, files elsewhere may be there that it does not use, and that others encrypt.
    """
    own = {name: data for name, data in files.items() if is_below(name, path)}
    if keys is None:
        if encrypted := encrypted_files(own):
            raise DecryptionFailed(
                "the file is encrypted, and spec.decryption is not set", location=encrypted[0]
            )
        return files
    found = {**files, **decrypt(own, keys)}
    for name in encrypted_files({name: found[name] for name in files.keys() - own.keys()}):
        with suppress(DecryptionFailed):
            found.update(decrypt({name: files[name]}, keys))
    return found


def is_below(name: str, path: str) -> bool:
    """Return whether a file is at a path, or in the folder that is there."""
    return path in {"", name} or name.startswith(f"{path}/")
