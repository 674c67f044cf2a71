"""What a source follows: a branch, a tag, a range of versions, a reference or a commit."""

from __future__ import annotations

from applyprune.errors import UsageError
from applyprune.sources.remote.semver import check_range
from applyprune.sources.source import shown_path
from applyprune.values import dataclass, pattern

# What git itself forbids, and a dash at the beginning, which could be an option.
_FORBIDDEN = pattern(r"^[-/.]|[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(?:/|$)|[/.]$|^@$|^$")
_COMMIT = pattern(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class GitRef:
    """The reference of a source; each field is empty if it is not given, as in Flux.

    The first of commit, name, semver, tag and branch decides; without any it is the remote's HEAD.
    Raises UsageError for a value that git does not allow.
    """

    branch: str = ""
    tag: str = ""
    semver: str = ""
    """A range of versions, matched against the tags."""
    name: str = ""
    """A whole name, such as refs/pull/1/head."""
    commit: str = ""
    """An object ID in full; ``branch`` may name the branch that it is on."""

    def __post_init__(self) -> None:
        """Check the fields."""
        for what, value in (("branch", self.branch), ("tag", self.tag), ("name", self.name)):
            if value and (_FORBIDDEN.search(value) or not value.isprintable()):
                raise UsageError(f"invalid {what} of the source: {shown_path(value[:100])}")
        if self.name and not self.name.startswith("refs/"):
            raise UsageError(
                "invalid name of the source's reference: it does not begin with refs/",
                hint="For example: refs/heads/main",
            )
        if self.commit and not _COMMIT.fullmatch(self.commit):
            raise UsageError(
                "invalid commit of the source", hint="Give all 40 digits, in lower case."
            )
        if self.semver:
            check_range(self.semver)


@dataclass(frozen=True, slots=True)
class FoundRef:
    """What a reference meant on the server at one moment."""

    name: str
    """The whole name, such as refs/heads/main; empty for a commit that was given alone."""
    oid: str
    """The object that it names: a commit or an annotated tag."""
    commit: str
    shown: str = ""
    """The name in a revision, such as main; as Flux writes it."""

    @property
    def revision(self) -> str:
        """The revision, as ``status.lastAppliedRevision`` shows it: ``main@sha1:…``."""
        at = f"{self.shown}@" if self.shown else ""
        return f"{at}sha1:{self.commit}"
