"""Sources of each kind, read by the programs that the image has."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import asyncssh
import pytest

from applyprune.sources.oci_artifact import push
from tests.node.cluster import ADDRESS
from tests.support.artifacts import source_of
from tests.support.encryption import age_key, encrypt
from tests.support.git_servers import git_site, ssh_site
from tests.support.objects import config_map, text
from tests.support.registries import password_registry
from tests.support.remote_bundles import (
    file_of,
    git_credentials,
    git_source,
    registry_source,
    secret,
)
from tests.support.signers import SshSigner

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.components import Components
    from tests.support.controller import Tenant
    from tests.support.git_servers import HttpsSite, Repository, SshSite
    from tests.support.registries import Registry

LOGIN = "deployer:git-password-5b1e"


@pytest.fixture
def git(tmp_path: Path) -> Iterator[HttpsSite]:
    """A Git server that wants a password, with an authority of its own."""
    with git_site(tmp_path / "git", host=ADDRESS, login=LOGIN) as one:
        yield one


@pytest.fixture
def ssh(tmp_path: Path) -> Iterator[SshSite]:
    """A Git server for SSH."""
    with ssh_site(tmp_path / "ssh", ADDRESS) as one:
        yield one


@pytest.fixture
def registry(components: Components, tmp_path: Path) -> Iterator[Registry]:
    """A registry that wants a password."""
    with password_registry(components, tmp_path / "registry", address=ADDRESS) as one:
        yield one


def follow(tenant: Tenant, source: dict[str, Any], **spec: Any) -> None:
    """Apply a Bundle that looks for itself only when its source has changed."""
    tenant.bundle("web", source=source, interval="1h", retryInterval="1h", **spec)


def is_followed(tenant: Tenant, repository: Repository) -> None:
    """A second commit replaces the value of the first one, which is applied."""
    first = repository.commit({"web/a.yaml": file_of("a", "b")})
    tenant.applied("web", f"main@sha1:{first}")
    assert tenant.exists("a", "b") == [True, True]
    second = repository.commit({"web/a.yaml": file_of("a", value="2")})
    tenant.applied("web", f"main@sha1:{second}")
    assert tenant.exists("a", "b") == [True, False]
    assert tenant.value("a") == "2"


def test_inline_manifests_are_followed(tenant: Tenant) -> None:
    """What the spec no longer has is pruned."""
    tenant.bundle("web", config_map("a"), config_map("b"))
    tenant.ready("web")
    assert tenant.exists("a", "b") == [True, True]
    tenant.bundle("web", config_map("a", "2"))
    tenant.ready("web")
    assert tenant.exists("a", "b") == [True, False]
    assert tenant.value("a") == "2"


def test_branch_is_followed_over_https(tenant: Tenant, git: HttpsSite) -> None:
    """With a password, from a server whose authority only the Secret names."""
    secret(tenant, "git-credentials", {"username": "deployer", "password": "x", "ca.crt": git.ca})
    repository = git.repository()
    repository.commit({"web/a.yaml": file_of("a")})
    follow(tenant, git_source(git, path="web"))
    tenant.failed("web", "AuthenticationFailed")
    git_credentials(tenant, git)
    is_followed(tenant, repository)


def test_branch_is_followed_over_ssh(tenant: Tenant, ssh: SshSite) -> None:
    """A server with another host key is refused, in the words of ssh."""
    repository = ssh.repository()
    repository.commit({"web/a.yaml": file_of("a")})
    known = {"identity": ssh.identity(), "known_hosts": ssh.known_hosts()}
    other = asyncssh.generate_private_key("ssh-ed25519")
    secret(tenant, "ssh", {**known, "known_hosts": ssh.known_hosts(other)})
    source = {
        "url": ssh.url("web"),
        "ref": {"branch": "main"},
        "path": "web",
        "interval": "1s",
        "secretRef": {"name": "ssh"},
    }
    follow(tenant, {"git": source})
    message = tenant.failed("web", "AuthenticationFailed")
    assert "Host key verification failed" in message
    assert ssh.commands == []
    secret(tenant, "ssh", known)
    is_followed(tenant, repository)


def test_artifact_is_followed(tenant: Tenant, registry: Registry) -> None:
    """A tag that moves, in a registry with a password and an authority of its own."""

    def publish(*names: str, value: str = "1") -> str:
        files = {"web/a.yaml": file_of(*names, value=value).encode()}
        return push(source_of(registry, "shop/web:prod"), files)

    first = publish("a", "b")
    follow(tenant, registry_source(tenant, registry, ref={"tag": "prod"}, path="web"))
    tenant.applied("web", f"prod@{first}")
    assert tenant.exists("a", "b") == [True, True]
    second = publish("a", value="2")
    tenant.applied("web", f"prod@{second}")
    assert tenant.exists("a", "b") == [True, False]
    assert tenant.value("a") == "2"


def test_commits_signed_by_ssh_are_applied(tenant: Tenant, git: HttpsSite, tmp_path: Path) -> None:
    """One of a foreign key is not."""
    own, foreign = SshSigner(tmp_path / "own"), SshSigner(tmp_path / "foreign")
    repository = git.repository()
    git_credentials(tenant, git)
    secret(tenant, "signers", {"own.sshpub": own.public()})
    first = repository.sign(own.settings, repository.commit({"web/a.yaml": file_of("a")}))
    verify = {"mode": "HEAD", "secretRef": {"name": "signers"}}
    follow(tenant, git_source(git, path="web", verify=verify))
    tenant.applied("web", f"main@sha1:{first}")
    repository.sign(foreign.settings, repository.commit({"web/a.yaml": file_of("a", value="x")}))
    assert f"main@sha1:{first} stays applied" in tenant.failed("web", "VerificationFailed")
    third = repository.sign(
        own.settings, repository.commit({"web/a.yaml": file_of("a", value="3")})
    )
    tenant.applied("web", f"main@sha1:{third}")
    assert tenant.value("a") == "3"


def test_kustomization_is_built(tenant: Tenant, git: HttpsSite) -> None:
    """By the kustomize of the image: a base elsewhere in the repository, and a generated name."""
    repository = git.repository()
    git_credentials(tenant, git)

    def commit(value: str) -> str:
        patch = {"patch": json.dumps(config_map("a", value))}
        overlay = {"resources": ["../../base"], "namePrefix": "prod-", "patches": [patch]}
        return repository.commit(
            {
                "base/kustomization.yaml": json.dumps({"resources": ["a.yaml"]}),
                "base/a.yaml": file_of("a"),
                "overlays/prod/kustomization.yaml": json.dumps(overlay),
            }
        )

    first = commit("first")
    follow(tenant, git_source(git, path="overlays/prod"))
    tenant.applied("web", f"main@sha1:{first}")
    assert tenant.value("prod-a") == "first"
    second = commit("second")
    tenant.applied("web", f"main@sha1:{second}")
    assert tenant.value("prod-a") == "second"


def test_encrypted_file_is_decrypted(
    tenant: Tenant, git: HttpsSite, components: Components
) -> None:
    """By the sops of the image, with an age key."""
    key, repository = age_key(components), git.repository()
    git_credentials(tenant, git)
    secret(tenant, "sops-age", key.secret)

    def commit(value: str) -> str:
        given = ("--age", key.recipient, "--encrypted-regex", "^data$")
        sealed = encrypt(components, text(config_map("a", value)), *given)
        assert value.encode() not in sealed
        return repository.commit({"web/a.yaml": sealed})

    first = commit("secret-first")
    decryption = {"provider": "sops", "secretRef": {"name": "sops-age"}}
    follow(tenant, git_source(git, path="web"), decryption=decryption)
    tenant.applied("web", f"main@sha1:{first}")
    assert tenant.value("a") == "secret-first"
    second = commit("secret-second")
    tenant.applied("web", f"main@sha1:{second}")
    assert tenant.value("a") == "secret-second"
