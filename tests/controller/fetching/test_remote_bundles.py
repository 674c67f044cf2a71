"""Bundles that follow Git, by HTTPS and by SSH, or an OCI artifact: what comes, goes and is back.

What servers and files do wrong is told in tests/unit/sources, and in faults/test_bad_sources.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import asyncssh
import pytest

from applyprune.sources.oci_artifact import push
from tests.support.artifacts import source_of
from tests.support.git_servers import ssh_site
from tests.support.registries import Registry, token_registry
from tests.support.registry_client import BASIC, Client
from tests.support.remote_bundles import (
    CREDENTIALS,
    file_of,
    git_credentials,
    git_source,
    registry_source,
    secret,
    stays,
)
from tests.support.signed_artifacts import attach
from tests.support.signers import SshSigner
from tests.support.signing import signer
from tests.support.stage import Stage
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.components import Components
    from tests.support.controller import Controller, Tenant
    from tests.support.git_servers import HttpsSite, SshSite

LONG = {"interval": "1h", "retryInterval": "1h"}


def follow(tenant: Tenant, git: HttpsSite, **more: Any) -> None:
    """Apply a Bundle that follows the path ``web`` of a branch."""
    git_credentials(tenant, git)
    tenant.bundle("web", source=git_source(git, path="web", **more), interval="1h")


def applied(tenant: Tenant, commit: str) -> None:
    """Wait until a commit of the branch main is applied."""
    tenant.applied("web", f"main@sha1:{commit}")


def test_bundle_follows_the_commits_of_a_branch(
    site: Plane, tenant: Tenant, git: HttpsSite
) -> None:
    """What a commit changes is changed, and what it removes is pruned; an Event names both.

    So does the history of its set.

    A kustomization is built with the folders that it names.

    Slow: a source is checked each second, and here four times.
    """
    repository = git.repository()
    files = {"web/a.yaml": file_of("a", "b"), "web/notes.txt": "no manifest"}
    first = repository.commit(files)
    follow(tenant, git)
    applied(tenant, first)
    assert tenant.exists("a", "b") == [True, True]
    second = repository.commit({"web/a.yaml": file_of("a", value="2")})
    applied(tenant, second)
    assert (tenant.value("a"), tenant.exists("b")) == ("2", [False])
    told = f"main@sha1:{first} → main@sha1:{second}"
    eventually(lambda: [one for one in tenant.events("web") if told in one[2]], lambda: "the Event")
    runs = Stage(site.kubeconfig, tenant.namespace).inventory().history
    assert [(run.number, run.source.text, run.who) for run in runs] == [
        (2, f"web @ main@sha1:{second[:7]}", f"Bundle {tenant.namespace}/web"),
        (1, f"web @ main@sha1:{first[:7]}", f"Bundle {tenant.namespace}/web"),
    ]
    base = {"base/kustomization.yaml": "resources: [a.yaml]\n", "base/a.yaml": file_of("a")}
    overlay = {"web/a.yaml": None, "web/kustomization.yaml": "resources: [../base]\n"}
    applied(tenant, repository.commit({**base, **overlay}))
    applied(tenant, repository.commit({"base/a.yaml": file_of("a", value="3")}))
    assert tenant.value("a") == "3"


def test_source_that_is_gone_changes_nothing_and_is_followed_when_it_is_back(
    tenant: Tenant, git: HttpsSite
) -> None:
    """A deleted branch, and a deleted folder: nothing is pruned, and drift is still reverted."""
    repository = git.repository()
    first = repository.commit({"web/a.yaml": file_of("a")})
    follow(tenant, git)
    tenant.ready("web")
    repository.delete_branch("main")
    message = tenant.failed("web", "PathNotFound")
    assert "the repository has no branch main" in message
    assert f"main@sha1:{first} stays applied" in message
    told = tenant.condition("web", "Reconciling")
    assert told == ("True", "Retrying", "it is retried after PathNotFound")
    stays(tenant, "a")
    repository.commit({"web/a.yaml": None, "other/a.yaml": file_of("c")})
    eventually(lambda: "no path web" in tenant.condition("web")[2], lambda: "the missing folder")
    assert tenant.condition("web")[1] == "PathNotFound"
    assert tenant.exists("a", "c") == [True, False]
    applied(tenant, repository.commit({"web/a.yaml": file_of("a", value="3")}))
    assert tenant.value("a") == "3"


def test_credentials_are_tried_as_soon_as_they_are_there(tenant: Tenant, git: HttpsSite) -> None:
    """The Secret is watched: it is missing, wrong, and right. No password is in the status."""
    git.repository().commit({"web/a.yaml": file_of("a")})
    tenant.bundle("web", source=git_source(git, path="web", interval="1h"), **LONG)
    assert f"secret/{CREDENTIALS} does not exist" in tenant.failed("web", "SourceNotFound")
    secret(tenant, CREDENTIALS, {"username": "me", "password": "wrong", "ca.crt": git.ca})
    assert "wrong" not in tenant.failed("web", "AuthenticationFailed")
    git_credentials(tenant, git)
    tenant.ready("web")


def test_file_that_is_no_manifest_fails_no_bundle(
    tenant: Tenant, git: HttpsSite, running: Controller
) -> None:
    """By the default list; by rules in the tree, which replace it; and by those of the spec.

    Slow: a source is checked each second.
    """
    repository = git.repository()
    workflow = "on: push\njobs: {}\n"
    files = {"a.yaml": file_of("a"), ".github/x.yaml": workflow, "web/.sops.yaml": "x: 1\n"}
    first = repository.commit({**files, "web/b.yaml": file_of("b", "c")})
    git_credentials(tenant, git)
    tenant.bundle("web", source=git_source(git), interval="1h")
    applied(tenant, first)
    assert tenant.exists("a", "b", "c") == [True, True, True]
    repository.commit({"web/values.yaml": "replicas: 1\n"})
    assert "web/values.yaml" in tenant.failed("web", "InvalidSource")
    second = repository.commit({"web/.sourceignore": "values.yaml\n.sops.yaml\n"})
    applied(tenant, second)
    tenant.patch("web", source=git_source(git, ignore="/a.yaml\n.github\n"))
    eventually(lambda: tenant.exists("a") == [False], lambda: "a is pruned")
    tenant.ready("web")
    assert tenant.exists("b", "c") == [True, True]
    told = [
        line["warning"]
        for line in running.lines
        if line.get("namespace") == tenant.namespace and "warning" in line
    ]
    rule = "by the rule /a.yaml in spec.source.git.ignore"
    assert f"manifests are ignored: a.yaml: {rule}" in told


def test_rule_that_hides_most_of_a_set_is_refused_by_the_guards(
    tenant: Tenant, git: HttpsSite
) -> None:
    """The condition names the rule; one that hides the path is not an empty set either."""
    repository = git.repository()
    first = repository.commit({f"web/{name}.yaml": file_of(name) for name in "abc"})
    follow(tenant, git)
    applied(tenant, first)
    repository.commit({".sourceignore": "/web\n"})
    message = tenant.failed("web", "PathNotFound")
    assert "it is ignored: by the rule /web in .sourceignore" in message
    # Above the path.
    repository.commit({".sourceignore": "[bc].yaml\n"})
    tenant.failed("web", "PruneRefused")
    rule = "by the rule [bc].yaml in .sourceignore"
    blocked = tenant.condition("web", "PruneBlocked")[2]
    assert f"configmap/b: its manifest in web/b.yaml is ignored, {rule}" in blocked
    assert tenant.exists("a", "b", "c") == [True, True, True]
    applied(tenant, repository.commit({".sourceignore": "*.md\n"}))


@pytest.fixture
def ssh(tmp_path: Path) -> Iterator[SshSite]:
    """A Git server for SSH."""
    with ssh_site(tmp_path / "ssh") as one:
        yield one


def test_bundle_follows_a_branch_over_ssh(tenant: Tenant, ssh: SshSite) -> None:
    """With another host key, and with another key of ours, it is refused; the last commit stays.

    Slow: each check over SSH is a new connection.
    """
    repository = ssh.repository()
    repository.commit({"web/a.yaml": file_of("a")})
    known = {"identity": ssh.identity(), "known_hosts": ssh.known_hosts()}
    secret(tenant, "ssh", {"identity": ssh.identity()})
    branch = {"url": ssh.url("web"), "ref": {"branch": "main"}, "path": "web", "interval": "1s"}
    tenant.bundle("web", source={"git": {**branch, "secretRef": {"name": "ssh"}}}, **LONG)
    assert "known_hosts" in tenant.failed("web", "AuthenticationFailed")
    other = asyncssh.generate_private_key("ssh-ed25519")
    secret(tenant, "ssh", {**known, "known_hosts": ssh.known_hosts(other)})
    eventually(lambda: "host key" in tenant.condition("web")[2], lambda: "the host key")
    assert ssh.commands == []
    secret(tenant, "ssh", known)
    tenant.ready("web")
    second = repository.commit({"web/a.yaml": file_of("a", value="2")})
    applied(tenant, second)
    assert tenant.value("a") == "2"
    assert set(ssh.commands) == {"git-upload-pack '/web.git'"}
    ssh.authorize(other)
    message = tenant.failed("web", "AuthenticationFailed")
    assert f"{second} stays applied" in message
    assert "PRIVATE KEY" not in message


def test_only_signed_commits_are_applied(tenant: Tenant, git: HttpsSite, tmp_path: Path) -> None:
    """None without a signature, of a foreign key, or of one that is trusted no longer.

    Slow: a source is checked each second, and here five times.
    """
    own, foreign = SshSigner(tmp_path / "own"), SshSigner(tmp_path / "foreign")
    repository = git.repository()
    secret(tenant, "signers", {"own.sshpub": own.public()})
    unsigned = repository.commit({"web/a.yaml": file_of("a")})
    follow(tenant, git, verify={"mode": "HEAD", "secretRef": {"name": "signers"}})
    assert "no signature" in tenant.failed("web", "VerificationFailed")
    assert tenant.exists("a") == [False]
    first = repository.sign(own.settings, unsigned)
    applied(tenant, first)
    repository.sign(foreign.settings, repository.commit({"web/a.yaml": file_of("b")}))
    message = tenant.failed("web", "VerificationFailed")
    assert f"main@sha1:{first} stays applied" in message
    assert tenant.exists("a", "b") == [True, False]
    stays(tenant, "a")
    third = repository.commit({"web/a.yaml": file_of("a", value="3")})
    applied(tenant, repository.sign(own.settings, third))
    assert tenant.value("a") == "3"
    # The Secret is watched.
    secret(tenant, "signers", {"other.sshpub": foreign.public()})
    tenant.failed("web", "VerificationFailed")
    assert tenant.exists("a") == [True]


def publish(registry: Registry, tag: str, *names: str, value: str = "1") -> str:
    """Push ConfigMaps, and return the digest."""
    files = {"web/a.yaml": file_of(*names, value=value).encode()}
    return push(source_of(registry, tag), files)


def follow_artifact(tenant: Tenant, registry: Registry, name: str, **more: Any) -> None:
    """Apply a Bundle that follows an artifact."""
    url = f"oci://{registry.host}/{name}"
    tenant.bundle("web", source=registry_source(tenant, registry, url=url, **more), interval="1h")


def test_bundle_follows_a_tag(tenant: Tenant, registry: Registry) -> None:
    """Moved, missing, and back; what left it is pruned, and its absence prunes nothing.

    Slow: a source is checked each second.
    """
    first = publish(registry, "moved/web:prod", "a", "b")
    follow_artifact(tenant, registry, "moved/web", ref={"tag": "prod"}, path="web")
    tenant.applied("web", f"prod@{first}")
    second = publish(registry, "moved/web:prod", "a")
    tenant.applied("web", f"prod@{second}")
    assert tenant.exists("a", "b") == [True, False]
    assert Client(registry)("DELETE", f"/v2/moved/web/manifests/{second}", BASIC).status == 202
    assert f"prod@{second}" in tenant.failed("web", "PathNotFound")
    stays(tenant, "a")
    third = publish(registry, "moved/web:prod", "a", value="3")
    tenant.applied("web", f"prod@{third}")
    assert tenant.value("a") == "3"


def test_highest_version_of_a_range_is_followed(tenant: Tenant, registry: Registry) -> None:
    """A lower one, one outside and a pre-release are not; a digest is one artifact for ever."""
    first = publish(registry, "range/web:1.2.0", "a")
    publish(registry, "range/web:2.0.0", "x")
    follow_artifact(tenant, registry, "range/web", ref={"semver": "1.x"})
    tenant.ready("web")
    publish(registry, "range/web:1.1.9", "x")
    publish(registry, "range/web:1.4.0-rc.1", "x")
    third = publish(registry, "range/web:1.3.0", "a", value="2")
    tenant.applied("web", f"1.3.0@{third}")
    assert (tenant.value("a"), tenant.exists("x")) == ("2", [False])
    follow_artifact(tenant, registry, "range/web", ref={"digest": first})
    status = tenant.ready("web")
    assert status["lastAppliedRevision"].endswith(first)
    assert tenant.value("a") == "1"


def test_only_a_signed_artifact_is_applied(tenant: Tenant, registry: Registry) -> None:
    """Unsigned, and signed by somebody else; what was applied before stays."""
    own, other = signer(), signer("ed25519")
    client = Client(registry)
    secret(tenant, "signers", {"own.pub": own.public})
    # The helper of signatures writes to this name.
    first = publish(registry, "shop/web:prod", "a")
    verify = {"provider": "cosign", "secretRef": {"name": "signers"}}
    follow_artifact(tenant, registry, "shop/web", ref={"tag": "prod"}, verify=verify)
    tenant.failed("web", "VerificationFailed")
    assert tenant.exists("a") == [False]
    attach(client, first, "tag", other)
    tenant.reconciled("web", "again")
    assert tenant.condition("web")[1] == "VerificationFailed"
    attach(client, first, "bundle", own)
    tenant.ready("web")
    second = publish(registry, "shop/web:prod", "b")
    message = tenant.failed("web", "VerificationFailed")
    assert f"prod@{first} stays applied" in message
    assert tenant.exists("b") == [False]
    stays(tenant, "a")
    attach(client, second, "bundle", own)
    tenant.applied("web", f"prod@{second}")
    assert tenant.exists("b") == [True]


def test_registry_with_tokens_is_followed(
    tenant: Tenant, components: Components, tmp_path: Path
) -> None:
    """The token server gets the password; a wrong one is told, without its text."""
    with token_registry(components, tmp_path) as tokens:
        first = publish(tokens, "shop/web:prod", "a")
        source = registry_source(tenant, tokens, ref={"tag": "prod"})
        secret(tenant, "registry", {"username": tokens.username, "password": "hunter2"})
        tenant.bundle("web", source=source, interval="1h")
        assert "hunter2" not in tenant.failed("web", "AuthenticationFailed")
        registry_source(tenant, tokens)
        tenant.applied("web", f"prod@{first}")
