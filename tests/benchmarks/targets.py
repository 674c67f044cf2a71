"""Every row of the benchmark, with its targets."""

from __future__ import annotations

from tests.benchmarks.peers.calls import APPLYPRUNE
from tests.benchmarks.rows import Limit, Metric, Ratio, Row, Step, Subject, Work
from tests.benchmarks.workload import KINDS, objects_of_kinds

OURS, UNCHECKED, KUBECTL, BARE = Subject.OURS, Subject.UNCHECKED, Subject.KUBECTL, Subject.BARE
KAPP, KAPPLY, FLOOR = Subject.KAPP, Subject.KAPPLY, Subject.FLOOR
PEERS = (KAPP, KAPPLY)
APPLIES = (OURS, UNCHECKED, KUBECTL, *PEERS)
READS = (OURS, KUBECTL, *PEERS)
PAGE = 500
"""How many objects applyprune asks for in one request of a list."""

_MB = 1e6
_START_CPU = 0.11
"""The CPU seconds of a command that writes nothing: nearly all of them are its start."""
_START = Work(rounds=21, quick=5)
_TEN = Work(rounds=9, quick=3, objects=10, namespaces=1)
_THOUSAND = Work(rounds=5, quick=1, objects=1000, namespaces=10)
_MANY = Work(rounds=5, quick=0, objects=10_000, namespaces=20)
_HALVED = Work(rounds=5, quick=0, objects=2000, namespaces=20)
_ENTRIES = Work(rounds=5, quick=0)
_OBJECTS = Work(rounds=3, quick=0)
_PLAN = Work(rounds=5, quick=1)
_SLOW = Work(rounds=5, quick=0, objects=1000, namespaces=10, slow=True)


