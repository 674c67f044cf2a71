"""The lock of a run that has ended is taken over soon; that of a run nobody can judge is not."""

from __future__ import annotations

import subprocess
import sys
import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

import pytest

from applyprune.engine.lock import create_file, has_ended, host_id, new_holder, remove_file
from applyprune.errors import InventoryLocked
from applyprune.model.inventory import LONGEST_LEASE
from tests.support.asleep import ROOT
from tests.support.command import start
from tests.support.input_files import write_input
from tests.support.namespaces import (
    HIDDEN,
    NOBODY,
    OTHER_MEMORY,
    PROVED,
    kill_inside,
    own_namespaces,
)
from tests.support.objects import config_map
from tests.support.other_run import ELSEWHERE, take_from_elsewhere, wait_for_lock
from tests.support.waiting import HANG

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.support.fault_proxy import Exchange, FaultProxy
    from tests.support.stage import Stage

PATIENCE = 4.0
"""Seconds: longer than the wait for a run that is known to have ended, shorter than any lease."""


@dataclass(slots=True)
class Working:
    """A run that holds the lock, is in the middle of its first apply, and renews its lease."""

    proxy: FaultProxy
    arguments: Sequence[str | Path]
    kubeconfig: Path
    within: Sequence[str] = ()
    reached: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)
    process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        """Start it, and return when it holds the lock."""

        def hook(seen: Exchange) -> None:
            if seen.method == "PATCH":
                self.reached.set()
                assert self.go_on.wait(HANG)

        self.proxy.before_forward = hook
        self.process = start(*self.arguments, kubeconfig=self.kubeconfig, within=self.within)
        assert self.reached.wait(HANG)
        return self

    def kill(self) -> None:
        """End the process by SIGKILL."""
        assert self.process is not None
        kill_inside(self.process)
        self.process.communicate()

    def finish(self) -> tuple[int, str]:
        """Let it go on, and return its exit code and its output."""
        assert self.process is not None
        self.go_on.set()
        _, err = self.process.communicate("", timeout=HANG)
        return self.process.returncode, err

    def __exit__(self, *_: object) -> None:
        """End it, should the test have failed before it could."""
        self.go_on.set()
        if self.process is not None and self.process.poll() is None:
            self.kill()


@pytest.fixture
def command(stage: Stage, tmp_path: Path) -> Sequence[str | Path]:
    """Apply eight ConfigMaps."""
    source = write_input(tmp_path / "eight.json", [config_map(f"c-{n}") for n in range(8)])
    return ("apply", stage.name, "-n", stage.namespace, "-f", source, "--no-check")


WAIT = """
import sys
from pathlib import Path
from applyprune.errors import InventoryLocked
from tests.support.other_run import wait_for_lock
from tests.support.stage import Stage
try:
    wait_for_lock(Stage(Path(sys.argv[1]), sys.argv[2]), float(sys.argv[3]))
except InventoryLocked as error:
    print(error)
"""


@pytest.mark.parametrize("proof", PROVED)
def test_working_run_whose_process_is_hidden_keeps_its_lock(
    stage: Stage,
    proxy: FaultProxy,
    tmp_path: Path,
    command: Sequence[str | Path],
    proof: bool,
) -> None:
    """The other run is another user's, with hidepid=2: it sees no process of the first one."""
    blind = own_namespaces("--mount", proof=proof, mounts=(HIDDEN,), user=NOBODY)
    with Working(proxy, command, proxy.kubeconfig(tmp_path)) as first:
        assert first.process is not None
        look = (*blind, "test", "-e", f"/proc/{first.process.pid}")
        assert subprocess.run(look, check=False).returncode == 1
        waits = (sys.executable, "-c", WAIT, str(stage.kubeconfig), stage.namespace, str(PATIENCE))
        assert "is locked by another run" in _printed((*blind, *waits))
        code, err = first.finish()
    assert code == 0, err
    assert len(stage.listed()) == 8


