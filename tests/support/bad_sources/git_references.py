"""Git repositories whose references, or whose commits, become bad."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

from tests.support.bad_sources.bad_source import BadSource, Body, both, one
from tests.support.bad_sources.servers import INTERVAL, LOGIN, SIGNERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.bad_sources.servers import BadServers
    from tests.support.git_servers import Repository

_MOST = 50_000
"""How many references a repository may have."""
_RANGE = {"semver": "1.x"}
_BRANCH = {"branch": "main"}


def _reference(
    reason: str,
    says: str,
    spoil: Callable[[Repository, str], object],
    ref: dict[str, str] = _BRANCH,
    *,
    keeps: bool = True,
    **more: Any,
) -> BadSource:
    def begin(servers: BadServers, name: str) -> Body:
        repository = servers.git.repository(name)
        commit = repository.commit(both(name))
        repository.tag("1.0.0")
        if "verify" in more:
            repository.sign(servers.signer.settings, commit)
        url = servers.git.url(name)
        return {"git": {"url": url, "ref": ref, "interval": INTERVAL, "secretRef": LOGIN, **more}}

    def spoil_it(servers: BadServers, name: str) -> None:
        spoil(servers.git.repository_of(name), name)

    return BadSource(reason, says, begin, spoil_it, keeps=keeps)


def _empty(repository: Repository, _: str) -> None:
    shutil.rmtree(repository.folder)
    type(repository)(repository.folder)


def _fill(repository: Repository, _: str) -> None:
    oid = repository.oid("refs/heads/main")
    repository.write_refs({f"refs/tags/1.0.{number}": oid for number in range(_MOST + 1)})


REFERENCES: dict[str, BadSource] = {
    "no-branch": _reference(
        "PathNotFound",
        "no branch main",
        lambda repository, _: repository.delete_branch("main"),
    ),
    "no-version": _reference(
        "PathNotFound",
        "1.x",
        lambda repository, _: repository.git("tag", "--delete", "1.0.0"),
        _RANGE,
    ),
    "empty-repository": _reference("PathNotFound", "empty", _empty),
    "no-repository": _reference(
        "FetchFailed",
        "no such repository",
        lambda repository, _: shutil.rmtree(repository.folder),
    ),
    "force-push": _reference(
        "PruneRefused",
        "",
        lambda repository, name: repository.commit(
            {"x.yaml": one(f"{name}-x")["a.yaml"]}, keeps=False
        ),
        keeps=False,
    ),
    "unsigned": _reference(
        "VerificationFailed",
        "it has no signature",
        lambda repository, name: repository.commit(one(name), keeps=False),
        verify={"mode": "HEAD", "secretRef": SIGNERS},
    ),
    "many-references": _reference("SourceTooLarge", "50000", _fill, _RANGE),
}
