"""Collect what the API server warns about, and report each warning of an object once per run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from threading import Lock
from typing import TYPE_CHECKING

from applyprune.model.events import WarningRaised
from applyprune.model.identity import Ref
from applyprune.model.plan import Plan
from applyprune.planning.server_errors import (
    MOST_WARNINGS,
    known_secrets,
    more_warnings,
    warning_problems,
)
from applyprune.values import dataclass, field

if TYPE_CHECKING:
    from applyprune.model.problem import Manifest
    from applyprune.planning.recovery import ClusterSnapshot


@dataclass(slots=True)
class ServerWarnings:
    """The warnings of one run; a dry run and the apply of an object give the same ones."""

    _new: dict[str, list[Ref]] = field(default_factory=dict)
    _seen: set[tuple[Ref, str]] = field(default_factory=set)
    _left: int = MOST_WARNINGS
    _lock: Lock = field(default_factory=Lock)

    def add(self, ref: Ref, text: str) -> None:
        """Take in a warning; thread-safe."""
        with self._lock:
            if (ref, text) not in self._seen:
                self._seen.add((ref, text))
                self._new.setdefault(text, []).append(ref)

    def events(
        self, plan: Plan, snapshot: ClusterSnapshot, manifests: Iterable[Manifest]
    ) -> Iterator[WarningRaised]:
        """Yield what has come since the last call: one warning for all objects with that text.

        No value of a Secret of the run is in it: ``manifests`` are those of the whole input.
        """
        with self._lock:
            found, self._new = self._new, {}
        secrets = known_secrets(plan, snapshot.states.values(), manifests)
        shown = list(warning_problems(found, plan, secrets))[: self._left]
        self._left -= len(shown)
        yield from map(WarningRaised, shown)
        if more := len(found) - len(shown):
            yield WarningRaised(more_warnings(more))
