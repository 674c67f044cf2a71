"""A process that was suspended past its lease and has lost the lock: it writes nothing more."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from applyprune.model.options import Options
from applyprune.planning.applyset import PART_OF
from tests.support.api import Api
from tests.support.asleep import ROOT, with_clocks_of
from tests.support.command import start
from tests.support.fault_proxy import Exchange, FaultProxy
from tests.support.input_files import write_input
from tests.support.live import config_maps
from tests.support.objects import config_map
from tests.support.other_run import wait_for_lock
from tests.support.processes import suspend
from tests.support.stage import Stage
from tests.support.waiting import HANG

IN_FLIGHT = Options().concurrency
"""How many patches are on their way when a process is stopped: then no thread is in between."""
LEASE = int(Options().lease)


@dataclass(slots=True)
class Stopped:
    """A process that is suspended when all its threads wait for patches, and slept for an hour."""

    proxy: FaultProxy
    arguments: Sequence[str | Path]
    folder: Path
    reached: threading.Event = field(default_factory=threading.Event)
    process: subprocess.Popen[str] | None = None

    def __post_init__(self) -> None:
        """Start it, and return when it is suspended; the server has processed those patches."""
        started = threading.Event()
        threads = threading.Barrier(IN_FLIGHT, action=self.reached.set)

        def hook(seen: Exchange) -> None:
            if seen.method == "PATCH" and not self.reached.is_set():
                threads.wait(HANG)
                assert started.wait(HANG)

        self.proxy.before_reply = hook
        slept = self.folder / "slept"
        slept.write_text("0")
        self.process = start(
            *self.arguments,
            kubeconfig=self.proxy.kubeconfig(self.folder),
            cwd=ROOT,
            within=with_clocks_of(slept),
        )
        assert self.reached.wait(HANG)
        suspend(self.process.pid)
        slept.write_text("3600")
        started.set()

    def go_on(self) -> tuple[int, list[str], str]:
        """Return its exit code, what it patched after SIGCONT, and its output."""
        assert self.process is not None
        before = len(self.proxy.exchanges)
        with self.process as running:
            running.send_signal(signal.SIGCONT)
            _, err = running.communicate("", timeout=HANG)
        later = [one.path for one in self.proxy.exchanges[before:] if one.method == "PATCH"]
        return running.returncode, later, err

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
    where = ("-n", stage.namespace, "-f", source)
    stopped = Stopped(proxy, ["apply", stage.name, *where, "--no-check"], tmp_path)
    try:
        # Nothing but its silence shows that it will not go on: it has not ended.
        assert len(wait_for_lock(stage)) >= 2 * LEASE
        story = stage.run(config_map("other"), max_prune=stage.most(60))
        assert story.exit_code == 0, story.events
        code, later, err = stopped.go_on()
    finally:
        stopped.kill()
    assert code == 8, err
    assert "Traceback" not in err
    assert not later
    marked = set(_sets(api, stage.namespace))
    assert _names(stage) == {"other"}
    # What had been sent is not lost: it has the label and field manager, and a repair lists it.
    assert stage.repair().exit_code == 0
    assert _names(stage) == marked
    assert not stage.check().found
