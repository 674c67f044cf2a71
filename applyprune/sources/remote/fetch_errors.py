"""Why a source on another host gives no manifests; each class is a reason of a Bundle.

A source that was not completely read, verified and decrypted changes nothing. No message contains
a credential, the query of a URL, or content of the source.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from applyprune.errors import InputError
from applyprune.model.problem import Problem, ProblemKind


class FetchFailed(InputError):
    """The source cannot be read now: its server, its address, or what the server sends is wrong."""

    kind = ProblemKind.FETCH_FAILED
    retryable: ClassVar[bool] = True


class AuthenticationFailed(InputError):
    """The server refuses the credentials, wants some, or is not the server that they are for."""

    kind = ProblemKind.AUTHENTICATION_FAILED


class VerificationFailed(InputError):
    """A digest or a signature is missing or wrong: what was read is not what is trusted."""

    kind = ProblemKind.VERIFICATION_FAILED


class PathNotFound(InputError):
    """The source was read, and has no such path, reference or version, or no content there."""

    kind = ProblemKind.PATH_NOT_FOUND


class SourceTooLarge(InputError):
    """The source exceeds a limit of size, of files or of references."""

    kind = ProblemKind.SOURCE_TOO_LARGE


class DecryptionFailed(InputError):
    """An encrypted file cannot be decrypted, or was edited after its encryption."""

    kind = ProblemKind.DECRYPTION_FAILED


_CLASSES: Mapping[ProblemKind, type[InputError]] = {
    one.kind: one
    for one in (
        FetchFailed,
        AuthenticationFailed,
        VerificationFailed,
        PathNotFound,
        SourceTooLarge,
        DecryptionFailed,
    )
}


def error_of(problem: Problem) -> InputError:
    """Return the error that a problem was made of, in another process."""
    kind = _CLASSES.get(problem.kind, InputError)
    return kind(
        problem.message, location=problem.location, reason=problem.reason, hint=problem.hint
    )
