"""What a store fetches, how often, and what it reads, from a real server."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from applyprune.sources import git_store
from applyprune.sources.address import FoundRef, GitRef
from applyprune.sources.git_server import find_ref
from applyprune.sources.git_store import GitStore
from applyprune.sources.tree import FetchFailed, PathNotFound, TreeLimits
from tests.support.git_servers import HttpsSite
from tests.support.git_servers.reads import fetch_git, read_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

FILES = {
    "README.md": "read me",
    "apps/api/a.yaml": "api",
    "apps/web/a.yaml": "web",
    "apps/web/more/b.yaml": "more",
    "base/kustomization.yaml": "resources: [c.yaml]\n",
    "base/c.yaml": "c",
    "over/kustomization.yaml": "resources: [../mid]\n",
    "mid/kustomization.yaml": "resources: [../base]\n",
    "large/x.bin": "x" * 100_000,
}
WEB = {"apps/web/a.yaml": b"web", "apps/web/more/b.yaml": b"more"}
BUILT = {name: FILES[name].encode() for name in FILES if name.startswith(("base", "mid", "over"))}


def fetched(site: HttpsSite, store: GitStore) -> FoundRef:
    found = find_ref(site.source())
    store.fetch(site.source(), found)
    return found


def ids(store: GitStore, commit: str, paths: Sequence[str]) -> dict[str, tuple[str, str] | None]:
    with store.reading(commit) as tree:
        return {path: tree.id(path) for path in paths}


def parts(store: GitStore, commit: str, path: str) -> tuple[str, ...]:
    """Return what a path consists of."""
    with store.reading(commit) as tree:
        return tree.included(path).paths


def posts(site: HttpsSite) -> int:
    return sum(path.startswith("POST") for path in site.paths())


def test_whole_commit_is_one_request(site: HttpsSite, store: GitStore) -> None:
    site.repository().commit(FILES)
    found = find_ref(site.source())
    before = posts(site)
    store.fetch(site.source(), found)
    assert posts(site) - before == 1
    assert read_path(store, found.commit, "") == {
        name: text.encode() for name, text in FILES.items()
    }
    assert read_path(store, found.commit, "apps/web") == WEB


def test_commit_is_not_fetched_again(site: HttpsSite, store: GitStore) -> None:
    site.repository().commit(FILES)
    found = fetched(site, store)
    before = len(site.requests)
    store.fetch(site.source(), found)
    assert len(site.requests) == before
    assert store.has(found.commit)
    assert not store.has("0" * 40)


def test_next_commit_brings_only_what_changed(site: HttpsSite, store: GitStore) -> None:
    """Also a deleted file."""
    repository = site.repository()
    repository.commit(FILES)
    fetched(site, store)
    site.sent = 0
    repository.commit({"apps/web/a.yaml": "new", "apps/web/more/b.yaml": None})
    found = fetched(site, store)
    assert site.sent < 5_000
    assert read_path(store, found.commit, "apps/web") == {"apps/web/a.yaml": b"new"}
    assert read_path(store, found.commit, "apps/api") == {"apps/api/a.yaml": b"api"}


def test_store_of_many_commits_is_created_again(
    site: HttpsSite, store: GitStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each commit is complete, and one that is gone is fetched again."""
    monkeypatch.setattr(git_store, "_MOST_PACKS", 4)
    repository = site.repository()
    repository.commit(FILES)
    first = fetched(site, store)
    most = 0
    for number in range(7):
        value = f"web {number}"
        repository.commit({"apps/web/a.yaml": value})
        found = fetched(site, store)
        assert read_path(store, found.commit, "apps/web")["apps/web/a.yaml"] == value.encode()
        assert read_path(store, found.commit, "over") == BUILT
        most = max(most, len(list((store._folder / "repository/objects/pack").glob("*.pack"))))
    assert most == 5
    assert not store.has(first.commit)
    store.fetch(site.source(), first)
    assert read_path(store, first.commit, "apps/web") == WEB


def test_store_of_much_is_created_again(site: HttpsSite, store: GitStore) -> None:
    """No more stays on the disk than two fetches may bring."""
    repository = site.repository()
    source = site.source(limits=TreeLimits(transfer=100_000))
    for number in range(3):
        noise = b"".join(sha256(b"%d %d" % (number, n)).digest() for n in range(2_000))
        repository.commit({"a.yaml": noise})
        found = find_ref(source)
        store.fetch(source, found)
        assert read_path(store, found.commit, "a.yaml") == {"a.yaml": noise}
    assert len(list((store._folder / "repository/objects/pack").glob("*.pack"))) == 1


