"""The one tree of errors. Exit code and retryability are facts of the class.

ApplypruneError
├── UsageError                 2    the call itself is wrong
│   ├── OwnedByBundle          2    the set belongs to a Bundle, or to another one
│   └── InputError             2    a manifest or its file is wrong; says file and line
│       └── EmptyInput         2    there is no manifest in the input
├── RunFailed                  3    at least one object could not be applied or deleted
│   ├── ConflictsFound         4    the only failures are field conflicts
│   └── NotReady               5    not ready in time
├── PruneRefused               6    a guard refused the prune; nothing was deleted
├── AccessError                7    no server, or no right to use it
│   ├── Unreachable            7    nothing answered, or what answered is no API server
│   └── ApiError               7    the API server answered with an error
│       ├── Unauthorized       7    401
│       ├── Forbidden          7    403: rights, quota, a terminating namespace
│       ├── NotFound           7    404 by a Status that names the object: the one proof of absence
│       ├── NotServed          7    404 by anything else: says nothing about the object
│       ├── Conflict           7    409: a precondition, or another manager's fields
│       ├── AlreadyExists      7    409 of a create
│       ├── Expired            7    410: a continue token that ran out
│       ├── Invalid            7    400, 413, 422 and schema errors that come as a 500
│       └── Unavailable        7    429, 5xx and replies that cannot be believed
├── InventoryError             3    the inventory cannot be read, or does not fit
│   ├── InventoryIncomplete    6    a part of it is missing: nothing is applied or pruned
│   └── InventoryTooNew        3    another version of applyprune has written it
├── LostRace                   8    another run holds the inventory or changed it
└── Interrupted                130/143
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from applyprune.model.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from applyprune.model.manifests import Origin
    from applyprune.model.problems import Field, Mark


class ApplypruneError(Exception):
    """Anything that ends a run or fails an object, worded for the person who must act.

    ``what`` happened, ``where`` (file and line, or a ref), ``why``, and what to do (``hint``).
    """

    exit_code: int = 3
    retryable: ClassVar[bool] = False

    def __init__(
        self,
        what: str,
        *,
        where: Origin | str = "",
        why: str = "",
        hint: str = "",
        field: Field = (),
        marks: Sequence[Mark] = (),
    ) -> None:
        """Keep the parts; none may hold a Secret's value.

        ``field`` is what of the object at ``where`` it is about, and ``marks`` are all the fields
        where there are more.
        """
        super().__init__(what)
        self.what = what
        self.where = str(where)
        self.origin = None if isinstance(where, str) else where
        self.why = why
        self.hint = hint
        self.marks = tuple(marks) if len(marks) > 1 else ()
        self.field = field or (marks[0].field if marks else ())
        self.excerpt = ""

    def __str__(self) -> str:
        """Return what the error is as a value, as text."""
        return str(as_problem(self))


class UsageError(ApplypruneError):
    """The call is wrong: an option, a name, a combination of them."""

    exit_code = 2


class OwnedByBundle(UsageError):
    """The set belongs to a Bundle, and whoever asks is not that one; nothing was written."""


class InputError(UsageError):
    """A manifest, or the file that holds it, cannot be used; ``where`` says which."""


class EmptyInput(InputError):
    """The input holds no manifest at all."""


class InputErrors(InputError):
    """Several input errors, all of those that one pass over the input found."""

    def __init__(self, errors: Sequence[InputError]) -> None:
        """Take at least one error; the order is the reader's."""
        super().__init__(f"{len(errors)} errors in the input")
        self.errors = tuple(errors)

    def __str__(self) -> str:
        """Return every error, one after the other."""
        return "\n".join(str(error) for error in self.errors)


class RunFailed(ApplypruneError):
    """At least one object could not be applied or deleted; events have named each."""


class ConflictsFound(RunFailed):
    """Objects failed, and every failure is a conflict with another field manager."""

    exit_code = 4


