"""The tags of a repository: the newest version in a range."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.model.json_access import items, mapping
from applyprune.sources.oci.reference import is_tag
from applyprune.sources.oci.registry import next_page, read_json, refused
from applyprune.sources.remote.fetch_errors import PathNotFound, SourceTooLarge
from applyprune.sources.remote.semver import best_version

if TYPE_CHECKING:
    from collections.abc import Iterator

    from applyprune.sources.oci.registry import Registry

MOST_TAGS = 100_000
_PER_PAGE = 1000
_MOST_PAGES = 1000


def newest_in(registry: Registry, wanted: str) -> str:
    """Return the tag with the newest version in a range.

    Raises PathNotFound if there is none, SourceTooLarge for too many tags, and UsageError for an
    invalid range.
    """
    tag = best_version(wanted, list_tags(registry))
    if tag is None:
        raise PathNotFound(f"the repository has no version in the range {wanted}")
    return tag


def list_tags(registry: Registry) -> Iterator[str]:
    """Yield every tag; raises PathNotFound for no such repository, and SourceTooLarge."""
    page = f"tags/list?n={_PER_PAGE}"
    count = 0
    for _ in range(_MOST_PAGES):
        with registry.request("GET", page) as reply:
            if reply.status == 404:
                raise PathNotFound("the registry has no such repository")
            if reply.status != 200:
                raise refused(reply)
            found = items(mapping(read_json(reply)), "tags")
            page = next_page(reply)
        count += len(found)
        if count > MOST_TAGS:
            break
        yield from (tag for tag in found if isinstance(tag, str) and is_tag(tag))
        if not page:
            return
    raise SourceTooLarge(f"the repository has more than {MOST_TAGS} tags", hint="Name a tag.")
