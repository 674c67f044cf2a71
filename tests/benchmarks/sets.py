"""Rows about sets: each round, every program in turn does each step with a set of its own."""

from __future__ import annotations

import itertools
import shutil
import time
from bisect import bisect_right
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

from applyprune.localplane import API_SERVER_ONLY, start
from applyprune.values import replace
from tests.benchmarks import bare_client
from tests.benchmarks.costs import cost_of
from tests.benchmarks.programs import CALLS
from tests.benchmarks.requests import count
from tests.benchmarks.rows import (
    BARE,
    CLICK,
    HELMFILE,
    KAPPLY,
    ONE_SET,
    OTHER,
    OURS,
    STEPS,
    Measured,
    Work,
)
from tests.benchmarks.workload import (
    COLLECTIONS,
    change,
    halve,
    texts_of_sets,
    write_manifests,
)
from tests.support.api import Api, AuditTrail
from tests.support.fault_proxy import FaultProxy, faults

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.benchmarks.costs import Cost
    from tests.benchmarks.programs import Programs
    from tests.benchmarks.rows import Results, Row
    from tests.support.fault_proxy import Exchange, Fault
    from tests.support.fault_proxy.exchange import Wire

_MOST = 12_000
"""Objects on one plane: what a program lists should be about its own."""
_SMALL, _SMALLEST = Work("sets", 1, objects=10), Work("sets", 1, objects=2)
_SMALL_SETS = Work("sets", 1, objects=16, sets=2)
_DELAY = 0.05
_FIRST_REFUSED, _EVERY = 5, 100
"""The first request that is answered with 429, and after how many more the next one is."""
_INVENTORY = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {name}
  namespace: default
  labels: {{cli-utils.sigs.k8s.io/inventory-id: {name}}}
"""
"""Of kapply, beside the manifests."""
_CONFIGURATION = """\
apiVersion: applyprune.dev/v1alpha1
kind: Config
name: {name}
namespace: default
filename: manifests
"""
_RELEASE = """\
  - name: {name}
    namespace: default
    chart: ./{name}
"""
"""Of a set of many, for helmfile."""
_CHART = "apiVersion: v2\nname: {name}\nversion: 1.0.0\n"


def measure(rows: Sequence[Row], rounds: int, programs: Programs) -> Results:
    """Measure rows that share their work; all programs take turns at going first."""
    work = rows[0].work
    results: Results = {row.name: {} for row in rows}
    wanted: dict[str, dict[str, Measured]] = {}
    for row in rows:
        for program in programs.of(row):
            measured = results[row.name].setdefault(program, Measured())
            wanted.setdefault(program, {})[row.step] = measured
    turns = list(wanted)
    with ExitStack() as planes:
        left = 0
        for turn in range(rounds):
            click.echo(f"{rows[0].name} …: round {turn + 1} of {rounds}", err=True)
            for program in turns:
                if left < work.objects:
                    planes.close()
                    site = planes.enter_context(_site(programs, turns, work))
                    left = _MOST
                left -= work.objects
                _round(site, program, work, wanted[program])
            turns.append(turns.pop(0))
    return results


@dataclass(slots=True)
class _Set:
    """The files of one program in one round."""

    name: str
    """The beginning of its namespaces' names, too."""
    folder: Path
    objects: int
    """How many there are in the manifests."""
    changed: int = 0

    @property
    def manifests(self) -> Path:
        return self.folder / "manifests"

    @property
    def sets(self) -> Path:
        """Return where each of many sets has a folder."""
        return self.folder / "sets"

    @property
    def requests(self) -> Path:
        """Return what the bare client sends."""
        return self.folder / "requests.json"


@dataclass(slots=True)
class _Site:
    """A plane, and what runs on it."""

    programs: Programs
    plane: Plane
    api: Api
    audit: AuditTrail
    folder: Path
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    def new_set(self, program: str, work: Work) -> _Set:
        """Write a set for a program, or many sets."""
        name = f"set-{next(self.numbers):04}"
        found = _Set(name, self.folder / name, work.objects)
        if work.sets:
            self._write_sets(program, work, found)
            return found
        write_manifests(found.manifests, work.objects, name, work.namespaces)
        if program == BARE:
            bare_client.prepare(found.manifests, found.requests, self.plane, "PATCH")
        if program == KAPPLY:
            text = _INVENTORY.format(name=name)
            (found.manifests / "inventory-template.yml").write_text(text, encoding="utf-8")
        return found

    def _write_sets(self, program: str, work: Work, found: _Set) -> None:
        """Write many sets, or a set with all their files; make the namespaces."""
        found.objects += work.namespaces
        for number in range(work.namespaces):
            body = {"apiVersion": "v1", "kind": "Namespace"}
            metadata = {"name": f"{found.name}-{number}"}
            self.api.create(COLLECTIONS["Namespace"], {**body, "metadata": metadata})
        sets = dict(texts_of_sets(work.sets, work.objects, found.name, work.namespaces))
        files: dict[Path, str] = {}
        for name, text in sets.items():
            folder = found.sets / name
            if program == ONE_SET:
                files[found.manifests / f"{name}.yaml"] = text
            elif program == HELMFILE:
                files[folder / "Chart.yaml"] = _CHART.format(name=name)
                files[folder / "templates/objects.yaml"] = text
            else:
                files[folder / "applyprune.yaml"] = _CONFIGURATION.format(name=name)
                files[folder / "manifests/objects.yaml"] = text
        if program == HELMFILE:
            releases = "".join(_RELEASE.format(name=name) for name in sets)
            text = f"helmBinary: {self.programs.helm}\nreleases:\n{releases}"
            files[found.sets / "helmfile.yaml"] = text
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def run(self, program: str, step: str, which: _Set, kubeconfig: Path) -> tuple[Cost, str]:
        """Run a step; return its cost, and what was wrong with it."""
        calls = CALLS[OURS if program == OTHER else program]
        call = calls.get(step, calls["apply"])
        values = {
            "name": which.name,
            "manifests": which.manifests,
            "sets": which.sets,
            "requests": which.requests,
            "objects": which.objects,
        }
        command = self.programs.command(program, call.words.split(), **values)
        cost = cost_of(command, self.programs.environment(program, kubeconfig))
        return cost, cost.problem(call.codes, call.says.format(**values))

    def lacks(self, step: str, which: _Set) -> str:
        """Return what a step should have left in the cluster, and has not."""
        expected = (which.objects, which.changed if step == "changed" else 0)
        found = [
            body
            for path in COLLECTIONS.values()
            for body in self.api.get(path)["items"]
            if (body["metadata"].get("namespace") or body["metadata"]["name"]).startswith(
                f"{which.name}-"
            )
        ]
        changed = sum((one.get("data") or {}).get("LOG_LEVEL") == "debug" for one in found)
        if (len(found), changed) == expected:
            return ""
        return f"{len(found)} objects, {changed} of them changed, instead of {expected}"


