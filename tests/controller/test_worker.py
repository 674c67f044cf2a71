"""Worker processes and their parent: started, ended at a limit, killed, and started again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from applyprune.cluster.access import cluster_access
from applyprune.controller.process import own_cache_folder
from applyprune.controller.reasons import Limit
from applyprune.controller.task import Task
from applyprune.controller.worker import (
    MIB,
    OUT_OF_MEMORY,
    LimitExceeded,
    WorkerHandle,
    WorkerLimits,
    WorkerSettings,
    WorkerUnavailable,
    worker_context,
)
from applyprune.values import replace
from tests.support.namespaces import own_namespaces
from tests.support.processes import children, is_running
from tests.support.waiting import HANG, eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from applyprune.system.fork_server import ForkServer

    Make = Callable[..., WorkerHandle]

TASK = Task(("shop", "web"))
QUICK = WorkerLimits(time=0.5, grace=0.5)


@pytest.fixture(scope="module")
def context() -> Iterator[ForkServer]:
    """The context of all handles, as in a controller."""
    with closing(worker_context()) as one:
        yield one


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """The port at which nobody answers."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        yield one


@pytest.fixture
def make(context: ForkServer, silent: socket.socket, tmp_path: Path) -> Iterator[Make]:
    """A factory of handles; their workers are killed at the end."""
    handles: list[WorkerHandle] = []

    def new(
        limits: WorkerLimits = QUICK, *, listens: bool = True, level: str = "error"
    ) -> WorkerHandle:
        port = silent.getsockname()[1]
        if not listens:
            with closing(socket.create_server(("127.0.0.1", 0))) as free:
                port = free.getsockname()[1]
        file = tmp_path / str(port)
        file.write_text(
            f"clusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:{port}'}}}}]\n"
            "contexts: [{name: c, context: {cluster: c, user: u}}]\n"
            "users: [{name: u, user: {}}]\ncurrent-context: c\n"
        )
        access = cluster_access(kubeconfig=str(file), environ={})
        handles.append(WorkerHandle(context, WorkerSettings(access, None, "test", level, limits)))
        return handles[-1]

    yield new
    for handle in handles:
        handle.end()
        handle.kill()


def pid_of(handle: WorkerHandle) -> int:
    """Return the ID of its process."""
    assert handle._process is not None
    assert handle._process.pid is not None
    return handle._process.pid


