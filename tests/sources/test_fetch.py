"""Addresses read from real servers: which version each means, and what a load makes of them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from applyprune.errors import InputError, InputErrors
from applyprune.sources import Overlay, read
from applyprune.sources.address import parse_address
from applyprune.sources.fetch import fetch
from applyprune.sources.tree import AuthenticationFailed, PathNotFound
from tests.support.git_servers.https_site import git_site
from tests.support.git_servers.ssh_site import ssh_site
from tests.support.source_text import config_map

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.git_servers.https_site import HttpsSite


class Deploy:
    """A repository with branches and tags, each with a file that has its name."""

    def __init__(self, site: HttpsSite) -> None:
        self.url = f"git+{site.url('deploy')}"
        self.repository = site.repository("deploy")
        self.commits = {
            name: self.repository.commit({"m/a.yaml": config_map(name)}, name)
            for name in ("main", "dev", "both", "one", "two", "tagged-both")
        }
        for tag, commit in (("v1.0.0", "one"), ("v1.2.0", "two"), ("both", "tagged-both")):
            self.repository.git("update-ref", f"refs/tags/{tag}", self.commits[commit])

    def named(self, query: str, path: str = "//m") -> list[str]:
        """Return the names of the objects of an address."""
        return [one.name for one in read([f"{self.url}{path}{query}"])]


@pytest.fixture(scope="module")
def git_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpsSite]:
    with git_site(tmp_path_factory.mktemp("git"), login="me:hunter2") as running:
        yield running


@pytest.fixture(scope="module")
def repository(git_server: HttpsSite) -> Deploy:
    return Deploy(git_server)


@pytest.fixture
def deploy(
    repository: Deploy,
    git_server: HttpsSite,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Deploy:
    """The repository, and a user whose credential helper knows its server."""
    (tmp_path / "ca.pem").write_bytes(git_server.ca)
    (tmp_path / ".gitconfig").write_text("[credential]\n\thelper = store\n")
    with_login = git_server.base.replace("https://", "https://me:hunter2@")
    (tmp_path / ".git-credentials").write_text(f"{with_login}\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    monkeypatch.chdir(tmp_path)
    return repository


@pytest.mark.parametrize(
    ("query", "expected", "name"),
    [
        ("", "main", "main"),
        ("?ref=dev", "dev", "dev"),
        ("?ref=v1.0.0", "one", "v1.0.0"),
        ("?ref=both", "both", "both"),
        ("?ref=refs/tags/both", "tagged-both", "refs/tags/both"),
        ("?branch=both", "both", "both"),
        ("?tag=both", "tagged-both", "both"),
        ("?semver=1.x", "two", "v1.2.0"),
        ("?semver=%3C1.2", "one", "v1.0.0"),
        ("?ref={one}", "one", ""),
        ("?commit={one}", "one", ""),
        ("?commit={one}&branch=dev", "one", "dev"),
    ],
)
def test_reference_means_one_version(deploy: Deploy, query: str, expected: str, name: str) -> None:
    """A ``ref`` is a commit ID, or a branch, or else a tag."""
    address = parse_address(f"{deploy.url}//m{query.format(**deploy.commits)}")
    assert address is not None
    found = fetch(address)
    assert found.files == {"m/a.yaml": config_map(expected).encode()}
    revision = f"sha1:{deploy.commits[expected]}"
    assert found.revision == (f"{name}@{revision}" if name else revision)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("?ref=gone", "the repository has no branch and no tag gone"),
        ("?branch=v1.0.0", "the repository has no branch v1.0.0"),
        ("?tag=dev", "the repository has no tag dev"),
        ("?semver=2.x", "no tag of the repository is in the range 2.x"),
        (f"?commit={'0' * 40}", "not in the repository: the repository has no such commit"),
    ],
)
def test_missing_version_is_an_error(deploy: Deploy, query: str, expected: str) -> None:
    with pytest.raises(PathNotFound) as caught:
        deploy.named(query)
    assert str(caught.value).startswith(f"{deploy.url}: {expected}")


@pytest.mark.parametrize("path", ["//gone", "//M", "//m/a.yaml/b"])
def test_missing_path_is_an_error(deploy: Deploy, path: str) -> None:
    with pytest.raises(PathNotFound) as caught:
        deploy.named("", path)
    assert str(caught.value).startswith(deploy.url)


def test_file_of_a_repository_is_read(deploy: Deploy) -> None:
    (manifest,) = read([f"{deploy.url}//m/a.yaml?ref=dev"])
    assert str(manifest.origin) == f"{deploy.url}//m/a.yaml:1"


def test_commit_of_the_input_is_known(deploy: Deploy, tmp_path: Path) -> None:
    """Only if it is that of everything; an input of several commits has none."""
    (tmp_path / "x.yaml").write_text(config_map("x"))
    dev = f"{deploy.url}//m?ref=dev"
    assert read([dev]).commit == deploy.commits["dev"]
    assert read([dev, f"{deploy.url}//m/a.yaml?ref=dev"]).commit == deploy.commits["dev"]
    assert read([dev, f"{deploy.url}//m"]).commit == ""
    assert read([dev, "x.yaml"]).commit == ""
    assert read(["x.yaml"]).commit == ""
    assert read([]).commit == ""


def test_each_file_of_a_version_is_read_once(deploy: Deploy) -> None:
    given = read([f"{deploy.url}//m/a.yaml?ref=dev", f"{deploy.url}//m?ref=dev"])
    assert [one.name for one in given] == ["dev"]
    assert given.empty == ()


def test_versions_of_a_source_have_names_of_their_own(deploy: Deploy) -> None:
    """Otherwise a message would show a line of the other version."""
    given = read([f"{deploy.url}//m?ref=dev", f"{deploy.url}//m?ref=main"])
    assert {one.origin.path: one.name for one in given} == {
        f"{deploy.url}//m/a.yaml": "dev",
        f"{deploy.url} (2)//m/a.yaml": "main",
    }
    assert f"name: {given[1].name}" in given.texts[given[1].origin.path]


def test_folder_without_manifests_is_empty(deploy: Deploy) -> None:
    deploy.repository.commit({"docs/README.md": "# x\n"}, "docs")
    given = read([f"{deploy.url}//docs?ref=docs"])
    assert (len(given), given.empty) == (0, (f"{deploy.url}//docs",))


def test_all_errors_of_an_input_are_reported(deploy: Deploy, tmp_path: Path) -> None:
    with pytest.raises(InputErrors) as caught:
        read([f"{deploy.url}//m?ref=gone", "gone.yaml", f"{deploy.url}//gone"])
    assert [str(one).partition(": ")[0] for one in caught.value.errors] == [
        deploy.url,
        "gone.yaml",
        deploy.url,
    ]


def test_address_to_build_needs_a_kustomization(deploy: Deploy) -> None:
    with pytest.raises(InputError, match=r"//m: it contains no kustomization\.yaml"):
        read([Overlay(f"{deploy.url}//m")])


def test_wrong_password_is_an_error(deploy: Deploy, tmp_path: Path) -> None:
    store = tmp_path / ".git-credentials"
    store.write_text(store.read_text().replace("hunter2", "hunter3"))
    with pytest.raises(AuthenticationFailed) as caught:
        deploy.named("")
    assert "hunter" not in str(caught.value)


def test_login_in_an_address_is_used_and_not_shown(deploy: Deploy, tmp_path: Path) -> None:
    (tmp_path / ".gitconfig").unlink()
    with_login = deploy.url.replace("https://", "https://me:hunter2@")
    (manifest,) = read([f"{with_login}//m?ref=dev"])
    assert str(manifest.origin) == f"{deploy.url}//m/a.yaml:1"
    with pytest.raises(PathNotFound) as caught:
        read([f"{with_login}//m?ref=gone"])
    assert "hunter2" not in str(caught.value)


def test_ssh_settings_of_the_user_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As ssh finds them in ~/.ssh, which is that of the account and not of $HOME."""
    with ssh_site(tmp_path / "git") as running:
        running.repository("deploy").commit({"m/a.yaml": config_map("a")})
        (tmp_path / "known").write_bytes(running.known_hosts())
        (tmp_path / "key").touch(mode=0o600)
        (tmp_path / "key").write_bytes(running.identity())
        (tmp_path / "bin").mkdir()
        own = f"-F none -o UserKnownHostsFile={tmp_path}/known -i {tmp_path}/key"
        program = tmp_path / "bin/ssh"
        program.write_text(f'#!/bin/sh\nPATH={os.environ["PATH"]} exec ssh {own} "$@"\n')
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
        (manifest,) = read([f"git+{running.url('deploy')}//m?ref=main"])
        shown = f"git+ssh://localhost:{running.port}/deploy.git"
        assert str(manifest.origin) == f"{shown}//m/a.yaml:1"
        (tmp_path / "known").write_text("")
        with pytest.raises(AuthenticationFailed) as caught:
            read([f"git+{running.url('deploy')}//m?ref=main"])
        assert str(caught.value).startswith(f"{shown}: ")
