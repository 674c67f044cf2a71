"""Ask a server what a reference means now, in one request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.sources.git.git_ref import FoundRef
from applyprune.sources.git.program.deadline import Deadline
from applyprune.sources.git.program.git_program import GitProgram
from applyprune.sources.git.server.git_server import REMOTE, GitServer
from applyprune.sources.remote.fetch_errors import FetchFailed, PathNotFound
from applyprune.sources.remote.semver import best_version

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from applyprune.sources.git.git_source import GitSource

MOST_REFS = 50_000
"""How many references a server may name in one answer."""
_HEADS, _TAGS = "refs/heads/", "refs/tags/"
_PEELED = "^{}"
_OID = 40


def find_ref(source: GitSource, deadline: Deadline | None = None) -> FoundRef:
    """Return what the reference of a source means now; a commit needs no request.

    Raises PathNotFound if the server has no such reference, SourceTooLarge for more than MOST_REFS
    references, FetchFailed and AuthenticationFailed.
    """
    ref, where = source.ref, source.parts.shown
    if ref.commit:
        name = f"{_HEADS}{ref.branch}" if ref.branch else ""
        return FoundRef(name, ref.commit, ref.commit, ref.branch)
    deadline = deadline or Deadline(source.timeout)
    with GitProgram(where, deadline, source.limits.size) as program:
        out, _ = GitServer(program, source).run(
            *("ls-remote", "--quiet", "--symref"),
            *_asked(source),
            records=(b"\n", MOST_REFS),
        )
    refs, targets = _parse(out, where)
    if ref.semver and not ref.name:
        tags = [name.removeprefix(_TAGS) for name in refs if name.startswith(_TAGS)]
        best = best_version(ref.semver, (tag for tag in tags if not tag.endswith(_PEELED)))
        if best is None:
            raise PathNotFound(
                f"no tag of the repository is in the range {ref.semver}",
                location=where,
                hint="A tag must be a whole version, such as v1.2.3.",
            )
        name = f"{_TAGS}{best}"
    else:
        name = _name(source)
    oid = refs.get(name, "")
    if not oid:
        raise _absent(name, where, is_empty=not refs)
    found = targets.get(name, name)
    return FoundRef(
        "" if found == "HEAD" else found,
        oid,
        refs.get(f"{name}{_PEELED}", oid),
        ref.name or found.removeprefix(_HEADS).removeprefix(_TAGS),
    )


def _name(source: GitSource) -> str:
    ref = source.ref
    if ref.name:
        return ref.name
    if ref.tag:
        return f"{_TAGS}{ref.tag}"
    return f"{_HEADS}{ref.branch}" if ref.branch else "HEAD"


def _asked(source: GitSource) -> Sequence[str]:
    """Return the options and patterns that limit the answer: the server sends no other folder."""
    ref, name = source.ref, _name(source)
    if ref.semver and not ref.name:
        return ("--tags", REMOTE)
    for option, folder in (("--heads", _HEADS), ("--tags", _TAGS)):
        if name.startswith(folder):
            return (option, REMOTE, name, f"{name}{_PEELED}")
    return (REMOTE, name, f"{name}{_PEELED}")


def _parse(out: bytes, where: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the objects of the references, and what symbolic ones lead to, by name."""
    refs, targets = {}, {}
    for line in out.decode("utf-8", "surrogateescape").splitlines():
        value, _, name = line.partition("\t")
        if value.startswith("ref: "):
            targets[name] = value.removeprefix("ref: ")
        elif len(value) == _OID:
            refs[name] = value
        else:
            raise FetchFailed(
                "the repository cannot be read",
                location=where,
                reason="it uses SHA-256, and only SHA-1 is supported",
            )
    return refs, targets


def _absent(name: str, where: str, *, is_empty: bool) -> PathNotFound:
    kinds = {_HEADS: "branch", _TAGS: "tag"}
    for folder, kind in kinds.items():
        if name.startswith(folder):
            return PathNotFound(
                f"the repository has no {kind} {name.removeprefix(folder)}",
                location=where,
                hint="It may have been deleted or renamed, or the repository is empty.",
            )
    if name == "HEAD" and is_empty:
        return PathNotFound(
            "the repository has no HEAD",
            location=where,
            hint="It is empty, or its default branch does not exist: name a branch.",
        )
    return PathNotFound(f"the repository has no {name}", location=where)
