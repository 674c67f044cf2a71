"""What a run says while it goes: its only output, read by printers, reports and conditions alike.

A run begins with Started, goes on with Planned before anything is written, then one event a step,
and ends with Finished, unless an error that concerns the run as a whole is raised.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from applyprune.model.findings import Finding
    from applyprune.model.manifests import Origin
    from applyprune.model.options import DryRun, Mode
    from applyprune.model.plan import Plan
    from applyprune.model.problems import Problem
    from applyprune.model.readiness import Readiness
    from applyprune.model.refs import Ref


class Outcome(StrEnum):
    """What became of one object."""

    CREATED = "created"
    CONFIGURED = "configured"
    RECREATED = "recreated"
    UNCHANGED = "unchanged"
    PRUNED = "pruned"
    DELETED = "deleted"
    ABANDONED = "abandoned"
    MOVED = "moved"
    REPAIRED = "repaired"
    FORGOTTEN = "forgotten"
    KEPT = "kept"
    SKIPPED = "skipped"
    FAILED = "failed"


class Phase(StrEnum):
    """Which of its writes a run made to the inventory."""

    UNION = "union"
    APPLIED = "applied"
    INTENT = "intent"
    SHRUNK = "shrunk"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Started:
    """A run began; ``run`` is its id, which its holder in the inventory bears too."""

    run: str
    mode: Mode
    name: str
    namespace: str
    dry_run: DryRun


@dataclass(frozen=True, slots=True)
class Planned:
    """The plan is made; nothing has been written yet."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class Recorded:
    """The inventory was written; ``entries`` is how many it holds now."""

    phase: Phase
    entries: int
    generation: int


@dataclass(frozen=True, slots=True)
class Done:
    """One object is dealt with; ``problem`` is set when it FAILED, or was SKIPPED for a failure."""

    ref: Ref
    outcome: Outcome
    origin: Origin | None = None
    reason: str = ""
    problem: Problem | None = None


@dataclass(frozen=True, slots=True)
class Assessed:
    """The wait for one object is over: it is ready, or ``problem`` says why it is not.

    ``elapsed`` in seconds since the wait began.
    """

    ref: Ref
    readiness: Readiness
    elapsed: float
    problem: Problem | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """The run waits; ``elapsed`` in seconds since that wait began."""

    ref: Ref | None
    what: str
    elapsed: float


@dataclass(frozen=True, slots=True)
class Warned:
    """Something that the user should know and that fails nothing."""

    problem: Problem


@dataclass(frozen=True, slots=True)
class Found:
    """A check found a difference between the record and the cluster."""

    finding: Finding


@dataclass(frozen=True, slots=True)
class Refused:
    """A guard refused the prune as a whole; nothing was deleted."""

    problem: Problem


@dataclass(frozen=True, slots=True)
class Finished:
    """The run came to its end; ``problem`` says what keeps it from being a success."""

    counts: Mapping[Outcome, int] = field(hash=False)
    exit_code: int
    elapsed: float
    problem: Problem | None = None


Event: TypeAlias = (
    Started | Planned | Recorded | Done | Assessed | Waiting | Warned | Found | Refused | Finished
)
