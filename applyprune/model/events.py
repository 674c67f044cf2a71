"""What a run says while it goes: its only output, read by printers, reports and conditions alike.

A run begins with Started, goes on with Planned before anything is written, then one event a step,
and ends with Finished, unless an error that concerns the run as a whole is raised: whoever prints
the stream makes Failed and Finished of that. Verbs that only look tell what they see in events too;
their end, where it is a good one, may be left to whoever prints.

How far an object has come since it was applied, in the words of kstatus.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from applyprune.model.identity import Ref
    from applyprune.model.inventory import InventoryEntry, LastRun, Mismatch, Ownership
    from applyprune.model.manifest import Origin
    from applyprune.model.options import DryRun, Mode
    from applyprune.model.plan import Plan
    from applyprune.model.problem import Problem


class Outcome(StrEnum):
    """What became of one object."""

    CREATED = "created"
    CONFIGURED = "configured"
    RECREATED = "recreated"
    UNCHANGED = "unchanged"
    PRUNED = "pruned"
    DELETED = "deleted"
    ORPHANED = "orphaned"
    MOVED = "moved"
    REPAIRED = "repaired"
    REMOVED_FROM_INVENTORY = "removed-from-inventory"
    NOT_PRUNED = "not-pruned"
    SKIPPED = "skipped"
    FAILED = "failed"

    @property
    def text(self) -> str:
        """Return the outcome as text says it: ``not pruned``."""
        return self.value.replace("-", " ")

    @property
    def forecast(self) -> str:
        """Return what a diff says of an object for which this is the outcome to come."""
        return _FORECASTS.get(self, self.text)


_FORECASTS: Mapping[Outcome, str] = {
    Outcome.CREATED: "will be created",
    Outcome.CONFIGURED: "will be updated",
    Outcome.RECREATED: "will be recreated",
    Outcome.PRUNED: "will be pruned",
    Outcome.DELETED: "will be deleted",
    Outcome.ORPHANED: "will be orphaned",
    Outcome.REMOVED_FROM_INVENTORY: "will be removed from inventory",
    Outcome.NOT_PRUNED: "will not be pruned",
    Outcome.SKIPPED: "will be skipped",
}


class Phase(StrEnum):
    """Which of its writes a run made to the inventory."""

    UNION = "before-apply"
    APPLIED = "applied"
    INTENT = "before-delete"
    SHRUNK = "final"
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
class InventoryWritten:
    """The inventory was written; ``entries`` is how many it holds now."""

    phase: Phase
    entries: int
    generation: int


@dataclass(frozen=True, slots=True)
class ObjectDone:
    """One object is dealt with; ``problem`` is set when it FAILED, or was SKIPPED for a failure."""

    ref: Ref
    outcome: Outcome
    origin: Origin | None = None
    reason: str = ""
    problem: Problem | None = None


@dataclass(frozen=True, slots=True)
class ReadinessReported:
    """The wait for one object is over: it is ready, or ``problem`` says why it is not.

    ``elapsed`` in seconds since the wait began.
    """

    ref: Ref
    readiness: Readiness
    elapsed: float
    problem: Problem | None = None


@dataclass(frozen=True, slots=True)
class Pending:
    """One object that is waited for, and why it is not as it should be yet."""

    ref: Ref
    reason: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """The run waits; ``elapsed`` in seconds since that wait began, of ``timeout``.

    It waits until ``ref`` is ``what``: ready, gone, served; without a ref for ``what`` itself.
    ``why`` says why that is not so yet. ``others`` are the next few that are waited for as well,
    each with its reason, and ``count`` is how many there are in all.
    """

    ref: Ref | None
    what: str
    elapsed: float
    timeout: float
    reason: str = ""
    others: tuple[Pending, ...] = ()
    count: int = 1


@dataclass(frozen=True, slots=True)
class WarningRaised:
    """Something that the user should know and that fails nothing."""

    problem: Problem


@dataclass(frozen=True, slots=True)
class MismatchFound:
    """A check found a difference between the record and the cluster."""

    mismatch: Mismatch


@dataclass(frozen=True, slots=True)
class PruneBlocked:
    """A guard refused the prune as a whole; nothing was deleted."""

    problem: Problem


@dataclass(frozen=True, slots=True)
class ObjectDiff:
    """How one object would change, as far as the server could tell in a dry run.

    ``before`` is None for one that would be created, ``after`` for one that would be deleted. Both
    are fit to be shown: the server's own bookkeeping is left out, Secret values are masked, and one
    that changes is masked in two ways. ``weaker`` says which checks could not be made. ``drifted``
    says that the manifest is the one applied last, so that somebody else has changed the object or
    removed it; ``drift`` names the fields of it that can be told.
    """

    ref: Ref
    outcome: Outcome
    before: Mapping[str, Any] | None = field(hash=False, repr=False)
    after: Mapping[str, Any] | None = field(hash=False, repr=False)
    origin: Origin | None = None
    not_checked: str = ""
    drifted: bool = False
    drift: tuple[Drift, ...] = ()


@dataclass(frozen=True, slots=True)
class Drift:
    """One field that differs from what the set's last apply left; ``path`` is a JSON pointer.

    ``manager``, ``operation`` and ``time`` (RFC 3339) say who wrote it, empty where that cannot be
    told. Secret values are masked.
    """

    path: str
    wanted: str
    found: str
    manager: str = ""
    operation: str = ""
    time: str = ""


@dataclass(frozen=True, slots=True)
class ObjectStatus:
    """How one object of a set is now; ``age`` in seconds since it was created, None if unknown.

    ``drifted`` is None where nothing can tell whether it drifted; ``drift`` names the fields, where
    they were asked for.
    """

    ref: Ref
    readiness: Readiness
    ownership: Ownership
    age: float | None
    drifted: bool | None = None
    drift: tuple[Drift, ...] = ()


@dataclass(frozen=True, slots=True)
class ApplySetListed:
    """One set of the cluster; ``problem`` is set, and the rest empty, when it cannot be read.

    ``ready`` counts the objects that are Current, None where that was not asked for. ``owner`` is
    the Bundle that owns it, ``holder`` who works on it now.
    """

    name: str
    namespace: str
    objects: int | None = None
    ready: int | None = None
    last: LastRun | None = None
    owner: str = ""
    holder: str = ""
    problem: Problem | None = None


@dataclass(frozen=True, slots=True)
class EntryListed:
    """One object that the inventory of the set ``name`` in ``namespace`` lists."""

    name: str
    namespace: str
    entry: InventoryEntry


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a run would do about one object, and everything that it was judged by, in order."""

    ref: Ref
    verdict: str
    reasons: tuple[str, ...]
    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class VersionReport:
    """What runs here, and what answers there; ``server`` is empty where none was asked or answered.

    ``platform`` is the operating system and the processor.
    """

    client: str
    python: str
    platform: str
    server: str = ""


