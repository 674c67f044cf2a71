"""What a reconcile has done, from the events of its run; nothing of a Secret is in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from applyprune.cluster.failures import without_values
from applyprune.controller.reasons import Reason
from applyprune.errors import (
    AccessError,
    ApplypruneError,
    Denied,
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
    InventoryWritten,
    ObjectDone,
    Planned,
    PruneBlocked,
    ReadinessReported,
    Started,
    Status,
    WarningRaised,
)
from applyprune.model.fate import Outcome
from applyprune.model.identity import Ref
from applyprune.model.inventory import ApplyFingerprint, HolderObservation
from applyprune.model.live import namespace_ref
from applyprune.model.plan import Cause, Plan, RemoveStep
from applyprune.model.problem import Problem, ProblemKind
from applyprune.model.text import and_more
from applyprune.planning.desired import KindNotServed
from applyprune.planning.names import UnknownKind
from applyprune.planning.server_errors import dotted
from applyprune.values import pattern

if TYPE_CHECKING:
    from applyprune.controller.spec import BundleSpec

_NAMED = 3
REMOVED = frozenset(
    {Outcome.PRUNED, Outcome.DELETED, Outcome.ORPHANED, Outcome.REMOVED_FROM_INVENTORY}
)
CHANGED = REMOVED | {Outcome.CREATED, Outcome.UPDATED, Outcome.RECREATED}
_MAX_WARNINGS = 10
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
_MAX_ERRORS = 900


class RunResult(Struct):
    secret: bool = False
    """Whether the source is a Secret: then no message shows a value of it."""
    set_size: int | None = None
    """How many objects the set has, if the run is about a part of it; None if about all of it."""
    namespace: str = ""
    """The Bundle's namespace, if the objects are in its cluster; empty if in another one."""
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
    listed: int | None = None
    """How many objects the inventory lists after the run; None if it has not been written."""
    server_warnings: list[str] = field(default_factory=list)
    """The first few warnings of the API server."""

    def add_changes(self, part: RunResult) -> None:
        """Add what a run about a part of the set has changed."""
        self.written |= part.written
        self.stored |= part.stored
        self.outcomes.update({one: part.outcomes[one] for one in CHANGED})

    @property
    def total(self) -> int:
        """Return how many objects the set is to have."""
        if self.set_size is not None:
            return self.set_size
        return len(planned_refs(self.plan) - self.gone) if self.plan is not None else 0

    @property
    def size(self) -> int | None:
        """Return how many objects the set has; None if the run has not changed that."""
        if self.plan is None or self.set_size is not None or self.listed is not None:
            return self.listed
        unlisted = {step.desired.ref for step in self.plan.applies if step.is_unlisted}
        # A run that stops has added nothing.
        return None if self.plan.stops else len(planned_refs(self.plan) - self.gone - unlisted)

    @property
    def applied(self) -> int | None:
        """Return how many objects exist and do not fail; None if the run is not about all."""
        if self.plan is None or self.set_size is not None:
            return None
        absent = {step.desired.ref for step in self.plan.applies if step.is_new} - self.written
        return len(planned_refs(self.plan) - self.gone - absent - self.failing.keys())

    @property
    def offered(self) -> Sequence[RemoveStep]:
        """Return the steps of what siblings may still take; each reason says who they are."""
        steps = self.plan.removals if self.plan is not None else ()
        return [step for step in steps if step.cause is Cause.OFFERED]

    @property
    def elsewhere(self) -> int | None:
        """Return how many objects outlive the Bundle's namespace; None if that is not known."""
        if self.plan is None or self.set_size is not None:
            return None
        return count_elsewhere(planned_refs(self.plan) - self.gone, self.namespace)

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
        names = and_more([one.ref.short for one in failed], _NAMED)
        done = "failed"
        if all(one.waits or one.skipped for one in failed) and any(one.waits for one in failed):
            done = f"{'is' if len(failed) == 1 else 'are'} not ready"
        # With anything wrong in its plan, a run writes nothing.
        stopped = self.plan is not None and self.plan.stops and not self.written
        whole = "nothing was changed: " if stopped else ""
        return f"{whole}{len(failed)} {self._of(len(failed))} {done}: {names}"

    def _of(self, count: int) -> str:
        return f"of {self.total} objects" if self.total > 1 else f"object{'s' * (count != 1)}"

    @property
    def waiting(self) -> Sequence[FailedObject]:
        """Return what the run waits for; nothing if anything has failed.

        What is skipped until it is ready is not among it.
        """
        failed = [one for one in self.failed if not one.skipped]
        is_wait = self.reason is Reason.NOT_READY and all(one.waits for one in failed)
        return failed if is_wait else ()

    @property
    def reason(self) -> Reason:
        """Return why the run did not succeed, by its end.

        What is not ready comes before a refused prune, which has a condition of its own.
        """
        failed = [one for one in self.failing.values() if not one.skipped]
        if self.refusal is not None and failed and all(one.waits for one in failed):
            return Reason.NOT_READY
        return reason_of_exit(self.exit_code)

    @property
    def waiting_summary(self) -> str:
        return f"waiting for {and_more([one.ref.short for one in self.waiting], _NAMED)}"

    @property
    def deleted(self) -> int:
        return self.outcomes[Outcome.PRUNED] + self.outcomes[Outcome.DELETED]

    @property
    def changed(self) -> bool:
        return any(self.outcomes[outcome] for outcome in CHANGED)

    @property
    def counts(self) -> str:
        """Return how many objects had each outcome: ``1 created, 2 unchanged``."""
        return outcomes_text(self.outcomes)


