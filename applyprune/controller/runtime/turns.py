"""Let tenants take turns: the namespaces of Bundles that are due now, each with its own line."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from applyprune.controller.constants import Key
from applyprune.values import dataclass, field


@dataclass(slots=True)
class Turns:
    """Keys of Bundles in one line for each namespace; not thread-safe."""

    _lines: OrderedDict[str, OrderedDict[Key, None]] = field(default_factory=OrderedDict)

    def add(self, key: Key) -> None:
        """Put a key at the end of its namespace's line."""
        self._lines.setdefault(key[0], OrderedDict())[key] = None

    def take(self, may: Callable[[str], bool], fits: Callable[[Key], bool] = bool) -> Key | None:
        """Return the first key that ``fits``, of the next namespace that ``may`` have a turn.

        None if there is none. That namespace is last from then on.
        """
        for namespace, line in self._lines.items():
            if may(namespace) and (key := next(filter(fits, line), None)) is not None:
                break
        else:
            return None
        del line[key], self._lines[key[0]]
        if line:
            self._lines[key[0]] = line
        return key

    def remove(self, key: Key) -> None:
        """Remove a key, if it is in a line."""
        line = self._lines.get(key[0])
        if line is not None:
            line.pop(key, None)
            if not line:
                del self._lines[key[0]]
