"""What every kind of source shares: its files, their text, its credentials, deadline and errors.

The files are values: there is no work tree in which a link could lead out of the source.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from msgspec import Struct, field

from applyprune.errors import InputError
from applyprune.model.problem import Origin, Problem, ProblemKind
from applyprune.model.text import visible
from applyprune.planning.names import closest
from applyprune.values import hiding, pattern

if TYPE_CHECKING:
    from applyprune.http import Patience


class FileTree(Struct, frozen=True):
    """The regular files of one source, with the version that they are of."""

    files: Mapping[str, bytes] = field(default_factory=lambda: MappingProxyType({}))
    """The content of each file, by its path: relative, with ``/``, without ``.`` and ``..``."""
    revision: str = ""
    """What was read, as ``status.lastAppliedRevision`` shows it: ``main@sha1:…``,
    ``1.4.0@sha256:…``."""
    ignored: Mapping[str, IgnoredFile] = field(default_factory=lambda: MappingProxyType({}))
    """The files that a rule leaves out, by their paths; they are not in ``files``."""

    __repr__ = hiding("files", "ignored")


class IgnoredFile(Struct, frozen=True):
    """A file of a source that is not read."""

    data: bytes
    rule: str
    """Why, to follow ``because of``: ``the rule *.yaml in .sourceignore``."""

    __repr__ = hiding("data")


class TreeLimits(Struct, frozen=True):
    """How much of one source is read; more is SourceTooLarge, and nothing of it is used."""

    files: int = 20_000
    size: int = 256 * 2**20
    """Bytes, for all files together."""
    transfer: int = 256 * 2**20
    """Bytes that are transferred; of a Git repository, that is a whole commit."""


def clean_path(path: str) -> str | None:
    """Return a path as a FileTree has it; None for one that could lead out of the tree.

    A folder may end with a slash; the root is empty.
    """
    path = path.removesuffix("/")
    if path in {"", "."}:
        return ""
    parts = path.removeprefix("./").split("/")
    is_safe = not any(part in {"", ".", ".."} for part in parts)
    return "/".join(parts) if is_safe and "\0" not in path else None


BUILT = " (kustomize)"
"""The end of the name of a build's output."""


class SourceText(Struct, frozen=True):
    """The bytes of one file, build or response."""

    path: str
    """The name, safe to print."""
    data: bytes


class IgnoredText(Struct, frozen=True):
    """The bytes of a file that an ignore rule leaves out."""

    path: str
    """The name, safe to print."""
    data: bytes
    rule: str
    """``the rule *.yaml in .sourceignore``."""

    __repr__ = hiding("data")


_URL = pattern(r"[A-Za-z][A-Za-z0-9+.-]+://")
MAX_BYTES = 256 * 2**20
"""How many bytes one call reads in total; 100,000 objects are about 30 MB."""


def too_much(path: str) -> InputError:
    """Return the error for a source that exceeds what is left of MAX_BYTES."""
    message = f"the input is larger than {MAX_BYTES // 2**20} MiB"
    return InputError(message, location=Origin(path), hint="Split it into several sets.")


def is_url(path: str) -> bool:
    """Return whether a path has a scheme, such as ``https://``."""
    return _URL.match(path) is not None


def shown_path(path: str) -> str:
    """Return a path that is safe to print: control characters and invalid bytes as escapes."""
    return visible(os.fsencode(path).decode("utf-8", "backslashreplace"))


# Credentials; the names in a Secret are those of Flux.


class SourceCredentials(Struct, frozen=True):
    """What is known about who reads a source, and about the server that may be trusted.

    Each field is empty if it is not given. No field is ever shown, logged, or put on a command
    line.
    """

    username: str = ""
    password: str = ""
    """For HTTPS; for SSH, the passphrase of ``identity``."""
    bearer_token: str = ""
    identity: bytes = b""
    """A private key for SSH."""
    known_hosts: bytes = b""
    """The host keys of an SSH server, as in ``known_hosts`` of OpenSSH."""
    ca: bytes = b""
    """Certificates, in PEM, of the only CAs that are trusted for the server; empty for those of the
    system."""
    certificate: bytes = b""
    """A client certificate for TLS, in PEM."""
    key: bytes = b""
    """The private key of ``certificate``, in PEM."""
    docker_config: bytes = b""
    """The content of ``.dockerconfigjson``: credentials for registries, by their host."""

    __repr__ = hiding(
        "username",
        "password",
        "bearer_token",
        "identity",
        "known_hosts",
        "ca",
        "certificate",
        "key",
        "docker_config",
    )