@pytest.mark.parametrize("proof", PROVED)
@pytest.mark.parametrize(
    "machine",
    [
        pytest.param((), id="same machine"),
        pytest.param(("--pid", "--mount-proc"), id="container with the same memory"),
    ],
)
def test_lock_of_a_killed_run_is_taken_over_at_once(
    stage: Stage,
    proxy: FaultProxy,
    tmp_path: Path,
    command: Sequence[str | Path],
    machine: Sequence[str],
    proof: bool,
) -> None:
    """The kernel has released its file: that it ended is seen, and no lease is waited for."""
    within = own_namespaces(*machine, proof=proof)
    with Working(proxy, command, proxy.kubeconfig(tmp_path), within) as first:
        holder = stage.inventory().holder
        assert holder is not None
        assert not has_ended(holder.host, holder.process)
        first.kill()
    assert wait_for_lock(stage, PATIENCE) == [0.0, 0.5, 1.0, 1.5]
    assert stage.run(config_map("other"), prune=False).exit_code == 0
    # Its file is not needed any more.
    assert not has_ended(holder.host, holder.process)


@pytest.mark.parametrize("proof", PROVED)
def test_run_on_a_cloned_machine_keeps_its_lock(
    stage: Stage,
    proxy: FaultProxy,
    tmp_path: Path,
    command: Sequence[str | Path],
    proof: bool,
) -> None:
    """A clone has the same boot id and PID namespace, but not the memory that the run has written.

    To the other run, the first one's process is missing, as it is on every clone.
    """
    clone = own_namespaces("--mount", proof=proof, mounts=(OTHER_MEMORY,))
    with Working(proxy, command, proxy.kubeconfig(tmp_path), clone) as first:
        holder = stage.inventory().holder
        assert holder is not None
        assert holder.host.startswith(host_id())
        first.kill()
    with pytest.raises(InventoryLocked, match="locked by another run"):
        wait_for_lock(stage, PATIENCE)


def test_own_run_is_not_taken_for_ended(stage: Stage) -> None:
    """The holder is this very process, and its file is locked."""
    stage.run(config_map("a"))
    file = create_file()
    assert file is not None
    take_from_elsewhere(stage, new_holder("r", lease=30.0, process=file.name))
    with pytest.raises(InventoryLocked, match="locked by another run"):
        wait_for_lock(stage, PATIENCE)
    file.close(remove=False)
    assert wait_for_lock(stage, PATIENCE) == [0.0, 0.5, 1.0, 1.5]


def test_forged_lease_blocks_no_run_for_longer_than_a_real_one(stage: Stage) -> None:
    """An editor of the inventory asks for 31 years; how such a number is read is tested beside."""
    stage.run(config_map("a"))
    take_from_elsewhere(stage, replace(ELSEWHERE, lease=1e9))
    assert max(wait_for_lock(stage)) < LONGEST_LEASE


def test_file_proves_nothing_about_another_boot_or_a_strange_name() -> None:
    """Names come from an inventory that others can edit."""
    file = create_file()
    assert file is not None
    file.close(remove=False)
    assert has_ended(host_id(), file.name)
    assert not has_ended("", file.name)
    assert not has_ended("another boot", file.name)
    assert not has_ended(host_id(), f"../shm/{file.name}")
    assert not has_ended(host_id(), "applyprune-" + "0" * 32)
    remove_file(file.name)
    assert not has_ended(host_id(), file.name)


CREATE = """
from applyprune.engine.lock import create_file
file = create_file()
print(file.name if file else "none")
"""


@pytest.mark.parametrize("proof", PROVED)
def test_file_of_another_user_proves_nothing(proof: bool) -> None:
    """Whoever can read the inventory can create a file of that name, on any machine."""
    other = own_namespaces(proof=proof, user=NOBODY)
    name = _printed((*other, sys.executable, "-c", CREATE))
    assert not has_ended(host_id(), name)
    # Its own user sees that it has ended.
    script = f"from applyprune.engine.lock import *; print(has_ended(host_id(), {name!r}))"
    assert _printed((*other, sys.executable, "-c", script)) == "True"
    remove_file(name)


@pytest.mark.parametrize("proof", PROVED)
def test_file_is_created_in_memory_only(tmp_path: Path, proof: bool) -> None:
    """A folder on a disk may be shared by machines, or cloned with the disk."""
    disk = own_namespaces("--mount", proof=proof, mounts=(f"mount --bind {tmp_path} /dev/shm",))
    assert _printed((*disk, sys.executable, "-c", CREATE)) == "none"


def _printed(command: Sequence[str]) -> str:
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return found.stdout.strip()
