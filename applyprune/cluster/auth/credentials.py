"""Our credentials: bearer tokens and client certificates, and how they are renewed."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from applyprune.clock import CLOCK, Clock
from applyprune.errors import AccessError
from applyprune.values import dataclass, field

if TYPE_CHECKING:
    from pathlib import Path

# As client-go: a projected service account token is rotated long before the old one ends.
FILE_MAX_AGE = 60.0
FAILURE_HOLDS = 5.0


@dataclass(frozen=True, slots=True)
class Identity:
    """The credentials of one request: a bearer token, a client certificate, both or neither.

    None of them may be shown.
    """

    token: str = field(default="", repr=False)
    certificate: bytes = field(default=b"", repr=False)
    """PEM."""
    key: bytes = field(default=b"", repr=False)
    """PEM."""


NOBODY = Identity()
"""No credentials."""


class Credentials(Protocol):
    """A source of identities; both methods are thread-safe and raise AccessError."""

    def current(self) -> Identity:
        """Return the identity to use now; this is cheap unless it must be renewed."""

    def renewed(self, refused: Identity) -> Identity:
        """Return the identity to use after a 401 for ``refused``; the same one means: give up."""


class FixedCredentials:
    """An identity that never changes: no credentials, a token, or an inline certificate."""

    def __init__(self, identity: Identity = NOBODY) -> None:
        """Keep the identity."""
        self._identity = identity

    def current(self) -> Identity:
        """Return the identity."""
        return self._identity

    def renewed(self, refused: Identity) -> Identity:  # noqa: ARG002 -- the Protocol's
        """Return the identity: there is no other."""
        return self._identity


@dataclass(frozen=True, slots=True)
class Issued:
    """An identity that a source has issued."""

    identity: Identity
    seconds: float = math.inf
    """How long it may be used."""


class RenewableCredentials:
    """Caches the identity from ``issue`` until it expires or is refused; thread-safe.

    ``issue`` runs at the first use, in one thread at a time. A failure is kept for five seconds, so
    that many threads do not fail one after the other.
    """

    def __init__(self, issue: Callable[[], Issued], clock: Clock = CLOCK) -> None:
        """Keep the source; it raises AccessError when it has no identity."""
        self._issue = issue
        self._clock = clock
        self._lock = threading.Lock()
        self._identity: Identity | None = None
        self._ends = 0.0
        self._failure: AccessError | None = None
        self._failure_ends = 0.0

    def __reduce__(self) -> tuple[type[RenewableCredentials], tuple[Callable[[], Issued]]]:
        """Pickle the source alone: another process gets an identity of its own."""
        return RenewableCredentials, (self._issue,)

    def current(self) -> Identity:
        """Return the identity, renewed if it has expired."""
        with self._lock:
            if self._identity is None or self._clock.now() >= self._ends:
                self._identity = self._renew()
            return self._identity

    def renewed(self, refused: Identity) -> Identity:
        """Renew the identity, unless it has been renewed since ``refused`` was in use."""
        with self._lock:
            if self._identity is None or self._identity == refused:
                self._identity = self._renew()
            return self._identity

    def _renew(self) -> Identity:
        if self._failure is not None and self._clock.now() < self._failure_ends:
            raise self._failure
        try:
            issued = self._issue()
        except AccessError as error:
            self._failure, self._failure_ends = error, self._clock.now() + FAILURE_HOLDS
            raise
        self._failure = None
        self._ends = self._clock.now() + issued.seconds
        return issued.identity


@dataclass(slots=True)
class CredentialFiles:
    """Files that are rotated by others: the token, the client certificate and its key.

    A readable token file takes precedence over the inline token, as in client-go.
    """

    token: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    fixed: Identity = NOBODY
    """The kubeconfig's inline values."""
    max_age: float = FILE_MAX_AGE
    """Seconds until the files are read again."""
    _last: Identity | None = field(default=None, init=False, repr=False)

    def issue(self) -> Issued:
        """Read the files; keep the last identity while one is missing, as between two renames."""
        try:
            self._last = self._read()
        except AccessError:
            if self._last is None:
                raise
        return Issued(self._last, self.max_age)

    def _read(self) -> Identity:
        fixed = self.fixed
        return Identity(
            token=_read_token(self.token, fixed.token) if self.token else fixed.token,
            certificate=read_file(self.certificate) if self.certificate else fixed.certificate,
            key=read_file(self.key) if self.key else fixed.key,
        )


def read_file(path: Path) -> bytes:
    """Return the bytes of a file that the connection needs; raises AccessError with its path."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise AccessError(
            "cannot read a file that the connection needs",
            location=str(path),
            reason=error.strerror or type(error).__name__,
        ) from None


def _read_token(path: Path, fallback: str) -> str:
    """Return the token of a file; the inline token when the file cannot be read."""
    try:
        token = read_file(path).decode("ascii", "replace")
    except AccessError:
        if fallback:
            return fallback
        raise
    token = checked_token(token, str(path)) or fallback
    if not token:
        raise AccessError("the token file is empty", location=str(path))
    return token


def checked_token(token: str, where: str) -> str:
    """Return the token, stripped; raises AccessError if it cannot be a header value."""
    token = token.strip()
    if any(not 0x21 <= ord(character) <= 0x7E for character in token):
        raise AccessError("the token contains invalid characters", location=where)
    return token
