"""The lease of a lock: its clock, what its holder may still send, and when another run may take it.

The clock counts sleep; a pause of the whole machine ends the lease. A run whose lease may have
ended sends no write, and no second try of one, before a renewal. A run counts what an earlier run
has seen of the holder, as long as that is a proof."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event

import pytest

from applyprune.clock import Clock, Instant, Waitable, seconds_held
from applyprune.cluster.client import KubernetesClient
from applyprune.engine.lock import InventoryLock
from applyprune.errors import AccessError, InventoryLocked
from applyprune.model.identity import Ref
from applyprune.model.inventory import LONGEST_LEASE, HolderObservation, LockHolder
from applyprune.model.live import CONFIG_MAPS
from applyprune.model.options import Options
from applyprune.model.plan import CREATE_ONLY, ApplyRequest
from applyprune.values import packed, replace
from tests.support.api import Api
from tests.support.clocks import HeldClock, MovedClock
from tests.support.fault_proxy import Exchange, Fault, FaultProxy, faults
from tests.support.live import config_maps
from tests.support.namespaces import PROVED, own_namespaces
from tests.support.objects import config_map
from tests.support.other_run import ELSEWHERE, take_from_elsewhere, wait_for_lock
from tests.support.stage import Stage
from tests.support.waiting import HANG

THEN = Instant(boot=1_000.0, wall=1_800_000_000.0)


@pytest.mark.parametrize(
    ("boot", "wall", "held"),
    [
        (4.0, 4.0, 4.0),
        # A laptop slept: both clocks have counted it.
        (3_600.0, 3_600.0, 3_600.0),
        # A virtual machine was paused for a minute, and its wall clock was corrected.
        (4.0, 64.0, math.inf),
        (0.0, 5.1, math.inf),
        # Somebody corrected the wall clock by a little, or set it back.
        (4.0, 8.9, 4.0),
        (4.0, -3_600.0, 4.0),
        (20.0, -3_600.0, 20.0),
    ],
)
def test_lease_is_held_for_boot_time_unless_the_wall_clock_ran_ahead(
    boot: float, wall: float, held: float
) -> None:
    now = Instant(THEN.boot + boot, THEN.wall + wall)
    assert seconds_held(THEN, now) == held


@pytest.mark.parametrize("proof", PROVED)
def test_clock_shows_boot_time(proof: bool) -> None:
    """In a namespace whose boot time alone is moved, as by a sleep, it is moved as well."""
    moved = 100_000.0
    script = (
        "import time\nfrom applyprune.clock import boot_time\nprint(boot_time() - time.monotonic())"
    )
    command = (sys.executable, "-c", script)
    namespace = own_namespaces("--time", "--boottime", str(int(moved)), proof=proof)
    here, there = (
        float(subprocess.run(one, capture_output=True, text=True, check=True).stdout)
        for one in (command, (*namespace, *command))
    )
    # A process may lose its turn between the two clocks that it reads.
    assert there - here == pytest.approx(moved, abs=moved / 10)


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


def test_first_request_after_a_pause_is_a_renewal(spoiled: Stage, proxy: FaultProxy) -> None:
    """Nobody has taken the lock, so the run goes on."""
    with _holding(spoiled) as run:
        before = len(proxy.exchanges)
        run.clock.boot = run.clock.wall = HOUR
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


def test_run_takes_the_lock_when_the_holder_was_silent_for_its_lease(held: Stage) -> None:
    """It looks twice a second, and times the holder by its own clock."""
    take_from_elsewhere(held, replace(ELSEWHERE, lease=2.0))
    assert wait_for_lock(held) == [look / 2 for look in range(4)]
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
