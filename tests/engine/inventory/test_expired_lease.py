"""A run whose lease may have ended sends no write, and no second try of one, before a renewal."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from applyprune.clock import boot_time
from applyprune.cluster.client import KubernetesClient
from applyprune.engine.inventory_lock import InventoryLock, inventory_lock
from applyprune.errors import InventoryLocked, Unreachable
from applyprune.model.identity import Ref
from applyprune.model.options import Mode, Options
from applyprune.model.request import CREATE_ONLY, ApplyRequest
from applyprune.model.resources import CONFIG_MAPS
from applyprune.packed import packed
from tests.support.clocks import MovedClock
from tests.support.fault_proxy import faults
from tests.support.live import config_maps
from tests.support.objects import config_map
from tests.support.other_run import take_from_elsewhere

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.api import Api
    from tests.support.fault_proxy import Exchange, Fault, FaultProxy
    from tests.support.stage import Stage

HOUR = 3_600.0


@dataclass(slots=True)
class Holding:
    """A lock that is held, its clock, and one write under its lease."""

    lock: InventoryLock
    clock: MovedClock
    client: KubernetesClient
    namespace: str

    def write(self) -> None:
        """Create a ConfigMap."""
        ref = Ref("", "ConfigMap", self.namespace, "late")
        body = config_map("late")
        self.client.under_lease(self.lock).apply(
            ApplyRequest(CONFIG_MAPS, ref, packed(body), manager="test", precondition=CREATE_ONLY)
        )


@contextmanager
def _holding(stage: Stage) -> Iterator[Holding]:
    transport, clock = stage.transport(), MovedClock()
    store = stage.store(transport)
    try:
        with inventory_lock(
            store, Options(), stage.stop, run="r1", mode=Mode.APPLY, clock=clock
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
        holder = spoiled.inventory().holder
        # A machine that was paused may have been cloned, with everything in its memory.
        assert holder is not None
        assert bool(holder.process) == (boot > 0)


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


def test_run_that_is_cut_off_sends_no_second_try_after_its_lease(
    spoiled: Stage, stage: Stage, proxy: FaultProxy
) -> None:
    """From the first create on, the network loses every reply, and never comes back."""
    lease = 4.0
    spoiled.budget = 8.0
    locked: list[float] = []
    patched: list[float] = []

    def cut_off(exchange: Exchange) -> Fault | None:
        if exchange.method == "PATCH":
            patched.append(boot_time())
        if exchange.method == "POST" and exchange.path.endswith("/configmaps"):
            locked.append(boot_time())
        if not patched:
            return None
        return faults.reset() if exchange.method == "PUT" else faults.lose_reply()

    proxy.rule = cut_off
    bodies = [config_map(f"c-{number}") for number in range(4)]
    with pytest.raises(Unreachable):
        spoiled.run(*bodies, lease=lease)
    assert len(patched) > len(bodies)
    assert max(patched) < locked[0] + lease
    # The run was still at it: without the lease, it would have tried again.
    assert boot_time() > locked[0] + lease
    # What the server has got all the same was recorded before: it is not lost.
    assert stage.run(*bodies).exit_code == 0
    assert stage.listed() == {f"configmap/c-{number}" for number in range(4)}
