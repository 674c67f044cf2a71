"""A Git repository as the source of manifests."""

from __future__ import annotations

from applyprune.errors import UsageError
from applyprune.http import AddressRules
from applyprune.sources.git.git_ref import GitRef
from applyprune.sources.git.git_url import GitUrl, parse_git_url
from applyprune.sources.remote.file_tree import TreeLimits
from applyprune.sources.remote.source_credentials import ANONYMOUS, Credentials
from applyprune.values import dataclass, field

HEAD = GitRef()
"""What the server itself checks out."""
LIMITS = TreeLimits()
TIMEOUT = 60.0
"""Seconds for one check of a reference, and for one fetch."""


@dataclass(frozen=True, slots=True)
class GitSource:
    """A repository, what is followed in it, and how it may be reached.

    Raises UsageError for a URL that is not supported.
    """

    url: str = field(repr=False)
    ref: GitRef = HEAD
    credentials: Credentials = ANONYMOUS
    timeout: float = TIMEOUT
    addresses: AddressRules | None = None
    """Which addresses the URL may lead to; None for all: then the caller has chosen the URL."""
    uses_own: bool = False
    """Whether the user's own ssh settings, keys and credential helpers are used where
    ``credentials`` are empty. Only a command of that user may do so."""
    limits: TreeLimits = LIMITS

    def __post_init__(self) -> None:
        """Check the URL."""
        found = parse_git_url(self.url)
        has_login = bool(found.password) or (found.scheme == "https" and bool(found.user))
        if has_login and not self.uses_own:
            raise UsageError(
                "the URL of the repository contains credentials",
                hint="Put username and password into the Secret of the source.",
            )

    @property
    def parts(self) -> GitUrl:
        """The parts of the URL."""
        return parse_git_url(self.url)