@contextmanager
def _site(programs: Programs, used: Iterable[str], work: Work) -> Iterator[_Site]:
    """Start a plane of the API server and etcd only, and let each program apply a set there twice.

    That fills the discovery caches, the page cache, and the bytecode of applyprune.
    """
    folder = programs.folder / f"plane-{time.monotonic_ns()}"
    spec = replace(API_SERVER_ONLY, audit=True)
    with (
        start(programs.binaries, spec, folder / "plane") as plane,
        closing(Api(plane)) as api,
    ):
        site = _Site(programs, plane, api, AuditTrail(plane, api), folder)
        for program in used:
            small = site.new_set(program, _SMALL_SETS if work.sets else _SMALL)
            for _ in range(1 if program == BARE else 2):
                site.run(program, "apply", small, plane.kubeconfig)
        yield site
        shutil.rmtree(folder, ignore_errors=True)


def _round(site: _Site, program: str, work: Work, wanted: Mapping[str, Measured]) -> None:
    """Measure each step that a row wants; after a failure the program has failed in all of them."""
    if any(one.failure for one in wanted.values()):
        return
    which = site.new_set(program, work)
    kubeconfig = site.plane.kubeconfig
    with ExitStack() as stack:
        link = None
        for step in STEPS:
            if step not in wanted and (step != "first" or program == CLICK):
                continue
            _edit(site, program, step, which)
            if work.slow and step != "first" and link is None:
                link = stack.enter_context(_slow_link(site.plane, which.folder))
                kubeconfig = link.kubeconfig
                # Another server, and so another cache of its kinds: a small set fills it before.
                site.run(program, "apply", site.new_set(program, _SMALLEST), kubeconfig)
                link.restart()
            site.audit.restart()
            cost, problem = site.run(program, step, which, kubeconfig)
            agent = site.programs.agent(program)
            events = [
                one for one in site.audit.events() if one.get("userAgent", "").startswith(agent)
            ]
            if step in {"first", "changed", "prune"}:
                problem = problem or site.lacks(step, which)
            if problem:
                click.echo(f"{program} failed: {step}: {problem}", err=True)
                for measured in wanted.values():
                    measured.failure = f"{step}: {problem}"
                return
            if step in wanted:
                counted = count(events)
                figures = {name: float(counted[name]) for name in ("requests", "writes")}
                trips = {"trips": float(longest_chain(link.intervals))} if link else {}
                wanted[step].samples.append(cost.figures | figures | trips)


def _edit(site: _Site, program: str, step: str, which: _Set) -> None:
    if step in {"diff", "changed"} and not which.changed:
        which.changed = change(which.manifests)
    if step == "prune":
        removed = which.folder / "removed"
        which.objects -= halve(which.manifests, removed)
        if program == BARE:
            bare_client.prepare(removed, which.requests, site.plane, "DELETE")


Interval = tuple[float, float]
"""When a request arrived, and when its reply was sent."""


@dataclass(slots=True)
class _SlowLink:
    """A proxy: each request takes 50 ms more, and some are answered with 429."""

    kubeconfig: Path
    intervals: list[Interval] = field(default_factory=list)
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    def restart(self) -> None:
        """Count from the beginning, also to the next request that is refused."""
        self.intervals.clear()
        self.numbers = itertools.count(1)

    def slowly(self, _seen: Exchange) -> Fault:
        """Return what happens to a request."""
        reply = faults.forwarded()
        if next(self.numbers) % _EVERY == _FIRST_REFUSED:
            wait = (("Retry-After", "1"),)
            reply = faults.status(429, "TooManyRequests", "too many requests", headers=wait)

        def fault(wire: Wire) -> None:
            began = time.monotonic()
            time.sleep(_DELAY)
            reply(wire)
            self.intervals.append((began, time.monotonic()))

        return fault


@contextmanager
def _slow_link(plane: Plane, folder: Path) -> Iterator[_SlowLink]:
    with FaultProxy(plane) as proxy:
        link = _SlowLink(proxy.kubeconfig(folder))
        proxy.rule = link.slowly
        yield link


def longest_chain(intervals: Iterable[Interval]) -> int:
    """Return how many intervals follow each other at the most, each after the end of the last."""
    ends: list[float] = []
    for began, ended in sorted(intervals, key=lambda one: one[1]):
        if bisect_right(ends, began) == len(ends):
            ends.append(ended)
    return len(ends)
