"""A row of the benchmark: what is run, its rounds, its targets, and what a target's verdict is."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Subject(StrEnum):
    """What is measured, by the name that the tables show."""

    OURS = "applyprune"
    """On a terminal, with the defaults: what it sends is checked first."""
    UNCHECKED = "applyprune --no-check"
    KUBECTL = "kubectl"
    BARE = "bare client"
    """Sends prepared requests on 16 connections, and does nothing else."""
    KAPP = "kapp"
    KAPPLY = "kapply"
    FLOOR = "import click"
    """A Python that imports the command line's library, and does nothing."""


class Step(StrEnum):
    """What is done with a set, in this order; each needs the first."""

    FIRST = "first"
    AGAIN = "again"
    STATUS = "status"
    DIFF = "diff"
    """After ten objects were changed in the files."""
    CHANGED = "changed"
    PRUNE = "prune"
    """After half of the objects were removed from the files."""


class Metric(StrEnum):
    """A figure of a sample, by the name of its field."""

    SECONDS = "seconds"
    CPU = "cpu"
    MEMORY = "memory"
    REQUESTS = "requests"
    WRITES = "writes"
    ROUND_TRIPS = "round_trips"


@dataclass(frozen=True, slots=True)
class Sample:
    """What one round of one subject has cost."""

    seconds: float
    cpu: float | None = None
    """None, like any other figure, if it was not measured."""
    memory: int | None = None
    """Bytes."""
    requests: int | None = None
    writes: int | None = None
    round_trips: int | None = None
    """How many requests waited for each other."""


@dataclass(slots=True)
class Measured:
    """The samples of a subject in a row, one for each round."""

    samples: list[Sample] = field(default_factory=list)
    failure: str = ""
    """Why the subject failed; then its samples count for nothing."""

    def median(self, metric: Metric) -> float | None:
        """Return the median of a figure; None if the subject failed or has no such figure."""
        return self._figure(metric, statistics.median)

    def minimum(self, metric: Metric) -> float | None:
        """Return the smallest."""
        return self._figure(metric, min)

    def maximum(self, metric: Metric) -> float | None:
        """Return the largest."""
        return self._figure(metric, max)

    def _figure(self, metric: Metric, choose: Callable[[list[float]], float]) -> float | None:
        values = [getattr(one, metric) for one in self.samples]
        if self.failure or not values or None in values:
            return None
        return float(choose(values))


Results = dict[tuple[str, Subject], Measured]
"""What was measured, by the row's name and the subject."""


class Outcome(StrEnum):
    """How a target ended."""

    REACHED = "reached"
    MISSED = "MISSED"
    NOT_JUDGED = "not judged"
    """Something that it compares was not measured, or has failed."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A target, what was measured of it, and how it ended."""

    subject: Subject
    target: str
    value: float | None
    outcome: Outcome

    @property
    def shown(self) -> str:
        """Return the value with three digits: 0.982, 1.31, 24.6, 1,003."""
        if self.value is None:
            return ""
        if self.value >= 100 or self.value == int(self.value):
            return f"{self.value:,.0f}"
        return f"{self.value:.{1 if self.value >= 10 else 2 if self.value >= 1 else 3}f}"


@dataclass(frozen=True, slots=True)
class Ratio:
    """Two medians of seconds: at most so many times the other, or at least so often as fast."""

    subject: Subject
    other: Subject
    at_most: float = 0.0
    """How many times the seconds of the other it may take; 0 if ``at_least`` is the target."""
    at_least: float = 0.0
    """How many times its seconds the other must take."""
    row: str = ""
    """The row of the other; empty for the same."""
    other_words: str = ""
    """What messages call the other, if not by its name."""

    @property
    def needs(self) -> str:
        """Return the name of another row that it compares with, or nothing."""
        return self.row

    def judge(self, row: str, results: Results) -> Verdict:
        """Compare what was measured."""
        ours = _of(results, row, self.subject).median(Metric.SECONDS)
        theirs = _of(results, self.row or row, self.other).median(Metric.SECONDS)
        other = self.other_words or self.other
        text = f"≤ {self.at_most:g} × {other}"
        if self.at_least:
            text = f"≥ {self.at_least:g} × as fast as {other}"
        if not ours or not theirs:
            return Verdict(self.subject, text, None, Outcome.NOT_JUDGED)
        value = theirs / ours if self.at_least else ours / theirs
        is_reached = value >= self.at_least if self.at_least else value <= self.at_most
        return Verdict(self.subject, text, value, _outcome(is_reached))


@dataclass(frozen=True, slots=True)
class Limit:
    """The most that a figure may be: the median of seconds, the largest of anything else."""

    subject: Subject
    metric: Metric
    most: float
    words: str
    """The target in words: ``≤ 0.25 s of CPU``."""
    unit: float = 1.0
    """What the figure is divided by: a megabyte."""
    needs: str = ""
    """Always empty: a limit compares with no other row."""

    def judge(self, row: str, results: Results) -> Verdict:
        """Compare what was measured."""
        found = _of(results, row, self.subject)
        is_time = self.metric in {Metric.SECONDS, Metric.CPU}
        value = found.median(self.metric) if is_time else found.maximum(self.metric)
        if value is None:
            return Verdict(self.subject, self.words, None, Outcome.NOT_JUDGED)
        value /= self.unit
        return Verdict(self.subject, self.words, value, _outcome(value <= self.most))


Target = Ratio | Limit


@dataclass(frozen=True, slots=True)
class Work:
    """What some rows share: they are measured in the same rounds, with the same objects."""

    rounds: int
    quick: int
    """The rounds of a quick run; 0 leaves its rows out."""
    objects: int = 0
    """0 if it is not about a set."""
    namespaces: int = 0
    slow: bool = False
    """Whether everything but the first apply goes through a slow proxy."""


@dataclass(frozen=True, slots=True)
class Row:
    """One job: what is run, by whom, and what it should take."""

    name: str
    """As ``--job`` takes it."""
    title: str
    work: Work
    subjects: tuple[Subject, ...]
    targets: tuple[Target, ...] = ()
    step: Step | None = None
    """None if the row is not about a set."""
    command: tuple[str, ...] = ()
    """What Python runs, if the row is not about a set."""

    def verdicts(self, results: Results) -> list[Verdict]:
        """Judge each target by what was measured."""
        return [target.judge(self.name, results) for target in self.targets]


def failures(results: Mapping[tuple[str, Subject], Measured]) -> list[str]:
    """Return which subjects failed that no row can do without: all but the peers."""
    return [
        f"{row}, {subject}: {measured.failure}"
        for (row, subject), measured in results.items()
        if measured.failure and subject not in {Subject.KAPP, Subject.KAPPLY}
    ]


def _of(results: Results, row: str, subject: Subject) -> Measured:
    return results.get((row, subject), Measured())


def _outcome(is_reached: bool) -> Outcome:
    return Outcome.REACHED if is_reached else Outcome.MISSED
