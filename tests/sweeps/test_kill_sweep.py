"""kill -9 before and after every write of a run: the next run has the same end state."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.planning.applyset import MANAGERS, PART_OF
from tests.support.fault_proxy import FaultProxy
from tests.support.kill import Moment, kill_at
from tests.support.live import config_maps, members, objects
from tests.support.objects import config_map
from tests.support.stage import Stage
from tests.sweeps.false_404 import answer_404, is_write
from tests.sweeps.scenarios import SCENARIOS, key, named, other_set, prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import Api
    from tests.support.fault_proxy import Exchange
    from tests.support.live import Body
    from tests.sweeps.scenarios import Recovery, Scenario

    Choice = Callable[[int], tuple[Moment, Recovery]]
    """When to kill a run, and what to run afterwards."""
    Spoils = Callable[[FaultProxy, int, Moment, Sequence[str | Path], Path], Exchange | None]
    """Spoils the request of that number of a run, and returns it; None if the run is done."""

SIDE_BY_SIDE = 8
each_scenario = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.name)
each_recovery = pytest.mark.parametrize(
    ("scenario", "recovery"),
    [
        pytest.param(one, recovery, id=f"{one.name}-{name}")
        for one in SCENARIOS
        for name, recovery in one.recoveries.items()
    ],
)


@dataclass(frozen=True, slots=True)
class Ground:
    """The namespace of one sweep, with two ConfigMaps that belong to none of its sets."""

    plane: Plane
    api: Api
    namespace: str
    folder: Path

    def stage(self, name: str) -> Stage:
        """Return a set in the namespace, without the proxy."""
        return Stage(self.plane.kubeconfig, self.namespace, name=name)

    def create(self, body: Body) -> None:
        """Create a ConfigMap that does not belong to applyprune."""
        path = f"/api/v1/namespaces/{self.namespace}/configmaps"
        status, reply = self.api("POST", path, body)
        assert status == 201, reply

    def states(self, *names: str) -> dict[str, tuple[str, str]]:
        """Return UID and resourceVersion of ConfigMaps."""
        there = config_maps(self.api, self.namespace)
        metadata = {name: there[name]["metadata"] for name in names}
        return {name: (one["uid"], one["resourceVersion"]) for name, one in metadata.items()}


@pytest.fixture
def ground(plane: Plane, api: Api, namespace: str, tmp_path: Path) -> Ground:
    """A namespace with an object of another set and one without labels."""
    made = Ground(plane, api, namespace, tmp_path)
    made.stage("others").run(config_map("others"))
    made.create(config_map("plain"))
    return made


@pytest.mark.holds("write-ahead", row="create")
@each_scenario
def test_run_killed_at_each_write_recovers(ground: Ground, scenario: Scenario) -> None:
    """Kill before and after the write in turn; the recoveries take turns too.

    Reads are for the long form: before a read, the server is as after the write before.

    Slow: a process is killed at each write, and another one recovers.
    """
    moments = (Moment.BEFORE, Moment.AFTER)
    turns = [scenario.recoveries[name] for name in scenario.turns]

    def choice(number: int) -> tuple[Moment, Recovery]:
        return moments[number % 2], turns[number // 2 % len(turns)]

    def killed_at_write(*arguments: Any) -> Exchange | None:
        return kill_at(*arguments, counts=is_write)

    _sweep(ground, scenario, choice, killed_at_write, scenario.writes)


@pytest.mark.sweep
@pytest.mark.parametrize("moment", Moment)
@each_recovery
def test_run_killed_before_and_after_each_request_recovers(
    ground: Ground, scenario: Scenario, moment: Moment, recovery: Recovery
) -> None:
    """Every call that may follow: the same again, or with another input."""
    _sweep(ground, scenario, lambda _: (moment, recovery))


@dataclass(frozen=True, slots=True)
class Trial:
    """One set whose run was killed, and what existed before: its own objects, and bystanders."""

    stage: Stage
    recovery: Recovery
    lasting: Mapping[str, str]
    bystanders: Mapping[str, tuple[str, str]]
    where: str


@pytest.mark.sweep
@each_recovery
def test_run_with_a_false_404_at_each_request_recovers(
    ground: Ground, scenario: Scenario, recovery: Recovery
) -> None:
    """An admission webhook, or something between, answers; the server has not seen the request."""
    _sweep(ground, scenario, lambda _: (Moment.BEFORE, recovery), spoils=answer_404)


def _sweep(
    ground: Ground,
    scenario: Scenario,
    choice: Choice,
    spoils: Spoils = kill_at,
    expected: int | None = None,
) -> None:
    """Kill a run at each request in turn, each time in a new set, until a run finishes.

    The number of requests is asserted, so that a new one cannot remain untested. Each recovery
    begins by waiting for the dead holder, so many recoveries run in parallel.
    """
    with FaultProxy(ground.plane) as proxy, ThreadPoolExecutor(SIDE_BY_SIDE) as recoveries:
        kubeconfig = proxy.kubeconfig(ground.folder)
        ends = []
        for number in itertools.count(1):
            moment, recovery = choice(number)
            stage = ground.stage(f"{scenario.name}-{number}")
            bystanders, lasting = _prepare(ground, stage, scenario)
            arguments = scenario.killed.arguments(stage, ground.folder)
            killed = spoils(proxy, number, moment, arguments, kubeconfig)
            trial = Trial(stage, recovery, lasting, bystanders, f"{moment} {killed}")
            ends.append(recoveries.submit(_recover, ground, trial))
            if killed is None:
                break
        for end in ends:
            end.result()
    assert number - 1 == (expected or scenario.requests)


def _prepare(
    ground: Ground, stage: Stage, scenario: Scenario
) -> tuple[Mapping[str, tuple[str, str]], Mapping[str, str]]:
    """Create the initial state; return the bystanders, and the UIDs of the lasting objects."""
    for call in scenario.before:
        assert call.run(stage).exit_code == 0
    for one in (stage, other_set(stage)):
        ground.create(config_map(_copied(one), labels={PART_OF: one.target.id}))
    there = objects(ground.api, ground.namespace, prefix(stage))
    lasting = map(key, named(stage, scenario.lasting))
    copied = (_copied(stage), _copied(other_set(stage)))
    return (
        ground.states("others", "plain", *copied),
        {name: there[name]["metadata"]["uid"] for name in lasting},
    )


def _copied(stage: Stage) -> str:
    """Return the name of a ConfigMap with a copy of the set's label, as controllers make it."""
    return f"{prefix(stage)}copied"


