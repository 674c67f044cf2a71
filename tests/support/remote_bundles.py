"""Bundles whose sources are on servers of a test."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from tests.support.objects import config_map, text
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.support.controller import Tenant
    from tests.support.git_servers import HttpsSite
    from tests.support.registries import Registry
    from tests.support.tls_site import Site

CREDENTIALS = "git-credentials"
LOOPBACK = ("--allow-source-cidr=127.0.0.0/8", "--allow-source-cidr=::1/128")
"""What lets a controller read sources on this machine."""


def secret(tenant: Tenant, name: str, values: Mapping[str, str | bytes]) -> None:
    """Apply a Secret with these values."""
    data = {
        key: base64.b64encode(value if isinstance(value, bytes) else value.encode()).decode()
        for key, value in values.items()
    }
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data}
    tenant.put("secrets", body)


def git_credentials(tenant: Tenant, site: HttpsSite) -> None:
    """Give a tenant what the server wants, and its CA."""
    user, _, password = site.login.partition(":")
    secret(tenant, CREDENTIALS, {"username": user, "password": password, "ca.crt": site.ca})


def git_source(site: HttpsSite, name: str = "web", **more: Any) -> dict[str, Any]:
    """Return a source that follows the branch main of a repository."""
    given = {
        "url": site.url(name),
        "ref": {"branch": "main"},
        "interval": "1s",
        "secretRef": {"name": CREDENTIALS},
        **more,
    }
    return {"git": given}


def file_of(*names: str, value: str = "1") -> str:
    """Return a file with ConfigMaps."""
    return text(*(config_map(name, value) for name in names))


def registry_source(tenant: Tenant, registry: Registry, **more: Any) -> dict[str, Any]:
    """Give a tenant what the registry wants, and return a source that follows shop/web there."""
    login = {"username": registry.username, "password": registry.password}
    config = json.dumps({"auths": {registry.host: login}})
    secret(tenant, "registry", {".dockerconfigjson": config})
    secret(tenant, "ca", {"ca.crt": registry.ca.read_bytes()})
    given = {
        "url": f"oci://{registry.host}/shop/web",
        "interval": "1s",
        "secretRef": {"name": "registry"},
        "certSecretRef": {"name": "ca"},
        **more,
    }
    return {"oci": given}


def open_registry_source(tenant: Tenant, site: Site, **more: Any) -> dict[str, Any]:
    """Give a tenant the CA of a site, and return a source that follows shop/web there."""
    secret(tenant, "ca", {"ca.crt": site.ca})
    url = f"oci://{site.host}/shop/web"
    given = {"url": url, "interval": "1s", "certSecretRef": {"name": "ca"}, **more}
    return {"oci": given}


def set_value(tenant: Tenant, name: str, value: str) -> None:
    """Change the only value of a ConfigMap, as somebody else."""
    kind = "application/merge-patch+json"
    path = tenant.path("configmaps", name)
    assert tenant.api("PATCH", path, {"data": {"key": value}}, content_type=kind)[0] == 200


def stays(tenant: Tenant, name: str) -> None:
    """Fail unless a ConfigMap is still applied with the value 1, and drift of it is reverted."""
    assert tenant.value(name) == "1"
    set_value(tenant, name, "theirs")
    eventually(lambda: tenant.value(name) == "1", lambda: "the drift is reverted")
