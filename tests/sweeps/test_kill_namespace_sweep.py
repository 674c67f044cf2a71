"""kill -9, or a false 404, at every request of a set that has the Namespace of its own inventory.

Each trial has a Namespace of its own. An object of somebody else is elsewhere, beside one of the
set's: neither may be lost. At every moment, the Namespace is all that has the set's label and is
not in its inventory.
"""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.errors import NotReady
from applyprune.model.inventory import Ownership
from applyprune.model.options import Mode
from applyprune.planning.applyset import OWNED_BY, PART_OF
from tests.support.fault_proxy import FaultProxy
from tests.support.input_files import write_input
from tests.support.kill import Moment, kill_at
from tests.support.live import config_maps, members
from tests.support.objects import config_map
from tests.support.stage import Stage
from tests.support.waiting import eventually
from tests.sweeps.false_404 import answer_404, is_write

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import Api
    from tests.support.fault_proxy import Exchange
    from tests.support.live import Body

    Spoils = Callable[[FaultProxy, int, Moment, Sequence[str | Path], Path], Exchange | None]

SIDE_BY_SIDE = 4


@dataclass(frozen=True, slots=True)
class Scenario:
    """A verb that is killed at each of its requests, of which so many are ``writes``."""

    name: str
    mode: Mode
    writes: int


SCENARIOS = (
    # The Namespace, the union, three applies, the end.
    Scenario("create", Mode.APPLY, writes=6),
    # Union, intent, three deletes, the Namespace. What is read afterwards depends on the machine.
    Scenario("destroy", Mode.DELETE, writes=6),
)
each_scenario = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.name)
each_recovery = pytest.mark.parametrize("recovery", [Mode.APPLY, Mode.DELETE])


@dataclass(frozen=True, slots=True)
class Ground:
    """What all trials share: a namespace with an object of nobody's, and a folder."""

    plane: Plane
    api: Api
    namespace: str
    folder: Path

    def stage(self, name: str) -> Stage:
        """Return the set of one trial; the Namespace of its inventory does not exist yet."""
        return Stage(self.plane.kubeconfig, f"{self.namespace}-{name}", name=name)

    def bodies(self, stage: Stage) -> list[Body]:
        """Return the input of one trial."""
        return [
            config_map("a"),
            config_map("b"),
            config_map(stage.name, namespace=self.namespace),
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": stage.namespace}},
        ]

    def namespace_of(self, stage: Stage) -> Body | None:
        """Return the Namespace of one trial; None if it does not exist."""
        status, found = self.api("GET", f"/api/v1/namespaces/{stage.namespace}")
        assert status in {200, 404}, found
        return found if status == 200 else None


@pytest.fixture
def ground(plane: Plane, api: Api, namespace: str, tmp_path: Path) -> Ground:
    """A namespace with a ConfigMap that belongs to no set."""
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    assert api("POST", path, config_map("plain"))[0] == 201
    return Ground(plane, api, namespace, tmp_path)


