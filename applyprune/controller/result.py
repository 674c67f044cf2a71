"""Collect the events of one run into a result: for status, conditions, metrics and Events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from applyprune.controller.clusters.cluster_errors import (
    ClusterChanged,
    ClusterUnreached,
    KubeConfigMissing,
    NamespaceMissing,
)
from applyprune.controller.constants import Reason
from applyprune.controller.secret_source import shown_parts
from applyprune.errors import (
    AccessError,
    ApplypruneError,
    Forbidden,
    InputError,
    InputErrors,
    InvalidKubeConfig,
    InventoryError,
    InventoryLocked,
    OwnedByBundle,
    Unreachable,
    UsageError,
)
from applyprune.model.events import (
    Event,
    Finished,
    ObjectDone,
    Outcome,
    Planned,
    PruneBlocked,
    ReadinessReported,
    Started,
    WarningRaised,
)
from applyprune.model.holder_observation import HolderObservation
from applyprune.model.identity import Ref
from applyprune.model.inventory import ApplyFingerprint
from applyprune.model.plan import Plan
from applyprune.model.problem import Problem, ProblemKind
from applyprune.model.readiness_state import Status
from applyprune.model.text.display import and_more
from applyprune.planning.desired import KindNotServed
from applyprune.planning.schema.kind_names import UnknownKind
from applyprune.values import dataclass, field

REMOVED = frozenset(
    {Outcome.PRUNED, Outcome.DELETED, Outcome.ORPHANED, Outcome.REMOVED_FROM_INVENTORY}
)
CHANGED = REMOVED | {Outcome.CREATED, Outcome.CONFIGURED, Outcome.RECREATED, Outcome.MOVED}
_PASSING = frozenset(
    {
        ProblemKind.API_ERROR,
        ProblemKind.CONFLICT,
        ProblemKind.EXPIRED,
        ProblemKind.UNAVAILABLE,
        ProblemKind.UNREACHABLE,
    }
)
_MAX_MESSAGE = 400
_EXIT_NOT_READY = 5
_MAX_WARNINGS = 10
_MAX_ERRORS = 900
_NAMED = 3


@dataclass(frozen=True, slots=True)
class FailedObject:
    """One object that failed, and why."""

    ref: Ref
    message: str
    kind: ProblemKind
    skipped: bool = False
    hopeless: bool = False
    """Whether more waiting cannot help."""
    passing: bool = False
    """Whether it may end without anybody: the server was busy, or somebody wrote in between."""

    @property
    def waits(self) -> bool:
        """Return whether it is only not ready, or not gone, yet."""
        return self.kind is ProblemKind.NOT_READY and not self.hopeless


@dataclass(slots=True)
class RunResult:
    """The result of one run so far."""

    secret: bool = False
    """Whether the source is a Secret: then no message shows a value of it."""
    set_size: int | None = None
    """How many objects the set has, if the run is about a part of it; None if about all of it."""
    run: str = ""
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    failing: dict[Ref, FailedObject] = field(default_factory=dict)
    refusal: Problem | None = None
    plan: Plan | None = None
    exit_code: int = 0
    elapsed: float = 0.0
    gone: set[Ref] = field(default_factory=set)
    written: set[Ref] = field(default_factory=set)
    """The objects that the run has created or changed."""
    rewritten: dict[Ref, tuple[str, ...]] = field(default_factory=dict)
    """Of each object that was sent, the fields that are stored with another value."""
    stored: dict[Ref, ApplyFingerprint] = field(default_factory=dict)
    """Of each object that was sent, what proves that it is as the server has stored it."""
    server_warnings: list[str] = field(default_factory=list)
    """The first few warnings of the API server."""

    @property
    def total(self) -> int:
        """Return how many objects the set has after the run."""
        if self.set_size is not None:
            return self.set_size
        if self.plan is None:
            return 0
        refs = {step.desired.ref for step in self.plan.applies}
        refs |= {step.entry.ref for step in self.plan.removals}
        return len(refs - self.gone)

    @property
    def failed(self) -> Sequence[FailedObject]:
        """Return what has failed, in order; objects that only wait for others come last."""
        return sorted(self.failing.values(), key=lambda failed: (failed.skipped, failed.ref))

    @property
    def refusal_message(self) -> str:
        """Return why the prune is refused: a guard names counts and objects, never a value."""
        return problem_message(self.refusal) if self.refusal is not None else ""

    @property
    def summary(self) -> str:
        """Return in short why a run that has ended did not succeed."""
        failed = self.failed
        if not failed:
            return "the prune is refused" if self.refusal is not None else ""
        of = f"of {self.total} objects" if self.total else f"object{'s' * (len(failed) != 1)}"
        names = and_more([one.ref.short for one in failed], _NAMED)
        return f"{len(failed)} {of} failed: {names}"

    @property
    def waiting(self) -> Sequence[FailedObject]:
        """Return what the run waits for; nothing if anything has failed.

        What is skipped until it is ready is not among it.
        """
        failed = [one for one in self.failed if not one.skipped]
        is_wait = self.exit_code == _EXIT_NOT_READY and all(one.waits for one in failed)
        return failed if is_wait else ()

    @property
    def waiting_summary(self) -> str:
        """Return in short what the run waits for."""
        return f"waiting for {and_more([one.ref.short for one in self.waiting], _NAMED)}"

    @property
    def deleted(self) -> int:
        """Return how many objects the run has deleted."""
        return self.outcomes[Outcome.PRUNED] + self.outcomes[Outcome.DELETED]

    @property
    def changed(self) -> bool:
        """Return whether the run has changed anything."""
        return any(self.outcomes[outcome] for outcome in CHANGED)

    @property
    def counts(self) -> str:
        """Return how many objects had each outcome: ``1 created, 2 unchanged``."""
        counts = ((self.outcomes[outcome], outcome.text) for outcome in Outcome)
        return ", ".join(f"{count} {text}" for count, text in counts if count)


def follow(events: Iterable[Event], result: RunResult, each: Callable[[Event], None]) -> RunResult:
    """Collect the events of a run into ``result``; ``each`` is called with every event.

    After an exception, ``result`` holds the events up to it.
    """
    for event in events:
        each(event)
        match event:
            case Started(run=run):
                result.run = run
            case Planned(plan=plan):
                result.plan = plan
            case ObjectDone():
                _take(event, result)
            case ReadinessReported(ref=ref, readiness=state, problem=problem) if problem:
                message = problem_message(problem, secret=result.secret)
                hopeless = state.status is Status.FAILED
                result.failing[ref] = FailedObject(ref, message, problem.kind, hopeless=hopeless)
            case WarningRaised(problem=problem) if problem.kind is ProblemKind.SERVER_WARNING:
                if len(result.server_warnings) < _MAX_WARNINGS:
                    message = problem_message(problem, secret=result.secret)
                    result.server_warnings.append(message)
            case PruneBlocked(problem=problem):
                result.refusal = problem
            case Finished(exit_code=code, elapsed=elapsed):
                result.exit_code, result.elapsed = code, elapsed
            case _:
                pass
    return result


def _take(done: ObjectDone, result: RunResult) -> None:
    """Add what was done with one object."""
    ref, outcome = done.ref, done.outcome
    result.outcomes[outcome] += 1
    if outcome in REMOVED:
        result.gone.add(ref)
    elif outcome in CHANGED:
        result.written.add(ref)
    if done.rewritten is not None:
        result.rewritten[ref] = done.rewritten
    if done.fingerprint is not None:
        result.stored[ref] = done.fingerprint
    if done.problem is not None:
        skipped = outcome is Outcome.SKIPPED
        message = problem_message(done.problem, secret=result.secret)
        # Another manager's field is in conflict until somebody decides.
        passing = done.problem.kind in _PASSING and not done.problem.conflicts
        result.failing[ref] = FailedObject(
            ref, message, done.problem.kind, skipped, passing=passing
        )


def problem_message(problem: Problem, *, secret: bool = False) -> str:
    """Return a problem in one line for a status: the same line as long as the facts are the same.

    It has no excerpt, which may come from a Secret, and no hint, which is about the command line.
    ``secret`` says that the manifests come from a Secret.
    """
    parts: Sequence[str] = (
        problem.location,
        problem.message,
        problem.lasting_reason or problem.reason,
    )
    if secret:
        parts = shown_parts(problem)
    line = " ".join(": ".join(part for part in parts if part).split())
    return line if len(line) <= _MAX_MESSAGE else f"{line[: _MAX_MESSAGE - 1]}…"


def error_message(problems: Sequence[Problem], *, secret: bool = False) -> str:
    """Return the problems of an error in one line: the first ones, and how many more there are."""
    first, *others = (problem_message(problem, secret=secret) for problem in problems)
    while others and len(first) + len(others[0]) < _MAX_ERRORS:
        first = f"{first}; {others.pop(0)}"
    return f"{first} (and {len(others)} more)" if others else first


_EXITS = {
    0: Reason.APPLIED,
    4: Reason.CONFLICTS,
    5: Reason.NOT_READY,
    6: Reason.PRUNE_REFUSED,
}


def reason_of_exit(code: int) -> Reason:
    """Return the reason for a run's exit code."""
    return _EXITS.get(code, Reason.APPLY_FAILED)


