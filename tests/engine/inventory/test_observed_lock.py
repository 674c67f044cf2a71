"""A run counts what an earlier run has seen of the lock's holder, as long as that is a proof."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from applyprune.engine.lock import InventoryLock
from applyprune.errors import InventoryLocked
from applyprune.model.inventory import LONGEST_LEASE, HolderObservation, LockHolder
from applyprune.model.options import Options
from applyprune.values import replace
from tests.support.api import Api
from tests.support.clocks import MovedClock
from tests.support.fault_proxy import Exchange, FaultProxy
from tests.support.objects import config_map
from tests.support.other_run import ELSEWHERE, take_from_elsewhere, wait_for_lock
from tests.support.stage import Stage

LEASE = ELSEWHERE.lease
HOUR = 3_600.0


@dataclass(slots=True)
class Observer:
    """Looks at the lock of a set once in each run, and keeps what it has seen."""

    stage: Stage
    clock: MovedClock = field(default_factory=MovedClock)
    seen: HolderObservation | None = None

    def is_free(self) -> bool:
        """Look, and return whether the lock may be taken."""
        transport, options = self.stage.transport(), Options(lock_timeout=0.0)
        try:
            with InventoryLock(
                self.stage.store(transport),
                options,
                self.stage.stop,
                run="r1",
                clock=self.clock,
            ) as lock:
                assert not list(lock.wait(observation=self.seen))
        except InventoryLocked as error:
            self.seen = error.observation
            return False
        finally:
            transport.close()
        return True


@pytest.fixture
def held(stage: Stage) -> Stage:
    """A set whose lock a run on another machine holds, and does not renew."""
    stage.run(config_map("a"))
    take_from_elsewhere(stage)
    return stage


@pytest.mark.parametrize(("lease", "looks"), [(2.0, 4), (15.0, 30)])
def test_run_takes_the_lock_when_the_holder_was_silent_for_its_lease(
    held: Stage, lease: float, looks: int
) -> None:
    """It looks twice a second, and times the holder by its own clock."""
    take_from_elsewhere(held, replace(ELSEWHERE, lease=lease))
    assert wait_for_lock(held) == [look / 2 for look in range(looks)]
    assert held.inventory().holder is None


def test_forged_lease_blocks_no_run_for_longer_than_a_real_one(held: Stage) -> None:
    """An editor of the inventory asks for 31 years; how such a number is read is tested beside."""
    take_from_elsewhere(held, replace(ELSEWHERE, lease=1e9))
    assert max(wait_for_lock(held)) < LONGEST_LEASE


def test_run_gives_up_at_its_timeout(held: Stage) -> None:
    with pytest.raises(InventoryLocked, match="is locked by another run"):
        wait_for_lock(held, timeout=LEASE - 1.0)


@pytest.mark.holds("lease-observed")
def test_silence_of_a_holder_outlives_the_run_that_observed_it(held: Stage) -> None:
    """Two runs of a moment each, a lease apart; one without the observation begins again."""
    observer, stranger = Observer(held), Observer(held)
    assert not observer.is_free()
    first = observer.seen
    assert not observer.is_free()
    assert observer.seen == first
    observer.clock.boot = observer.clock.wall = stranger.clock.boot = stranger.clock.wall = LEASE
    assert not stranger.is_free()
    assert observer.is_free()


def test_sleep_counts_and_a_pause_of_a_virtual_machine_does_not(held: Stage) -> None:
    """Its boot time stops, so the observer knows too little, never too much."""
    observer = Observer(held)
    assert not observer.is_free()
    observer.clock.wall = HOUR
    assert not observer.is_free()
    observer.clock.boot = HOUR
    assert observer.is_free()


@pytest.mark.parametrize(
    "holder",
    [
        pytest.param(replace(ELSEWHERE, renewals=1), id="renewed"),
        pytest.param(replace(ELSEWHERE, run="r2"), id="another run"),
        # It has written since.
        pytest.param(ELSEWHERE, id="taken again", marks=pytest.mark.holds("no-write-observed")),
    ],
)
def test_any_write_of_a_holder_begins_the_observation_again(
    held: Stage, holder: LockHolder
) -> None:
    observer = Observer(held)
    assert not observer.is_free()
    observer.clock.boot = observer.clock.wall = LEASE
    take_from_elsewhere(held, holder)
    assert not observer.is_free()
    assert observer.seen is not None
    assert observer.seen.since == observer.clock().boot
    observer.clock.boot = observer.clock.wall = 2 * LEASE
    assert observer.is_free()


def test_copied_holder_of_an_inventory_that_was_created_again_is_observed_again(
    held: Stage, api: Api
) -> None:
    """Another ConfigMap with the same content, as from a backup."""
    observer = Observer(held)
    assert not observer.is_free()
    observer.clock.boot = observer.clock.wall = LEASE
    ref = held.target.inventory
    path = f"/api/v1/namespaces/{ref.namespace}/configmaps"
    body = api.get(f"{path}/{ref.name}")
    assert api("DELETE", f"{path}/{ref.name}")[0] == 200
    for key in ("uid", "resourceVersion", "creationTimestamp", "managedFields"):
        del body["metadata"][key]
    api.create(path, body)
    assert not observer.is_free()


def test_slow_reply_does_not_lengthen_the_silence(
    held: Stage, spoiled: Stage, proxy: FaultProxy
) -> None:
    """What a reply shows may be as old as the request, and the silence begins with a reply."""
    observer = Observer(spoiled)

    def slow(seen: Exchange) -> None:
        if seen.method == "GET" and seen.path.endswith(f"/{held.target.inventory.name}"):
            observer.clock.boot += LEASE
            observer.clock.wall += LEASE

    proxy.before_forward = slow
    for _ in range(2):
        observer.seen = None
        assert not observer.is_free()
        assert not observer.is_free()
        proxy.before_forward, proxy.before_reply = (lambda _: None), slow