class NotReady(RunFailed):
    """Something did not become ready, or was not gone, in time."""

    exit_code = 5


class PruneRefused(ApplypruneError):
    """A guard refused to prune; nothing was deleted."""

    exit_code = 6


class AccessError(ApplypruneError):
    """There is no server to talk to, or no right to do so."""

    exit_code = 7


class Unreachable(AccessError):
    """Nothing answered, or what answered is not an API server."""

    retryable = True


class ApiError(AccessError):
    """The API server answered with an error.

    ``code`` is the HTTP status, ``reason`` and ``causes`` (``reason`` → message pairs) are those of
    the Status body and empty where there was none. ``retry_after`` is in seconds.
    """

    def __init__(
        self,
        what: str,
        *,
        code: int,
        reason: str = "",
        causes: Sequence[Mapping[str, str]] = (),
        retry_after: float | None = None,
        where: Origin | str = "",
        why: str = "",
        hint: str = "",
    ) -> None:
        """Keep the facts of the reply; ``what`` is the server's message, made safe to show."""
        super().__init__(what, where=where, why=why, hint=hint)
        self.code = code
        self.reason = reason
        self.causes = tuple(causes)
        self.retry_after = retry_after


class Unauthorized(ApiError):
    """401: the credentials are missing, wrong or expired."""


class Forbidden(ApiError):
    """403: rights, a quota, a terminating namespace or admission; ``causes`` tell them apart."""


class NotFound(ApiError):
    """404 by a Status that names the very object asked for: the one proof of absence."""


class NotServed(ApiError):
    """404 by anything else (a text page, a Status about something else): the state is unknown."""


class Conflict(ApiError):
    """409: a precondition did not hold, or another manager owns a field."""


class AlreadyExists(ApiError):
    """409 of a create: the name is taken."""


class Expired(ApiError):
    """410: a continue token or a watch ran out; begin again from the start."""


class Invalid(ApiError):
    """The server refuses the content: 400, 413, 422, or a schema error that comes as a 500."""


class Unavailable(ApiError):
    """429, 502 to 504, a transient 500, or a reply that cannot be believed."""

    retryable = True


class InventoryError(ApplypruneError):
    """The inventory cannot be read or does not fit: never taken for empty, nothing is pruned."""


class InventoryIncomplete(InventoryError):
    """Shards of the inventory are missing or not what they should be: a guard, so exit code 6."""

    exit_code = 6


class InventoryTooNew(InventoryError):
    """The inventory has a format that this version does not know: nobody may write over it."""


class LostRace(ApplypruneError):
    """Another run holds the inventory, or has changed it since this one read it."""

    exit_code = 8


class Interrupted(ApplypruneError):
    """A signal ended the run after what was in flight was finished and recorded."""

    def __init__(self, signal_number: int) -> None:
        """Take the signal's number; the exit code is 128 plus it."""
        super().__init__("interrupted", hint="Run it again: the next run goes on from here.")
        self.exit_code = 128 + signal_number


def as_problem(error: ApplypruneError, *, where: Origin | str = "") -> Problem:
    """Return the error as a value; ``where`` stands in where the error names no place."""
    origin = error.origin or (None if error.where or isinstance(where, str) else where)
    return Problem(
        kind=type(error).__name__,
        what=error.what,
        where=error.where or str(where),
        why=error.why,
        hint=error.hint,
        exit_code=error.exit_code,
        origin=origin,
        field=error.field,
        excerpt=error.excerpt,
        marks=error.marks,
    )


def raise_all(errors: Sequence[InputError]) -> None:
    """Raise the one error, or InputErrors with all of them; return when there is none."""
    if errors:
        raise errors[0] if len(errors) == 1 else InputErrors(errors)


def problems_of(error: ApplypruneError) -> tuple[Problem, ...]:
    """Return the error as values: more than one when it holds several."""
    return tuple(map(as_problem, error.errors if isinstance(error, InputErrors) else (error,)))