def _labelled(ground: Ground, stage: Stage) -> Mapping[str, str]:
    """Return the UIDs of the objects with a set's label, without the copy."""
    found = members(ground.api, stage.target.id)
    del found[f"configmap/{_copied(stage)}"]
    return found


def _recover(ground: Ground, trial: Trial) -> None:
    """Check the inventories after the kill, make the recovery's calls, and check again."""
    for one in (trial.stage, other_set(trial.stage)):
        # An object with a set's label is in its inventory, at every moment (safety rule 1).
        assert _labelled(ground, one).keys() <= one.listed(), trial.where
    for call in trial.recovery.calls:
        story = call.run(trial.stage)
        assert call.allows(story), (trial.where, story.events)
    _check(ground, trial)
    assert ground.states(*trial.bystanders) == trial.bystanders, trial.where


def _check(ground: Ground, trial: Trial) -> None:
    """Assert that exactly the wanted objects of the set and the other set exist."""
    stage, recovery, where = trial.stage, trial.recovery, trial.where
    shares = [(stage, recovery.left), (other_set(stage), recovery.in_other_set)]
    there = objects(ground.api, ground.namespace, prefix(stage))
    for one, _ in shares:
        del there[f"configmap/{_copied(one)}"]
    wanted = [body for _, bodies in shares for body in named(stage, bodies)]
    assert {name: item.get("data") for name, item in there.items()} == {
        key(body): body.get("data") for body in wanted
    }, where
    uids = {name: item["metadata"]["uid"] for name, item in there.items()}
    assert {name: uids[name] for name in trial.lasting} == trial.lasting, where
    for one, bodies in shares:
        names = [key(body) for body in named(stage, bodies)]
        _check_records(ground, one, {name: uids[name] for name in names}, where)
        assert all(_sets(there[name]) == {one.target.manager} for name in names), where


def _sets(item: Body) -> set[str]:
    """Return the field managers of sets that own any field of an object."""
    managers = {entry["manager"] for entry in item["metadata"]["managedFields"]}
    return {manager for manager in managers if manager.startswith(MANAGERS)}


def _check_records(ground: Ground, stage: Stage, uids: Mapping[str, str], where: str) -> None:
    """Assert that exactly these objects belong to a set, by its inventory and by its label."""
    listed = stage.inventory().entries.values()
    assert {entry.ref.short: entry.uid for entry in listed} == uids, where
    assert _labelled(ground, stage) == uids, where

    # Neither an unneeded inventory is left, nor a part of one.
    inventory = stage.target.inventory.name
    records = config_maps(ground.api, ground.namespace)
    left = {name for name in records if name == inventory or name.startswith(f"{inventory}.")}
    assert left == ({inventory} if uids else set()), where
