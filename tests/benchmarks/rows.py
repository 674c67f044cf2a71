"""Every row of the benchmark: what is run, what limits it, and what a change could break."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

OURS, UNCHECKED = "applyprune", "applyprune --no-check"
OTHER = "applyprune of --beside"
"""Another checkout."""
KUBECTL, KAPP, KAPPLY = "kubectl", "kapp", "kapply"
BARE = "bare client"
"""It sends prepared requests on 16 connections, and does nothing else."""
ALL_IN = "applyprune --all-in"
ONE_SET = "applyprune, one set"
"""The objects of many sets in one."""
LOOP, KUBECTL_LOOP = "applyprune in a loop", "kubectl in a loop"
"""A shell runs a command for each set."""
HELMFILE = "helmfile"
"""Each set is a release of Helm 4."""
CLICK = "import click"
"""A Python that imports the command line's library, and does nothing."""

STEPS = ("first", "again", "status", "diff", "changed", "prune")
"""What is done with a set, in this order; each needs the first.

Before diff or changed, ten objects change in the files; before prune, half of them leave.
"""
Figures = dict[str, float]
"""What a round has cost: ``seconds``, ``cpu``, ``memory`` in MB, ``requests``, ``writes``, …"""


@dataclass(slots=True)
class Measured:
    """What a program has cost in a row."""

    samples: list[Figures] = field(default_factory=list)
    """The figures of each round."""
    failure: str = ""
    """Why the program has failed; then its samples count for nothing."""

    def figure(self, name: str) -> float | None:
        """Return the median of times, the least CPU time and round trips, the most of the rest."""
        found = [one[name] for one in self.samples if name in one]
        if self.failure or not found:
            return None
        if name == "seconds":
            return statistics.median(found)
        # Other work on the machine only adds to these.
        return min(found) if name in {"cpu", "trips"} else max(found)


Results = dict[str, dict[str, Measured]]
"""What was measured, by row and program."""
_NOTHING = Measured()
_UNITS = {
    "memory": "MB",
    "trips": "round trips in sequence",
    "lists": "LISTs per reconcile",
    "reads": "other reads per reconcile",
    "others": "request about the others",
    "idle": "request in a minute without a commit",
    "writes": "write",
    "reconciles": "reconcile",
}


@dataclass(frozen=True, slots=True)
class Target:
    """The most that a figure may be: a number, or so many times that of another program or row."""

    figure: str
    most: float
    why: str
    """When it is missed: what a change has done."""
    beside: str = ""
    """The other program; empty for a number."""
    row: str = ""
    """The row of the other; empty for the same."""
    program: str = OURS
    adds: bool = False
    """Whether it may be so much more than that of the other, and not so many times that."""

    @property
    def text(self) -> str:
        """Return it in words, such as ``≤ 30 requests``."""
        program = "" if self.program == OURS else f"{self.program}: "
        if self.beside:
            figure = {"cpu": "CPU time", "seconds": "time"}.get(self.figure, self.figure)
            other = self.row if self.beside == self.program else self.beside
            if self.adds:
                return f"{program}{figure} ≤ {other} + {self.most:g} s"
            return f"{program}{figure} ≤ {self.most:g} × {other}"
        unit = _UNITS.get(self.figure, self.figure)
        return f"{program}≤ {self.most:,g} {unit}" if self.most else f"no {unit}"

    def value(self, row: str, results: Results) -> float | None:
        """Return what it limits; None if something of it was not measured, or has failed."""
        value = results.get(row, {}).get(self.program, _NOTHING).figure(self.figure)
        if value is None or not self.beside:
            return value
        other = results.get(self.row or row, {}).get(self.beside, _NOTHING).figure(self.figure)
        if self.adds and other is not None:
            return max(0.0, value - other)
        return value / other if other else None


@dataclass(frozen=True, slots=True)
class Work:
    """What some rows share: they are measured in the same rounds, with the same objects."""

    measured_by: str
    """The module: ``sets``, ``costs`` or ``bundles``."""
    rounds: int
    quick: int = 0
    """The rounds of a quick run; 0 leaves its rows out."""
    objects: int = 0
    namespaces: int = 1
    sets: int = 0
    """In how many sets the objects are, or the files are of which a row checks some; 0 for one."""
    slow: bool = False
    """Whether everything but the first apply goes through a slow proxy."""


@dataclass(frozen=True, slots=True)
class Row:
    """One job: what is run, by whom, and what limits it."""

    name: str
    """As ``--job`` takes it."""
    title: str
    work: Work
    programs: tuple[str, ...]
    limit: str
    """What limits applyprune there, or the others beside it, and why."""
    targets: tuple[Target, ...] = ()
    command: tuple[str, ...] = ()
    """The arguments, if the row is a single command; ``-c`` is Python's."""

    @property
    def step(self) -> str:
        """Return what is done with a set."""
        return self.name.partition("-")[0]