def outcomes_text(outcomes: Mapping[Outcome, int]) -> str:
    """Return how many objects had each outcome: ``1 created, 2 unchanged``."""
    counts = ((outcomes.get(outcome, 0), outcome.text) for outcome in Outcome)
    return ", ".join(f"{count} {text}" for count, text in counts if count)


def new_result(bundle: BundleSpec) -> RunResult:
    """Return the result to collect of a run for a Bundle."""
    is_here = bundle.spec.kube_config is None
    return RunResult(bundle.has_secret_source, namespace=bundle.namespace if is_here else "")


def planned_refs(plan: Plan) -> set[Ref]:
    """Return the objects that the set has, or will have, by a plan of all of it."""
    refs = {step.desired.ref for step in plan.applies}
    return refs | {step.entry.ref for step in plan.removals}


def count_elsewhere(refs: Iterable[Ref], namespace: str) -> int:
    """Return how many objects the deletion of a namespace does not delete; all if it is empty."""
    if not namespace:
        return sum(1 for _ in refs)
    own = namespace_ref(namespace)
    return sum(ref.namespace != namespace and ref != own for ref in refs)


class FailedObject(Struct, frozen=True):
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


def collect(events: Iterable[Event], result: RunResult, each: Callable[[Event], None]) -> RunResult:
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
                _collect_object(event, result)
            case InventoryWritten(entries=entries):
                result.listed = entries
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