def memory(handle: WorkerHandle, name: str) -> int:
    """Return bytes of memory of a worker, as the kernel shows them."""
    lines = Path(f"/proc/{pid_of(handle)}/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(f"{name}:"))
    return int(line.split()[1]) * 1024


def ended(process: int) -> None:
    """Wait until a process has ended."""
    eventually(lambda: not is_running(process), lambda: f"the end of {process}")


def test_worker_serves_one_task_after_the_other(make: Make) -> None:
    """Even if none can be done; its requests are counted."""
    handle = make(WorkerLimits(), listens=False)
    first, second = handle.reconcile(TASK), handle.reconcile(replace(TASK, history=TASK.history))
    assert first.answer.measured is None
    assert first.answer.history.failures == second.answer.history.failures == 1
    assert sum(first.requests.values()) > 0
    assert 10 * MIB < first.resident <= memory(handle, "VmHWM") + MIB


def test_reconcile_ends_at_its_deadline(make: Make) -> None:
    """The worker that does not end by itself is killed, and the next task gets a new one."""
    handle = make()
    for _ in range(2):
        handle.start()
        before = pid_of(handle)
        with pytest.raises(LimitExceeded, match=r"it took longer than 0\.5 s") as caught:
            handle.reconcile(TASK)
        assert caught.value.limit is Limit.TIME
        ended(before)


def test_killed_worker_is_a_crash(make: Make, silent: socket.socket) -> None:
    """In the middle of a reconcile, by whomever."""
    handle = make(WorkerLimits(time=3600))
    handle.start()

    def kill() -> None:
        with silent.accept()[0]:
            os.kill(pid_of(handle), signal.SIGKILL)

    Thread(target=kill, daemon=True).start()
    with pytest.raises(LimitExceeded, match="ended with SIGKILL") as caught:
        handle.reconcile(TASK)
    assert caught.value.limit is Limit.CRASH


def test_worker_that_is_killed_while_idle_blames_nobody(make: Make) -> None:
    """The next task gets another one."""
    handle = make(WorkerLimits(), listens=False)
    handle.start()
    before = pid_of(handle)
    os.kill(before, signal.SIGKILL)
    ended(before)
    assert handle.reconcile(TASK).answer.history.failures == 1
    assert pid_of(handle) != before


def test_worker_that_ends_at_its_start_blames_nobody(make: Make) -> None:
    """No Bundle is told that it has used too much."""
    handle = make(level="no level")
    with pytest.raises(WorkerUnavailable, match="ended when it was started: exit code 1"):
        handle.start()
    with pytest.raises(WorkerUnavailable):
        handle.reconcile(TASK)


def test_workers_are_started_when_the_process_that_forks_was_killed(make: Make) -> None:
    """What they do goes on, and those that hang can still be killed."""
    handle, other = make(), make(WorkerLimits(), listens=False)
    handle.start()
    worker = pid_of(handle)
    (server,) = (one for one in children(os.getpid()) if worker in children(one))
    os.kill(server, signal.SIGKILL)
    ended(server)
    assert other.reconcile(TASK).answer.history.failures == 1
    with pytest.raises(LimitExceeded, match="longer than"):
        handle.reconcile(TASK)
    ended(worker)


def test_reconcile_that_begins_while_the_controller_stops_ends_at_once(make: Make) -> None:
    """Before or after it has reached its worker; and no new worker is started."""
    handle = make(WorkerLimits(time=3600), listens=False)
    handle.start()
    handle.end()
    answer = handle.reconcile(TASK).answer
    assert (answer.delay, answer.measured) == (0.0, None)
    handle.kill()
    eventually(
        lambda: handle._connection is not None and handle._connection.poll(0), lambda: "its end"
    )
    with pytest.raises(WorkerUnavailable, match="stopping"):
        handle.reconcile(TASK)


def test_worker_ends_with_its_parent(make: Make) -> None:
    """Idle, when the connection is closed."""
    handle = make(WorkerLimits())
    handle.start()
    worker = pid_of(handle)
    assert handle._connection is not None
    handle._connection.close()
    ended(worker)
    handle._connection = None


def kernel_limits(handle: WorkerHandle) -> dict[str, str]:
    """Return the limits of a worker, as the kernel shows them."""
    text = Path(f"/proc/{pid_of(handle)}/limits").read_text()
    rows = [line.split("  ") for line in text.splitlines()[1:]]
    return {row[0]: next(cell for cell in row[1:] if cell).strip() for row in rows}


@pytest.mark.holds("limit-memory")
def test_worker_may_use_no_more_memory(make: Make) -> None:
    """By the kernel, which kills it before its parent; and it writes no core."""
    handle = make(WorkerLimits(memory=100 * MIB), listens=False)
    handle.start()
    limits = kernel_limits(handle)
    assert limits["Max data size"].isdecimal()
    used = memory(handle, "VmData")
    assert 100 * MIB < int(limits["Max data size"]) < 100 * MIB + 2 * used
    assert limits["Max core file size"] == "0"
    assert Path(f"/proc/{pid_of(handle)}/oom_score_adj").read_text() == "1000\n"


VICTIM = """
from pathlib import Path
from applyprune.controller.worker import be_first_victim
be_first_victim()
print(Path("/proc/self/oom_score_adj").read_text().strip())
"""


@pytest.mark.parametrize(
    ("before", "writable", "after"),
    [
        (0, True, 1000),
        (1000, True, 1000),
        (993, False, 993),
    ],
)
def test_worker_is_never_safer_than_its_parent(before: int, writable: bool, after: int) -> None:
    """Whatever the kubelet has given to the container, and where nothing may be changed."""
    mounts = [f"echo {before} >/proc/self/oom_score_adj"]
    if not writable:
        mounts += ["mount --bind /proc /proc", "mount -o remount,bind,ro /proc"]
    inside = own_namespaces("--user", "--map-root-user", "--mount", proof=False, mounts=mounts)
    reply = subprocess.run(
        [*inside, sys.executable, "-c", VICTIM], capture_output=True, text=True, check=False
    )
    assert (reply.stdout, reply.stderr) == (f"{after}\n", "")


@pytest.mark.holds("limit-cpu")
def test_worker_may_use_no_more_time(make: Make) -> None:
    """Each task has its own: what the ones before have used does not count."""
    handle = make(WorkerLimits(cpu=7), listens=False)
    handle.reconcile(TASK)
    limit = kernel_limits(handle)["Max cpu time"]
    assert limit.isdecimal()
    times = Path(f"/proc/{pid_of(handle)}/stat").read_text().rpartition(")")[2].split()
    used = (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")
    assert 7 < int(limit) < 9 + used


PROGRAM = """
import mmap, os, sys, threading
from applyprune.controller.worker import WorkerLimits, limit_memory
from applyprune.controller.worker import _end_with_lost_threads

_end_with_lost_threads()
threading.stack_size(1 << 20)
thread = threading.Thread(target=lambda: None)
# The memory that will be left for the thread, beside its stack.
left = mmap.mmap(-1, (1 << 20) + (16 << 10) + int(sys.argv[1]), mmap.MAP_PRIVATE)
limit_memory(WorkerLimits(memory=4 << 20))
hoard, size = [], 1 << 20
while size >= 64:
    try:
        hoard.append(bytearray(size))
    except MemoryError:
        size //= 2
try:
    while True:
        hoard.append(object())
except MemoryError:
    left.close()
try:
    thread.start()
except (RuntimeError, MemoryError):
    os._exit(1)
os._exit(0)
"""
BEGUN, REFUSED = 0, 1
"""The thread has begun; or the one who starts it is told that there is no memory."""


def ended_with(left: int) -> tuple[int | None, str]:
    """Return the exit code with so much memory left, None if it does not end; and what it says."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(left)], stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            _, said = process.communicate(timeout=HANG / 3)
        except subprocess.TimeoutExpired:
            process.kill()
            return None, ""
        return process.returncode, said


@pytest.mark.holds("lost-thread")
def test_thread_without_memory_ends_the_process() -> None:
    """Wherever its begin fails, until there is enough; else who starts it would wait for ever.

    Slow: a process is started for each size of memory.
    """
    # How much a thread needs to begin is for the machine to say.
    codes: list[int | None] = []
    for left in range(0, 256 << 10, 2 << 10):
        code, said = ended_with(left)
        assert (code is not None, said) == (True, "")
        codes.append(code)
        if code == BEGUN:
            break
    assert set(codes) <= {OUT_OF_MEMORY, BEGUN, REFUSED}
    assert {OUT_OF_MEMORY, BEGUN} <= set(codes)


HOLDER = """
import sys
from applyprune.controller.process import own_cache_folder
with own_cache_folder() as folder:
    (folder / "artifact").write_bytes(bytes(1000))
    print(folder, flush=True)
    sys.stdin.read()
"""


@contextmanager
def holding(temporary: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Run a process with a folder of its own."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"TMPDIR": str(temporary), "PYTHONPATH": str(Path(__file__).parents[2])},
    ) as running:
        assert running.stdout is not None
        try:
            yield running, Path(running.stdout.readline().strip())
        finally:
            running.kill()


def test_folder_of_a_killed_process_is_removed_by_the_next(tmp_path: Path) -> None:
    """Its disk outlives a container; that of a process that lives stays, and so does all else."""
    other = Path(tempfile.mkdtemp(prefix="applyprune-", dir=tmp_path))
    with holding(tmp_path) as (_, living), holding(tmp_path) as (killed, left):
        assert left.stat().st_mode & 0o077 == 0
        killed.kill()
        killed.wait()
        assert (left / "artifact").exists()
        with holding(tmp_path) as (ends, own):
            assert not left.exists()
            assert (living / "artifact").exists()
            ends.communicate("")
            assert ends.returncode == 0
            assert not own.exists()
    assert other.exists()


def test_folder_that_cannot_be_written_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then nothing is kept, and nothing fails."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with own_cache_folder() as folder:
        assert folder is None
