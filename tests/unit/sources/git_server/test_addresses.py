"""Where a source may lead: its host's addresses are checked and pinned, and so is each redirect."""

from __future__ import annotations

import ipaddress
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from applyprune.addresses import AddressRules
from applyprune.sources.address import parse_git_url
from applyprune.sources.git_program import GitProgram
from applyprune.sources.git_server import REMOTE, GitServer, checked_addresses, find_ref
from applyprune.sources.tree import AuthenticationFailed, Deadline, FetchFailed
from applyprune.values import replace
from tests.support.git_servers import HttpsSite, SshSite, git_site
from tests.support.git_servers.reads import fetch_git
from tests.support.listening import silent_port
from tests.support.waiting import HANG

if TYPE_CHECKING:
    from pathlib import Path

FILES = {"a/x.yaml": "x"}
OTHER = "something that is not a repository over https://"
STRICT = AddressRules()
LOOPBACK = AddressRules((ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128")))


@pytest.mark.parametrize(
    "host", [pytest.param("localhost", marks=pytest.mark.holds("refused-git-address")), "127.0.0.1"]
)
def test_refused_address_gets_no_request(site: HttpsSite, host: str) -> None:
    """The error names the option that allows it."""
    site.repository().commit(FILES)
    url = site.url("web").replace("localhost", host)
    with pytest.raises(FetchFailed, match="--allow-source-cidr") as caught:
        find_ref(replace(site.source(addresses=STRICT), url=url))
    assert "means a loopback address" in str(caught.value)
    assert site.requests == []
    assert find_ref(replace(site.source(addresses=LOOPBACK), url=url)).name


def test_refused_address_gets_no_ssh_connection(ssh: SshSite, tmp_path: Path) -> None:
    ssh.repository().commit(FILES)
    with pytest.raises(FetchFailed, match="means a loopback address"):
        find_ref(ssh.source(addresses=STRICT))
    assert ssh.commands == []
    # The host key is still that of the name.
    tree = fetch_git(ssh.source(addresses=LOOPBACK), "a", tmp_path / "store")
    assert tree.files == {"a/x.yaml": b"x"}


@pytest.mark.parametrize(
    "host", ["169.254.169.254", "[fd00:ec2::254]", "[::ffff:127.0.0.1]", "0.0.0.1"]
)
def test_metadata_is_never_asked(site: HttpsSite, host: str) -> None:
    source = replace(site.source(addresses=STRICT), url=f"https://{host}/latest/meta-data")
    with pytest.raises(FetchFailed, match="nothing was sent"):
        find_ref(source)


def test_name_that_is_not_resolved_in_time_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing ends a resolver that waits for a silent name server."""
    ended = threading.Event()

    def waits(*_arguments: object, **_options: object) -> list[object]:
        ended.wait()
        return []

    monkeypatch.setattr(socket, "getaddrinfo", waits)
    monkeypatch.setattr("applyprune.http.NAMED_CONNECT_TIMEOUT", 0.2)
    with pytest.raises(FetchFailed) as caught:
        checked_addresses(STRICT, parse_git_url("https://h.example/x"), "place", Deadline(HANG))
    ended.set()
    assert caught.value.reason == "h.example cannot be reached: the connection timed out"


def test_checked_address_is_the_one_that_git_uses(site: HttpsSite) -> None:
    """A second answer of the resolver is never asked for."""
    site.repository().commit(FILES)
    source = site.source(addresses=LOOPBACK)
    with GitProgram("place", Deadline(30.0), 1_000_000) as program:
        server = GitServer(program, source)
        assert server.run("ls-remote", REMOTE)[0]
        (pinned,) = (value for key, value in server.settings if key == "http.curloptResolve")
        assert pinned.startswith(f"localhost:{site.port}:")
        # Nothing listens at this address, although the name leads to another one.
        other = ("http.curloptResolve", f"localhost:{site.port}:127.0.0.3")
        with pytest.raises(FetchFailed, match="cannot be reached"):
            GitServer(program, site.source()).run("ls-remote", REMOTE, settings=[other])


@pytest.mark.parametrize("addresses", [None, LOOPBACK])
def test_redirect_is_followed_for_lookup_and_fetch(
    site: HttpsSite, tmp_path: Path, addresses: AddressRules | None
) -> None:
    """Once for each; all the rest goes to the other URL."""
    site.repository("new").commit(FILES)
    site.redirects["/web.git"] = "/new.git"
    tree = fetch_git(site.source(addresses=addresses), "a", tmp_path / "store")
    assert tree.files == {"a/x.yaml": b"x"}
    assert sum("/web.git" in path for path in site.paths()) == 4


def test_redirect_takes_no_credentials_to_another_host(tmp_path: Path) -> None:
    with (
        git_site(tmp_path / "other") as other,
        git_site(tmp_path / "site", login="me:hunter2") as site,
    ):
        other.repository().commit(FILES)
        site.redirects["/web.git"] = other.url("web")
        both = replace(site.credentials, ca=site.ca + other.ca)
        assert find_ref(site.source(credentials=both)).name == "refs/heads/main"
        assert [header for _, _, header in other.requests] == [""] * len(other.requests)
        assert all(header.startswith("Basic ") for _, _, header in site.requests)


def test_redirect_to_a_refused_address_is_not_followed(tmp_path: Path) -> None:
    """Each host is checked, not only the first one."""
    with git_site(tmp_path / "other") as other, git_site(tmp_path / "site") as site:
        other.repository().commit(FILES)
        site.redirects["/web.git"] = other.url("web").replace("localhost", "127.0.0.2")
        only = AddressRules((ipaddress.ip_network("127.0.0.1/32"), ipaddress.ip_network("::1/128")))
        both = replace(site.credentials, ca=site.ca + other.ca)
        with pytest.raises(FetchFailed, match="means a loopback address"):
            find_ref(site.source(credentials=both, addresses=only))
        assert other.requests == []


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("http://localhost/new.git", "only redirects to https:// are followed"),
        ("ext::sh/new.git", "only redirects to https:// are followed"),
        ("ssh://git@localhost/new.git", "only redirects to https:// are followed"),
        ("file:///etc/new.git", "only redirects to https:// are followed"),
        ("/web.git", "redirect loop"),
        ("/new.git/?x=", OTHER),
        ("https://localhost:99999/new.git", "only redirects to https:// are followed"),
    ],
)
def test_other_redirects_are_refused(site: HttpsSite, target: str, message: str) -> None:
    site.redirects["/web.git"] = target
    with pytest.raises(FetchFailed, match=message):
        find_ref(site.source())


def test_redirects_have_an_end(site: HttpsSite) -> None:
    site.redirects["/"] = "/again/"
    with pytest.raises(FetchFailed, match="more than 5 redirects"):
        find_ref(site.source())


def test_proxy_is_used_and_nothing_is_pinned(
    site: HttpsSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loopback never has one, so the host is another."""
    source = replace(site.source(addresses=STRICT), url="https://git.invalid/a.git")
    with silent_port() as port:
        monkeypatch.setenv("HTTPS_PROXY", f"http://localhost:{port}")
        with pytest.raises(FetchFailed, match="the server cannot be reached"):
            find_ref(source)
    site.repository().commit(FILES)
    assert find_ref(site.source()).name


def test_credential_helper_of_the_controller_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[credential]\n\thelper = store\n")
    monkeypatch.setenv("HOME", str(home))
    with git_site(tmp_path / "site", login="me:hunter2") as site:
        (home / ".git-credentials").write_text(f"https://me:hunter2@localhost:{site.port}\n")
        site.repository().commit(FILES)
        ca = replace(site.credentials, username="", password="")
        with pytest.raises(AuthenticationFailed):
            find_ref(site.source(credentials=ca))