def _pages() -> int:
    """Return how many requests list each kind of the large set once."""
    counts = objects_of_kinds(_MANY.objects, _MANY.namespaces)
    assert set(counts) == set(KINDS)
    return sum(-(-count // PAGE) for count in counts.values())


def _of_ten(*subjects: Subject, ratio: float, cpu: float) -> tuple[Ratio | Limit, ...]:
    """Return the targets of ten objects: the most of kubectl's time, and the seconds of CPU."""
    return tuple(
        target
        for subject in subjects
        for target in (
            Ratio(subject, KUBECTL, at_most=ratio),
            Limit(subject, Metric.CPU, cpu, f"≤ {cpu} s of CPU"),
        )
    )


def _start_up(name: str, *arguments: str) -> Row:
    return Row(
        name,
        f"applyprune {' '.join(arguments)}",
        _START,
        (OURS, FLOOR),
        (Ratio(OURS, FLOOR, at_most=1.3),),
        command=(str(APPLYPRUNE), *arguments),
    )


ROWS = (
    _start_up("version", "version", "--client"),
    _start_up("help", "--help"),
    Row(
        "first-10",
        "10 objects, first time",
        _TEN,
        APPLIES,
        _of_ten(OURS, UNCHECKED, ratio=1.0, cpu=0.25),
        Step.FIRST,
    ),
    Row(
        "again-10",
        "10 objects, nothing changed",
        _TEN,
        APPLIES,
        _of_ten(OURS, UNCHECKED, ratio=0.6, cpu=_START_CPU),
        Step.AGAIN,
    ),
    Row(
        "diff-10",
        "10 objects, diff",
        _TEN,
        READS,
        _of_ten(OURS, ratio=1.5, cpu=_START_CPU),
        Step.DIFF,
    ),
    Row(
        "status-10",
        "10 objects, status",
        _TEN,
        READS,
        _of_ten(OURS, ratio=2.0, cpu=_START_CPU),
        Step.STATUS,
    ),
    Row(
        "first-1000",
        "1,000 objects, first time",
        _THOUSAND,
        (*APPLIES, BARE),
        (
            Ratio(UNCHECKED, BARE, at_most=1.2),
            Ratio(UNCHECKED, KUBECTL, at_least=2.0),
        ),
        Step.FIRST,
    ),
    Row(
        "again-1000",
        "1,000 objects, nothing changed",
        _THOUSAND,
        APPLIES,
        (
            Ratio(OURS, KUBECTL, at_least=10.0),
            Limit(OURS, Metric.WRITES, 0, "no write"),
        ),
        Step.AGAIN,
    ),
    Row(
        "changed-1000",
        "1,000 objects, 10 changed",
        _THOUSAND,
        APPLIES,
        tuple(
            Ratio(
                subject,
                subject,
                at_most=1.3,
                row="again-1000",
                other_words="nothing changed",
            )
            for subject in (OURS, UNCHECKED)
        ),
        Step.CHANGED,
    ),
    Row(
        "diff-1000",
        "1,000 objects, 10 changed, diff",
        _THOUSAND,
        # Not kapply: it reads a file again for each object in it. That took 101,002 requests and
        # 318 s for one round of this row.
        (OURS, KUBECTL, KAPP),
        (Ratio(OURS, KUBECTL, at_least=10.0),),
        Step.DIFF,
    ),
    Row(
        "prune-1000",
        "1,000 of 2,000 objects pruned",
        _HALVED,
        (OURS, BARE, *PEERS),
        (
            Ratio(OURS, BARE, at_most=1.2, other_words="the bare client's deletes"),
            Ratio(OURS, KAPP, at_least=4.0),
        ),
        Step.PRUNE,
    ),
    Row(
        "first-10000",
        "10,000 objects, first time",
        _MANY,
        APPLIES,
        (
            Ratio(
                UNCHECKED,
                UNCHECKED,
                at_most=11.0,
                row="first-1000",
                other_words="1,000 objects",
            ),
        ),
        Step.FIRST,
    ),
    Row(
        "again-10000",
        "10,000 objects, nothing changed",
        _MANY,
        READS,
        (
            Ratio(OURS, KUBECTL, at_least=20.0),
            Limit(OURS, Metric.SECONDS, 2.5, "≤ 2.5 s on a quiet machine"),
            Limit(OURS, Metric.MEMORY, 150, "≤ 150 MB", _MB),
            Limit(OURS, Metric.REQUESTS, 4 + _pages(), f"≤ {4 + _pages()} requests"),
        ),
        Step.AGAIN,
    ),
    Row(
        "read-objects",
        "100,000 objects, read from files",
        _OBJECTS,
        (OURS,),
        (Limit(OURS, Metric.MEMORY, 180, "≤ 180 MB", _MB),),
        command=("-m", "tests.benchmarks.jobs.read_objects"),
    ),
    Row(
        "read-100000",
        "100,000 entries, read and checked",
        _ENTRIES,
        (OURS,),
        (Limit(OURS, Metric.SECONDS, 2.0, "≤ 2 s"),),
        command=("-m", "tests.benchmarks.jobs.large_inventory", "read"),
    ),
    Row(
        "write-100000",
        "100,000 entries, written",
        _ENTRIES,
        (OURS,),
        (Limit(OURS, Metric.SECONDS, 5.0, "≤ 5 s"),),
        command=("-m", "tests.benchmarks.jobs.large_inventory", "write"),
    ),
    Row(
        "write-plan",
        "plan file of 10,000, written",
        _PLAN,
        (OURS,),
        (Limit(OURS, Metric.SECONDS, 1.0, "≤ 1 s"),),
        command=("-m", "tests.benchmarks.jobs.plan_file", "write"),
    ),
    Row(
        "read-plan",
        "plan file of 10,000, read",
        _PLAN,
        (OURS,),
        (Limit(OURS, Metric.SECONDS, 1.0, "≤ 1 s"),),
        command=("-m", "tests.benchmarks.jobs.plan_file", "read"),
    ),
    Row(
        "slow-1000",
        "1,000 objects unchanged, 50 ms away",
        _SLOW,
        READS,
        (
            Ratio(OURS, KUBECTL, at_least=5.0),
            Limit(OURS, Metric.ROUND_TRIPS, 8, "≤ 8 round trips in sequence"),
        ),
        Step.AGAIN,
    ),
)


def chosen(names: tuple[str, ...], *, quick: bool) -> tuple[Row, ...]:
    """Return the rows with these names, or all, and those that their targets compare with."""
    by_name = {row.name: row for row in ROWS}
    wanted = set(names or by_name)
    wanted |= {target.needs for name in wanted for target in by_name[name].targets} - {""}
    return tuple(
        row for row in ROWS if row.name in wanted and (not quick or row.work.quick or names)
    )
