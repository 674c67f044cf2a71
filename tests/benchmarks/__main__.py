"""``python -m tests.benchmarks``: applyprune beside ``kubectl apply --server-side``, in one run."""

from __future__ import annotations

import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from applyprune import __version__
from applyprune.localplane import API_SERVER_ONLY, ensure_built, progress_on, start
from applyprune.output.terminal.table import table
from tests.benchmarks import planning, startup
from tests.benchmarks.workload import write_manifests

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from applyprune.localplane import Plane

FIRST, AGAIN = "first apply", "apply again"
OURS, THEIRS = "applyprune", "kubectl"
GOALS = {(1000, FIRST): 1.0, (1000, AGAIN): 5.0}
"""How many times as long kubectl should take at the least; printed, never asserted."""
ROUNDS = {10: 9, 1000: 5}
QUICK_ROUNDS = {10: 3, 1000: 2}

NOTES = """\
Whole processes by the wall clock: the median of the rounds, and the minimum.
Same files for both, but for the namespaces' names: every round has fresh ones, and the two take
turns at going first. Both have their discovery caches warm. The plane has no controller manager
and no nodes: only the API server and etcd work beside the two. kubectl applies and records
nothing; applyprune also writes its inventory, and looks for what to prune."""


@dataclass(frozen=True, slots=True)
class Bench:
    """The plane, and the folder that the manifests and both programs' caches lie in."""

    plane: Plane
    folder: Path

    def seconds(self, program: str, objects: int, name: str, run: str) -> float:
        """Apply the manifests of the folder ``name`` once and return the wall time.

        Raises SystemExit when not every object came out as it should: such a time means nothing.
        """
        path = str(self.folder / name)
        began = time.perf_counter()
        reply = subprocess.run(
            self._command(program, name, path),
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        elapsed = time.perf_counter() - began
        done = reply.stdout.count(" serverside-applied\n")
        if program == OURS:
            word = "created" if run == FIRST else "unchanged"
            summary = re.search(rf": (\d+) {word} in ", reply.stdout)
            done = int(summary[1]) if summary else 0
        if reply.returncode != 0 or done != objects:
            what = f"{program}, {run}: exit code {reply.returncode}, {done} of {objects} objects"
            sys.exit(f"{what}\n{reply.stdout[-2000:]}\n{reply.stderr[-2000:]}")
        return elapsed

    def kubernetes_versions(self) -> tuple[str, str]:
        """Return kubectl's version and the server's."""
        reply = subprocess.run(
            [self.plane.kubectl, "version", "-o", "json"],
            env=self.environment(),
            capture_output=True,
            check=True,
        )
        versions = json.loads(reply.stdout)
        return versions["clientVersion"]["gitVersion"], versions["serverVersion"]["gitVersion"]

    def _command(self, program: str, name: str, path: str) -> Sequence[str]:
        if program == OURS:
            return (sys.executable, "-m", "applyprune", "apply", name, "-f", path)
        return (str(self.plane.kubectl), "apply", "--server-side", "-f", path)

    def environment(self) -> Mapping[str, str]:
        """Return the environment of every call: without Python's settings, with caches."""
        caches = str(self.folder / "caches")
        kept = {key: os.environ[key] for key in os.environ if not key.startswith("PYTHON")}
        return {
            **kept,
            "KUBECONFIG": str(self.plane.kubeconfig),
            "KUBECACHEDIR": caches,
            "XDG_CACHE_HOME": caches,
            # An installed package has its bytecode; here the warming up writes it.
            "PYTHONPYCACHEPREFIX": caches,
        }


Times = dict[tuple[int, str, str], list[float]]


def measure(bench: Bench, rounds: Mapping[int, int]) -> Times:
    """Return the seconds of each (objects, run, program), one a round."""
    times: Times = defaultdict(list)
    # A round that does not count: discovery caches, the page cache, the server's own warming up.
    plan = [(10, -1), *((objects, turn) for objects in rounds for turn in range(rounds[objects]))]
    for objects, turn in plan:
        order = (OURS, THEIRS) if turn % 2 else (THEIRS, OURS)
        for program in order:
            name = f"{program}-{objects}-{'warm' if turn < 0 else turn}"
            write_manifests(bench.folder / name, objects, name)
            for run in (FIRST, AGAIN):
                seconds = bench.seconds(program, objects, name, run)
                if turn >= 0:
                    times[objects, run, program].append(seconds)
        which = f"round {turn + 1} of {rounds[objects]}" if turn >= 0 else "warming up"
        click.echo(f"{objects} objects, {which}", err=True)
    return times


def report(times: Times) -> str:
    """Return the table: a line for each number of objects and run."""
    rows = []
    for objects in sorted({key[0] for key in times}):
        for run in (FIRST, AGAIN):
            ours, theirs = times[objects, run, OURS], times[objects, run, THEIRS]
            ratio = statistics.median(theirs) / statistics.median(ours)
            goal = GOALS.get((objects, run))
            verdict = "" if goal is None else "reached" if ratio >= goal else "MISSED"
            rows.append(
                (
                    str(objects),
                    run,
                    str(len(ours)),
                    *_shown(ours),
                    *_shown(theirs),
                    f"{ratio:.1f}×",
                    "" if goal is None else f"≥ {goal:.0f}×: {verdict}",
                )
            )
    head = ("OBJECTS", "RUN", "ROUNDS", "APPLYPRUNE", "MIN", "KUBECTL", "MIN", "RATIO", "GOAL")
    return table(head, rows)


def _shown(seconds: Sequence[float]) -> tuple[str, str]:
    return f"{statistics.median(seconds):.2f} s", f"{min(seconds):.2f} s"


@click.command()
@click.option("--quick", is_flag=True, help="Fewer rounds: a minute instead of four.")
def main(*, quick: bool) -> None:
    """Measure, and print the table."""
    binaries = ensure_built(progress_on(sys.stderr))
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="applyprune-bench-") as scratch:
        folder = Path(scratch)
        with start(binaries, API_SERVER_ONLY, folder / "plane") as plane:
            bench = Bench(plane, folder)
            client, server = bench.kubernetes_versions()
            times = measure(bench, QUICK_ROUNDS if quick else ROUNDS)
            plans = planning.measure(
                folder, plane.kubectl, bench.environment(), QUICK_ROUNDS[1000] if quick else 5
            )
            starts = startup.measure(5 if quick else 21, bench.environment())
    click.echo(
        f"applyprune {__version__} (Python {platform.python_version()}), kubectl {client}, "
        f"API server {server}; {os.cpu_count()} cores, {platform.system()} {platform.machine()}, "
        f"load average {load:.1f} at the start\n"
    )
    click.echo(report(times))
    click.echo(f"\n{planning.report(plans, planning.plan_file_figures())}")
    click.echo(f"\n{startup.report(starts)}")
    click.echo(f"\n{NOTES}")


if __name__ == "__main__":
    main()
