"""Programs on input that is not trusted: their limits, and their end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from applyprune.clock import CLOCK
from applyprune.system.processes import (
    MOST_ERRORS,
    ProcessLimits,
    TooMuchOutput,
    run_program,
)
from tests.support.home import processes_with
from tests.support.processes import is_running
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

ENV = {"PATH": os.environ["PATH"]}
PYTHON = (sys.executable, "-I", "-S", "-c")


def soon(seconds: float = 3600) -> float:
    return CLOCK.now() + seconds


def test_output_errors_and_code_are_returned_and_the_environment_is_only_what_was_given() -> None:
    done = run_program(
        ["sh", "-c", "cat; pwd; env; echo bad >&2; exit 3"],
        env=ENV | {"KEY": "value"},
        stdin=b"input\n",
        deadline=soon(),
        max_output=10_000,
    )
    lines = done.stdout.decode().splitlines()
    assert (done.code, done.stderr, lines[:2]) == (3, b"bad\n", ["input", "/"])
    # A shell sets its own.
    assert {one.partition("=")[0] for one in lines[2:]} <= {"PATH", "KEY", "PWD", "_", "SHLVL"}


def test_input_larger_than_a_pipe_flows_through() -> None:
    data = os.urandom(3 << 20)
    done = run_program(["cat"], env=ENV, stdin=data, deadline=soon(), max_output=4 << 20)
    assert (done.code, done.stdout == data) == (0, True)


def test_program_that_does_not_read_its_input_is_no_failure() -> None:
    done = run_program(["true"], env=ENV, stdin=b"x" * (3 << 20), deadline=soon(), max_output=10)
    assert (done.code, done.stdout) == (0, b"")


def test_errors_are_cut() -> None:
    script = "echo begin >&2; head -c 1000000 /dev/zero | tr '\\0' x >&2"
    done = run_program(["sh", "-c", script], env=ENV, deadline=soon(), max_output=10)
    assert done.stderr.startswith(b"begin\nxxx")
    assert len(done.stderr) == MOST_ERRORS


@pytest.mark.parametrize("script", ["sleep 3600", "exec >&- 2>&-; sleep 3600", "sleep 3600 & echo"])
def test_deadline_ends_the_program_and_what_it_has_started(tmp_path: Path, script: str) -> None:
    command = ["sh", "-c", f"{script}; true", str(tmp_path)]
    with pytest.raises(TimeoutError):
        run_program(command, env=ENV, deadline=soon(0.3), max_output=10)
    eventually(lambda: processes_with(tmp_path) == {}, lambda: "the end of the program")


def test_too_much_output_ends_the_program() -> None:
    with pytest.raises(TooMuchOutput):
        run_program(["cat", "/dev/zero"], env=ENV, deadline=soon(), max_output=100_000)


def test_missing_program_is_an_error_of_the_system() -> None:
    """Either Popen says it, or the program that sets the limits ends with its own code."""
    command = ["/nonexistent/program"]
    with pytest.raises(FileNotFoundError):
        run_program(command, env=ENV, deadline=soon(), max_output=100)
    command = [*ProcessLimits().command(), *command]
    assert run_program(command, env=ENV, deadline=soon(), max_output=100).code == 127


@pytest.mark.skipif(shutil.which("prlimit") is None, reason="needs prlimit")
@pytest.mark.parametrize(
    ("script", "limits"),
    [
        ("bytes(300_000_000)", ProcessLimits(memory=100_000_000)),
        ("while True: pass", ProcessLimits(cpu=1)),
        (
            "open('FILE', 'wb', 0).write(bytes(5000)) == 5000 or exit(1)",
            ProcessLimits(file_size=4000),
        ),
        ("files = [open('/dev/null') for _ in range(20)]", ProcessLimits(files=16)),
    ],
    ids=["memory", "cpu", "file-size", "files"],
)
def test_limits_end_the_program(tmp_path: Path, script: str, limits: ProcessLimits) -> None:
    file = tmp_path / "file"
    script = script.replace("FILE", str(file))
    command = [*limits.command(), *PYTHON]
    within = run_program([*command, ""], env=ENV, deadline=soon(), max_output=10)
    assert within.code == 0
    beyond = run_program([*command, script], env=ENV, deadline=soon(), max_output=10)
    assert beyond.code != 0
    assert not file.exists() or file.stat().st_size <= 4000


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv")
def test_program_dies_with_a_caller_that_is_killed(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from applyprune.clock import CLOCK\n"
        "from applyprune.system.processes import ProcessLimits, run_program\n"
        "command = [sys.executable, '-c', 'import signal; signal.pause()', sys.argv[1]]\n"
        "run_program([*ProcessLimits().command(), *command],"
        " env={}, deadline=CLOCK.now() + 3600, max_output=10)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)]) as caller:
        eventually(lambda: len(_running(tmp_path)) == 2, lambda: "the program")
        caller.send_signal(signal.SIGKILL)
    eventually(lambda: processes_with(tmp_path) == {}, lambda: "its end")


# Three programs that start another one each: the guard is told of two, and one of these has ended.
_KILLED = """
import os, signal, subprocess, sys
from pathlib import Path
from applyprune.system.processes import ProcessGuard
with ProcessGuard(Path(sys.argv[1])) as guard:
    def start(name):
        command = ["sh", "-c", f"sh -c 'sleep 3600; true' {name} & wait"]
        return subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL)
    ended, killed, other = (start(name) for name in sys.argv[2:])
    guard.add(ended.pid)
    guard.add(killed.pid)
    guard.end(ended)
    print(killed.pid, other.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_guard_ends_what_a_killed_process_has_left(tmp_path: Path) -> None:
    """Its folder, and the groups that the guard was told of: no other, whose number may be new."""
    folder = tmp_path / "a 'folder' of *"
    (folder / "one" / "two").mkdir(parents=True)
    (folder / "one" / "two" / ".file").touch(mode=0o400)
    names = [str(tmp_path / name) for name in ("ended", "killed", "other")]
    command = [sys.executable, "-c", _KILLED, str(folder), *names]
    caller = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    assert caller.returncode == -signal.SIGKILL
    killed, other = map(int, caller.stdout.split())
    eventually(lambda: not folder.exists(), lambda: "the removal of the folder")
    try:
        assert not is_running(killed)
        assert len(processes_with(tmp_path / "other")) == 2
        eventually(
            lambda: len(processes_with(tmp_path)) == 2, lambda: str(processes_with(tmp_path))
        )
    finally:
        os.killpg(other, signal.SIGKILL)


def _running(folder: Path) -> list[str]:
    """Return the commands with the folder, without those that only set limits."""
    return [one for one in processes_with(folder).values() if "pdeathsig" not in one]
