"""Bundles that follow Git over SSH, and that want signed commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import asyncssh
import pytest

from tests.support.git_servers import ssh_site
from tests.support.remote_bundles import file_of, git_credentials, git_source, secret, stays
from tests.support.signers import SshSigner
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.controller import Tenant
    from tests.support.git_servers import HttpsSite, SshSite


@pytest.fixture
def ssh(tmp_path: Path) -> Iterator[SshSite]:
    """A Git server for SSH."""
    with ssh_site(tmp_path / "ssh") as one:
        yield one


def follow(tenant: Tenant, ssh: SshSite) -> None:
    """Apply a Bundle that follows the branch main."""
    source = {
        "url": ssh.url("web"),
        "ref": {"branch": "main"},
        "path": "web",
        "interval": "1s",
        "secretRef": {"name": "ssh"},
    }
    tenant.bundle("web", source={"git": source}, interval="1h", retryInterval="1h")


def test_bundle_follows_a_branch_over_ssh(tenant: Tenant, ssh: SshSite) -> None:
    """With another host key, and with another key of ours, it is refused; the last commit stays."""
    repository = ssh.repository()
    repository.commit({"web/a.yaml": file_of("a")})
    known = {"identity": ssh.identity(), "known_hosts": ssh.known_hosts()}
    secret(tenant, "ssh", {"identity": ssh.identity()})
    follow(tenant, ssh)
    assert "known_hosts" in tenant.failed("web", "AuthenticationFailed")
    other = asyncssh.generate_private_key("ssh-ed25519")
    secret(tenant, "ssh", {**known, "known_hosts": ssh.known_hosts(other)})
    eventually(lambda: "host key" in tenant.condition("web")[2], lambda: "the host key")
    assert ssh.commands == []
    secret(tenant, "ssh", known)
    tenant.ready("web")
    second = repository.commit({"web/a.yaml": file_of("a", value="2")})
    tenant.applied("web", f"main@sha1:{second}")
    assert tenant.value("a") == "2"
    assert set(ssh.commands) == {"git-upload-pack '/web.git'"}
    ssh.authorize(other)
    message = tenant.failed("web", "AuthenticationFailed")
    assert f"{second} stays applied" in message
    assert "PRIVATE KEY" not in message


def test_only_signed_commits_are_applied(tenant: Tenant, git: HttpsSite, tmp_path: Path) -> None:
    """One without a signature, and one of a foreign key, change nothing; drift is reverted."""
    own, foreign = SshSigner(tmp_path / "own"), SshSigner(tmp_path / "foreign")
    repository = git.repository()
    git_credentials(tenant, git)
    secret(tenant, "signers", {"own.sshpub": own.public()})
    verify = {"mode": "HEAD", "secretRef": {"name": "signers"}}
    unsigned = repository.commit({"web/a.yaml": file_of("a")})
    source = git_source(git, path="web", verify=verify)
    tenant.bundle("web", source=source, interval="1h", retryInterval="1h")
    assert "no signature" in tenant.failed("web", "VerificationFailed")
    assert tenant.exists("a") == [False]
    first = repository.sign(own.settings, unsigned)
    tenant.applied("web", f"main@sha1:{first}")
    second = repository.commit({"web/a.yaml": file_of("b")})
    repository.sign(foreign.settings, second)
    message = tenant.failed("web", "VerificationFailed")
    assert f"main@sha1:{first} stays applied" in message
    assert tenant.exists("a", "b") == [True, False]
    stays(tenant, "a")
    third = repository.commit({"web/a.yaml": file_of("a", value="3")})
    third = repository.sign(own.settings, third)
    tenant.applied("web", f"main@sha1:{third}")
    assert tenant.value("a") == "3"


def test_key_that_is_trusted_no_longer_is_not_enough(
    tenant: Tenant, git: HttpsSite, tmp_path: Path
) -> None:
    """The Secret is watched: what was applied by the old key stays, and nothing else is."""
    own, foreign = SshSigner(tmp_path / "own"), SshSigner(tmp_path / "foreign")
    repository = git.repository()
    git_credentials(tenant, git)
    secret(tenant, "signers", {"own.sshpub": own.public()})
    repository.sign(own.settings, repository.commit({"web/a.yaml": file_of("a")}))
    verify = {"secretRef": {"name": "signers"}}
    source = git_source(git, path="web", verify=verify)
    tenant.bundle("web", source=source, interval="1h", retryInterval="1h")
    tenant.ready("web")
    tenant.put("secrets", {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "signers"}})
    tenant.failed("web", "SourceNotFound")
    secret(tenant, "signers", {"other.sshpub": foreign.public()})
    tenant.failed("web", "VerificationFailed")
    assert tenant.exists("a") == [True]