@dataclass(frozen=True, slots=True)
class ErrorRaised:
    """An error that ended the run as a whole; several errors in the input are an event each."""

    problem: Problem


@dataclass(frozen=True, slots=True)
class Finished:
    """The run came to its end; ``problem`` says what keeps it from being a success."""

    counts: Mapping[Outcome, int] = field(hash=False)
    exit_code: int
    elapsed: float
    problem: Problem | None = None


Event: TypeAlias = (
    Started
    | Planned
    | InventoryWritten
    | ObjectDone
    | ReadinessReported
    | Waiting
    | WarningRaised
    | MismatchFound
    | PruneBlocked
    | ObjectDiff
    | ObjectStatus
    | ApplySetListed
    | EntryListed
    | Explanation
    | VersionReport
    | ErrorRaised
    | Finished
)


class Status(StrEnum):
    """The states of kstatus (sigs.k8s.io/cli-utils); only Current and Failed end a wait."""

    IN_PROGRESS = "InProgress"
    CURRENT = "Current"
    FAILED = "Failed"
    TERMINATING = "Terminating"
    NOT_FOUND = "NotFound"
    UNKNOWN = "Unknown"

    @property
    def text(self) -> str:
        """Return the state as text says it: ``Ready`` for Current."""
        return "Ready" if self is Status.CURRENT else self.value


@dataclass(frozen=True, slots=True)
class Readiness:
    """What is known of one object: its state, and in ``message`` why that is its state."""

    status: Status
    message: str


def in_progress(message: str) -> Readiness:
    """Return that the object is on its way."""
    return Readiness(Status.IN_PROGRESS, message)


def current(message: str) -> Readiness:
    """Return that the object is as its specification says."""
    return Readiness(Status.CURRENT, message)


def failed(message: str) -> Readiness:
    """Return that the object will not become what its specification says by itself."""
    return Readiness(Status.FAILED, message)
