"""The law of time: no test measures it, sleeps, or gives up before something hangs.

What takes how long depends on the machine. A test says why something happened, in which order, or
gives a clock of its own (tests/support/clocks.py).
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.waiting import HANG

if TYPE_CHECKING:
    from collections.abc import Iterator

TESTS = Path(__file__).parents[1]
CLOCKS = {
    "time": {"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "sleep", "time"},
    "threading": {"Timer"},
    "applyprune.clock": {"boot_time", "read_clock"},
}
"""What measures real time or lets it pass, by its module."""
WAITS = {"acquire", "communicate", "join", "poll", "result", "run", "wait"}
"""The methods that give up after a time."""
MEANT_TO_END = 2.0
"""Seconds of ``--timeout`` up to which a run is meant to reach it, and not to succeed before."""
EXCEPTIONS = {
    "unit/sources/web/test_https.py": "the pace of a server that sends a byte now and then",
}
"""The files in which real time passes, and why: none of them measures it, or gives up by it."""


def _real_time(tree: ast.Module) -> Iterator[str]:
    """Yield each use of a clock."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if alias.name in CLOCKS.get(node.module or "", ()):
                    yield f"{node.lineno}: from {node.module} import {alias.name}"
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.attr in CLOCKS.get(node.value.id, ())
        ):
            yield f"{node.lineno}: {node.value.id}.{node.attr}"


def _number(node: ast.expr) -> float:
    """Return a number that is written down; otherwise 0."""
    is_number = isinstance(node, ast.Constant) and isinstance(node.value, int | float)
    return float(ast.literal_eval(node)) if is_number else 0


def _bounds(tree: ast.Module) -> Iterator[str]:
    """Yield each wait that gives up on a busy machine."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        given = [one.value for one in node.keywords if one.arg == "timeout"]
        if node.func.attr in WAITS - {"run", "result"}:
            given += node.args[:1]
        for one in given:
            least = MEANT_TO_END if node.func.attr == "run" else 0
            if node.func.attr in WAITS and least < _number(one) < HANG:
                yield f"{node.lineno}: {ast.unparse(node)[:60]}"


def _faults(text: str) -> list[str]:
    tree = ast.parse(text)
    return [*_real_time(tree), *_bounds(tree)]


def test_no_test_depends_on_how_fast_the_machine_is() -> None:
    """But for those that say why."""
    found = {
        str(path.relative_to(TESTS)): faults
        for path in sorted(TESTS.rglob("test_*.py"))
        if (faults := _faults(path.read_text(encoding="utf-8")))
    }
    assert {file: faults for file, faults in found.items() if file not in EXCEPTIONS} == {}
    assert EXCEPTIONS.keys() - found.keys() == set()


@pytest.mark.parametrize(
    "line",
    [
        "import time; time.sleep(1)",
        "from time import monotonic",
        "import threading; threading.Timer(1, print)",
        "process.wait(10)",
        "thread.join(timeout=2.5)",
        "subprocess.run(['x'], timeout=60)",
    ],
)
def test_dependence_on_speed_is_found(line: str) -> None:
    """Each way to write it."""
    assert len(_faults(line)) == 1


@pytest.mark.parametrize("line", ["process.wait()", "flag.wait(0)", "flag.wait(HANG)"])
def test_waiting_without_a_time_is_allowed(line: str) -> None:
    """Also a look that does not wait."""
    assert _faults(line) == []
