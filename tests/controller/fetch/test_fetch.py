"""A check and a fetch: what is new gets into the cache, and what is not trusted does not."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from applyprune.controller.fetch import (
    RemoteSource,
    SourceCache,
    SourceVerification,
    check_source,
    fetch_source,
)
from applyprune.controller.task import CheckResult, CheckTask, FetchResult, FetchTask, SourceContent
from applyprune.model.problem import Problem, ProblemKind
from applyprune.sources.address import OciRef
from applyprune.sources.oci_artifact import OciSource, push
from applyprune.sources.tree import SourceCredentials, TreeLimits
from applyprune.values import replace
from tests.support.git_servers import HttpsSite, git_site
from tests.support.registries import Registry
from tests.support.signers import SshSigner
from tests.support.signing import Signer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


SECRET = bytes(32)
FILES = {"web/a.yaml": "a: 1", "api/b.yaml": "b: 1"}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[HttpsSite]:
    """A Git server."""
    with git_site(tmp_path / "site") as one:
        yield one


@pytest.fixture
def cache(tmp_path: Path) -> SourceCache:
    """An empty cache."""
    return SourceCache(tmp_path / "cache", 1 << 30)


def check(remote: RemoteSource, tip: bytes = b"") -> CheckResult:
    """Return what the reference means now."""
    found = check_source(CheckTask(pickle.dumps(remote), 30.0, tip))
    assert found.problem is None
    return found


def task_of(remote: RemoteSource, *paths: str, tip: bytes = b"") -> FetchTask:
    """Return the fetch of paths of which nothing is known, as a check has just found them."""
    known: Mapping[str, SourceContent | None] = dict.fromkeys(paths)
    found = tip or check(remote).tip
    return FetchTask(pickle.dumps(remote), remote.place(SECRET), 30.0, known, found)


def content(fetched: FetchResult, path: str) -> SourceContent:
    """Return the content of a path."""
    found = fetched.paths[path]
    assert isinstance(found, SourceContent), found
    return found


def kind(fetched: FetchResult, path: str = "") -> ProblemKind:
    """Return the kind of the problem of a path, or of the whole look."""
    found = fetched.paths[path] if path else fetched.problem
    assert isinstance(found, Problem)
    return found.kind


def test_each_path_has_its_own_content(site: HttpsSite, cache: SourceCache) -> None:
    """A commit changes the content of the path that it touches; what is known is left out."""
    repository = site.repository()
    first = repository.commit(FILES)
    remote = RemoteSource(site.source())
    task = task_of(remote, "web", "api")
    fetched = fetch_source(task, cache)
    web, api = content(fetched, "web"), content(fetched, "api")
    assert web.revision == api.revision == f"main@sha1:{first}"
    assert cache.read(web.artifact) == {"web/a.yaml": b"a: 1"}

    second = repository.commit({"web/a.yaml": "a: 2"})
    moved = check(remote, task.tip)
    assert moved.is_new
    task = replace(task, paths={"web": web, "api": api}, tip=moved.tip)
    fetched = fetch_source(task, cache)
    assert fetched.paths.keys() == {"web"}
    assert content(fetched, "web").revision == f"main@sha1:{second}"

    # Nothing new: the tip is the very same.
    site.requests.clear()
    assert check(remote, moved.tip) == CheckResult(moved.tip)
    service = "/web.git/info/refs?service=git-upload-pack"
    assert site.paths() == [f"GET {service}", "POST /web.git/git-upload-pack"]


def test_ignore_rules_above_a_path_change_its_content(
    site: HttpsSite, registry: Registry, cache: SourceCache
) -> None:
    """Of Git, and of what is read as a whole; a path does not exist because there are rules."""
    rules = {".sourceignore": "b.yaml", "web/.sourceignore": "c"}
    repository = site.repository()
    repository.commit(FILES)
    remote = RemoteSource(site.source())
    before = content(fetch_source(task_of(remote, "web"), cache), "web")
    repository.commit(rules)
    found = fetch_source(task_of(remote, "web", "none"), cache)
    after = content(found, "web")
    assert before.content != after.content
    expected = {".sourceignore", "web/.sourceignore", "web/a.yaml"}
    assert (cache.read(after.artifact) or {}).keys() == expected
    assert kind(found, "none") is ProblemKind.PATH_NOT_FOUND

    credentials = SourceCredentials(
        registry.username, registry.password, ca=registry.ca.read_bytes()
    )
    url = f"oci://{registry.host}/shop/ignored"

    def pushed(tag: str, files: Mapping[str, str]) -> FetchResult:
        data = {name: text.encode() for name, text in files.items()}
        push(OciSource(f"{url}:{tag}", credentials=credentials), data)
        source = RemoteSource(OciSource(url, OciRef(tag), credentials))
        return fetch_source(task_of(source, "web", "none"), cache)

    olds, news = pushed("1", FILES), pushed("2", {**FILES, **rules})
    assert content(olds, "web").content != content(news, "web").content
    assert (cache.read(content(news, "web").artifact) or {}).keys() == expected
    assert kind(news, "none") is ProblemKind.PATH_NOT_FOUND


def test_new_path_is_read_of_what_the_check_has_found(site: HttpsSite, cache: SourceCache) -> None:
    """Its content is that of the commit which the others have."""
    repository = site.repository()
    first = repository.commit(FILES)
    remote = RemoteSource(site.source())
    task = task_of(remote, "web")
    fetch_source(task, cache)
    repository.commit({"api/b.yaml": "b: 2"})
    fetched = fetch_source(replace(task, paths={"api": None}), cache)
    assert content(fetched, "api").revision == f"main@sha1:{first}"


@pytest.mark.holds("verified-commit")
def test_unsigned_commit_is_not_kept(site: HttpsSite, cache: SourceCache, tmp_path: Path) -> None:
    """Neither without a signature nor with that of another key."""
    repository = site.repository()
    trusted, other = (SshSigner(tmp_path / name) for name in ("trusted", "other"))
    commit = repository.commit(FILES)
    remote = RemoteSource(site.source(), SourceVerification("HEAD", {"a.sshpub": trusted.public()}))
    assert kind(fetch_source(task_of(remote, "web"), cache)) is ProblemKind.VERIFICATION_FAILED
    repository.sign(other.settings, commit)
    assert kind(fetch_source(task_of(remote, "web"), cache)) is ProblemKind.VERIFICATION_FAILED
    assert not cache.artifacts.exists()
    signed = repository.sign(trusted.settings, commit)
    fetched = fetch_source(task_of(remote, "web"), cache)
    assert content(fetched, "web").revision == f"main@sha1:{signed}"


@pytest.mark.holds("verified-artifact")
def test_unsigned_artifact_is_not_kept(registry: Registry, cache: SourceCache) -> None:
    """The same artifact is read where no signature is needed."""
    credentials = SourceCredentials(
        registry.username, registry.password, ca=registry.ca.read_bytes()
    )
    url = f"oci://{registry.host}/shop/unsigned"
    source = OciSource(url, OciRef("1.0.0"), credentials)
    files = {name: data.encode() for name, data in FILES.items()}
    digest = push(OciSource(f"{url}:1.0.0", credentials=credentials), files)
    key = Signer(ec.generate_private_key(ec.SECP256R1()))
    verified = RemoteSource(source, SourceVerification("cosign", {"a.pub": key.public}))
    assert kind(fetch_source(task_of(verified, "web"), cache)) is ProblemKind.VERIFICATION_FAILED
    assert not cache.artifacts.exists()
    fetched = fetch_source(task_of(RemoteSource(source), "web"), cache)
    assert content(fetched, "web").revision == f"1.0.0@{digest}"


def test_path_that_is_too_large_fails_no_other(site: HttpsSite, cache: SourceCache) -> None:
    """Whoever names it: the others of the same repository are served."""
    big = {f"big/{number}.yaml": f"n: {number}" for number in range(30)}
    site.repository().commit({**FILES, **big})
    source = site.source(limits=TreeLimits(files=10, size=1 << 20))
    fetched = fetch_source(task_of(RemoteSource(source), "web", "big", "api"), cache)
    assert content(fetched, "web").artifact != content(fetched, "api").artifact
    assert kind(fetched, "big") is ProblemKind.SOURCE_TOO_LARGE


def test_missing_path_fails_no_other(site: HttpsSite, cache: SourceCache) -> None:
    """Nor does a path with a link."""
    repository = site.repository()
    repository.commit({**FILES, "bad/a.yaml": "/etc/passwd"}, modes={"bad/a.yaml": "120000"})
    fetched = fetch_source(task_of(RemoteSource(site.source()), "web", "gone", "bad"), cache)
    assert cache.has(content(fetched, "web").artifact)
    assert kind(fetched, "gone") is ProblemKind.PATH_NOT_FOUND
    assert kind(fetched, "bad") is ProblemKind.FETCH_FAILED
