"""Rows about sets: each round, every program in turn does each step with a set of its own."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

from tests.benchmarks import bare_client
from tests.benchmarks.jobs.slow_link import slow_link
from tests.benchmarks.measuring.planes import Planes
from tests.benchmarks.measuring.processes import cost_of
from tests.benchmarks.measuring.requests import requests_by
from tests.benchmarks.peers.calls import Files, prepare
from tests.benchmarks.rows import Measured, Sample, Step, Subject
from tests.benchmarks.workload import change, halve, write_manifests

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from applyprune.localplane import Binaries
    from tests.benchmarks.jobs.slow_link import SlowLink
    from tests.benchmarks.measuring.processes import Cost
    from tests.benchmarks.measuring.site import Site
    from tests.benchmarks.peers.calls import Call, Programs
    from tests.benchmarks.rows import Results, Row, Work

_WARM = 10
"""The objects of the set that warms a plane up."""


def measure(
    rows: Sequence[Row], rounds: int, programs: Programs, binaries: Binaries, folder: Path
) -> Results:
    """Measure rows that share their work, so many rounds."""
    results: Results = {}
    work = rows[0].work
    subjects = [
        subject
        for subject in Subject
        if programs.has(subject) and any(subject in row.subjects for row in rows)
    ]
    warm = _Warmer(programs, subjects, folder / "warm")
    with Planes(binaries, folder, warm) as planes:
        for turn in range(rounds):
            click.echo(f"{rows[0].name} …: round {turn + 1} of {rounds}", err=True)
            # All take turns at going first.
            begin = turn % len(subjects)
            for subject in (*subjects[begin:], *subjects[:begin]):
                site = planes.site_for(work.objects)
                wanted = {
                    row.step: row.name for row in rows if row.step and subject in row.subjects
                }
                one = _Round(site, programs, subject, work, results, wanted)
                one.run(folder / "sets" / f"{_short(subject)}-{turn}")
    return results


@dataclass(frozen=True, slots=True)
class _Warmer:
    """Lets each program apply a small set twice: that does not count."""

    programs: Programs
    subjects: Sequence[Subject]
    folder: Path

    def __call__(self, site: Site) -> None:
        for subject in self.subjects:
            name = f"warm-{_short(subject)}"
            files = _write(self.folder / site.folder.name / name, name, _WARM, 1, subject)
            steps = [Step.FIRST] if subject is Subject.BARE else [Step.FIRST, Step.AGAIN]
            for step in steps:
                _run(self.programs.call(subject, step, files), site.environment)


@dataclass(slots=True)
class _Round:
    """One round of one subject: its steps in order, as far as a row wants them."""

    site: Site
    programs: Programs
    subject: Subject
    work: Work
    results: Results
    wanted: Mapping[Step, str]
    """The name of the row of each step."""
    _changed: int = 0
    _stack: ExitStack = field(default_factory=ExitStack)

    def run(self, folder: Path) -> None:
        """Measure each step; after a failure the rest has failed too."""
        if any(self._row(name).failure for name in self.wanted.values()):
            return
        objects, namespaces = self.work.objects, self.work.namespaces
        files = _write(folder, folder.name, objects, namespaces, self.subject)
        with self._stack:
            problem = self._step(Step.FIRST, files)
            link = self._link(folder)
            for step in list(Step)[1:]:
                if step not in self.wanted or problem:
                    continue
                files = self._edit(step, files)
                problem = self._step(step, files, link)
        if problem:
            self._fail(problem)
        shutil.rmtree(folder)

    def _link(self, folder: Path) -> SlowLink | None:
        if not self.work.slow:
            return None
        return self._stack.enter_context(slow_link(self.site.plane, folder / "link"))

    def _edit(self, step: Step, files: Files) -> Files:
        if step in {Step.DIFF, Step.CHANGED} and not self._changed:
            self._changed = change(files.manifests)
        if step is not Step.PRUNE:
            return files
        removed = files.manifests.parent / "removed"
        count = halve(files.manifests, removed)
        if self.subject is Subject.BARE:
            bare_client.prepare_deletes(removed, files.requests)
        return Files(files.name, files.manifests, files.requests, files.objects - count)

    def _step(self, step: Step, files: Files, link: SlowLink | None = None) -> str:
        """Run a step, and keep its sample if a row wants it; return what went wrong."""
        environment = dict(self.site.environment)
        if link is not None:
            environment["KUBECONFIG"] = str(link.kubeconfig)
            # Another server, and so another cache of its kinds: a small set fills it before.
            name = f"near-{files.name}"
            near = _write(files.manifests.parent / "near", name, 2, 1, self.subject)
            _run(self.programs.call(self.subject, Step.FIRST, near), environment)
            link.restart()
        call = self.programs.call(self.subject, step, files)
        self.site.audit.restart()
        cost = _run(call, environment)
        requests = requests_by(self.programs.agent(self.subject), self.site.audit.events())
        problem = wrong(call, cost) or self._missing(step, files)
        if problem:
            return f"{step}: {problem}"
        row = self.wanted.get(step)
        if row is not None:
            self._row(row).samples.append(
                Sample(
                    cost.seconds,
                    cost.cpu,
                    cost.memory,
                    requests.total,
                    requests.writes,
                    None if link is None else link.round_trips(),
                )
            )
        return ""

    def _missing(self, step: Step, files: Files) -> str:
        """Return what is not in the cluster as it should be."""
        if step in {Step.FIRST, Step.PRUNE}:
            found = self.site.count(f"{files.name}-")
            if found != files.objects:
                return f"{found} instead of {files.objects} objects are there"
        if step is Step.CHANGED:
            found = self.site.changed(f"{files.name}-")
            if found != self._changed:
                return f"{found} instead of {self._changed} objects have changed"
        return ""

    def _row(self, name: str) -> Measured:
        return self.results.setdefault((name, self.subject), Measured())

    def _fail(self, problem: str) -> None:
        for name in self.wanted.values():
            self._row(name).failure = problem
        click.echo(f"{self.subject} failed: {problem}", err=True)


def wrong(call: Call, cost: Cost) -> str:
    """Return why a call has failed, with the end of its output; nothing if it has not."""
    if cost.code in call.codes and call.says in cost.output:
        return ""
    said = " ".join(cost.output.split())[-300:]
    return f"exit code {cost.code}: {said}"


def _run(call: Call, environment: Mapping[str, str]) -> Cost:
    return cost_of(call.command, environment, terminal=True)


def _write(folder: Path, name: str, objects: int, namespaces: int, subject: Subject) -> Files:
    files = Files(name, folder / "manifests", folder / "requests.json", objects)
    write_manifests(files.manifests, objects, name, namespaces)
    prepare(subject, files)
    return files


def _short(subject: Subject) -> str:
    """Return a name for sets: a prefix of no other one's."""
    return {Subject.UNCHECKED: "unchecked", Subject.BARE: "bare"}.get(subject, str(subject))