@pytest.mark.parametrize("suffix", [".pack", ".idx"])
def test_damaged_store_is_fetched_again(site: HttpsSite, store: GitStore, suffix: str) -> None:
    """By a disk that has lost a file."""
    site.repository().commit(FILES)
    found = fetched(site, store)
    for file in (store._folder / "repository/objects/pack").glob(f"*{suffix}"):
        file.unlink()
    with pytest.raises(FetchFailed, match="the store of the source is damaged"):
        read_path(store, found.commit, "over")
    assert not store.has(found.commit)
    store.fetch(site.source(), found)
    assert read_path(store, found.commit, "over") == BUILT


def test_old_server_sends_what_a_reference_names(site: HttpsSite, store: GitStore) -> None:
    """It does not know the second protocol, and sends no commit by its ID."""
    repository = site.repository()
    repository.set("uploadpack.allowAnySHA1InWant", "false")
    repository.set("protocol.version", "0")
    site.protocol = ""
    first = repository.commit(FILES)
    found = fetched(site, store)
    assert read_path(store, found.commit, "apps/web") == WEB
    repository.commit({"apps/web/a.yaml": "new"})
    other = GitStore(store._folder.with_name("other"))
    gone = FoundRef("refs/heads/main", first, first, "main")
    with pytest.raises(FetchFailed, match="moved while it was fetched"):
        other.fetch(site.source(), gone)
    assert not other.has(first)


def test_kustomization_is_all_that_it_names(site: HttpsSite, store: GitStore) -> None:
    repository = site.repository()
    repository.commit(FILES)
    found = fetched(site, store)
    assert read_path(store, found.commit, "over") == BUILT
    assert parts(store, found.commit, "over") == ("base", "mid", "over")
    assert parts(store, found.commit, "apps/web") == ("apps/web",)


def test_ids_change_with_the_content_of_the_path_only(site: HttpsSite, store: GitStore) -> None:
    repository = site.repository()
    repository.commit(
        {**FILES, "link": "apps/web", "sub": "1" * 40}, modes={"link": "120000", "sub": "160000"}
    )
    paths = ["apps/web", "apps/api", "", "README.md", "none", "README.md/x", "link/a.yaml"]
    first = fetched(site, store)
    before = ids(store, first.commit, paths)
    assert {path: one and one[0] for path, one in before.items()} == {
        "apps/web": "tree",
        "apps/api": "tree",
        "": "tree",
        "README.md": "blob",
        "none": None,
        "README.md/x": None,
        "link/a.yaml": None,
    }
    repository.commit({"apps/api/a.yaml": "changed"})
    second = fetched(site, store)
    after = ids(store, second.commit, paths)
    assert [path for path in paths if before[path] != after[path]] == ["apps/api", ""]
    assert after[""] == ("tree", repository.oid("main^{tree}"))
    assert ids(store, second.commit, ["sub", "link"]) == {
        "sub": ("commit", "1" * 40),
        "link": ("blob", repository.oid("main:link")),
    }


def test_force_push_is_followed(site: HttpsSite, store: GitStore) -> None:
    """The commit before it stays readable."""
    repository = site.repository()
    repository.commit(FILES)
    first = fetched(site, store)
    repository.commit({"apps/web/a.yaml": "other"}, keeps=False)
    second = fetched(site, store)
    assert read_path(store, second.commit, "apps/web") == {"apps/web/a.yaml": b"other"}
    assert read_path(store, first.commit, "apps/web") == WEB


def test_removed_commit_is_not_found(site: HttpsSite, store: GitStore) -> None:
    repository = site.repository()
    commit = repository.commit(FILES)
    repository.commit({"a.yaml": ""}, keeps=False)
    repository.git("-c", "gc.reflogExpire=now", "gc", "--quiet", "--prune=now")
    source = site.source(ref=GitRef(commit=commit))
    with pytest.raises(PathNotFound, match="no such commit"):
        store.fetch(source, find_ref(source))


def test_ignore_rules_above_a_path_belong_to_it(site: HttpsSite, store: GitStore) -> None:
    """Those of its bases, too."""
    repository = site.repository()
    rules = {".sourceignore": "1", "apps/.sourceignore": "2", "base/.sourceignore": "3"}
    repository.commit({**FILES, **rules, "other/.sourceignore": "4"})
    found = fetched(site, store)
    wanted = {name: rules[name].encode() for name in (".sourceignore", "apps/.sourceignore")}
    assert read_path(store, found.commit, "apps/web") == {**WEB, **wanted}
    found = fetched(site, store)
    of_base = {name: rules[name].encode() for name in (".sourceignore", "base/.sourceignore")}
    assert read_path(store, found.commit, "over") == {**BUILT, **of_base}
    found = fetched(site, store)
    assert read_path(store, found.commit, "apps/web/a.yaml").keys() == {"apps/web/a.yaml", *wanted}
    # No path exists because rules above it do.
    with pytest.raises(PathNotFound):
        read_path(store, found.commit, "apps/none")


