"""Choose the containers whose logs show why an object is not ready, and make the logs printable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from applyprune.model.live import count, field, items, mapping, text
from applyprune.model.text import visible
from applyprune.values import dataclass

if TYPE_CHECKING:
    Body = Mapping[str, Any]

LINES = 10
"""How many lines of a container are shown."""
_PODS = 3
_LONGEST = 400


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance of a container, whose log is wanted."""

    namespace: str
    pod: str
    container: str
    previous: bool
    """Whether it ran before the present instance."""


def failing_instances(pods: Sequence[Body]) -> Iterator[Instance]:
    """Yield the failing containers of the first few failing Pods.

    A container that crashed and was restarted is asked for its previous instance too; one that
    never started has no log.
    """
    failing = [found for pod in pods if (found := list(_of_pod(pod)))]
    for instances in failing[:_PODS]:
        yield from instances


def log_lines(log: str) -> tuple[str, ...]:
    """Return the last lines of a log, escaped and cut: a container may write anything."""
    lines = log.splitlines()[-LINES:]
    return tuple(
        f"{line[:_LONGEST]}…" if len(line) > _LONGEST else line for line in map(visible, lines)
    )


def _of_pod(pod: Body) -> Iterator[Instance]:
    namespace, name = text(pod, "metadata", "namespace"), text(pod, "metadata", "name")
    for kind in ("initContainerStatuses", "containerStatuses"):
        for status in map(mapping, items(pod, "status", kind)):
            state, container = mapping(status.get("state")), text(status, "name")
            ended = mapping(state.get("terminated"))
            crashed = bool(field(status, "lastState", "terminated"))
            failed = bool(count(ended, "exitCode")) or bool(count(ended, "signal"))
            unready = "running" in state and status.get("ready") is False
            if failed or (unready and (crashed or kind == "containerStatuses")):
                yield Instance(namespace, name, container, previous=False)
            if crashed and not (ended and not failed) and status.get("ready") is not True:
                yield Instance(namespace, name, container, previous=True)
