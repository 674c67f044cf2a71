"""URLs and references: nothing in them is an option, an address in disguise, or a credential."""

from __future__ import annotations

import subprocess

import pytest

from applyprune.errors import UsageError
from applyprune.sources.address import GitRef, GitSource, parse_git_url


@pytest.mark.parametrize(
    ("url", "given", "shown"),
    [
        ("https://Git.Example.com/a/b.git", "https://git.example.com/a/b.git", None),
        ("https://h:8443/a", "https://h:8443/a", None),
        ("https://h:443/a", "https://h/a", "https://h/a"),
        ("https://[::1]:8443/a", "https://[::1]:8443/a", None),
        ("ssh://git@h/a", "ssh://git@h/a", "ssh://h/a"),
        ("ssh://me@h:2222/~/a", "ssh://me@h:2222/~/a", "ssh://h:2222/~/a"),
        ("https://me:hunter2@h/a", "https://h/a", "https://h/a"),
    ],
)
def test_url_is_written_in_one_way(url: str, given: str, shown: str | None) -> None:
    found = parse_git_url(url)
    assert found.given(found.user or "git") == given
    assert found.shown == (shown or given)


@pytest.mark.parametrize(
    "url",
    [
        *("", "/srv/git/a.git", "./a", "file:///srv/git/a.git", "git://h/a", "http://h/a"),
        *("ext::sh -c touch% /tmp/x", "https::https://h/a", "fd::7", "-oProxyCommand=x"),
        *("ssh://-oProxyCommand=x/a", "ssh://-l@h/a", "-x@h:a", "git@-h:a", "git@h:a"),
        *("https://h", "https://h/", "https:///a", "https://h/a?x=hunter2", "https://h/a#b"),
        *("https://h\n/a", "https://h/a\x00b", "https://h/a\tb", "https://h\\@g/a"),
        *("https://127.1/a", "https://2130706433/a", "https://0x7f000001/a", "https://h..g/a"),
        *("https://0177.0.0.1/a", "https://h./a", "https://é.example/a", "https://h:0/a"),
        *("https://h:99999/a", "https://a b/c", "https://[::1/a", "ssh://a b@h/c"),
        "ssh://$(x)@h/a",
    ],
)
def test_unsupported_url_is_refused(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        GitSource(url)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["https://me:hunter2@h/a", "https://me@h/a", "ssh://me:hunter2@h/a"]
)
def test_credentials_in_a_url_are_refused(url: str) -> None:
    """A Bundle's URL is shown to everybody who may read Bundles."""
    with pytest.raises(UsageError, match="contains credentials") as caught:
        GitSource(url)
    assert "hunter2" not in str(caught.value)


def test_valid_references_are_accepted() -> None:
    """As git accepts them."""
    given = GitRef(branch="feature/a-b_c.d", tag="v1.0.0+x", name="refs/pull/1/head")
    for name in (f"refs/heads/{given.branch}", f"refs/tags/{given.tag}", given.name):
        subprocess.run(["git", "check-ref-format", name], check=True)
