"""Commands of tests as forks of a loaded process: they are and say what new processes do."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.command import Ended, applyprune, start
from tests.support.preloaded import PRELOADED
from tests.support.processes import is_running, working_in
from tests.support.waiting import eventually

COMMANDS = (
    ("version",),
    ("--help",),
    ("apply", "--help"),
    ("aply",),
    ("apply", "web", "-f", "-"),
    ("diff", "web", "-f", "nowhere"),
    ("list",),
)


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_fork_says_what_a_new_process_says(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """With the same exit code, on the same stream, in the same folder."""
    assert PRELOADED.can_run(os.environ)
    forked = applyprune(*arguments, kubeconfig="/dev/null", stdin="a: \r\nb", cwd=tmp_path)
    with start(*arguments, kubeconfig="/dev/null", cwd=tmp_path) as process:
        out, err = process.communicate("a: \r\nb")
    assert forked == Ended(process.returncode, out, err)


def test_forks_run_at_the_same_time_and_by_themselves(tmp_path: Path) -> None:
    """A failure of one is nothing to the others; each has its own input."""
    texts = [f"kind: {'x' * number * 1000}\n" for number in range(12)]

    def run(text: str) -> Ended:
        return applyprune("apply", "web", "-f", "-", kubeconfig="/dev/null", stdin=text)

    with ThreadPoolExecutor(12) as pool:
        found = list(pool.map(run, texts))
    assert {one.code for one in found} == {2}
    again = [run(text) for text in texts]
    assert found == again


def test_command_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    """As ``subprocess`` does it: nobody writes into what it reads."""
    fifo = tmp_path / "fifo.yaml"
    subprocess.run(["mkfifo", fifo], check=True)
    with pytest.raises(subprocess.TimeoutExpired):
        PRELOADED.run(["apply", "web", "-f", str(fifo)], {}, tmp_path, "", 1.0)
    eventually(lambda: working_in(tmp_path) == [], lambda: "the end of the command")


def test_process_with_a_session_of_its_own_ends_with_the_tests() -> None:
    """Also when these are killed: whoever stops a test run by a signal leaves nothing behind."""
    program = (
        "import os, signal, subprocess\n"
        "from tests.support.orphans import end_with_the_tests\n"
        "process = subprocess.Popen(['sleep', '3600'], start_new_session=True)\n"
        "end_with_the_tests(process.pid)\n"
        "print(process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    process = int(ended.stdout)
    eventually(lambda: not is_running(process), lambda: "the end of the process")
