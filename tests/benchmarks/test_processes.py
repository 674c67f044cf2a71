"""What a process costs: its exit code, its output, and the memory of nobody else."""

from __future__ import annotations

import os
import sys

import pytest

from tests.benchmarks.measuring.processes import cost_of


@pytest.mark.parametrize("terminal", [True, False])
def test_cost_has_the_exit_code_and_both_streams(*, terminal: bool) -> None:
    program = (
        "import sys; print('out', sys.stdout.isatty()); sys.stderr.write('err\\n'); sys.exit(3)"
    )
    cost = cost_of((sys.executable, "-c", program), os.environ, terminal=terminal)
    assert cost.code == 3
    assert set(cost.output.split("\n")) == {f"out {terminal}", "err", ""}
    assert cost.cpu > 0.0


def test_memory_is_that_of_the_largest_process_and_not_of_the_benchmark() -> None:
    held = bytearray(200_000_000)
    held[::4096] = b"x" * len(held[::4096])
    small = cost_of((sys.executable, "-S", "-c", ""), os.environ)
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'b = b\"x\" * 10**8'])"
    large = cost_of((sys.executable, "-c", child), os.environ)
    assert 1_000_000 < small.memory < 100_000_000 < large.memory < len(held)


def test_command_that_takes_too_long_is_killed() -> None:
    cost = cost_of(("sleep", "60"), os.environ, terminal=True, limit=1)
    assert cost.code == -9


def test_missing_program_has_a_code_of_its_own() -> None:
    assert cost_of(("/nonexistent/program",), os.environ).code == 127
