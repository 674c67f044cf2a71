"""A run whose lease may have ended sends no write, and no second try of one, before a renewal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event

import pytest

from applyprune.clock import Clock, Waitable
from applyprune.cluster.client import KubernetesClient
from applyprune.engine.lock import InventoryLock
from applyprune.errors import AccessError, InventoryLocked
from applyprune.model.identity import Ref
from applyprune.model.live import CONFIG_MAPS
from applyprune.model.options import Options
from applyprune.model.plan import CREATE_ONLY, ApplyRequest
from applyprune.values import packed
from tests.support.api import Api
from tests.support.clocks import HeldClock, MovedClock
from tests.support.fault_proxy import Exchange, Fault, FaultProxy, faults
from tests.support.live import config_maps
from tests.support.objects import config_map
from tests.support.other_run import take_from_elsewhere
from tests.support.stage import Stage
from tests.support.waiting import HANG

HOUR = 3_600.0


@dataclass(slots=True)
class Holding:
    """A lock that is held, its clock, and one write under its lease."""

    lock: InventoryLock
    clock: MovedClock
    client: KubernetesClient
    namespace: str

    def write(self) -> None:
        ref = Ref("", "ConfigMap", self.namespace, "late")
        body = config_map("late")
        self.client.under_lease(self.lock).apply(
            ApplyRequest(CONFIG_MAPS, ref, packed(body), manager="test", precondition=CREATE_ONLY)
        )


@dataclass(slots=True)
class Wakes:
    """A clock on which so many waits end at once, and no later one."""

    times: int
    asked: list[float] = field(default_factory=list)
    over: Event = field(default_factory=Event)

    def now(self) -> float:
        """Nobody asks."""
        raise AssertionError

    def wait(self, event: Waitable, seconds: float) -> bool:
        """Return False at once, or wait for the event."""
        self.asked.append(seconds)
        if len(self.asked) <= self.times:
            return False
        self.over.set()
        return event.wait(HANG)


@contextmanager
def _holding(stage: Stage, renewal_clock: Clock | None = None) -> Iterator[Holding]:
    """Hold the lock; by default, nothing renews it by itself."""
    transport, clock = stage.transport(), MovedClock()
    store = stage.store(transport)
    try:
        with InventoryLock(
            store,
            Options(),
            stage.stop,
            run="r1",
            clock=clock,
            renewal_clock=renewal_clock or HeldClock(),
        ) as lock:
            assert not list(lock.wait())
            lock.take(lock.inventory)
            yield Holding(lock, clock, KubernetesClient(transport, "test"), stage.namespace)
    finally:
        transport.close()


SLEEP = pytest.param(HOUR, HOUR, id="the laptop slept")
PAUSE = pytest.param(0.0, HOUR, id="the virtual machine was paused")


@pytest.mark.parametrize(("boot", "wall"), [SLEEP, PAUSE])
def test_first_request_after_a_pause_is_a_renewal(
    spoiled: Stage, proxy: FaultProxy, boot: float, wall: float
) -> None:
    """Nobody has taken the lock, so the run goes on."""
    with _holding(spoiled) as run:
        before = len(proxy.exchanges)
        run.clock.boot, run.clock.wall = boot, wall
        assert run.lock.left() <= 0
        run.write()
        assert [one.method for one in proxy.exchanges[before:]] == ["PUT", "PATCH"]
        assert run.lock.left() > 0


@pytest.mark.holds("paused-machine", row="the virtual machine was paused")
@pytest.mark.parametrize(("boot", "wall"), [SLEEP, PAUSE])
def test_nothing_is_written_after_a_pause_if_another_run_has_the_lock(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api, boot: float, wall: float
) -> None:
    with _holding(spoiled) as run:
        take_from_elsewhere(stage)
        run.clock.boot, run.clock.wall = boot, wall
        for _ in range(2):
            with pytest.raises(InventoryLocked):
                run.write()
    assert "PATCH" not in {one.method for one in proxy.exchanges}
    assert "late" not in config_maps(api, stage.namespace)


def test_write_within_the_lease_needs_no_renewal(spoiled: Stage, proxy: FaultProxy) -> None:
    """A wall clock that is set back, or corrected by seconds, ends no lease."""
    with _holding(spoiled) as run:
        before = len(proxy.exchanges)
        run.clock.wall = -HOUR
        run.write()
        run.clock.wall += 4.0
        run.lock.ensure()
        assert [one.method for one in proxy.exchanges[before:]] == ["PATCH"]


@pytest.mark.holds("renewal-clock")
def test_holder_renews_three_times_in_a_lease(spoiled: Stage) -> None:
    """The other runs see it by the number of renewals."""
    never = Wakes(0)
    with _holding(spoiled, never):
        pass
    assert never.asked == [5.0]
    thrice = Wakes(3)
    with _holding(spoiled, thrice):
        assert thrice.over.wait(HANG)
        holder = spoiled.inventory().holder
    assert holder is not None
    assert (holder.renewals, thrice.asked) == (3, [5.0] * 4)


def test_run_that_is_cut_off_sends_no_second_try_after_its_lease(
    spoiled: Stage, proxy: FaultProxy
) -> None:
    """Each try takes 5 s and its reply is lost; the lease is of 15 s, and cannot be renewed."""
    spoiled.budget = HANG
    with _holding(spoiled) as run:

        def cut_off(exchange: Exchange) -> Fault | None:
            if exchange.method == "PUT":
                return faults.status(403, "Forbidden")
            run.clock.boot += 5.0
            run.clock.wall += 5.0
            return faults.lose_reply()

        proxy.rule = cut_off
        before = len(proxy.exchanges)
        with pytest.raises(AccessError):
            run.write()
        assert [one.method for one in proxy.exchanges[before:]] == [
            "PATCH",
            "PATCH",
            "PATCH",
            "PUT",
        ]
