"""Hold requests back until a test lets go."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.support.waiting import HANG

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.fault_proxy.exchange import Exchange, Fault, Rule, Wire
    from tests.support.fault_proxy.proxy import FaultProxy


@dataclass(slots=True)
class Held:
    """Lets so many of the requests pass that ``where`` picks; the others wait until it is over.

    Then they get no answer, or are sent if ``then_sent``. What it does not pick has the rule that
    the proxy had before.
    """

    proxy: FaultProxy
    passes: int
    where: Callable[[Exchange], bool]
    then_sent: bool = False
    seen: list[Exchange] = field(default_factory=list)
    """The requests that it has picked."""
    reached: threading.Event = field(default_factory=threading.Event)
    """Whether one waits."""
    over: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _before: Rule = field(init=False)

    def __post_init__(self) -> None:
        """Begin."""
        self._before, self.proxy.rule = self.proxy.rule, self._rule

    def await_one(self) -> None:
        """Wait until a request is held."""
        assert self.reached.wait(HANG)

    def _rule(self, seen: Exchange) -> Fault | None:
        if self.over.is_set() or not self.where(seen):
            return self._before(seen)
        with self._lock:
            self.seen.append(seen)
            if len(self.seen) <= self.passes:
                return None
        self.reached.set()
        return self._hold

    def _hold(self, wire: Wire) -> None:
        assert self.over.wait(HANG)
        if self.then_sent:
            wire.reply(wire.forward())
        else:
            wire.reset()
