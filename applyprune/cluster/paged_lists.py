"""Read a list page by page; a page that is too large is asked for again with fewer objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from applyprune.cluster.json_text import item_of
from applyprune.cluster.object_requests import JSON, for_page, selection
from applyprune.cluster.objects import METADATA, invalid_response, live_object, matches
from applyprune.cluster.transport.message import MAX_REPLY
from applyprune.errors import Expired, ReplyTooLarge, Unavailable
from applyprune.model.json_access import field, mapping

if TYPE_CHECKING:
    from applyprune.cluster.transport.transport import Transport
    from applyprune.cluster.watch import Selection
    from applyprune.model.live import LiveObject
    from applyprune.model.resources import Resource

_PAGE = 500
# Bytes of a page of objects, and of a page of metadata. In memory it may take twenty times as much,
# and whoever may create objects decides how large they are.
_PAGE_BYTES = 32 * 1024 * 1024
_PAGE_BYTES_METADATA = 8 * 1024 * 1024
_SMALLER = 8
_RESTARTS = 5


def paged_list(
    transport: Transport,
    resource: Resource,
    wanted: Selection,
    page: int | None = None,
    keep: Callable[[LiveObject], LiveObject] | None = None,
    *,
    timeout: float | None = None,
) -> tuple[Sequence[LiveObject], str]:
    """Return all objects of a selection, never an incomplete list, and where to watch from.

    It is read in pages of at most ``page`` objects. ``keep`` reduces each object to what is needed,
    page by page. Each page must arrive within ``timeout`` seconds.
    """
    for _ in range(_RESTARTS):
        try:
            pages = [
                ([keep(live) for live in lives] if keep else lives, version)
                for lives, version in _pages(transport, resource, wanted, page or _PAGE, timeout)
            ]
            return [live for lives, _ in pages for live in lives], pages[0][1]
        except Expired:
            continue  # the continue token expired: start again with the first page
    raise Unavailable(
        f"the list of {resource.full_plural} could not be completed",
        code=410,
        reason="its continue token expired each time",
    )


def _pages(
    transport: Transport,
    resource: Resource,
    wanted: Selection,
    page: int,
    timeout: float | None,
) -> Iterator[tuple[Sequence[LiveObject], str]]:
    selector, name, full = wanted.selector, wanted.name, wanted.full
    token = ""
    while True:
        query = (("limit", str(page)), *selection(selector, name))
        request = for_page(
            resource,
            wanted.namespace,
            (*query, ("continue", token)) if token else query,
            accept=JSON if full else METADATA.format(list="List"),
            # A single object is taken as it is: some aggregated APIs ignore the limit.
            most=_most(full=full) if page > 1 else MAX_REPLY,
            within=timeout,
        )
        try:
            response = transport.send(request)
        except ReplyTooLarge:
            if page == 1:
                raise
            page = max(1, page // _SMALLER)  # guard: smaller-page
            continue
        items = response.body.get("items")
        kind = str(response.body.get("kind", ""))
        # An empty list of metadata comes as null.
        if "items" not in response.body or not isinstance(items, list | None):
            raise invalid_response(f"the list of {resource.full_plural}", f"its kind is {kind!r}")
        metadata = response.body.get("metadata") or {}
        lives = list(_selected(resource, items or (), wanted))
        yield lives, str(metadata.get("resourceVersion") or "")
        token = str(metadata.get("continue") or "")
        if not token:
            return


def _selected(
    resource: Resource, items: Iterable[object], wanted: Selection
) -> Iterator[LiveObject]:
    """Yield what a page has of a selection, one object after the other: a parsed page is large."""
    for text in items:
        try:
            item = item_of(text)
        except (ValueError, RecursionError):
            what = f"the list of {resource.full_plural}"
            raise invalid_response(what, "an item is not JSON") from None
        labels = mapping(field(item, "metadata", "labels"))
        if not matches(labels, wanted.selector):
            continue
        live = live_object(resource, item, full=wanted.full)
        if live is not None and wanted.name in {"", live.ref.name}:
            yield live


def _most(*, full: bool) -> int:
    return _PAGE_BYTES if full else _PAGE_BYTES_METADATA
