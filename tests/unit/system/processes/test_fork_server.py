"""The process that forks, and its copies: what they have, how they end, and what outlives them."""

from __future__ import annotations

import gc
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import closing, suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.system.fork_server import UNKNOWN, ForkedProcess, ForkServer
from tests.support.processes import children, is_running, name_of, threads_of
from tests.support.waiting import HANG, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

MODULE = "tests.unit.system.processes.test_fork_server"


@pytest.fixture
def server() -> Iterator[ForkServer]:
    """A process that ends with the test."""
    with closing(ForkServer(MODULE)) as one:
        yield one


# What copies do.


def serve(connection: Connection, number: int) -> None:
    """Answer until the connection ends."""
    with suppress(EOFError):
        while True:
            connection.send((connection.recv(), number))


def tell_files(connection: Connection) -> None:
    """Send the files that are open, without the one that lists them."""
    numbers = sorted(int(one.name) for one in Path("/proc/self/fd").iterdir())
    files = [Path(f"/proc/self/fd/{number}") for number in numbers]
    connection.send([str(one.readlink()) for one in files if one.is_symlink()])


def tell_thresholds(connection: Connection) -> None:
    """Send how often it looks for cycles."""
    connection.send(gc.get_threshold())


def fail(_connection: Connection) -> None:
    """End with an error."""
    raise ValueError("of the test")


def leave(_connection: Connection, code: int) -> None:
    """End with a code."""
    sys.exit(code)


def code_of(process: ForkedProcess) -> int | None:
    """Wait for the end of a copy."""
    assert wait([process.sentinel], HANG)
    return process.exitcode


def server_of(process: ForkedProcess) -> int:
    """Return the process that has forked a copy, a child of this one."""
    (found,) = (one for one in children(os.getpid()) if process.pid in children(one))
    return found


def test_copies_run_side_by_side_and_end_with_their_connection(server: ForkServer) -> None:
    """Each with its own arguments."""
    copies = [server.start(serve, number) for number in range(3)]
    for number, (_, connection) in enumerate(copies):
        connection.send("asked")
        assert connection.recv() == ("asked", number)
    assert len({server_of(process) for process, _ in copies}) == 1
    for process, connection in copies:
        assert process.exitcode is None
        connection.close()
        assert code_of(process) == 0
        process.close()


def test_copy_has_no_file_of_another_one(server: ForkServer) -> None:
    """Else the end of a connection would not be seen."""
    others = [server.start(serve, number) for number in range(2)]
    process, connection = server.start(tell_files)
    first, *rest = connection.recv()
    assert first == os.devnull
    assert [name.partition(":")[0] for name in rest if name.startswith("socket")] == ["socket"]
    for _, one in others:
        one.close()
    assert code_of(process) == 0


def test_exit_code_tells_how_a_copy_has_ended(server: ForkServer) -> None:
    """By an error, by a code of its own, or by a signal."""
    assert code_of(server.start(fail)[0]) == 1
    assert code_of(server.start(leave, 7)[0]) == 7
    process, _connection = server.start(serve, 0)
    os.kill(process.pid, signal.SIGKILL)
    assert code_of(process) == -signal.SIGKILL


def test_signals_of_the_group_are_not_theirs(server: ForkServer) -> None:
    """The process has one thread, and is not this one under another number."""
    process, connection = server.start(serve, 1)
    forks = server_of(process)
    assert threads_of(forks) == 1
    assert "fork_server" in name_of(forks)
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(forks, number)
        os.kill(process.pid, number)
    connection.send("asked")
    assert connection.recv() == ("asked", 1)
    assert is_running(forks)


def test_copies_outlive_the_process_and_another_one_starts_others(server: ForkServer) -> None:
    """Nobody sees how they end."""
    process, connection = server.start(serve, 1)
    forks = server_of(process)
    os.kill(forks, signal.SIGKILL)
    assert code_of(process) == UNKNOWN
    other, another = server.start(serve, 2)
    assert server_of(other) != forks
    for number, one in enumerate((connection, another), 1):
        one.send("asked")
        assert one.recv() == ("asked", number)
        one.close()
    eventually(lambda: not is_running(process.pid), lambda: "its end")


def test_request_to_a_process_that_dies_goes_to_another_one(
    server: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files are closed one after the other: it may look alive, and answer no more."""
    process, _ = server.start(serve, 1)
    forks = server_of(process)
    os.kill(forks, signal.SIGSTOP)
    asked = threading.Thread(target=lambda: os.kill(forks, signal.SIGKILL))
    send = socket.send_fds

    def send_and_kill(*args: Any) -> int:
        sent = send(*args)
        if not asked.ident:
            asked.start()
        return sent

    monkeypatch.setattr(socket, "send_fds", send_and_kill)
    other, another = server.start(serve, 2)
    asked.join()
    assert server_of(other) != forks
    another.send("asked")
    assert another.recv() == ("asked", 2)
    assert code_of(process) == UNKNOWN


def test_process_without_a_parent_writes_to_no_closed_socket() -> None:
    """The signal of a copy that ends with it would be an error on standard error."""
    script = (
        "import signal, socket; from applyprune.system import fork_server as one; "
        "ours, theirs = socket.socketpair(); ours.close(); one._serve_all(theirs); "
        "print(signal.set_wakeup_fd(-1))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert (ended.stdout, ended.stderr) == ("-1\n", "")


def test_process_that_cannot_start_is_an_error_each_time(
    server: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no harm to the next try."""
    with monkeypatch.context() as patched:
        patched.setattr(sys, "executable", "/nonexistent")
        for _ in range(2):
            with pytest.raises(OSError, match="No such file"):
                server.start(serve, 1)
    _, connection = server.start(serve, 1)
    connection.send("asked")
    assert connection.recv() == ("asked", 1)
    connection.close()


# A process that begins with a copy of itself, and whether it has a thread by then.
_PARENT = """
import gc, sys, threading
gc.set_threshold(100_000, 20, 50)
from applyprune.system.fork_server import ForkServer
from tests.unit.system.processes.test_fork_server import serve, tell_thresholds
server = ForkServer("tests.unit.system.processes.test_fork_server")
if sys.argv[1] == "threads":
    threading.Thread(target=threading.Event().wait, daemon=True).start()
server.begin()
process, connection = server.start(serve, 5)
connection.send("asked")
assert connection.recv() == ("asked", 5)
print(process.pid, *server.start(tell_thresholds)[1].recv(), flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is forked at the beginning")
@pytest.mark.parametrize(
    ("mode", "copied"),
    [
        pytest.param("alone", True, marks=pytest.mark.holds("cycles-of-copies")),
        pytest.param("threads", False, marks=pytest.mark.holds("fork-without-threads")),
    ],
)
def test_process_is_a_copy_of_one_without_threads_and_ends_with_it(
    mode: str, *, copied: bool
) -> None:
    """Killed, it leaves neither. A command looks for cycles less often than they may."""
    command = [sys.executable, "-c", _PARENT, mode]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        process, *thresholds = map(int, parent.stdout.readline().split())
        assert thresholds == [700, 10, 10]
        (forks,) = (one for one in children(parent.pid) if process in children(one))
        assert (name_of(forks) == name_of(parent.pid)) is copied
        assert threads_of(forks) == 1
        parent.kill()
    eventually(lambda: not is_running(process), lambda: "the end of the copy")
    eventually(lambda: not is_running(forks), lambda: "the end of the process that has forked it")
