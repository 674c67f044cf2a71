"""A thread of a worker that has no memory to begin: the process ends at its limit at once."""

from __future__ import annotations

import subprocess
import sys

import pytest

from applyprune.controller.worker import OUT_OF_MEMORY
from tests.support.waiting import HANG

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


def ended(left: int) -> tuple[int | None, str]:
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
    """Wherever its begin fails, until there is enough; else who starts it would wait for ever."""
    # How much a thread needs to begin is for the machine to say.
    codes: list[int | None] = []
    for left in range(0, 256 << 10, 2 << 10):
        code, said = ended(left)
        assert (code is not None, said) == (True, "")
        codes.append(code)
        if code == BEGUN:
            break
    assert set(codes) <= {OUT_OF_MEMORY, BEGUN, REFUSED}
    assert {OUT_OF_MEMORY, BEGUN} <= set(codes)