_START = Work("costs", rounds=21, quick=5)
_READ = Work("costs", rounds=3, objects=100_000, namespaces=200)
_TEN = Work("sets", rounds=9, quick=3, objects=10)
_THOUSAND = Work("sets", rounds=5, quick=1, objects=1000, namespaces=10)
_MANY = Work("sets", rounds=3, objects=10_000, namespaces=20)
_HALVED = Work("sets", rounds=5, objects=2000, namespaces=20)
_EIGHTY = Work("sets", rounds=3, objects=640, namespaces=4, sets=80)
_SINCE = Work("costs", rounds=9, quick=3, sets=80)
_SLOW = Work("sets", rounds=5, objects=1000, namespaces=10, slow=True)
_BUNDLES = Work("bundles", rounds=1)
_FIRST = (OURS, UNCHECKED, KUBECTL, KAPP, KAPPLY)
_NEXT = (OURS, KUBECTL, KAPP, KAPPLY)
_TOGETHER = (ALL_IN, ONE_SET, LOOP, KUBECTL_LOOP, HELMFILE)
_LOAD = "import applyprune; assert len(applyprune.load('{objects}')) == 100_000"

_IMPORTS = "every command imports more"
_NO_WRITE = Target("writes", 0, "a run without a change writes")
_START_LIMITS = "the start, as of `apply`: 0.15 s where a Go program needs 0.05 s"