def test_path_may_be_a_file(site: HttpsSite, store: GitStore) -> None:
    site.repository().commit(FILES)
    found = fetched(site, store)
    assert read_path(store, found.commit, "apps/web/a.yaml") == {"apps/web/a.yaml": b"web"}


@pytest.mark.parametrize("path", ["none", "apps/Web", "README.md/x", "apps/web/a.yam"])
def test_missing_path_is_not_found(site: HttpsSite, store: GitStore, path: str) -> None:
    site.repository().commit(FILES)
    found = fetched(site, store)
    with pytest.raises(PathNotFound, match=f"no path {path}"):
        read_path(store, found.commit, path)


@pytest.mark.parametrize("path", ["", "a"])
def test_commit_without_files_has_no_path(site: HttpsSite, store: GitStore, path: str) -> None:
    site.repository().commit({})
    found = fetched(site, store)
    with pytest.raises(PathNotFound):
        read_path(store, found.commit, path)


@pytest.mark.parametrize("path", ["../x", "/etc", "a/../b", "a//b", "a\nb", "a\0b", "a/./b"])
def test_path_out_of_the_tree_is_not_found(site: HttpsSite, store: GitStore, path: str) -> None:
    """A Bundle has none: its spec is refused."""
    site.repository().commit(FILES)
    found = fetched(site, store)
    with pytest.raises(PathNotFound):
        read_path(store, found.commit, path)


@pytest.mark.parametrize(
    "path", ["-x", "--all", ":(top)", ":x", "*", "a b", "'", "é", "^HEAD", "{}"]
)
def test_strange_paths_are_plain_names(site: HttpsSite, store: GitStore, path: str) -> None:
    site.repository().commit({**FILES, f"{path}/a.yaml": "strange"})
    found = fetched(site, store)
    assert read_path(store, found.commit, path) == {f"{path}/a.yaml": b"strange"}
    assert ids(store, found.commit, [path]) != {path: None}


def test_command_reads_a_path_in_one_call(site: HttpsSite, tmp_path: Path) -> None:
    repository = site.repository()
    commit = repository.commit(FILES)
    tree = fetch_git(site.source(), "over", tmp_path / "store")
    assert (tree.files, tree.revision) == (BUILT, f"main@sha1:{commit}")
    pinned = fetch_git(site.source(ref=GitRef(commit=commit)), "over", tmp_path / "store")
    assert (pinned.files, pinned.revision) == (BUILT, f"sha1:{commit}")


def test_store_runs_no_program_of_a_repository(
    site: HttpsSite, store: GitStore, tmp_path: Path
) -> None:
    """No hook, no filter, no driver, and no configuration that a repository brings."""
    mark = tmp_path / "ran"
    evil: Mapping[str, str] = {
        ".gitattributes": "* filter=evil diff=evil merge=evil\n",
        ".gitconfig": f'[filter "evil"]\n\tsmudge = touch {mark}\n',
        ".lfsconfig": f"[lfs]\n\turl = file://{mark}\n",
        "a.yaml": "a",
        "hooks/post-checkout": f"#!/bin/sh\ntouch {mark}\n",
    }
    site.repository().commit(evil)
    found = fetched(site, store)
    assert read_path(store, found.commit, "a.yaml") == {"a.yaml": b"a"}
    assert not mark.exists()
    assert not list((store._folder / "repository").glob("hooks/*"))


def test_environment_of_the_caller_changes_nothing(
    site: HttpsSite, store: GitStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Settings, traces and a repository around it are not those of the source."""
    site.repository().commit(FILES)
    (tmp_path / ".gitconfig").write_text("[http]\n\tproxy = http://127.0.0.1:1\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_DIR", "/nonexistent")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "protocol.https.allow")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "never")
    monkeypatch.setenv("GIT_TRACE", str(tmp_path / "trace"))
    monkeypatch.setenv("GIT_SSL_NO_VERIFY", "1")
    found = fetched(site, store)
    assert read_path(store, found.commit, "apps/web") == WEB
    assert not (tmp_path / "trace").exists()
