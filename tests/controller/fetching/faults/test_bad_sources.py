"""Sources that become bad, or are encrypted: a Bundle says why, and nothing decrypted is told."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.api import Api
from tests.support.bad_sources import BAD_SOURCES, bad_servers
from tests.support.canaries import TOKEN, untold
from tests.support.canaries import secret as canary
from tests.support.controller import controller, served, tenants, told
from tests.support.encryption import Key, age_key, encrypt
from tests.support.objects import config_map, text
from tests.support.remote_bundles import LOOPBACK, file_of, git_credentials, git_source, secret
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from applyprune.localplane import Plane
    from tests.components import Components
    from tests.support.controller import Controller, Tenant
    from tests.support.git_servers import HttpsSite

GUIDE = Path(__file__).parents[4] / "docs/guides/bundle-sources.md"
ALL = tuple(BAD_SOURCES)
FEW = (
    *("missing-path", "invalid", "cut-connection", "cut-layer", "bomb", "edited"),
    *("not-decrypted", "force-push", "unsigned", "wrong-password"),
)
"""Each reason, by Git and by a registry; tests/unit/sources has what git, tar or a server says."""
few_and_all = pytest.mark.parametrize(
    "bad", [FEW, pytest.param(ALL, marks=pytest.mark.sweep)], ids=["few", "all"], indirect=True
)
ELSEWHERE = {"SourceNotFound"}
"""The reasons that are not those of a source: other tests have them."""


@pytest.fixture(scope="module")
def running(
    site: Plane, components: Components, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Controller]:
    """A controller that finds sops, as in its image."""
    log = tmp_path_factory.mktemp("controller") / "log"
    path = f"PATH={components.sops.parent}:{os.environ['PATH']}"
    with controller(site.kubeconfig, log, "lease=0", *LOOPBACK, within=("env", path)) as one:
        yield one


@pytest.fixture(scope="module")
def bad(
    request: pytest.FixtureRequest,
    site: Plane,
    running: Controller,
    components: Components,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Tenant]:
    """A tenant with a Bundle for each source: each has applied a good one, and is asked to look."""
    assert running.address
    chosen = {name: BAD_SOURCES[name] for name in request.param}
    folder = tmp_path_factory.mktemp("bad")
    api = Api(site)
    with tenants(api) as make, bad_servers(folder, components) as servers:
        tenant = make()
        sources = {name: one.begin(servers, name) for name, one in chosen.items()}
        servers.commit_content()
        for name, values in servers.all_secrets().items():
            secret(tenant, name, values)
        for name, one in chosen.items():
            tenant.bundle(name, source=sources[name], interval="1h", **one.spec)
        for name in chosen:
            tenant.ready(name)
        for name, one in chosen.items():
            one.spoil(servers, name)
        servers.commit_content()
        for name in chosen:
            tenant.annotate(name, reconcile_now="bad")
        yield tenant
    api.close()


@pytest.mark.parametrize(
    ("bad", "name"),
    [
        *(pytest.param(FEW, name, id=name) for name in FEW),
        *(pytest.param(ALL, name, id=f"all-{name}", marks=pytest.mark.sweep) for name in ALL),
    ],
    indirect=["bad"],
    scope="module",
)
def test_bad_source_prunes_nothing_and_says_why(bad: Tenant, name: str) -> None:
    """With the reason that the guide names."""
    source = BAD_SOURCES[name]
    message = bad.failed(name, source.reason)
    assert source.says in message
    assert ("stays applied" in message) is source.keeps
    assert bad.exists(f"{name}-a", f"{name}-b") == [True, True]
    assert bad.value(f"{name}-a") == "1"


@few_and_all
@pytest.mark.parametrize("name", ["invalid", "edited", "not-decrypted", "missing-path"])
def test_drift_is_set_back_while_what_is_new_is_unusable(bad: Tenant, name: str) -> None:
    """To the content that was good last, whether what is new was not read or not usable."""
    bad.failed(name, BAD_SOURCES[name].reason)
    patch, kind = {"data": {"key": "by hand"}}, "application/merge-patch+json"
    path = bad.path("configmaps", f"{name}-a")
    assert bad.api("PATCH", path, patch, content_type=kind)[0] == 200
    eventually(lambda: bad.value(f"{name}-a") == "1", lambda: "the value of the last good content")
    assert "stays applied" in bad.failed(name, BAD_SOURCES[name].reason)
    assert bad.exists(f"{name}-b") == [True]


@few_and_all
def test_other_tenants_are_served_beside_bad_sources(
    bad: Tenant, new_tenant: Callable[[], Tenant], running: Controller
) -> None:
    """Afterwards, too."""
    assert bad.condition("missing-path")[0] == "False"
    served(new_tenant(), running, "afterwards")


def test_every_reason_of_the_guide_has_a_bad_source() -> None:
    """Those of its table, in ``make test`` too."""
    table = GUIDE.read_text().partition("| reason |")[2].partition("\n\n")[0]
    reasons = set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE))
    found = {BAD_SOURCES[name].reason for name in FEW}
    assert reasons - ELSEWHERE <= found
    assert len(reasons) > len(ELSEWHERE)


DECRYPTION = {"provider": "sops", "secretRef": {"name": "sops-age"}}


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