ROWS = (
    Row(
        "help",
        "`--help`",
        _START,
        (OURS, CLICK),
        "the start of Python with click",
        (Target("cpu", 1.4, _IMPORTS, CLICK),),
        command=("--help",),
    ),
    Row(
        "first-10",
        "10 objects, first time",
        _TEN,
        _FIRST,
        "the start; the check, which is a dry run of each object before the first write",
        (
            Target("requests", 65, "each object, or each kind, takes a request more"),
            Target("requests", 42, "so it does without the check", program=UNCHECKED),
        ),
    ),
    Row(
        "again-10",
        "10 objects, nothing changed",
        _TEN,
        (*_NEXT, CLICK),
        "the start: nearly all of its CPU time is the import of 350 modules",
        (
            Target("cpu", 5.2, "`apply` imports more", CLICK),
            Target("requests", 12, "each kind takes a request more"),
            _NO_WRITE,
        ),
    ),
    Row(
        "diff-10",
        "10 objects, one changed, `diff`",
        _TEN,
        _NEXT,
        _START_LIMITS,
        (Target("requests", 18, "each kind takes a request more"),),
    ),
    Row(
        "status-10",
        "10 objects, `status`",
        _TEN,
        _NEXT,
        _START_LIMITS,
        (Target("requests", 17, "each kind takes a request more"),),
    ),
    Row(
        "first-1000",
        "1,000 objects, first time",
        _THOUSAND,
        (*_FIRST, BARE),
        "the check, which is as many requests again; without it the CPU time, 1.5 ms for each "
        "object, on the cores of the API server. The bare client plans nothing",
        (
            Target("requests", 2400, "each object takes a third request"),
            Target("requests", 1150, "each object takes a second request", program=UNCHECKED),
            Target("cpu", 4.8, "each object takes more work", BARE, program=UNCHECKED),
            Target("seconds", 1, "requests wait for each other", KUBECTL, program=UNCHECKED),
        ),
    ),
    Row(
        "again-1000",
        "1,000 objects, nothing changed",
        _THOUSAND,
        _NEXT,
        "the start, 0.2 s; then the CPU time to read and to plan. kubectl sends every object",
        (
            Target("cpu", 0.7, "each object takes more work", KUBECTL),
            Target("requests", 12, "each namespace takes a request"),
            _NO_WRITE,
        ),
    ),
    Row(
        "changed-1000",
        "1,000 objects, 10 changed",
        _THOUSAND,
        _NEXT,
        "as if nothing had changed, and 44 requests more, 31 of them for the check",
        (Target("requests", 60, "objects that have not changed take requests"),),
    ),
    Row(
        "diff-1000",
        "1,000 objects, 10 changed, `diff`",
        _THOUSAND,
        # Not kapply: it reads a file again for each object in it. That took 101,002 requests and
        # 318 s for one round of this row.
        (OURS, KUBECTL, KAPP),
        "as if nothing had changed, and 32 requests more for what has",
        (Target("requests", 50, "objects that have not changed take requests"),),
    ),
    Row(
        "prune-1000",
        "1,000 of 2,000 objects pruned",
        _HALVED,
        (OURS, BARE, KAPP, KAPPLY),
        "the CPU time; lists in each namespace of what would go with the objects and of what is "
        "in use. The bare client reads nothing of what it deletes",
        (
            Target("requests", 1400, "each deletion takes a second request"),
            Target("cpu", 6, "each deletion takes more work", BARE),
            Target("seconds", 0.8, "deletes wait for each other", KAPP),
        ),
    ),
    Row(
        "first-10000",
        "10,000 objects, first time",
        _MANY,
        (OURS, UNCHECKED, KUBECTL),
        "as of 1,000 objects",
        (
            Target("cpu", 13, "work grows faster than the set", UNCHECKED, "first-1000", UNCHECKED),
            Target("memory", 150, "more is kept of each object", program=UNCHECKED),
        ),
    ),
    Row(
        "again-10000",
        "10,000 objects, nothing changed",
        _MANY,
        (OURS, KUBECTL),
        "the CPU time of one core, 0.3 ms for each object: a quarter is reading YAML",
        (
            Target("cpu", 9, "work grows faster than the set", OURS, "again-1000"),
            Target("memory", 150, "a list is held as a whole, or objects as more than their text"),
            Target("requests", 32, "lists have smaller pages, or are read twice"),
        ),
    ),
    Row(
        "first-80x8",
        "80 sets of 8 objects, first time",
        _EIGHTY,
        _TOGETHER,
        "as of 1,000 objects; each set has a lock and an inventory of its own",
        (
            Target("seconds", 0.5, "sets wait for each other", LOOP, program=ALL_IN),
            Target("requests", 3050, "each set takes a request more", program=ALL_IN),
            Target("memory", 2, "more than the sets that run is held", LOOP, program=ALL_IN),
        ),
    ),
    Row(
        "again-80x8",
        "80 sets of 8 objects, nothing changed",
        _EIGHTY,
        _TOGETHER,
        "the CPU time to read and to plan; each set reads its inventory and its objects",
        (
            Target("seconds", 2, "each set takes more work", ONE_SET, program=ALL_IN),
            Target("seconds", 0.15, "each set starts again", LOOP, program=ALL_IN),
            Target("memory", 2, "more than the sets that run is held", LOOP, program=ALL_IN),
            Target("requests", 30, "each set takes a request", program=ALL_IN),
            Target("writes", 0, "a run without a change writes", program=ALL_IN),
        ),
    ),
    Row(
        "check",
        "1 set of 28 objects, `check`",
        _SINCE,
        (OURS,),
        _START_LIMITS,
        command=("check", "--all-in", "{one}"),
    ),
    Row(
        "since",
        "2,000 files of 80 sets, one changed, `check --changed-since`",
        _SINCE,
        (OURS,),
        "as `check` of that set; then the CPU time to read 80 configuration files, and to compare "
        "each file with Git's",
        (Target("seconds", 0.3, "files are read twice", OURS, "check", adds=True),),
        command=("check", "--all-in", "{sets}", "--changed-since", "HEAD"),
    ),
    Row(
        "read",
        "100,000 objects, read from files",
        _READ,
        (OURS,),
        "the CPU time to read YAML",
        (Target("memory", 150, "objects are held as more than their text"),),
        command=("-c", _LOAD),
    ),
    Row(
        "again-slow",
        "1,000 objects unchanged, 50 ms away",
        _SLOW,
        _NEXT,
        "five round trips, and a 429 that says to wait for a second. kubectl waits for each object",
        (
            Target("trips", 8, "lists wait for each other"),
            Target("seconds", 0.15, "requests wait for each other", KUBECTL),
        ),
    ),
    Row(
        "bundles",
        "1,000 Bundles of 4 objects, first time",
        _BUNDLES,
        (OURS,),
        "the CPU time, on the cores of the API server",
        (
            Target("requests", 13.5, "each Bundle takes a request more, besides those at objects"),
            Target("memory", 230, "processes share less"),
        ),
    ),
    Row(
        "bundles-again",
        "1,000 Bundles unchanged, CPU time of one reconcile",
        _BUNDLES,
        (OURS,),
        "reads of Bundle, account and inventory, and a LIST for each kind",
        (
            _NO_WRITE,
            Target("lists", 4.1, "a kind is listed twice"),
            Target("reads", 3.1, "something is read twice"),
        ),
    ),
    Row(
        "bundles-drift",
        "1,000 Bundles, an outside change is reverted",
        _BUNDLES,
        (OURS,),
        "one reconcile: a watch sees the change",
    ),
    Row(
        "bundles-takeover",
        "1,000 Bundles, all are looked at after the leader is killed",
        _BUNDLES,
        (OURS,),
        "the Lease, 15 s; then a reconcile of each",
    ),
    Row(
        "commit",
        "1,000 Bundles of one repository, a commit to one is applied",
        _BUNDLES,
        (OURS,),
        "the look that sees it, the fetch, and one reconcile",
        (
            Target("reconciles", 1, "others are reconciled"),
            Target("others", 0, "others take requests"),
            Target("idle", 0, "a repository without a commit takes requests"),
        ),
    ),
)