def _collect_object(done: ObjectDone, result: RunResult) -> None:
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

    It has no excerpt, which may come from a Secret, and no hint, which is about the command line; a
    conflict has what resolves it. ``secret`` says that the manifests come from a Secret.
    """
    remedy = "" if secret or not problem.remedy else f" {problem.remedy}"
    parts: Sequence[str] = (
        problem.location,
        problem.message,
        problem.lasting_reason or problem.reason,
    )
    if secret:
        parts = shown_parts(problem)
    # A reason of several lines has one for each guard, or for each object that must stay.
    texts = [part.replace("\n    ", "; ") for part in parts if part]
    line = " ".join(": ".join(texts).split())
    if remedy:
        line += "."
    most = max(_MAX_MESSAGE - len(remedy), 0)
    return f"{line if len(line) <= most else f'{line[: most - 1]}…'}{remedy}"


def error_message(problems: Sequence[Problem], *, secret: bool = False) -> str:
    """Return the problems of an error in one line: the first ones, and how many more there are."""
    first, *others = (problem_message(problem, secret=secret) for problem in problems)
    while others and len(first) + len(others[0]) < _MAX_ERRORS:
        first = f"{first}; {others.pop(0)}"
    return f"{first} (and {len(others)} more)" if others else first


# The reason of a condition, for the end of a run.


_EXITS = {
    0: Reason.APPLIED,
    4: Reason.CONFLICTS,
    5: Reason.NOT_READY,
    6: Reason.PRUNE_REFUSED,
}
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


def reason_of_exit(code: int) -> Reason:
    return _EXITS.get(code, Reason.APPLY_FAILED)


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
        (Denied, Reason.API_ERROR),
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


# A problem of a run whose source is a Secret: whatever came from there may be confidential.
#
# The rule is that of a Secret among the manifests, for every object of such a set. Kinds, names and
# fields of the schema are shown, and texts that are known to hold no value. All others may quote
# one: those of the API server, of webhooks and of other controllers, in whole or in part.


# Problems of ours that are not about the content of an object.
_WHOLE = frozenset(
    {
        ProblemKind.ACCOUNT_MISSING,
        ProblemKind.AUTHENTICATION_FAILED,
        ProblemKind.DECRYPTION_FAILED,
        ProblemKind.FETCH_FAILED,
        ProblemKind.PATH_NOT_FOUND,
        ProblemKind.SOURCE_TOO_LARGE,
        ProblemKind.VERIFICATION_FAILED,
        ProblemKind.EMPTY_INPUT,
        ProblemKind.INTERRUPTED,
        ProblemKind.INVALID_SPEC,
        ProblemKind.INVENTORY_LOCKED,
        ProblemKind.OWNED_BY_BUNDLE,
        ProblemKind.SOURCE_MISSING,
        ProblemKind.UNREACHABLE,
    }
)
# Our message names the object, but the reason may come from its status, or from the server.
_MESSAGE = frozenset(
    {
        ProblemKind.ACCESS_ERROR,
        ProblemKind.INVENTORY_ERROR,
        ProblemKind.INVENTORY_INCOMPLETE,
        ProblemKind.INVENTORY_TOO_NEW,
        ProblemKind.NOT_APPROVED,
        ProblemKind.NOT_READY,
        ProblemKind.PRUNE_REFUSED,
    }
)
# The message is that of the API server, or of a webhook that it called.
_SERVER = frozenset(
    {
        ProblemKind.ALREADY_EXISTS,
        ProblemKind.API_ERROR,
        ProblemKind.CONFLICT,
        ProblemKind.EXPIRED,
        ProblemKind.DENIED,
        ProblemKind.FORBIDDEN,
        ProblemKind.INVALID,
        ProblemKind.NOT_FOUND,
        ProblemKind.NOT_SERVED,
        ProblemKind.SERVER_WARNING,
        ProblemKind.UNAUTHORIZED,
        ProblemKind.UNAVAILABLE,
    }
)
_WORDS = {
    **{kind: f"it failed ({kind})" for kind in ProblemKind if kind not in _SERVER},
    ProblemKind.INPUT_ERROR: "the manifest is invalid",
    ProblemKind.SERVER_WARNING: "the API server warns about it",
}
_NOT_SHOWN = "details are not shown, because the source is a Secret"
_SHOWN = 3
# The keys of these maps are content, as the keys of associative lists are.
_FREE = ("annotations", "binaryData", "data", "labels", "matchLabels", "nodeSelector", "stringData")
_FIELDS = pattern(r"(?:\.?[a-z][A-Za-z]*(?=[.\[]|$)|\[\d+\])+")


def shown_parts(problem: Problem) -> tuple[str, ...]:
    """Return the parts of a problem that hold no value of the source; one says so if some do."""
    # guard: secret-source always
    if problem.kind in _WHOLE:
        return problem.location, problem.message, problem.lasting_reason or problem.reason
    where = str(problem.origin) if problem.origin is not None else ""
    if problem.conflicts:
        return where, _conflict(problem)
    if problem.kind in _MESSAGE:
        return where, f"{problem.message}; {_NOT_SHOWN}" if problem.reason else problem.message
    if problem.kind in _SERVER:
        # We put the object before a message that does not name it.
        ours = problem.message.partition(": ")[2]
        if text := without_values(problem.message) or without_values(ours):
            return where, text
    what = _WORDS.get(problem.kind, f"the API server refuses it ({problem.kind})")
    return where, f"{what}{_at(problem)}; {_NOT_SHOWN}"


def _conflict(problem: Problem) -> str:
    """Return the fields in conflict by their managers, without any value."""
    owners = []
    for conflict in problem.conflicts:
        how = conflict.operation
        if conflict.subresource:
            how += f" of {conflict.subresource}"
        fields = and_more(_shown([field.field for field in conflict.fields]), _SHOWN) or "a field"
        owners.append(f"{conflict.manager}{f' ({how})' if how else ''} owns {fields}")
    return f"another field manager owns some of its fields: {and_more(owners, _SHOWN, '; ')}"


def _at(problem: Problem) -> str:
    paths = [mark.field for mark in problem.marks] or [problem.field]
    shown = _shown([dotted(path) for path in paths])
    return f" at {and_more(shown, _SHOWN)}" if shown else ""


def shown_field(path: str) -> str:
    """Return a field, ``.a.b`` or ``/a/b``, as far as its path has names of fields of the schema.

    The keys of maps and of list items are content. Nothing is left of a path without such a name
    but its first sign.
    """
    sign = path[:1]
    shown = _shown([path.partition("[")[0].replace(sign, ".")]) if path else ()
    return shown[0].replace(".", sign) if shown else sign


def _shown(paths: Sequence[str]) -> Sequence[str]:
    """Return each path as far as it has names of fields: ``.spec.template.spec.containers``."""
    found: dict[str, None] = {}
    for path in paths:
        fields = _FIELDS.match(path)
        steps = fields.group().split(".") if fields else []
        ends = next((at + 1 for at, step in enumerate(steps) if step in _FREE), None)
        found[".".join(steps[:ends])] = None
    return [path for path in found if path]


class ClusterUnreached(ApplypruneError):
    """The other cluster of a Bundle does not answer, or refuses the credentials."""

    kind = ProblemKind.UNREACHABLE


class ClusterChanged(ApplypruneError):
    """A Bundle leads to another cluster than the one that has its objects."""

    kind = ProblemKind.INVALID_SPEC


class NamespaceMissing(ApplypruneError):
    """The other cluster of a Bundle lacks the namespace of the inventory."""

    kind = ProblemKind.SOURCE_MISSING


class KubeConfigMissing(ApplypruneError):
    """The Secret with the kubeconfig does not exist, or lacks its key."""

    kind = ProblemKind.SOURCE_MISSING
