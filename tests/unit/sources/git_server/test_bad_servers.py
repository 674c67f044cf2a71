"""Servers that refuse, lie, stall or break: each an error with its reason, in time."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from applyprune.http import Patience
from applyprune.sources.address import FoundRef
from applyprune.sources.git_server import find_ref
from applyprune.sources.git_store import GitStore
from applyprune.sources.tree import ANONYMOUS, AuthenticationFailed, Deadline, FetchFailed
from applyprune.values import replace
from tests.support.git_servers import HttpsSite, git_site
from tests.support.git_servers.reads import fetch_git, read_path
from tests.support.listening import silent_port
from tests.support.waiting import HANG

if TYPE_CHECKING:
    from pathlib import Path

FILES = {"a/x.yaml": "x", "b/y.yaml": "y" * 3000}
SECRET = "hunter2"


@pytest.mark.parametrize("kind", ["login", "token"])
def test_credentials_are_needed_and_sent(tmp_path: Path, kind: str) -> None:
    with git_site(tmp_path / "site") as site:
        setattr(site, kind, f"me:{SECRET}" if kind == "login" else SECRET)
        site.repository().commit(FILES)
        assert find_ref(site.source()).name == "refs/heads/main"
        # Before the server asks.
        assert len(site.requests) == 2
        anonymous = replace(ANONYMOUS, ca=site.ca)
        wrong = replace(
            site.credentials, password="no", bearer_token="no" if kind == "token" else ""
        )
        for credentials in (anonymous, wrong):
            with pytest.raises(AuthenticationFailed) as caught:
                find_ref(site.source(credentials=credentials))
            assert SECRET not in str(caught.value)


@pytest.mark.parametrize("token", ["a\nX-Header: b", "a\x7f", "é"])
def test_token_adds_no_header(site: HttpsSite, token: str) -> None:
    site.repository().commit(FILES)
    credentials = replace(site.credentials, bearer_token=token)
    with pytest.raises(AuthenticationFailed, match="the token is invalid"):
        find_ref(site.source(credentials=credentials))
    assert site.requests == []


def test_line_end_after_a_token_is_ignored(tmp_path: Path) -> None:
    with git_site(tmp_path / "site", token=SECRET) as site:
        site.repository().commit(FILES)
        credentials = replace(site.credentials, bearer_token=f"{SECRET}\n")
        assert find_ref(site.source(credentials=credentials)).commit


@pytest.mark.holds("silent-git-server")
def test_silent_server_is_named_within_the_patience(site: HttpsSite) -> None:
    """Long before the time of the source: it has accepted the connection, and says no more.

    Slow: a silent server has its whole patience.
    """
    site.repository().commit(FILES)
    site.hold = threading.Event()
    try:
        with pytest.raises(FetchFailed) as caught:
            find_ref(site.source(), Deadline(2 * HANG, Patience(1.0)))
    finally:
        site.hold.set()
    assert caught.value.reason == "the server accepted the connection and sent nothing for 15 s"


def test_missing_repository_is_reported(site: HttpsSite) -> None:
    with pytest.raises(FetchFailed, match="no such repository") as caught:
        find_ref(site.source("none"))
    assert str(caught.value).startswith(f"{site.base}/none.git: ")


def test_untrusted_certificate_is_refused(site: HttpsSite) -> None:
    """With no CA given, and with another CA, although git would add those of the system."""
    site.repository().commit(FILES)
    with pytest.raises(FetchFailed, match="no trusted TLS connection"):
        find_ref(site.source(credentials=ANONYMOUS))
    assert site.requests == []


def test_expired_certificate_is_refused(tmp_path: Path) -> None:
    with git_site(tmp_path / "site", expired=True) as site:
        site.repository().commit(FILES)
        with pytest.raises(FetchFailed, match="no trusted TLS connection"):
            find_ref(site.source())


def test_dumb_server_is_not_supported(site: HttpsSite, tmp_path: Path) -> None:
    repository = site.repository()
    repository.commit(FILES)
    repository.git("update-server-info")
    site.is_dumb = True
    with pytest.raises(FetchFailed, match="dumb HTTP"):
        fetch_git(site.source(), "", tmp_path / "store")


def test_slow_server_is_stopped_in_time(site: HttpsSite, store: GitStore) -> None:
    """A byte now and then would be enough for any limit on silence."""
    commit = site.repository().commit(FILES)
    source = site.source(timeout=1.5)
    site.is_slow = True
    with pytest.raises(FetchFailed, match="not read in time"):
        find_ref(source)
    with pytest.raises(FetchFailed, match="not read in time"):
        store.fetch(source, FoundRef("refs/heads/main", commit, commit, "main"))
    assert not store.has(commit)


def test_cut_connection_leaves_nothing(site: HttpsSite, tmp_path: Path) -> None:
    """At each tenth of a fetch; the next fetch succeeds."""
    commit = site.repository().commit(FILES)
    found = FoundRef("refs/heads/main", commit, commit, "main")
    GitStore(tmp_path / "whole").fetch(site.source(), found)
    size = site.sent
    for tenth in range(10):
        store = GitStore(tmp_path / f"store-{tenth}")
        site.sent, site.cut_at = 0, size * tenth // 10
        with pytest.raises(FetchFailed):
            store.fetch(site.source(), found)
        assert not store.has(commit)
    site.cut_at = None
    store.fetch(site.source(), found)
    assert read_path(store, commit, "a")["a/x.yaml"] == b"x"
    assert list(tmp_path.glob("store-9/**/tmp_*")) == []


def test_unreachable_server_is_reported(site: HttpsSite) -> None:
    with silent_port() as port:
        source = replace(site.source(), url=f"https://localhost:{port}/a")
        with pytest.raises(FetchFailed, match="the server cannot be reached"):
            find_ref(source)


def test_unknown_host_is_reported(site: HttpsSite) -> None:
    source = replace(site.source(), url="https://none.invalid/a")
    with pytest.raises(FetchFailed, match="cannot be resolved"):
        find_ref(source)


def test_store_of_no_folder_is_an_error(site: HttpsSite, tmp_path: Path) -> None:
    commit = site.repository().commit(FILES)
    (tmp_path / "file").write_text("")
    with pytest.raises(FetchFailed, match="store of the source cannot be used"):
        GitStore(tmp_path / "file").fetch(site.source(), FoundRef("", commit, commit))


def test_missing_git_is_an_error(
    site: HttpsSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FetchFailed, match="git is needed"):
        find_ref(site.source())
