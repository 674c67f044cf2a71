"""A run that is interrupted, or not alone: the next one goes on from what it left."""

from __future__ import annotations

import itertools
import signal
import threading
from typing import TYPE_CHECKING

from applyprune.model.text import counted
from tests.support.command import applyprune, start
from tests.support.fault_proxy import Exchange, FaultProxy
from tests.support.input_files import write_input
from tests.support.interrupt import interrupt_at
from tests.support.live import config_maps
from tests.support.objects import config_map
from tests.support.settings import settings
from tests.support.waiting import HANG

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import Api

NAMES = ("a", "b", "c")


def _write(folder: Path, *names: str) -> Path:
    """Write ConfigMaps of these names into one file."""
    return write_input(folder / f"{'-'.join(names)}.json", map(config_map, names))


def _there(api: Api, namespace: str) -> set[str]:
    return set(config_maps(api, namespace))


def test_signal_finishes_and_records_what_is_in_flight(
    plane: Plane, api: Api, namespace: str, tmp_path: Path
) -> None:
    """Exit code 128 plus the signal's number; nothing that was applied is missing in the record."""
    number = signal.SIGTERM
    names = [f"c-{index}" for index in range(60)]
    source = write_input(tmp_path / "many.json", map(config_map, names))
    target: list[str | Path] = ["apply", "web", "-n", namespace, "-f", source]
    # Not the request for one name: its thread may be the last, and all the others done by then.
    answered = itertools.count()
    with FaultProxy(plane) as proxy:

        def is_meant(exchange: Exchange) -> bool:
            is_write = exchange.method == "PATCH" and "dryRun" not in exchange.query
            is_one = is_write and "/configmaps/c-" in exchange.path
            return is_one and next(answered) == 20

        ended = interrupt_at(proxy, is_meant, number, target, proxy.kubeconfig(tmp_path))
    assert ended.code == 128 + number, ended.err
    *lines, summary = ended.out.splitlines()
    done = {line.split()[0].removeprefix("configmap/") for line in lines}
    assert summary.startswith(f"web: {len(done)} created in ")
    assert _there(api, namespace) - {"applyprune-web"} == done
    assert 0 < len(done) < 60
    left = counted(len(names) - len(done), "object", "is", "are")
    assert f"interrupted: {left} left\n" in ended.err
    assert applyprune(*target, kubeconfig=plane.kubeconfig).code == 0
    assert _there(api, namespace) == {*names, "applyprune-web"}


def test_live_lock_holder_is_named_and_keeps_its_lock(
    plane: Plane, namespace: str, tmp_path: Path
) -> None:
    """Exit code 8 when the wait is over, and who holds the set."""
    source = _write(tmp_path, *NAMES)
    holds, go_on = threading.Event(), threading.Event()
    with FaultProxy(plane) as proxy:

        def hook(exchange: Exchange) -> None:
            if exchange.method == "PATCH" and "dryRun" not in exchange.query:
                holds.set()
                go_on.wait(HANG)

        proxy.before_forward = hook
        target: list[str | Path] = ["apply", "web", "-n", namespace, "-f", source]
        with start(*target, kubeconfig=proxy.kubeconfig(tmp_path)) as first:
            assert holds.wait(HANG)
            hurried = settings(tmp_path, lock_timeout="2s")
            second = applyprune(*target, *hurried, kubeconfig=plane.kubeconfig)
            go_on.set()
            _, err = first.communicate("", timeout=HANG)
    assert second.code == 8
    assert "is locked by another run" in second.err
    assert first.returncode == 0, err
