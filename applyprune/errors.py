"""The error classes. Each class defines its exit code and whether a retry can help.

ApplypruneError
├── UsageError                 2    the call is invalid
│   ├── OwnedByBundle          2    the set belongs to a Bundle, or to another Bundle
│   ├── NoSuchSet              2    there is no such set
│   ├── NoSuchNamespace        2    there is no such namespace
│   └── InputError             2    a manifest or its file is invalid; names file and line
│       ├── EmptyInput         2    the input contains no manifest
│       └── InputErrors        2    several of these at once
├── RunFailed                  3    at least one object could not be applied or deleted
│   ├── ConflictsFound         4    the only failures are field conflicts
│   ├── DryRunUnsupported      3    a server may not support dry runs; none was sent
│   └── NotReady               5    not ready or not deleted before the timeout
├── Declined                   1    the user answered a question with no
├── PruneRefused               6    a guard blocked the prune; nothing was deleted
├── NotApproved                6    the plan, or its deletions, must be approved first
├── AccessError                7    no server, or no permission to use it
│   ├── InvalidKubeConfig      7    a kubeconfig that cannot be used
│   ├── Unreachable            7    no answer, or the server is not an API server
│   │   └── ReplyTooLarge      7    a reply is longer than its request allows
│   └── ApiError               7    the API server answered with an error
│       ├── Unauthorized       7    401
│       ├── Forbidden          7    403: permissions, quota, a terminating namespace
│       ├── NotFound           7    404 with a Status that names the object: proves its absence
│       ├── NotServed          7    any other 404: it does not prove that the object is absent
│       ├── Conflict           7    409: a precondition failed, or another manager owns fields
│       ├── AlreadyExists      7    409 for a create
│       ├── Expired            7    410: an expired continue token
│       ├── Invalid            7    400, 413, 422, and schema errors sent as 500
│       └── Unavailable        7    429, 5xx, and invalid responses
├── InventoryError             3    the inventory cannot be read, or is invalid
│   ├── InventoryIncomplete    6    parts of it are missing: nothing is applied or pruned
│   ├── ForeignParent          3    the ConfigMap belongs to another tool, or to another set
│   └── InventoryTooNew        3    another version of applyprune has written it
├── InventoryLocked            8    another run holds the inventory or changed it
├── PlanOutdated               8    a plan file no longer fits, or has expired; nothing is written
└── Interrupted                130/143
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from applyprune.model.inventory import HolderObservation
from applyprune.model.problem import MOST_ERRORS, Field, Mark, Origin, Problem, ProblemKind
from applyprune.model.text import counted
from applyprune.values import replace


class ApplypruneError(Exception):
    """An error that ends a run or fails an object, worded for the person who must act.

    ``problem`` has all its parts. ``message`` is what happened, ``location`` the place (file and
    line, or a ref), ``reason`` the reason, and ``hint`` is what to do.
    """

    kind: ClassVar[ProblemKind] = ProblemKind.ERROR
    exit_code: int = 3
    retryable: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        location: Origin | str = "",
        reason: str = "",
        lasting_reason: str = "",
        hint: str = "",
        remedy: str = "",
        field: Field = (),
        marks: Sequence[Mark] = (),
    ) -> None:
        """Word the problem; no part may contain a Secret's value.

        ``field`` is the field of the object at ``location``; ``marks`` are all fields, if several.
        ``remedy`` is the hint that a Bundle shows.
        """
        super().__init__(message)
        self.problem = Problem(
            kind=self.kind,
            message=message,
            location=str(location),
            reason=reason,
            hint=hint,
            exit_code=self.exit_code,
            origin=None if isinstance(location, str) else location,
            field=field or (marks[0].field if marks else ()),
            marks=tuple(marks) if len(marks) > 1 else (),
            lasting_reason=lasting_reason,
            remedy=remedy,
        )

    @property
    def message(self) -> str:
        """Return what happened."""
        return self.problem.message

    @property
    def location(self) -> str:
        """Return the place: a file and line, or a ref; empty if there is none."""
        return self.problem.location

    @property
    def reason(self) -> str:
        """Return why it happened; empty if that is unknown."""
        return self.problem.reason

    @property
    def hint(self) -> str:
        """Return what to do about it; empty if nothing helps."""
        return self.problem.hint

    def problem_at(self, where: Origin | str) -> Problem:
        """Return the problem, at ``where`` if it names no place."""
        if self.location:
            return self.problem
        origin = self.problem.origin or (None if isinstance(where, str) else where)
        return replace(self.problem, location=str(where), origin=origin)

    def __str__(self) -> str:
        """Return the problem as text."""
        return str(self.problem)


class UsageError(ApplypruneError):
    """The call is invalid: an option, a name, or a combination of options."""

    kind = ProblemKind.USAGE_ERROR
    exit_code = 2


class OwnedByBundle(UsageError):
    """The set belongs to a Bundle, and the caller is not that Bundle; nothing was written."""

    kind = ProblemKind.OWNED_BY_BUNDLE


class NoSuchSet(UsageError):
    """There is no set with this name in this namespace."""

    kind = ProblemKind.USAGE_ERROR


class NoSuchNamespace(UsageError):
    """The namespace of the call does not exist."""

    kind = ProblemKind.USAGE_ERROR


class InputError(UsageError):
    """A manifest or its file is invalid; ``location`` names the file."""

    kind = ProblemKind.INPUT_ERROR


class EmptyInput(InputError):
    """The input contains no manifest."""

    kind = ProblemKind.EMPTY_INPUT


class InputErrors(InputError):
    """All errors that were found in the input, and another one that ended the run as well."""

    kind = ProblemKind.INPUT_ERROR

    def __init__(self, errors: Sequence[ApplypruneError]) -> None:
        """Combine at least one error, in the order of the input."""
        super().__init__(f"{len(errors)} errors in the input")
        self.errors = tuple(errors)

    def __str__(self) -> str:
        """Return every error, each on its own lines."""
        return "\n".join(str(error) for error in self.errors)


class RunFailed(ApplypruneError):
    """At least one object could not be applied or deleted; an event has named each object."""

    kind = ProblemKind.RUN_FAILED


class ConflictsFound(RunFailed):
    """Objects failed, and every failure is a conflict with another field manager."""

    kind = ProblemKind.CONFLICTS_FOUND
    exit_code = 4


class DryRunUnsupported(RunFailed):
    """Nothing says that the server of an object supports dry runs; none was sent."""

    kind = ProblemKind.RUN_FAILED


class NotReady(RunFailed):
    """An object was not ready or not deleted before the timeout."""

    kind = ProblemKind.NOT_READY
    exit_code = 5


class PruneRefused(ApplypruneError):
    """A guard blocked the prune; nothing was deleted."""

    kind = ProblemKind.PRUNE_REFUSED
    exit_code = 6


class NotApproved(ApplypruneError):
    """The plan, or its deletions, must be approved first; that part was not done."""

    kind = ProblemKind.NOT_APPROVED
    exit_code = 6


class Declined(ApplypruneError):
    """The user answered a question with no; nothing of what it asked about was changed."""

    kind = ProblemKind.DECLINED
    exit_code = 1


class AccessError(ApplypruneError):
    """There is no server, or no permission to use it."""

    kind = ProblemKind.ACCESS_ERROR
    exit_code = 7


class InvalidKubeConfig(AccessError):
    """A kubeconfig that cannot be used; it has no value of the kubeconfig."""

    kind = ProblemKind.INVALID_SPEC


class Unreachable(AccessError):
    """There was no answer, or the server is not an API server."""

    kind = ProblemKind.UNREACHABLE
    retryable = True


class ReplyTooLarge(Unreachable):
    """A reply is longer than its request allows."""

    kind = ProblemKind.UNREACHABLE


class ApiError(AccessError):
    """The API server answered with an error.

    ``code`` is the HTTP status. ``status_reason`` and ``causes`` (``reason`` → message pairs) come
    from the Status body; they are empty without a Status. ``retry_after`` is in seconds.
    """

    kind = ProblemKind.API_ERROR

    def __init__(
        self,
        message: str,
        *,
        code: int,
        status_reason: str = "",
        causes: Sequence[Mapping[str, str]] = (),
        retry_after: float | None = None,
        location: Origin | str = "",
        reason: str = "",
        hint: str = "",
    ) -> None:
        """Store the facts of the response; ``message`` is the server's message, safe to print."""
        super().__init__(message, location=location, reason=reason, hint=hint)
        self.code = code
        self.status_reason = status_reason
        self.causes = tuple(causes)
        self.retry_after = retry_after

    @property
    def is_refusal(self) -> bool:
        """Return whether the server has certainly not done what was asked.

        A failed precondition is none: the request may have been sent again after a lost reply.
        """
        return isinstance(self, Invalid | Forbidden) or (
            isinstance(self, Conflict) and bool(self.causes)
        )


