"""Bundles that follow an OCI artifact: a tag that moves, a range, a digest, and signatures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.sources.oci_artifact import push
from tests.support.artifacts import source_of
from tests.support.registries import Registry, token_registry
from tests.support.registry_client import BASIC, Client
from tests.support.remote_bundles import file_of, registry_source, secret, stays
from tests.support.signed_artifacts import attach
from tests.support.signing import signer

if TYPE_CHECKING:
    from pathlib import Path

    from tests.components import Components
    from tests.support.controller import Tenant


def publish(registry: Registry, tag: str, *names: str, value: str = "1") -> str:
    """Push ConfigMaps, and return the digest."""
    files = {"web/a.yaml": file_of(*names, value=value).encode()}
    return push(source_of(registry, tag), files)


def url(registry: Registry, name: str) -> str:
    """Return the URL of an artifact."""
    return f"oci://{registry.host}/{name}"


def test_bundle_follows_a_tag(tenant: Tenant, registry: Registry) -> None:
    """Moved, missing, and back; what left it is pruned, and its absence prunes nothing."""
    first = publish(registry, "moved/web:prod", "a", "b")
    more = {"url": url(registry, "moved/web"), "ref": {"tag": "prod"}, "path": "web"}
    tenant.bundle("web", source=registry_source(tenant, registry, **more), interval="1h")
    tenant.applied("web", f"prod@{first}")
    second = publish(registry, "moved/web:prod", "a")
    tenant.applied("web", f"prod@{second}")
    assert tenant.exists("a", "b") == [True, False]
    assert Client(registry)("DELETE", f"/v2/moved/web/manifests/{second}", BASIC).status == 202
    message = tenant.failed("web", "PathNotFound")
    assert f"prod@{second}" in message
    stays(tenant, "a")
    third = publish(registry, "moved/web:prod", "a", value="3")
    tenant.applied("web", f"prod@{third}")
    assert tenant.value("a") == "3"


def test_highest_version_of_a_range_is_followed(tenant: Tenant, registry: Registry) -> None:
    """A lower one, one outside and a pre-release are not."""
    publish(registry, "range/web:1.2.0", "a")
    publish(registry, "range/web:2.0.0", "x")
    more = {"url": url(registry, "range/web"), "ref": {"semver": "1.x"}}
    tenant.bundle("web", source=registry_source(tenant, registry, **more), interval="1h")
    tenant.ready("web")
    publish(registry, "range/web:1.1.9", "x")
    publish(registry, "range/web:1.4.0-rc.1", "x")
    third = publish(registry, "range/web:1.3.0", "a", value="2")
    tenant.applied("web", f"1.3.0@{third}")
    assert tenant.value("a") == "2"
    assert tenant.exists("x") == [False]


def test_digest_stays_whatever_is_pushed(tenant: Tenant, registry: Registry) -> None:
    """And no other one is looked for."""
    first = publish(registry, "pinned/web:prod", "a")
    more = {"url": url(registry, "pinned/web"), "ref": {"digest": first}}
    tenant.bundle("web", source=registry_source(tenant, registry, **more), interval="1h")
    status = tenant.ready("web")
    assert status["lastAppliedRevision"].endswith(first)
    publish(registry, "pinned/web:prod", "b")
    tenant.reconciled("web", "again")
    assert tenant.exists("a", "b") == [True, False]


def test_only_a_signed_artifact_is_applied(tenant: Tenant, registry: Registry) -> None:
    """Unsigned, and signed by somebody else; what was applied before stays."""
    own, other = signer(), signer("ed25519")
    client = Client(registry)
    secret(tenant, "signers", {"own.pub": own.public})
    # The helper of signatures writes to this name.
    first = publish(registry, "shop/web:prod", "a")
    verify = {"provider": "cosign", "secretRef": {"name": "signers"}}
    source = registry_source(tenant, registry, ref={"tag": "prod"}, verify=verify)
    tenant.bundle("web", source=source, interval="1h")
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


def test_wrong_password_is_reported(tenant: Tenant, registry: Registry) -> None:
    """Not the password; with the right one it goes on."""
    publish(registry, "login/web:prod", "a")
    source = registry_source(tenant, registry, url=url(registry, "login/web"), ref={"tag": "prod"})
    secret(tenant, "registry", {"username": registry.username, "password": "hunter2"})
    tenant.bundle("web", source=source, interval="1h")
    assert "hunter2" not in tenant.failed("web", "AuthenticationFailed")
    registry_source(tenant, registry)
    tenant.ready("web")


def test_registry_with_tokens_is_followed(
    tenant: Tenant, components: Components, tmp_path: Path
) -> None:
    """The token server gets the password, and the Bundle says nothing of either."""
    with token_registry(components, tmp_path) as tokens:
        first = publish(tokens, "shop/web:prod", "a")
        source = registry_source(tenant, tokens, ref={"tag": "prod"})
        tenant.bundle("web", source=source, interval="1h")
        tenant.applied("web", f"prod@{first}")
