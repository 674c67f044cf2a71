"""Which cluster and namespace one call is about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


class Listener(Protocol):
    """What is told of each request, and of a signal."""

    @property
    def trace(self) -> Callable[[str], None] | None:
        """Return what takes a line for each request, None where none is asked for."""

    def stopping(self, *, at_once: bool) -> None:
        """Hear that a signal ends the run; ``at_once`` when there is no time for anything else."""


@dataclass(frozen=True, slots=True)
class ClusterTarget:
    """What the user said about the cluster; every part may be empty.

    ``listener`` is told of what happens below the run, where the verb has one. ``expected`` is the
    context that must be the one in use, by the word of a configuration.
    """

    kubeconfig: str
    context: str
    namespace: str
    listener: Listener | None = None
    expected: str = ""