_SOURCES = {
    kind: Reason(kind)
    for kind in (
        ProblemKind.FETCH_FAILED,
        ProblemKind.AUTHENTICATION_FAILED,
        ProblemKind.VERIFICATION_FAILED,
        ProblemKind.PATH_NOT_FOUND,
        ProblemKind.SOURCE_TOO_LARGE,
        ProblemKind.DECRYPTION_FAILED,
    )
}
"""The kinds of problems of sources on other hosts; their words are those of the reasons."""


def reason_of(error: ApplypruneError) -> Reason:
    """Return the reason for an error that ended a whole run."""
    if _lacks_kinds(error):
        return Reason.KIND_NOT_FOUND
    if error.kind in _SOURCES:
        return _SOURCES[error.kind]
    reasons: tuple[tuple[type[ApplypruneError], Reason], ...] = (
        (InvalidKubeConfig, Reason.INVALID_KUBE_CONFIG),
        (KubeConfigMissing, Reason.KUBE_CONFIG_NOT_FOUND),
        (ClusterUnreached, Reason.CLUSTER_UNREACHABLE),
        (ClusterChanged, Reason.CLUSTER_CHANGED),
        (NamespaceMissing, Reason.NAMESPACE_NOT_FOUND),
        (OwnedByBundle, Reason.INVENTORY_OWNED),
        (InputError, Reason.INVALID_SOURCE),
        (UsageError, Reason.INVALID_SPEC),
        (Forbidden, Reason.FORBIDDEN),
        (Unreachable, Reason.UNREACHABLE),
        (AccessError, Reason.API_ERROR),
        (InventoryError, Reason.INVENTORY_UNREADABLE),
        (InventoryLocked, Reason.INVENTORY_LOCKED),
    )
    return next(
        (reason for kind, reason in reasons if isinstance(error, kind)), Reason.APPLY_FAILED
    )


def _lacks_kinds(error: ApplypruneError) -> bool:
    """Return whether the input waits only for its kinds: nothing in it must be changed."""
    if isinstance(error, UnknownKind):
        return True
    errors = error.errors if isinstance(error, InputErrors) else (error,)
    faults = [one for one in errors if isinstance(one, InputError)]
    return bool(faults) and all(isinstance(one, KindNotServed) for one in faults)


def observation_in(error: ApplypruneError) -> HolderObservation | None:
    """Return what a run has seen of the lock's holder; None if something else ended it."""
    return error.observation if isinstance(error, InventoryLocked) else None
