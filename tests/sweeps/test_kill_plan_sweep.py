"""kill -9 at every request of ``apply --plan``: the same command continues, and then is done."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from applyprune.planning.applyset import PART_OF
from tests.support.command import applyprune
from tests.support.fault_proxy import FaultProxy
from tests.support.input_files import write_input
from tests.support.kill import Moment, kill_at
from tests.support.live import config_maps, objects
from tests.support.stage import Stage
from tests.support.waiting import next_second
from tests.sweeps.plan_scenarios import PLAN_SCENARIOS
from tests.sweeps.scenarios import key, named, prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import Api
    from tests.support.command import Ended
    from tests.sweeps.plan_scenarios import PlanScenario

SIDE_BY_SIDE = 8
FEW = ("mixed", "recreate")
"""The scenarios whose writes are of every kind; the long form has the others too."""
each_scenario = pytest.mark.parametrize("scenario", PLAN_SCENARIOS, ids=lambda one: one.name)


@dataclass(frozen=True, slots=True)
class Ground:
    """The namespace of one sweep, and a folder for its files."""

    plane: Plane
    api: Api
    namespace: str
    folder: Path


@dataclass(frozen=True, slots=True)
class Trial:
    """One set, and the command line that applies its plan file."""

    scenario: PlanScenario
    stage: Stage
    line: Sequence[str | Path]

    def call(self) -> Ended:
        """Run the command line."""
        return applyprune(*self.line, kubeconfig=self.stage.kubeconfig)


@pytest.fixture
def ground(plane: Plane, api: Api, namespace: str, tmp_path: Path) -> Ground:
    """An empty namespace."""
    return Ground(plane, api, namespace, tmp_path)


@pytest.mark.parametrize(
    "scenario", [one for one in PLAN_SCENARIOS if one.name in FEW], ids=lambda one: one.name
)
def test_apply_of_plan_killed_at_each_write_continues(
    ground: Ground, scenario: PlanScenario
) -> None:
    """Before and after it in turn; the reads before the first write come in the long form.

    Slow: a process is killed at each write, and another one continues.
    """
    moments = (Moment.BEFORE, Moment.AFTER)
    _sweep(ground, scenario, lambda number: moments[number % 2], first=scenario.reads + 1)


@pytest.mark.sweep
@pytest.mark.parametrize("moment", Moment)
@each_scenario
def test_apply_of_plan_killed_before_and_after_each_request_continues(
    ground: Ground, scenario: PlanScenario, moment: Moment
) -> None:
    """Every request, the reads too."""
    _sweep(ground, scenario, lambda _: moment, first=1)


def _sweep(
    ground: Ground, scenario: PlanScenario, moment_of: Callable[[int], Moment], *, first: int
) -> None:
    """Kill an apply at each request from the ``first`` on, each time of a new set's plan."""
    numbers = range(first, scenario.requests + 2)
    # All plans first: managedFields count in seconds, so an apply within the second of the one
    # before its plan cannot be told from it, and is refused.
    trials = {number: _trial(ground, scenario, number) for number in numbers}
    next_second()
    with FaultProxy(ground.plane) as proxy, ThreadPoolExecutor(SIDE_BY_SIDE) as continuations:
        kubeconfig = proxy.kubeconfig(ground.folder)
        methods, ends = [], []
        for number, trial in trials.items():
            killed = kill_at(proxy, number, moment_of(number), trial.line, kubeconfig)
            methods.append(killed.method if killed else "")
            where = f"killed {moment_of(number)} {killed}"
            ends.append(continuations.submit(_continue, ground, trial, where))
        for end in ends:
            end.result()
    assert [number for number, method in zip(numbers, methods, strict=True) if not method] == [
        scenario.requests + 1
    ]
    # Only reads were left out.
    writes = [number for number, method in enumerate(methods, first) if method not in {"GET", ""}]
    assert writes[0] == scenario.reads + 1


def _trial(ground: Ground, scenario: PlanScenario, number: int) -> Trial:
    """Create the state before, and make the plan file of what shall be."""
    name = f"{scenario.name}-{number}"
    stage = scenario.place(ground.namespace, Stage(ground.plane.kubeconfig, ground.namespace, name))
    if scenario.before:
        assert stage.run(*named(stage, scenario.before)).exit_code == 0
    path = f"/api/v1/namespaces/{stage.namespace}/configmaps?fieldManager=kubectl-client-side-apply"
    for body in named(stage, scenario.adopted):
        assert ground.api("POST", path, body)[0] == 201
    source = write_input(ground.folder / f"{name}.json", scenario.input(stage))
    file = ground.folder / f"{name}.plan"
    options = scenario.arguments(stage)
    given: list[str | Path] = [name, "-n", stage.namespace, "-f", source, *options]
    made = applyprune("plan", *given, "--out", file, kubeconfig=stage.kubeconfig)
    assert file.exists(), made.err
    approval: list[str | Path] = (
        ["--approve", made.digests["deletions"]] if scenario.approves else []
    )
    return Trial(scenario, stage, ["apply", *given, "--plan", file, *approval])


def _continue(ground: Ground, trial: Trial, where: str) -> None:
    """Run the same command line twice: the first completes the plan, the second changes nothing."""
    first = trial.call()
    assert first.code == 0, (where, first.err)
    _check(ground, trial, where)
    states = _states(ground, trial)
    again = trial.call()
    assert again.code == 0, (where, again.err)
    assert _states(ground, trial) == states, where


def _check(ground: Ground, trial: Trial, where: str) -> None:
    """Assert that exactly the planned objects exist, and which of them belong to the set."""
    scenario, stage = trial.scenario, trial.stage
    there = objects(ground.api, stage.namespace, prefix(stage))
    wanted = named(stage, (*scenario.after, *scenario.orphaned))
    assert {name: item["data"] for name, item in there.items()} == {
        key(body): body["data"] for body in wanted
    }, where
    listed = {key(body) for body in scenario.input(stage)}
    assert stage.listed() == listed, where
    labelled = {name for name, item in there.items() if _is_labelled(item, stage)}
    assert labelled == listed & there.keys(), where
    if scenario.makes_namespace:
        assert _is_labelled(ground.api.get(f"/api/v1/namespaces/{stage.namespace}"), stage), where


def _is_labelled(item: Mapping[str, Mapping[str, object]], stage: Stage) -> bool:
    labels = item["metadata"].get("labels")
    return isinstance(labels, dict) and labels.get(PART_OF) == stage.target.id


def _states(ground: Ground, trial: Trial) -> dict[str, str]:
    """Return the resourceVersion of every object of a trial, and of its inventory.

    Not of an inventory that each run writes, because it sends every object again.
    """
    stage, sends_all = trial.stage, "--reapply-all" in trial.scenario.options
    names = (prefix(stage), *(() if sends_all else (stage.target.inventory.name,)))
    found = config_maps(ground.api, stage.namespace)
    return {
        name: item["metadata"]["resourceVersion"]
        for name, item in found.items()
        if name.startswith(names)
    }
