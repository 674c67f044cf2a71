"""What a reference means on a real server, in one request."""

from __future__ import annotations

import pytest

from applyprune.sources.address import FoundRef, GitRef
from applyprune.sources.git_server import MOST_REFS, find_ref
from applyprune.sources.tree import FetchFailed, PathNotFound, SourceTooLarge
from tests.support.git_servers import HttpsSite

FILES = {"a.yaml": "a: 1\n"}


def test_each_kind_of_reference_is_found(site: HttpsSite) -> None:
    repository = site.repository()
    first = repository.commit(FILES)
    repository.tag("v1.0.0", first)
    noted = repository.tag("v1.1.0", first, annotated=True)
    repository.tag("v2.0.0-rc.1", first)
    second = repository.commit({"b.yaml": ""})
    third = repository.commit({"c.yaml": ""}, "feature/x")
    repository.git("update-ref", "refs/pull/7/head", third)

    def found(**fields: str) -> FoundRef:
        return find_ref(site.source(ref=GitRef(**fields)))

    assert found() == FoundRef("refs/heads/main", second, second, "main")
    assert found(branch="main").revision == f"main@sha1:{second}"
    assert found(branch="feature/x").revision == f"feature/x@sha1:{third}"
    assert found(tag="v1.0.0") == FoundRef("refs/tags/v1.0.0", first, first, "v1.0.0")
    assert found(tag="v1.1.0") == FoundRef("refs/tags/v1.1.0", noted, first, "v1.1.0")
    assert found(semver="1.x", tag="v1.0.0", branch="main").commit == first
    assert found(semver="1.x").name == "refs/tags/v1.1.0"
    assert found(semver=">=1.0.0-0").name == "refs/tags/v2.0.0-rc.1"
    assert found(name="refs/pull/7/head", semver="1.x").revision == f"refs/pull/7/head@sha1:{third}"
    assert found(name="refs/heads/main").shown == "refs/heads/main"


def test_lookup_is_two_requests_and_a_commit_needs_no_request(site: HttpsSite) -> None:
    """HTTP needs one more, for what the server can do."""
    commit = site.repository().commit(FILES)
    find_ref(site.source())
    assert site.paths() == [
        "GET /web.git/info/refs?service=git-upload-pack",
        "POST /web.git/git-upload-pack",
    ]
    pinned = find_ref(site.source(ref=GitRef(branch="main", commit=commit)))
    assert pinned.revision == f"main@sha1:{commit}"
    assert find_ref(site.source(ref=GitRef(commit=commit))).revision == f"sha1:{commit}"
    assert len(site.requests) == 2


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"branch": "none"}, "has no branch none"),
        ({"tag": "main"}, "has no tag main"),
        ({"name": "refs/main"}, "has no refs/main"),
        ({"semver": "^7"}, r"no tag .* in the range \^7"),
    ],
)
def test_missing_reference_is_not_found(
    site: HttpsSite, fields: dict[str, str], message: str
) -> None:
    """Also where another one ends with the same name."""
    repository = site.repository()
    commit = repository.commit(FILES, "x/none")
    repository.commit(FILES)
    repository.git("update-ref", "refs/x/refs/main", commit)
    with pytest.raises(PathNotFound, match=message):
        find_ref(site.source(ref=GitRef(**fields)))


@pytest.mark.parametrize("ref", [GitRef(), GitRef(branch="main"), GitRef(semver="*")])
def test_empty_repository_has_no_reference(site: HttpsSite, ref: GitRef) -> None:
    site.repository()
    with pytest.raises(PathNotFound):
        find_ref(site.source(ref=ref))


def test_deleted_branch_is_not_found(site: HttpsSite) -> None:
    repository = site.repository()
    repository.commit(FILES)
    find_ref(site.source())
    repository.delete_branch("main")
    with pytest.raises(PathNotFound, match="has no branch main"):
        find_ref(site.source())


def test_many_references_cost_little_or_are_too_many(site: HttpsSite) -> None:
    """One of 100,000 branches is found; a range would need all tags."""
    repository = site.repository()
    commit = repository.commit(FILES)
    repository.write_refs(
        {
            f"refs/{kind}/v1.0.{number}": commit
            for number in range(100_000)
            for kind in ("heads", "tags")
        }
    )
    assert find_ref(site.source(ref=GitRef(branch="v1.0.7"))).commit == commit
    with pytest.raises(SourceTooLarge, match=f"more than {MOST_REFS} entries"):
        find_ref(site.source(ref=GitRef(semver="1.x")))


def test_repository_of_another_format_is_reported(site: HttpsSite) -> None:
    folder = site.folder / "new.git"
    repository = site.repository()
    repository.git("init", "--quiet", "--bare", "--object-format=sha256", str(folder))
    tree = repository.git("-C", str(folder), "hash-object", "-t", "tree", "-w", "--stdin")
    commit = repository.git("-C", str(folder), "commit-tree", "-m", "x", tree)
    repository.git("-C", str(folder), "update-ref", "refs/heads/main", commit)
    with pytest.raises(FetchFailed, match="SHA-256"):
        find_ref(site.source("new"))