class Unauthorized(ApiError):
    """401: the credentials are missing, wrong or expired."""

    kind = ProblemKind.UNAUTHORIZED


class Forbidden(ApiError):
    """403: permissions, a quota or a terminating namespace; see ``causes``."""

    kind = ProblemKind.FORBIDDEN


class Denied(Forbidden):
    """An admission webhook or policy has denied the request, by whatever code; no right is missing.

    A ValidatingAdmissionPolicy answers 422 by default, and a webhook chooses its code.
    """

    kind = ProblemKind.DENIED


class NotFound(ApiError):
    """404 with a Status that names the requested object: the only proof of absence."""

    kind = ProblemKind.NOT_FOUND


class NotServed(ApiError):
    """Any other 404 (a text page, a Status about something else): the state is unknown."""

    kind = ProblemKind.NOT_SERVED


class Conflict(ApiError):
    """409: a precondition failed, or another manager owns a field."""

    kind = ProblemKind.CONFLICT


class AlreadyExists(ApiError):
    """409 for a create: the name is taken."""

    kind = ProblemKind.ALREADY_EXISTS


class Expired(ApiError):
    """410: a continue token or a watch expired; start again."""

    kind = ProblemKind.EXPIRED


class Invalid(ApiError):
    """The server rejects the content: 400, 413, 422, or a schema error sent as 500."""

    kind = ProblemKind.INVALID


