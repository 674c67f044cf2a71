"""Read the log of a container line by line, and follow it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing

from applyprune.cluster.object_requests import for_log_stream
from applyprune.cluster.transport.transport import Transport
from applyprune.http import Stopped
from applyprune.model.identity import Ref

# Nothing tells a log without lines from a dead connection: after so many seconds of silence the
# caller reads it again.
SILENCE = 60.0
# Bytes of one line; the rest of a longer one is dropped.
MAX_LINE = 1024 * 1024


def log_lines(
    transport: Transport,
    pod: Ref,
    container: str,
    *,
    follow: bool,
    since: int | None,
    stop: Callable[[], bool],
) -> Iterator[str]:
    """Yield the lines of a container's log, and with ``follow`` those that come, until ``stop``.

    ``since`` limits them to the last seconds. Raises Unreachable after a minute without a line.
    """
    request = for_log_stream(pod, container, follow=follow, since=since)
    try:
        with closing(transport.stream(request, stop)) as stream:
            yield from whole_lines(stream.chunks(SILENCE))
    except Stopped:
        return


def whole_lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """Join chunks into lines, each as soon as it is complete; the last one may lack its end."""
    rest = b""
    for chunk in chunks:
        *ends, last = chunk.split(b"\n")
        for end in ends:
            yield (rest + end)[:MAX_LINE].decode(errors="replace")
            rest = b""
        rest = (rest + last)[:MAX_LINE]
    if rest:
        yield rest.decode(errors="replace")
