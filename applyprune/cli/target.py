"""The cluster and the namespace of one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import click
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable


class Listener(Protocol):
    """Receives each request, and a signal."""

    @property
    def trace(self) -> Callable[[str], None] | None:
        """Return what prints a line for each request, or None."""

    def stopping(self, *, at_once: bool) -> None:
        """Take note that a signal ends the run; ``at_once`` if the process exits now."""


class Condition(Struct, frozen=True):
    """A context that must be in use."""

    context: str
    place: str
    """Which file says so, with the line."""


class ClusterTarget(Struct, frozen=True):
    """The options that choose a cluster; each may be empty."""

    kubeconfig: str
    context: str
    namespace: str
    listener: Listener | None = None
    """Receives requests and signals, if the verb reports them."""
    conditions: tuple[Condition, ...] = ()
    """What the files in use demand."""


_CONNECTED = "applyprune.connected"


def note_connected() -> None:
    """Take note that this call is about to connect to a cluster: from now on it may change it."""
    if (ctx := click.get_current_context(silent=True)) is not None:
        ctx.meta[_CONNECTED] = True


def is_connected() -> bool:
    """Return whether this call may have changed a cluster."""
    return bool(click.get_current_context().meta.get(_CONNECTED))
