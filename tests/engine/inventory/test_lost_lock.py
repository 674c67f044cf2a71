"""A process that was suspended past its lease and has lost the lock: it writes nothing more."""

from __future__ import annotations

import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from applyprune.planning.applyset import PART_OF
from tests.support.command import start
from tests.support.input_files import write_input
from tests.support.live import config_maps
from tests.support.objects import config_map
from tests.support.stage import Stage

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Sequence
    from pathlib import Path

    from tests.support.api import Api
    from tests.support.fault_proxy import Exchange, FaultProxy

IN_BETWEEN = 1
"""How many threads may have been stopped between the last look at the lease and the system call."""


@dataclass(slots=True)
class Stopped:
    """A process that gets SIGSTOP at its first patch, and its requests after SIGCONT."""

    proxy: FaultProxy
    arguments: Sequence[str | Path]
    kubeconfig: Path
    reached: threading.Event = field(default_factory=threading.Event)
    process: subprocess.Popen[str] | None = None
    before: int = 0

    def __post_init__(self) -> None:
        """Start it, and return when it is suspended."""
        started = threading.Event()
        first = threading.Lock()

        def hook(seen: Exchange) -> None:
            if seen.method == "PATCH" and first.acquire(blocking=False):
                assert started.wait(60)
                assert self.process is not None
                self.process.send_signal(signal.SIGSTOP)
                self.reached.set()

        self.proxy.before_forward = hook
        self.process = start(*self.arguments, kubeconfig=self.kubeconfig)
        started.set()
        assert self.reached.wait(120)

    def go_on(self) -> tuple[int, set[str], str]:
        """Return its exit code, the names of what it patched after SIGCONT, and its output."""
        assert self.process is not None
        self.before = len(self.proxy.exchanges)
        with self.process as running:
            running.send_signal(signal.SIGCONT)
            _, err = running.communicate("", timeout=120)
        later = [one for one in self.proxy.exchanges[self.before :] if one.method == "PATCH"]
        return running.returncode, {one.path.rpartition("/")[2] for one in later}, err

    def kill(self) -> None:
        """End it, should the test have failed before it could."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


def _sets(api: Api, namespace: str) -> dict[str, str]:
    """Return the set whose label each ConfigMap has, by name."""
    return {
        name: body["metadata"]["labels"][PART_OF]
        for name, body in config_maps(api, namespace).items()
        if PART_OF in (body["metadata"].get("labels") or {})
    }


def _names(stage: Stage) -> set[str]:
    return {ref.name for ref in stage.inventory().entries}


def test_apply_that_lost_its_lock_creates_nothing_more(
    stage: Stage, proxy: FaultProxy, api: Api, tmp_path: Path
) -> None:
    """It ends with exit code 8; only the requests in flight have had an effect."""
    bodies = [config_map(f"c-{number}") for number in range(60)]
    source = write_input(tmp_path / "many.json", bodies)
    command: list[str | Path] = ["apply", stage.name, "-n", stage.namespace, "-f", source]
    stopped = Stopped(proxy, command, proxy.kubeconfig(tmp_path))
    try:
        story = stage.run(config_map("other"), max_prune=stage.most(60), lock_timeout=60.0)
        assert story.exit_code == 0, story.events
        code, later, err = stopped.go_on()
    finally:
        stopped.kill()
    assert code == 8, err
    assert "Traceback" not in err
    assert len(later) <= IN_BETWEEN
    marked = set(_sets(api, stage.namespace))
    assert _names(stage) == {"other"}
    # What had been sent is not lost: it has the label and field manager, and a repair lists it.
    assert stage.repair().exit_code == 0
    assert _names(stage) == marked
    assert not stage.check().found


def test_move_that_lost_its_lock_transfers_nothing_more(
    stage: Stage, proxy: FaultProxy, api: Api, tmp_path: Path
) -> None:
    """Every object is listed by the set whose label it has, except those sent before the pause."""
    other = Stage(stage.kubeconfig, stage.namespace, name="other")
    bodies = [config_map(f"c-{number}") for number in range(40)]
    assert stage.run(*bodies).exit_code == 0
    command = ["inventory", "move", "web", "other", "--all", "-n", stage.namespace]
    stopped = Stopped(proxy, command, proxy.kubeconfig(tmp_path))
    try:
        with ThreadPoolExecutor() as pool:
            # Each set leaves the objects alone that were transferred to the other one before.
            most = stage.most(40)
            theirs = pool.submit(
                other.run, config_map("mine"), prune=False, max_prune=most, lock_timeout=60.0
            )
            ours = pool.submit(stage.run, *bodies, config_map("extra"), lock_timeout=60.0)
            assert theirs.result().exit_code == 0
            assert ours.result().outcomes
        code, later, err = stopped.go_on()
    finally:
        stopped.kill()
    assert code == 8, err
    assert "Traceback" not in err
    assert len(later) <= IN_BETWEEN
    listed = {stage.target.id: _names(stage), other.target.id: _names(other)}
    marked = _sets(api, stage.namespace)
    assert set(marked) == {"mine", *(f"c-{number}" for number in range(40))}
    lost = {name for name, owner in marked.items() if name not in listed[owner]}
    assert lost <= later