class Unavailable(ApiError):
    """429, 502 to 504, a transient 500, or an invalid response."""

    kind = ProblemKind.UNAVAILABLE
    retryable = True


class InventoryError(ApplypruneError):
    """The inventory cannot be read or is invalid: it never counts as empty; nothing is pruned."""

    kind = ProblemKind.INVENTORY_ERROR


class InventoryIncomplete(InventoryError):
    """Shards of the inventory are missing or invalid: this is a guard, so the exit code is 6."""

    kind = ProblemKind.INVENTORY_INCOMPLETE
    exit_code = 6


class ForeignParent(InventoryError):
    """The ConfigMap is not this set's inventory, so not even a repair may overwrite it."""

    kind = ProblemKind.INVENTORY_ERROR


class InventoryTooNew(InventoryError):
    """This version does not know the inventory's format, so it must not overwrite it."""

    kind = ProblemKind.INVENTORY_TOO_NEW


class InventoryLocked(ApplypruneError):
    """Another run holds the inventory lock, or has changed the inventory since this run read it."""

    kind = ProblemKind.INVENTORY_LOCKED
    exit_code = 8
    observation: HolderObservation | None = None
    """What this run has seen of the holder; None if it has lost a race instead."""


class PlanOutdated(ApplypruneError):
    """The plan no longer fits the input or the cluster, or it has expired; nothing was written."""

    kind = ProblemKind.PLAN_OUTDATED
    exit_code = 8


class Interrupted(ApplypruneError):
    """A signal or a cancellation ended the run, after the requests in flight were recorded."""

    kind = ProblemKind.INTERRUPTED

    def __init__(
        self,
        signal_number: int,
        *,
        is_unchanged: bool = False,
        left: int = 0,
        again: str = "Run the same command again to continue.",
    ) -> None:
        """Set the exit code to 128 plus the signal's number.

        ``is_unchanged`` says that the run has not written anything, ``left`` how many objects it
        would still have changed, and ``again`` how to continue.
        """
        self.signal_number = signal_number
        self.exit_code = 128 + signal_number
        reason = counted(left, "object", "is", "are") + " left" if left else ""
        super().__init__(
            "interrupted",
            reason="nothing was changed" if is_unchanged else reason,
            hint="" if is_unchanged else again,
        )


def raise_all(errors: Sequence[ApplypruneError]) -> None:
    """Raise a single error as it is, several as InputErrors; return if there is none.

    Of very many, only the first are raised.
    """
    if len(errors) > MOST_ERRORS + 1:
        more = f"there are {len(errors) - MOST_ERRORS} more errors"
        errors = [*errors[:MOST_ERRORS], InputError(more, hint="Correct these first.")]
    if errors:
        raise errors[0] if len(errors) == 1 else InputErrors(errors)


def problems_of(error: ApplypruneError) -> tuple[Problem, ...]:
    """Return the Problem of the error, or those of all errors that it combines."""
    errors = error.errors if isinstance(error, InputErrors) else (error,)
    return tuple(one.problem for one in errors)
