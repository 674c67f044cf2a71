"""Many processes write one inventory: one input wins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from applyprune.errors import InventoryLocked
from tests.support.command import start
from tests.support.input_files import write_input
from tests.support.live import config_maps, members
from tests.support.objects import config_map
from tests.support.settings import settings
from tests.support.stage import Stage
from tests.support.waiting import HANG

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import Api
    from tests.support.live import Body

RACERS = 8


def _input(racer: int, value: str) -> list[Body]:
    """Return four ConfigMaps: one that all racers have, one that two have, two of its own."""
    names = ("all", f"pair-{racer // 2}", f"own-{racer}-a", f"own-{racer}-b")
    return [config_map(name, f"{value} of {racer}") for name in names]


@pytest.mark.parametrize("rounds", [1, pytest.param(50, marks=pytest.mark.sweep)])
def test_concurrent_runs_leave_exactly_one_input(
    plane: Plane, api: Api, namespace: str, tmp_path: Path, rounds: int
) -> None:
    """The values show which input won; every process succeeds or loses the race, one wins."""
    stage = Stage(plane.kubeconfig, namespace)
    for number in range(rounds):
        inputs = [_input(racer, f"round {number}") for racer in range(RACERS)]
        codes = _race(stage, inputs, tmp_path)
        assert set(codes) <= {0, InventoryLocked.exit_code}, number

        there = config_maps(api, namespace)
        del there[stage.target.inventory.name]
        winners = [
            {body["metadata"]["name"]: body["data"] for body in bodies}
            for bodies, code in zip(inputs, codes, strict=True)
            if code == 0
        ]
        assert {name: item["data"] for name, item in there.items()} in winners, number
        uids = {f"configmap/{name}": item["metadata"]["uid"] for name, item in there.items()}
        listed = stage.inventory().entries.values()
        assert {entry.ref.short: entry.uid for entry in listed} == uids, number
        assert members(api, stage.target.id) == uids, number


def _race(stage: Stage, inputs: list[list[Body]], folder: Path) -> list[int]:
    """Apply all inputs in parallel, one process each, and return the exit codes.

    Each waits for its turn longer than the test.
    """
    files = [write_input(folder / f"{racer}.json", bodies) for racer, bodies in enumerate(inputs)]
    where = ("-n", stage.namespace, *settings(folder, lock_timeout="1h"), "--max-prune=100%")
    target = ("apply", stage.name, *where, "-f")
    processes = [start(*target, path, kubeconfig=stage.kubeconfig) for path in files]
    errors = [process.communicate("", timeout=2 * HANG)[1] for process in processes]
    assert not any("Traceback" in error for error in errors), errors
    return [process.returncode for process in processes]
