"""What a registry has about an artifact: signatures by tag, and referrers."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from applyprune.model.json_access import items, mapping
from applyprune.sources.oci.artifact_manifest import (
    INDEX,
    Descriptor,
    Manifest,
    fetch_blob,
    fetch_manifest,
    read_descriptor,
)
from applyprune.sources.oci.registry import next_page, read_json, refused
from applyprune.sources.remote.fetch_errors import SourceTooLarge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from applyprune.sources.oci.registry import Registry

MOST_REFERRERS = 500
MOST_BLOB = 2**20
"""Bytes of a signature or of a bundle."""
_MOST_PAGES = 20
# The statuses of registries without the API.
_NO_API = frozenset({400, 404, 405, 406, 415})


def signature_manifest(registry: Registry, digest: str) -> Manifest | None:
    """Return the manifest with the tag ``sha256-….sig``, where cosign puts signatures; or None.

    Raises as ``fetch_manifest``.
    """
    return fetch_manifest(registry, f"{_tag(digest)}.sig")


def referrers(registry: Registry, digest: str) -> Sequence[Descriptor]:
    """Return the manifests that refer to an artifact, by the API or by the tag instead of it.

    They are what the registry says: nothing about them is checked yet. Raises SourceTooLarge for
    too many, AuthenticationFailed and FetchFailed.
    """
    found = _pages(registry, f"referrers/{digest}")
    if found is None:
        found = _pages(registry, f"manifests/{_tag(digest)}")
    return found or ()


def small_blob(registry: Registry, blob: Descriptor) -> bytes:
    """Return a blob of at most MOST_BLOB bytes, its digest checked; raises as ``fetch_blob``."""
    file = io.BytesIO()
    fetch_blob(registry, blob, file, MOST_BLOB)
    return file.getvalue()


def _pages(registry: Registry, page: str) -> list[Descriptor] | None:
    """Return the manifests of an index, page by page; None if there is no such index."""
    found: list[Descriptor] = []
    for _ in range(_MOST_PAGES):
        with registry.request("GET", page, headers={"Accept": INDEX}) as reply:
            if reply.status in _NO_API:
                return None
            if reply.status != 200:
                raise refused(reply)
            listed = items(mapping(read_json(reply)), "manifests")
            page = next_page(reply)
        found += [read_descriptor(one) for one in listed]
        if len(found) > MOST_REFERRERS:
            break
        if not page:
            return found
    raise SourceTooLarge(f"more than {MOST_REFERRERS} manifests refer to the artifact")


def _tag(digest: str) -> str:
    return digest.replace(":", "-")
