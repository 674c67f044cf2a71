"""A check and a fetch: what is new gets into the cache, whole, and what is not trusted does not."""

from __future__ import annotations

import os
import pickle
import resource
import subprocess
import sys
from pathlib import Path
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
from applyprune.controller.sources import decrypted
from applyprune.controller.task import CheckResult, CheckTask, FetchResult, FetchTask, SourceContent
from applyprune.model.problem import Problem, ProblemKind
from applyprune.sources.address import OciRef
from applyprune.sources.oci_artifact import OciSource, push
from applyprune.sources.tree import DecryptionFailed, FetchFailed, SourceCredentials, TreeLimits
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


ARTIFACT = {"web/a.yaml": b"a: 1\n", "web/b.yaml": b"", "c.yaml": b"\xff\x00"}


@pytest.fixture
def small(tmp_path: Path) -> SourceCache:
    """An empty cache of a megabyte."""
    return SourceCache(tmp_path / "sources", 1 << 20)


def test_artifact_is_read_as_it_was_written(small: SourceCache) -> None:
    """Every byte, and the order."""
    small.put("x", ARTIFACT)
    read = small.read("x")
    assert read == ARTIFACT
    assert list(read or ()) == list(ARTIFACT)
    assert small.has("x")


def test_missing_artifact_is_not_read(small: SourceCache) -> None:
    """It was removed to make room, or never written."""
    assert small.read("x") is None
    assert not small.has("x")


@pytest.mark.parametrize("cut", [0, 1, 40, 66, 80, -1])
def test_incomplete_artifact_is_not_read(small: SourceCache, cut: int) -> None:
    """Whatever the disk has lost."""
    small.put("x", ARTIFACT)
    path = small.artifacts / "x"
    path.write_bytes(path.read_bytes()[:cut])
    assert small.read("x") is None


@pytest.mark.holds("whole-artifact")
def test_changed_artifact_is_not_read(small: SourceCache) -> None:
    """A bit that has flipped is not applied."""
    small.put("x", ARTIFACT)
    path = small.artifacts / "x"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))
    assert small.read("x") is None


def test_name_depends_on_who_has_read_what(small: SourceCache, tmp_path: Path) -> None:
    """The same content that was read with other credentials is another artifact."""
    named = [("one", "content"), ("other", "content"), ("one", "other"), ("onecon", "tent")]
    assert len({small.artifact_name(*one) for one in named}) == len(named)
    # Each process that looks finds what another one has written.
    another = SourceCache(tmp_path / "another", 1)
    assert small.artifact_name(*named[0]) == another.artifact_name(*named[0])


def test_least_recently_used_are_removed_first(small: SourceCache) -> None:
    """A read counts as a use; what is in use stays, whatever its age."""
    big = {"a.yaml": bytes(400_000)}
    for age, name in enumerate(("newest", "middle", "oldest")):
        small.put(name, big)
        os.utime(small.artifacts / name, (1000 - age, 1000 - age))
    store = small.store("place")
    store.mkdir()
    (store / "pack").write_bytes(bytes(400_000))
    os.utime(store, (1, 1))
    assert small.read("oldest") == big
    small.trim(keep=store)
    assert {path.name for path in small.artifacts.iterdir()} == {"oldest"}
    assert store.exists()
    small.trim()
    assert store.exists()


def test_folder_is_private(small: SourceCache) -> None:
    """Sources may be confidential."""
    small.put("x", ARTIFACT)
    small.store("place")
    assert small.artifacts.stat().st_mode & 0o077 == 0
    assert small.stores.stat().st_mode & 0o077 == 0


def test_full_disk_is_an_error_of_the_source(small: SourceCache) -> None:
    """Nothing is left of an artifact that could not be written."""
    program = (
        "import sys; from pathlib import Path;"
        "from applyprune.controller.fetch import SourceCache;"
        "SourceCache(Path(sys.argv[1]), 1).put('x', {'a': bytes(200_000)})"
    )

    def limit() -> None:
        # The kernel then answers as for a full disk: no more can be written.
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    done = subprocess.run(
        # Without -B it cuts the bytecode that it writes, for all who import that later.
        [sys.executable, "-B", "-c", program, str(small.folder)],
        preexec_fn=limit,
        capture_output=True,
        text=True,
        check=False,
    )
    assert FetchFailed.__name__ in done.stderr
    assert "the source cache: File too large" in done.stderr
    assert list(small.artifacts.iterdir()) == []


# Neither needs sops to be refused: the one by its form, the other by its keys.
INI = b"[main]\npassword = ENC[AES256_GCM]\n[sops]\nmac = x\nage__list_0__map_enc = x\n"
FOREIGN = b"PASSWORD=ENC[AES256_GCM]\nsops_mac=x\nsops_kms__list_0__map_arn=x\n"
GENERATOR = b"secretGenerator:\n- name: web\n  %b\n"
LOADED = {
    "as a file": GENERATOR % b"files: [password=../base/web.ini]",
    "as an env": GENERATOR % b"envs: [../base/web.ini]",
    "by a base": b"resources: [../base]\n",
}


@pytest.mark.holds("encrypted-elsewhere", row="as a file-ini-keys")
@pytest.mark.parametrize("keys", [{}, None], ids=["keys", "no-keys"])
@pytest.mark.parametrize("content", [INI, FOREIGN], ids=["ini", "foreign"])
@pytest.mark.parametrize("how", LOADED)
def test_file_that_a_kustomization_loads_elsewhere_is_never_used_encrypted(
    how: str, content: bytes, keys: dict[str, bytes] | None
) -> None:
    files = {
        "web/kustomization.yaml": LOADED[how],
        "base/kustomization.yaml": GENERATOR % b"envs: [web.ini]",
        "base/web.ini": content,
    }
    with pytest.raises(DecryptionFailed) as failed:
        decrypted(files, "web", keys)
    assert failed.value.location == "base/web.ini"


@pytest.mark.parametrize("content", [INI, FOREIGN], ids=["ini", "foreign"])
def test_file_of_others_that_no_kustomization_loads_stays_as_it_is(content: bytes) -> None:
    files = {"web/kustomization.yaml": b"resources: [../base/web.yaml]\n", "other.ini": content}
    assert decrypted(files, "web", {}) == files
