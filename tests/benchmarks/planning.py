"""How long a plan takes, and what the check of an apply costs: beside kubectl, a bare client."""

from __future__ import annotations

import os
import pty
import shutil
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from applyprune.model.identity import Ref
from applyprune.model.plan import Fate
from applyprune.output.terminal.table import table
from applyprune.planning.approval.digests import digest_of
from applyprune.planning.approval.plan_file import PlanFile, decode, encode
from applyprune.planning.approval.planned_objects import PlannedObject
from applyprune.planning.fields.normalize import digest
from tests.benchmarks import bare_client
from tests.benchmarks.workload import write_manifests

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

OBJECTS, CHANGED, MANY = 1000, 10, 10_000
PLAN, PLAN_THEIRS = "plan, 10 of 1,000 changed", "kubectl diff --server-side"
BARE, FAST, CHECKED = "bare client", "apply --no-check", "apply, defaults on a terminal"
THEIRS = "kubectl apply --server-side"


@dataclass(frozen=True, slots=True)
class PlanFileFigures:
    """What a plan file of many new objects costs."""

    size: int
    """Bytes."""
    written: float
    """Seconds to encode it."""
    read: float
    """Seconds to decode it."""


def plan_file_figures() -> PlanFileFigures:
    """Write and read a plan file of many new objects."""
    refs = [Ref("apps", "Deployment", f"n{each // 100}", f"web-{each}") for each in range(MANY)]
    objects = tuple(PlannedObject(ref, Fate.CREATE, digest(str(ref))) for ref in refs)
    now = datetime.now(UTC).replace(microsecond=0)
    file = PlanFile(
        name="web",
        namespace="shop",
        cluster={"kube-system": "u"},
        inventory_uid="",
        generation=0,
        options={},
        created=now,
        expires=now + timedelta(days=7),
        digest=digest_of(""),
        deletions="",
        objects=objects,
    )
    began = time.perf_counter()
    data = encode(file)
    written = time.perf_counter()
    if decode(data, source="web.plan").objects != objects:
        sys.exit("the plan file does not hold what was written")
    return PlanFileFigures(len(data), written - began, time.perf_counter() - written)


def measure(
    folder: Path, kubectl: Path, environment: Mapping[str, str], rounds: int
) -> Mapping[str, Sequence[float]]:
    """Return the wall seconds of each command, one a round; the commands take turns."""
    times: dict[str, list[float]] = defaultdict(list)
    run = _Runner(dict(environment))
    for turn in range(rounds):
        for number, name in enumerate((BARE, FAST, CHECKED, THEIRS)):
            prefix = f"plan-{turn}-{number}"
            manifests = folder / prefix
            write_manifests(manifests, OBJECTS, prefix)
            times[name].append(_apply(run, name, manifests, prefix, kubectl, folder))
            if name == FAST:
                _change(manifests)
                times[PLAN].append(run.ours("plan", prefix, "-f", str(manifests)))
            elif name == THEIRS:
                # Its own set: a diff of ours would end with conflicts.
                _change(manifests)
                theirs = (str(kubectl), "diff", "--server-side", "-f", str(manifests))
                times[PLAN_THEIRS].append(run.seconds(*theirs, codes=(1,)))
        click.echo(f"plan and check, round {turn + 1} of {rounds}", err=True)
    return times


def _apply(
    run: _Runner, name: str, manifests: Path, prefix: str, kubectl: Path, folder: Path
) -> float:
    if name == BARE:
        requests = folder / f"{prefix}.json"
        bare_client.prepare(manifests, requests)
        return run.seconds(sys.executable, "-m", "tests.benchmarks.bare_client", str(requests))
    if name == THEIRS:
        return run.seconds(str(kubectl), "apply", "--server-side", "-f", str(manifests))
    arguments = ("apply", prefix, "-f", str(manifests))
    if name == FAST:
        return run.ours(*arguments, "--no-check")
    return run.on_terminal(*arguments, "--yes")


def _change(manifests: Path) -> None:
    """Change ten of the objects, one in each file."""
    for path in sorted(manifests.glob("*.yaml"))[:CHANGED]:
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace("LOG_LEVEL: info", "LOG_LEVEL: debug", 1), encoding="utf-8")


@dataclass(frozen=True, slots=True)
class _Runner:
    environment: dict[str, str]

    def seconds(self, *command: str, codes: Sequence[int] = (0,)) -> float:
        began = time.perf_counter()
        reply = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=False
        )
        elapsed = time.perf_counter() - began
        if reply.returncode not in codes:
            sys.exit(f"{command[:3]}: {reply.returncode}\n{reply.stdout[-500:]}\n{reply.stderr}")
        return elapsed

    def ours(self, *arguments: str) -> float:
        return self.seconds(sys.executable, "-m", "applyprune", *arguments)

    def on_terminal(self, *arguments: str) -> float:
        """Run applyprune with a terminal of its own for all three streams."""
        command = shutil.which(sys.executable) or sys.executable
        began = time.perf_counter()
        pid, terminal = pty.fork()
        if not pid:
            arguments = (command, "-m", "applyprune", *arguments)
            os.execve(command, arguments, self.environment)  # noqa: S606 - no shell is wanted
        said = b""
        while True:
            try:
                part = os.read(terminal, 65536)
            except OSError:  # the end of a terminal
                break
            if not part:
                break
            said = (said + part)[-2000:]
        _, status = os.waitpid(pid, 0)
        os.close(terminal)
        elapsed = time.perf_counter() - began
        if status:
            sys.exit(f"applyprune {arguments[0]} on a terminal: {status}\n{said.decode()}")
        return elapsed


def report(times: Mapping[str, Sequence[float]], file: PlanFileFigures) -> str:
    """Return the table: a line for each command, with its goal."""
    median = {name: statistics.median(seconds) for name, seconds in times.items()}
    goals = {
        PLAN: (median[PLAN_THEIRS] / median[PLAN], "≥ 5 × faster than kubectl", True, 5.0),
        FAST: (median[FAST] / median[BARE], "≤ 1.25 × the bare client", False, 1.25),
        CHECKED: (median[CHECKED] / median[BARE], "≤ 2 × the bare client", False, 2.0),
    }
    rows = []
    for name in (PLAN, PLAN_THEIRS, BARE, FAST, CHECKED, THEIRS):
        shown = ""
        if name in goals:
            ratio, words, at_least, limit = goals[name]
            reached = ratio >= limit if at_least else ratio <= limit
            shown = f"{ratio:.2f}×, {words}: {'reached' if reached else 'MISSED'}"
        rows.append((name, f"{median[name]:.2f} s", f"{min(times[name]):.2f} s", shown))
    figures = (
        f"plan file of {MANY:,} new objects: {file.size / 1e6:.1f} MB, written in "
        f"{file.written:.2f} s, read in {file.read:.2f} s (goals: 5 MB, 1 s, 1 s)"
    )
    return f"{table(('PLAN AND CHECK', 'MEDIAN', 'MIN', 'GOAL'), rows)}\n{figures}"
