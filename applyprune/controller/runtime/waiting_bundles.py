"""Remember which Bundles wait for which others."""

from __future__ import annotations

from applyprune.controller.constants import Key
from applyprune.values import dataclass, field


@dataclass(slots=True)
class WaitingBundles:
    """Which Bundles wait for which others; not thread-safe."""

    _waits_for: dict[Key, frozenset[Key]] = field(default_factory=dict)
    _waited_for: dict[Key, set[Key]] = field(default_factory=dict)

    def wait(self, key: Key, others: frozenset[Key]) -> bool:
        """Let a Bundle wait for these others, and for no more; return whether any is new."""
        before = self._waits_for.pop(key, frozenset())
        for other in before - others:
            waiting = self._waited_for[other]
            waiting.discard(key)
            if not waiting:
                del self._waited_for[other]
        if others:
            self._waits_for[key] = others
        for other in others:
            self._waited_for.setdefault(other, set()).add(key)
        return not others <= before

    def waiting_for(self, other: Key) -> frozenset[Key]:
        """Return the Bundles that wait for a Bundle."""
        return frozenset(self._waited_for.get(other, ()))