ANONYMOUS = SourceCredentials()


# One deadline for everything that is done for a source.


class Deadline:
    """The end of the time for one source."""

    __slots__ = ("_ends", "patience", "seconds")

    def __init__(self, seconds: float, patience: Patience | None = None) -> None:
        """Start the time; ``patience`` says what ends it before, if anything does."""
        self.seconds = seconds
        self.patience = patience
        self._ends = time.monotonic() + seconds

    def left(self, where: str) -> float:
        """Return the seconds left, more than zero; raise FetchFailed for ``where`` if none is.

        Raises Stopped if nobody wants the source any more.
        """
        if self.patience is not None:
            self.patience.check()
        left = self._ends - time.monotonic()
        if left <= 0:
            raise self.passed(where)
        return left

    def next_wait(self, where: str) -> float:
        """Return how long to wait before the next look at what is left; raises as ``left``."""
        left = self.left(where)
        return left if self.patience is None else self.patience.wait(left)

    def passed(self, where: str) -> FetchFailed:
        """Return the error for a deadline that has passed."""
        return FetchFailed(
            "the source was not read in time",
            location=where,
            reason=f"the limit is {self.seconds:.3g} s",
            hint="Check the server and the network, or raise the timeout of the source.",
        )


# Why a source gives no manifests; each class is a reason of a Bundle.
#
# A source that was not completely read, verified and decrypted changes nothing. No message contains
# a credential, the query of a URL, or content of the source.


class FetchFailed(InputError):
    """The source cannot be read now: its server, its address, or what the server sends is wrong."""

    kind = ProblemKind.FETCH_FAILED
    retryable: ClassVar[bool] = True


class AuthenticationFailed(InputError):
    """The server refuses the credentials, needs some, or is not the server that they are for."""

    kind = ProblemKind.AUTHENTICATION_FAILED


class VerificationFailed(InputError):
    """A digest or a signature is missing or wrong: what was read is not what is trusted."""

    kind = ProblemKind.VERIFICATION_FAILED


class PathNotFound(InputError):
    """The source was read, and has no such path, reference or version, or no content there."""

    kind = ProblemKind.PATH_NOT_FOUND


def no_such_path(path: str, known: Iterable[str], where: Origin | str) -> PathNotFound:
    """Return the error for a path that a source lacks, with the most similar one it has.

    ``known`` are the paths of its files. Only what lies beside the missing part is compared.
    """
    above, inside = "", list(known)
    for part in path.split("/"):
        beside = {name.partition("/")[0] for name in inside}
        if part not in beside:
            near = closest(part, sorted(beside))
            break
        inside = [name.removeprefix(f"{part}/") for name in inside if name.startswith(f"{part}/")]
        above = f"{above}{part}/"
    else:
        near = ""
    meant = f"Did you mean {shown_path(f'{above}{near}')}?" if near else ""
    return PathNotFound(
        f"the source has no path {shown_path(path)}",
        location=where,
        hint=meant or "Check the spelling. Paths are case-sensitive.",
        remedy=meant,
    )


class SourceTooLarge(InputError):
    """The source exceeds a limit of size, of files or of references."""

    kind = ProblemKind.SOURCE_TOO_LARGE


class DecryptionFailed(InputError):
    """An encrypted file cannot be decrypted, or was edited after its encryption."""

    kind = ProblemKind.DECRYPTION_FAILED


def error_of(problem: Problem) -> InputError:
    """Return the error that a problem was made of, in another process."""
    error = _CLASSES.get(problem.kind, InputError)(problem.message)
    error.problem = problem
    return error


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