@each_scenario
def test_run_killed_at_each_write_recovers(ground: Ground, scenario: Scenario) -> None:
    """Before and after it in turn; the recoveries take turns too.

    Slow: a process is killed at each write, and another one recovers.
    """

    def killed_at_write(*arguments: Any) -> Exchange | None:
        return kill_at(*arguments, counts=is_write)

    moments = (Moment.BEFORE, Moment.AFTER)
    turns = (Mode.APPLY, Mode.DELETE)
    made = _sweep(
        ground,
        scenario,
        lambda number: (moments[number % 2], turns[number // 2 % 2]),
        killed_at_write,
    )
    assert made == scenario.writes


@pytest.mark.sweep
@pytest.mark.parametrize("moment", Moment)
@each_recovery
@each_scenario
def test_run_killed_before_and_after_each_request_recovers(
    ground: Ground, scenario: Scenario, moment: Moment, recovery: Mode
) -> None:
    """The reads too."""

    def killed(
        proxy: FaultProxy,
        number: int,
        moment: Moment,
        arguments: Sequence[str | Path],
        kubeconfig: Path,
    ) -> Exchange | None:
        counts = _until_deleted(proxy)
        return kill_at(proxy, number, moment, arguments, kubeconfig, counts=counts)

    _sweep(ground, scenario, lambda _: (moment, recovery), killed)


@pytest.mark.sweep
@each_recovery
@each_scenario
def test_run_with_a_false_404_at_each_request_recovers(
    ground: Ground, scenario: Scenario, recovery: Mode
) -> None:
    """A webhook, or something between, answers; the server has not seen the request."""

    def answered(
        proxy: FaultProxy,
        number: int,
        moment: Moment,
        arguments: Sequence[str | Path],
        kubeconfig: Path,
    ) -> Exchange | None:
        return answer_404(proxy, number, moment, arguments, kubeconfig, _until_deleted(proxy))

    _sweep(ground, scenario, lambda _: (Moment.BEFORE, recovery), answered)


def _until_deleted(proxy: FaultProxy) -> Callable[[Exchange], bool]:
    """Return what counts the requests but for those that wait until the Namespace is gone.

    How many these are depends on the machine.
    """
    made = len(proxy.exchanges)

    def counts(seen: Exchange) -> bool:
        return seen.method != "GET" or not any(
            before.method == "DELETE" and before.path.startswith("/api/v1/namespaces/")
            for before in proxy.exchanges[made:]
            if before.path.count("/") == 4 and before.number < seen.number
        )

    return counts


def _sweep(
    ground: Ground,
    scenario: Scenario,
    choice: Callable[[int], tuple[Moment, Mode]],
    spoils: Spoils,
) -> int:
    """Spoil each request of a run in turn, in a new set each time; return how many there were."""
    with FaultProxy(ground.plane) as proxy, ThreadPoolExecutor(SIDE_BY_SIDE) as recoveries:
        kubeconfig = proxy.kubeconfig(ground.folder)
        ends = []
        for number in itertools.count(1):
            moment, recovery = choice(number)
            stage = ground.stage(f"{scenario.name}-{number}")
            if scenario.mode is Mode.DELETE:
                assert stage.run(*ground.bodies(stage)).exit_code == 0
            arguments = _arguments(ground, scenario, stage)
            spoiled = spoils(proxy, number, moment, arguments, kubeconfig)
            where = f"{scenario.name}: {moment} {spoiled}, then {recovery}"
            ends.append(recoveries.submit(_recover, ground, stage, recovery, where))
            if spoiled is None:
                break
        for end in ends:
            end.result()
    assert set(config_maps(ground.api, ground.namespace)) - {"plain"} == set()
    return number - 1


def _arguments(ground: Ground, scenario: Scenario, stage: Stage) -> Sequence[str | Path]:
    where = (stage.name, "-n", stage.namespace)
    if scenario.mode is Mode.DELETE:
        return ["delete", *where, "--yes"]
    source = write_input(ground.folder / f"{stage.name}.json", ground.bodies(stage))
    return ["apply", *where, "-f", source]


def _recover(ground: Ground, stage: Stage, recovery: Mode, where: str) -> None:
    """Check what is there, call a verb, check that too, and delete the set in the end."""
    labelled = members(ground.api, stage.target.id)
    home = ground.namespace_of(stage)
    if labelled:
        assert labelled.keys() <= stage.listed(), where
    if home is not None:
        # There is no moment at which only a record that may be missing says whose it is.
        marks = home["metadata"]
        assert marks["labels"][PART_OF] == stage.target.id, where
        assert marks["annotations"][OWNED_BY] == stage.target.id, where
    if recovery is Mode.APPLY:
        _apply(ground, stage, where)
    story = stage.run(mode=Mode.DELETE)
    assert story.exit_code == 0, (where, story.events)
    assert ground.namespace_of(stage) is None, where
    assert members(ground.api, stage.target.id) == {}, where


def _apply(ground: Ground, stage: Stage, where: str) -> None:
    """Apply the set; while its Namespace is being deleted, that is refused."""
    try:
        story = stage.run(*ground.bodies(stage))
    except NotReady:
        eventually(lambda: ground.namespace_of(stage) is None, lambda: "the namespace gone")
        story = stage.run(*ground.bodies(stage))
    assert story.exit_code == 0, (where, story.events)
    entries = stage.inventory().entries
    assert {entry.ownership for entry in entries.values()} == {Ownership.OWNED}, where
    home = ground.namespace_of(stage)
    assert home is not None, where
    uids = {f"namespace/{stage.namespace}": home["metadata"]["uid"]}
    uids |= members(ground.api, stage.target.id)
    assert {ref.short: entry.uid for ref, entry in entries.items()} == uids, where
