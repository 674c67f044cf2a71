"""Locks, replaced files, and the end of processes, on this system."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest

from applyprune.system.files import replace_file, try_lock, until_allowed
from applyprune.system.processes import GROUP_FLAGS, STOP_SIGNALS, kill, kill_group, wait_in_steps
from applyprune.system.terminal import user_name
from tests.support.processes import is_running
from tests.support.waiting import HANG, eventually

PARENT = (
    "import signal, subprocess, sys\n"
    "child = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'])\n"
    "print(child.pid, flush=True)\n"
    "signal.pause()\n"
)


def test_lock_is_held_by_one_or_shared_by_many(tmp_path: Path) -> None:
    """Each open file counts, also within one process; closing it releases the lock."""
    path = tmp_path / "lock"
    first, second, third = (os.open(path, os.O_RDWR | os.O_CREAT) for _ in range(3))
    assert try_lock(first)
    assert not try_lock(second)
    assert not try_lock(second, is_shared=True)
    os.close(first)
    assert try_lock(second, is_shared=True)
    assert try_lock(third, is_shared=True)
    assert not try_lock(third)
    os.close(second)
    os.close(third)


def test_file_is_replaced(tmp_path: Path) -> None:
    """The old content has gone, and so has the old name."""
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("old")
    new.write_text("new")
    replace_file(new, old)
    assert [old.read_text(), new.exists()] == ["new", False]


def test_work_is_repeated_until_it_is_allowed() -> None:
    """A virus scanner that has the file open for a moment."""
    calls = count(1)

    def work() -> None:
        if next(calls) < 3:
            raise PermissionError

    until_allowed(work)
    assert next(calls) == 4


def test_work_is_not_repeated_for_ever() -> None:
    """A program that keeps it open."""

    def work() -> None:
        raise PermissionError(13, "Access is denied")

    with pytest.raises(PermissionError, match="Access is denied"):
        until_allowed(work, 0.1)


def test_process_group_ends_with_what_it_has_started() -> None:
    """A plugin that has started a browser, or a build that has started git."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdout=subprocess.PIPE,
        start_new_session=True,
        creationflags=GROUP_FLAGS,
        text=True,
    ) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        assert is_running(child)
        kill_group(process.pid)
    assert process.returncode == -signal.SIGKILL
    eventually(lambda: not is_running(child))


def test_process_is_killed() -> None:
    """At once, and by its number."""
    with subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"]) as process:
        kill(process.pid)
    assert process.returncode == -signal.SIGKILL


def test_wait_in_steps_ends_with_the_process_or_the_time() -> None:
    """As one wait does."""
    with subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"]) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            wait_in_steps(process, 0.5)
        assert process.poll() is None
        process.kill()
        wait_in_steps(process, HANG)
        assert process.poll() is not None


def test_stop_signals_are_those_of_the_terminal_and_of_services() -> None:
    """Ctrl-C, and the end of a Pod."""
    assert STOP_SIGNALS == (signal.SIGINT, signal.SIGTERM)


def test_user_without_a_name_has_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container's user; on Windows, the module that knows names is missing."""

    def unknown() -> str:
        raise ImportError("No module named 'pwd'")

    monkeypatch.setattr("getpass.getuser", unknown)
    assert user_name() == str(os.getuid())
