"""Watch the objects of a resource, starting at a resourceVersion.

The silence of a watch proves nothing: after it ends, for whatever reason, another watch or a list
must follow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING

from msgspec import Struct

from applyprune.clock import CLOCK, Clock
from applyprune.cluster.messages import json_object
from applyprune.cluster.requests import (
    JSON,
    METADATA,
    for_collection,
    invalid_response,
    live_object,
    selection,
)
from applyprune.cluster.transport import Transport
from applyprune.http import Stopped
from applyprune.model.identity import Ref
from applyprune.model.live import LiveObject, Resource, WatchEvent, WatchEventType

if TYPE_CHECKING:
    from typing import Any


# Seconds after which the server is asked to end a watch. While nothing changes, no other sign of
# life is certain: bookmarks are not guaranteed.
_SESSION = 30
# After so many more seconds of silence, the connection counts as dead.
_GRACE = 5.0
# Bytes of one event. The server's own limit for what it stores is 1.5 MiB.
_MAX_EVENT = 32 * 1024 * 1024
_PARTIAL = ("meta.k8s.io/v1", "PartialObjectMetadata")


class Selection(Struct, frozen=True):
    """Which objects of a resource are selected, and whether in full or only their metadata."""

    namespace: str = ""
    selector: str = ""
    name: str = ""
    full: bool = True
    among: frozenset[str] = frozenset()
    """The values of the label ``selector``, if several are selected."""


def matches(labels: Mapping[str, str], selector: str) -> bool:
    """Return whether labels are selected by ``key`` or ``key=value``, separated by commas."""
    for part in filter(None, selector.split(",")):
        key, equals, value = part.partition("=")
        if key not in labels or (equals and labels[key] != value):
            return False
    return True


def watch(
    transport: Transport,
    resource: Resource,
    wanted: Selection,
    *,
    resource_version: str,
    stop: Callable[[], bool],
    seconds: float,
    clock: Clock = CLOCK,
) -> Iterator[WatchEvent]:
    """Yield the changes of a resource's objects after a resourceVersion, in order.

    It ends after ``seconds``, when ``stop`` returns true, and when the server ends the watch, which
    it is asked to do after half a minute: to go on, watch again from the last resourceVersion.
    ``stop`` is called several times a second, in the caller's thread.

    Raises Expired when the server no longer knows that resourceVersion, Unreachable or Unavailable
    when the connection broke or sent something invalid: then list again. With a selector, a DELETED
    object may be one that no longer matches it.
    """
    selector, name, full = wanted.selector, wanted.name, wanted.full
    what = f"the watch of {resource.full_plural}"
    if not resource_version:
        raise invalid_response(what, "its list had no resourceVersion to start from")
    ends = clock.now() + seconds
    session = max(1, min(_SESSION, math.ceil(seconds)))

    def is_over() -> bool:
        return stop() or clock.now() >= ends

    request = for_collection(
        "GET",
        resource,
        wanted.namespace,
        query=(
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", resource_version),
            ("timeoutSeconds", str(session)),
            *selection(selector, name),
        ),
        accept=JSON if full else METADATA.format(list=""),
    )
    inside = wanted.namespace if resource.namespaced else ""
    try:
        with closing(transport.stream(request, is_over)) as stream:
            for line in event_lines(stream.chunks(session + _GRACE), what):
                if is_over():
                    return
                event = json_object(line)
                item = event.get("object") if event is not None else None
                if event is None or not isinstance(item, dict):
                    raise invalid_response(what, "it sent an invalid event")
                if event.get("type") == "ERROR":
                    raise stream.error(item)
                change = parse_event(resource, inside, event.get("type"), item, full=full)
                if change is None:
                    raise invalid_response(what, "an event is about something else")
                # As in a list: some aggregated APIs ignore the selector.
                if change.kind is WatchEventType.BOOKMARK or (
                    matches(change.live.labels, selector) and name in {"", change.live.ref.name}
                ):
                    yield change
    except Stopped:
        return


def event_lines(chunks: Iterable[bytes], what: str) -> Iterator[bytes]:
    """Join chunks into lines; yield each as soon as it is complete, without blank ones.

    Raises Unavailable, about ``what``, for an unfinished last line and for a line that is too long.
    """
    parts: list[bytes] = []
    size = 0
    for chunk in chunks:
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            line = b"".join((*parts, end))
            parts, size = [], 0
            if line.strip():
                yield line
        parts.append(rest)
        size += len(rest)
        if size > _MAX_EVENT:
            raise invalid_response(what, f"an event is longer than {_MAX_EVENT >> 20} MiB")
    if b"".join(parts).strip():
        raise invalid_response(what, "it was cut off in the middle of an event")


def parse_event(
    resource: Resource, namespace: str, kind: object, item: Mapping[str, Any], *, full: bool
) -> WatchEvent | None:
    """Parse an event; None when it is not about the resource in the namespace."""
    try:
        known = WatchEventType(kind)  # type: ignore[arg-type]  # an unknown kind raises
    except ValueError:
        return None
    type_ = (resource.gvk.api_version, resource.kind) if full else _PARTIAL
    if (item.get("apiVersion"), item.get("kind")) != type_:
        return None
    live = (
        _bookmark(resource, item)
        if known is WatchEventType.BOOKMARK
        else live_object(resource, item, full=full)
    )
    if live is None or not live.resource_version:
        return None
    # A bookmark has no object, and so no name.
    if namespace and live.ref.name and live.ref.namespace != namespace:
        return None
    return WatchEvent(known, live)


def _bookmark(resource: Resource, item: Mapping[str, Any]) -> LiveObject | None:
    metadata = item.get("metadata")
    if not isinstance(metadata, dict):
        return None
    return LiveObject.of(
        ref=Ref(resource.group, resource.kind, "", ""),
        uid="",
        resource_version=str(metadata.get("resourceVersion") or ""),
        metadata=metadata,
        body=item,
    )
