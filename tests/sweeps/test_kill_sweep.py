"""kill -9 before and after every request of a run: the next run ends where it would have anyway."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from applyprune.planning.tracking import PART_OF
from tests.engine.stage import Stage, config_map
from tests.fault_proxy import FaultProxy
from tests.sweeps.killing import Moment, kill_at
from tests.sweeps.living import config_maps, members, objects
from tests.sweeps.scenarios import SCENARIOS, prefix

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.conftest import Api
    from tests.sweeps.living import Body
    from tests.sweeps.scenarios import Call, Scenario

each_scenario = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.name)


@dataclass(frozen=True, slots=True)
class Ground:
    """The namespace of one sweep, with two ConfigMaps in it that are none of its sets' business."""

    plane: Plane
    api: Api
    namespace: str
    folder: Path

    def stage(self, name: str) -> Stage:
        """Return a set in the namespace, straight to the API server."""
        return Stage(self.plane.kubeconfig, self.namespace, name=name)

    def create(self, body: Body) -> None:
        """Create a ConfigMap that applyprune has nothing to do with."""
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


@each_scenario
def test_killed_at_every_request(ground: Ground, scenario: Scenario) -> None:
    """After it or before it in turn; the next run has a smaller input."""
    moments = (Moment.BEFORE, Moment.AFTER)
    _sweep(ground, scenario, lambda number: moments[number % 2], scenario.smaller)


@pytest.mark.sweep
@pytest.mark.parametrize("again", [True, False], ids=["same", "smaller"])
@pytest.mark.parametrize("moment", Moment)
@each_scenario
def test_killed_at_both_moments_of_every_request(
    ground: Ground, scenario: Scenario, moment: Moment, again: bool
) -> None:
    """The next run has the same input, or a smaller one."""
    _sweep(ground, scenario, lambda _: moment, scenario.killed if again else scenario.smaller)


def _sweep(
    ground: Ground, scenario: Scenario, moment: Callable[[int], Moment], recovery: Call
) -> None:
    """Kill at one request after the other, each time in a new set, until the run comes to its end.

    The number of requests is asserted, so that a new one cannot go untested.
    """
    with FaultProxy(ground.plane) as proxy:
        kubeconfig = proxy.kubeconfig(ground.folder)
        for number in itertools.count(1):
            stage = ground.stage(f"{scenario.name}-{number}")
            copied = f"{prefix(stage)}copied"
            for call in scenario.before:
                assert call.run(stage).exit_code == 0
            ground.create(config_map(copied, labels={PART_OF: stage.target.id}))
            bystanders = ground.states("others", "plain", copied)
            arguments = scenario.killed.arguments(stage, ground.folder)
            killed = kill_at(proxy, number, moment(number), arguments, kubeconfig)

            where = f"killed {moment(number)} {killed}"
            assert recovery.run(stage).exit_code == 0, where
            _check(ground, stage, recovery, copied, where)
            assert ground.states(*bystanders) == bystanders, where
            if killed is None:
                break
    assert number - 1 == scenario.requests


def _check(ground: Ground, stage: Stage, recovery: Call, copied: str, where: str) -> None:
    """Assert that there is what is wanted, and nothing else of the set; ``copied`` is foreign."""
    wanted = {
        f"{body['kind'].lower()}/{body['metadata']['name']}": body.get("data")
        for body in recovery.wanted(stage)
    }
    there = objects(ground.api, ground.namespace, prefix(stage))
    del there[f"configmap/{copied}"]
    assert {key: item.get("data") for key, item in there.items()} == wanted, where

    uids = {key: item["metadata"]["uid"] for key, item in there.items()}
    listed = stage.inventory().entries.values()
    assert {entry.ref.short: entry.uid for entry in listed} == uids, where
    labelled = members(ground.api, stage.target.id)
    del labelled[f"configmap/{copied}"]
    assert labelled == uids, where

    # Neither an inventory that nobody needs is left, nor a part of one.
    inventory = stage.target.inventory.name
    records = config_maps(ground.api, ground.namespace)
    left = {name for name in records if name == inventory or name.startswith(f"{inventory}.")}
    assert left == ({inventory} if wanted else set()), where
