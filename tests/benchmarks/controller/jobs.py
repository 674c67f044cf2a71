"""The jobs of the benchmark, each with its figures and the targets of the project."""

from __future__ import annotations

import math
import random
import signal
import statistics
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from tests.benchmarks.controller.processes import PeakMemory, cpu_seconds
from tests.benchmarks.controller.requests import AuditLog, Requests
from tests.benchmarks.controller.site import (
    BUNDLES,
    OBJECTS,
    Key,
    Running,
    Site,
    seconds_until,
    watching,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MIB = 1 << 20
_PATIENCE = 3600.0
_KINDS = OBJECTS
"""The objects of a Bundle are of as many kinds."""
_LEASE = 15.0
_FOR_A_THOUSAND = 60.0
"""Seconds in which a new leader looks at 1,000 Bundles."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the report."""

    job: str
    what: str
    value: str
    target: str = ""
    reached: bool | None = None
    """None if there is no target."""


@dataclass(slots=True)
class Readiness:
    """Which Bundles are ready, and what they were asked for last."""

    ready: set[Key]
    handled: dict[Key, str]

    def see(self, bundle: dict[str, Any]) -> None:
        """Take note of a Bundle."""
        metadata, status = bundle["metadata"], bundle.get("status") or {}
        key = (metadata["namespace"], metadata["name"])
        self.handled[key] = status.get("lastHandledReconcileAt", "")
        for one in status.get("conditions") or ():
            if one["type"] == "Ready" and one["status"] == "True":
                self.ready.add(key)


def first(
    site: Site,
    running: Running,
    count: int,
    namespaces: list[str],
    goals: tuple[float, int],
    interval: int = 600,
) -> Iterator[Figure]:
    """Create Bundles, and measure until all are ready; ``goals`` are seconds and MiB."""
    job = f"{count:,} Bundles, first"
    audit, seen = AuditLog(site.plane), Readiness(set(), {})
    before = cpu_seconds(running.pid)
    with PeakMemory([running.pid]) as peak, watching(site.plane, BUNDLES, seen.see):
        began = time.monotonic()
        site.make_bundles(count, namespaces, f"{interval}s")
        everything = set(site.keys)
        seconds = seconds_until(lambda: seen.ready >= everything, within=_PATIENCE, began=began)
        time.sleep(3)  # the last Events
        used = cpu_seconds(running.pid) - before
    found = audit.requests()
    beyond = found.beyond / count
    yield Figure(job, "requests beyond objects", f"{beyond:.1f} each", "≤ 12", beyond <= 12)
    yield Figure(job, "shared by many Bundles", f"{found.shared / count:.1f} of these")
    yield Figure(job, "requests at objects", f"{found.objects / count:.1f} each")
    yield Figure(job, "CPU", f"{used:.1f} s, {1000 * used / count:.0f} ms each")
    yield Figure(job, "memory", f"{peak.most / MIB:.0f} MiB", *_most(peak.most / MIB, goals[1]))
    yield Figure(job, "of each process", " ".join(f"{part / MIB:.0f}" for part in peak.parts))
    yield Figure(job, "time", f"{seconds:.0f} s", *_most(seconds, goals[0], " s"))
    click.echo(f"{job}: requests for each Bundle\n{found.table(count)}", err=True)


def unchanged(site: Site, running: Running, interval: int) -> Iterator[Figure]:
    """Measure the controller for an interval in which nothing changes."""
    job = f"{len(site.keys):,} Bundles, unchanged"
    seconds = 1.1 * interval
    time.sleep(seconds)
    audit = AuditLog(site.plane)
    before, began = cpu_seconds(running.pid), time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - began
    core = 100 * (cpu_seconds(running.pid) - before) / took
    found = audit.requests()
    each = max(1, found.reconciles)
    lists, reads = found.lists / each, found.reads / each
    yield Figure(job, "writes but Leases", str(found.writes), "0", found.writes == 0)
    yield Figure(job, "LISTs per reconcile", f"{lists:.2f}", f"≤ {_KINDS}", lists <= _KINDS + 0.05)
    yield Figure(job, "other reads per reconcile", f"{reads:.2f}", "≤ 3", reads <= 3.05)
    yield Figure(job, "CPU", f"{core:.1f} % of a core", *_most(core, 5.0, " %"))
    spent = f"{10 * core * took / each:.0f} ms of CPU each"
    yield Figure(job, "reconciles", f"{found.reconciles} in {took:.0f} s, {spent}")
    click.echo(f"{job}: requests for each reconcile\n{found.table(each)}", err=True)


def restart(site: Site, running: Running) -> Iterator[Figure]:
    """Count what a controller writes that takes over from one that has gone."""
    count = len(site.keys)
    job = f"{count:,} Bundles, after a restart"
    audit, looked = AuditLog(site.plane), Requests()
    began = time.monotonic()
    while looked.reconciles < count:
        assert time.monotonic() - began < _PATIENCE, f"{looked.reconciles} reconciles"
        assert running.process.poll() is None
        time.sleep(1)
        looked += audit.requests()
    yield Figure(job, "status writes", f"{looked.writes}", "0", looked.writes == 0)
    yield Figure(job, "all looked at", f"{time.monotonic() - began:.0f} s")
    click.echo(f"{job}: requests for each Bundle\n{looked.table(count)}", err=True)


def drift(site: Site, changes: int, per_second: float) -> Iterator[Figure]:
    """Change objects from outside, and measure how long each takes to be reverted."""
    job = f"{len(site.keys):,} Bundles, outside change"
    chosen = random.sample(site.keys, min(changes, len(site.keys)))
    began: dict[Key, float] = {}
    took: dict[Key, float] = {}

    def see(live: dict[str, Any]) -> None:
        key = (live["metadata"]["namespace"], live["metadata"]["name"])
        is_back = (live.get("data") or {}).get("LOG_LEVEL") == "info"
        if is_back and key in began and key not in took:
            took[key] = time.monotonic() - began[key]

    path = "/api/v1/configmaps?labelSelector=app.kubernetes.io/name"
    with watching(site.plane, path, see):
        time.sleep(2)
        for key in chosen:
            target = f"/api/v1/namespaces/{key[0]}/configmaps/{key[1]}?fieldManager=kubectl-patch"
            patch, kind = {"data": {"LOG_LEVEL": "debug"}}, "application/merge-patch+json"
            status, reply = site.api("PATCH", target, patch, content_type=kind)
            assert status == 200, reply
            began[key] = time.monotonic()
            time.sleep(1 / per_second)
        ends = time.monotonic() + 60
        while len(took) < len(chosen) and time.monotonic() < ends:
            time.sleep(0.1)
    times = sorted([*took.values(), *([math.inf] * (len(chosen) - len(took)))])
    median, late = statistics.median(times), times[math.ceil(0.99 * len(times)) - 1]
    yield Figure(job, "reverted, median", f"{median:.2f} s", *_most(median, 1.0, " s"))
    yield Figure(job, "reverted, 99 %", f"{late:.2f} s", *_most(late, 5.0, " s"))
    yield Figure(job, "changes", f"{len(chosen)}, {per_second:.0f} each second")


def takeover(
    site: Site, scratch: Path, count: int, namespaces: list[str], arguments: tuple[str, ...]
) -> Iterator[Figure]:
    """Kill a controller that leads; measure until the one that stands by has looked at all."""
    job = f"{count:,} Bundles, 2 replicas"
    seen = Readiness(set(), {})
    lease = ("--lease-duration", f"{_LEASE:.0f}s", *arguments)
    with ExitStack() as ends, watching(site.plane, BUNDLES, seen.see):

        def start(name: str) -> Running:
            running = Running(site.plane, scratch / name, *lease)
            ends.callback(running.stop)
            return running

        leader = start("leader")
        site.make_bundles(count, namespaces)
        everything = set(site.keys)
        began = time.monotonic()
        seconds_until(lambda: seen.ready >= everything, within=_PATIENCE, began=began)
        start("standby")
        time.sleep(_LEASE)
        leader.process.send_signal(signal.SIGKILL)
        began = time.monotonic()
        site.each(lambda key: site.annotate(key, "killed"), site.keys)
        seconds = seconds_until(
            lambda: all(seen.handled.get(key) == "killed" for key in site.keys),
            within=_PATIENCE,
            began=began,
        )
        target = _most(seconds, _LEASE + _FOR_A_THOUSAND * count / 1000, " s")
        yield Figure(job, "all looked at after a kill", f"{seconds:.0f} s", *target)


def _most(value: float, limit: float, unit: str = "") -> tuple[str, bool]:
    """Return the target of a value that must not be larger, and whether it is reached."""
    return f"≤ {limit:g}{unit}", value <= limit
