"""Bundles whose files SOPS has encrypted: nothing that is decrypted is told anywhere."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.canaries import TOKEN, untold
from tests.support.canaries import secret as canary
from tests.support.controller import controller, told
from tests.support.encryption import Key, age_key, encrypt
from tests.support.objects import config_map, text
from tests.support.remote_bundles import LOOPBACK, file_of, git_credentials, git_source, secret
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from applyprune.localplane import Plane
    from tests.components import Components
    from tests.support.controller import Controller, Tenant
    from tests.support.git_servers import HttpsSite

DECRYPTION = {"provider": "sops", "secretRef": {"name": "sops-age"}}


@pytest.fixture(scope="module")
def running(
    site: Plane, components: Components, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Controller]:
    """A controller that finds sops, as in its image."""
    log = tmp_path_factory.mktemp("controller") / "log"
    path = f"PATH={components.sops.parent}:{os.environ['PATH']}"
    arguments = ("lease=0", *LOOPBACK)
    with controller(site.kubeconfig, log, *arguments, within=("env", path)) as one:
        yield one


@pytest.fixture(scope="module")
def key(components: Components) -> Key:
    """An age key."""
    return age_key(components)


def sealed(components: Components, key: Key, *manifests: dict[str, Any]) -> bytes:
    """Return manifests as sops encrypts them: the values of all fields but a few."""
    rules = ("--age", key.recipient, "--encrypted-regex", "^(data|stringData|spec)$")
    return encrypt(components, text(*manifests), *rules)


def follow(tenant: Tenant, git: HttpsSite, **spec: object) -> None:
    """Apply a Bundle with encrypted files, and the credentials of its repository."""
    git_credentials(tenant, git)
    tenant.bundle("web", source=git_source(git, path="web"), interval="1h", **spec)


def test_encrypted_files_are_applied_and_told_nowhere(
    tenant: Tenant, git: HttpsSite, running: Controller, components: Components, key: Key
) -> None:
    """A Secret and a ConfigMap; then one that the server refuses, which would quote it."""
    repository = git.repository()
    repository.commit(
        {
            "web/secret.yaml": sealed(components, key, canary("key", stringData={"v": TOKEN})),
            "web/map.yaml": sealed(components, key, config_map("map", TOKEN)),
            "web/plain.yaml": file_of("plain"),
        }
    )
    secret(tenant, "sops-age", key.secret)
    follow(tenant, git, decryption=DECRYPTION)
    tenant.ready("web")
    assert tenant.value("map") == TOKEN
    assert tenant.value("plain") == "1"
    repository.commit(
        {"web/map.yaml": sealed(components, key, {**config_map("map"), "data": {"key": [TOKEN]}})}
    )
    eventually(lambda: tenant.condition("web")[0] == "False", lambda: "the refusal")
    assert tenant.value("map") == TOKEN
    untold(told(tenant, running))


def test_missing_key_is_waited_for(
    tenant: Tenant, git: HttpsSite, components: Components, key: Key
) -> None:
    """The Secret is missing, then it has another key; nothing is applied, not even in part."""
    git.repository().commit(
        {
            "web/map.yaml": sealed(components, key, config_map("map", TOKEN)),
            "web/plain.yaml": file_of("plain"),
        }
    )
    follow(tenant, git, decryption=DECRYPTION, retryInterval="1h")
    assert "secret/sops-age does not exist" in tenant.failed("web", "SourceNotFound")
    secret(tenant, "sops-age", age_key(components).secret)
    message = tenant.failed("web", "DecryptionFailed")
    assert "web/map.yaml: the file cannot be decrypted" in message
    assert "no key of the Secret can decrypt it" in message
    assert tenant.exists("map", "plain") == [False, False]
    secret(tenant, "sops-age", key.secret)
    tenant.ready("web")


def test_keys_of_another_namespace_decrypt_nothing(
    tenant: Tenant, git: HttpsSite, components: Components, key: Key
) -> None:
    """A key is read as the account of the Bundle: one that may not read it gets nothing."""
    git.repository().commit({"web/map.yaml": sealed(components, key, config_map("map", TOKEN))})
    secret(tenant, "sops-age", key.secret)
    own = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
    may = {**own, "resourceNames": ["git-credentials"]}
    maps = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}
    tenant.account("weak", may, maps)
    follow(tenant, git, decryption=DECRYPTION, serviceAccountName="weak")
    tenant.failed("web", "Forbidden")
    assert tenant.exists("map") == [False]
