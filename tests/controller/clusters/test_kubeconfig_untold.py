"""Whatever is wrong with a kubeconfig, or with the server that it leads to: no value is shown."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.canaries import TOKEN, encoded, untold
from tests.support.controller import told
from tests.support.fault_proxy import FaultProxy, always, faults
from tests.support.kubeconfigs import (
    COSTLY,
    FOREIGN,
    MALFORMED,
    SERVERS,
    kubeconfig,
    with_foreign,
)
from tests.support.objects import config_map
from tests.support.other_cluster import put_kubeconfig
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from applyprune.localplane import Plane
    from tests.support.controller import Controller, Tenant
    from tests.support.fault_proxy import Exchange

SHOWN = "what-the-server-says"
"""It stays beside the token that the server quotes; the log is that of the whole module."""
LONG = {"interval": "1h", "retryInterval": "1h"}


def _invalid() -> dict[str, bytes]:
    """Return every kubeconfig that is refused before anything is sent."""
    found: dict[str, Any] = {key: with_foreign(key, value) for key, (_, value) in FOREIGN.items()}
    # In these tests, loopback addresses are allowed.
    servers = [one for one, why in SERVERS.items() if "loopback" not in why]
    found |= {f"server {number}": kubeconfig({"server": one}) for number, one in enumerate(servers)}
    found |= {name: content for name, (content, _) in (MALFORMED | COSTLY).items()}
    return {
        name: content if isinstance(content, bytes) else json.dumps(content).encode()
        for name, content in found.items()
    }


def test_refused_kubeconfigs_are_untold(tenant: Tenant, running: Controller) -> None:
    """In status, Events, log and metrics; nothing is sent for them, and no Bundle is held."""
    cases = _invalid()
    assert len(cases) > 60
    for number, content in enumerate(cases.values()):
        name = f"b-{number}"
        spec = put_kubeconfig(tenant, content, name=name)
        tenant.bundle(name, config_map(name), **spec, **LONG)
    for number, case in enumerate(cases):
        message = tenant.failed(f"b-{number}", "InvalidKubeConfig")
        assert message.startswith(f"the kubeconfig of secret/b-{number} cannot be used: "), case
        assert "finalizers" not in tenant.get(f"b-{number}")["metadata"]
    untold(told(tenant, running))


def unreachable(site: Plane) -> dict[str, dict[str, Any]]:
    """Return kubeconfigs with which no request succeeds, and that have a secret each."""
    good = {
        "server": site.server,
        "certificate-authority-data": encoded(site.ca_file.read_text()),
    }
    return {
        "a name that does not exist": kubeconfig({"server": f"https://{TOKEN}.invalid"}),
        "a name of the metadata": kubeconfig({"server": "https://2852039166"}),
        "another name": kubeconfig({**good, "tls-server-name": f"{TOKEN}.example"}),
        "a token that is refused": kubeconfig(good),
        "the system's authorities": kubeconfig({"server": site.server}),
    }


WHY = {
    "a name that does not exist": "the name of the cluster of secret/b-0 cannot be resolved",
    "a name of the metadata": "means a link-local address; nothing was sent",
    "another name": "cannot be trusted: Hostname mismatch",
    "a token that is refused": "the other cluster refuses the credentials of the kubeconfig",
    "the system's authorities": "the certificate of the cluster of secret/b-4 cannot be trusted",
}


@pytest.mark.holds("quoted-name")
def test_unreachable_clusters_are_untold(tenant: Tenant, running: Controller, site: Plane) -> None:
    """Errors of name resolution, of TLS and of the server say what is wrong, and no value."""
    for number, content in enumerate(unreachable(site).values()):
        name = f"b-{number}"
        spec = put_kubeconfig(tenant, json.dumps(content).encode(), name=name)
        tenant.bundle(name, config_map(name), **spec, **LONG)
    for number, why in enumerate(WHY.values()):
        assert why in tenant.failed(f"b-{number}", "ClusterUnreachable")
    untold(told(tenant, running))


def _failed(tenant: Tenant, name: str) -> bool:
    return tenant.condition(name)[0] == "False"


@pytest.mark.holds("quoted-token")
def test_server_that_quotes_the_token_is_not_repeated(
    tenant: Tenant, running: Controller, site: Plane
) -> None:
    """In an error, a page, a redirect or a warning, before a run and in one."""
    quote = f"not {site.token} of {SHOWN}"
    location = (("Location", f"https://127.0.0.1:1/{site.token}"),)
    warning = (("Warning", f'299 - "{quote}"'),)
    quoting = {
        "unauthorized": faults.status(401, "Unauthorized", quote),
        "forbidden": faults.status(403, "Forbidden", quote),
        "text": faults.text(400, quote),
        "redirect": faults.answer(302, headers=location),
        "missing": faults.status(404, "NotFound", quote, name="kube-system", kind="namespaces"),
    }

    def content(server: str) -> bytes:
        authority = encoded(site.ca_file.read_text())
        cluster = {"server": server, "certificate-authority-data": authority}
        return json.dumps(kubeconfig(cluster, {"token": site.token})).encode()

    def is_write(exchange: Exchange) -> bool:
        return exchange.method == "PATCH"

    with FaultProxy(site) as proxy:
        spec = put_kubeconfig(tenant, content(proxy.server))
        for name, fault in quoting.items():
            proxy.rule = always(fault)
            tenant.bundle(name, config_map(name), **spec, **LONG)
            eventually(partial(_failed, tenant, name), partial("{} failed".format, name))
        paths = {exchange.path for exchange in proxy.exchanges}
        namespaces = ("kube-system", tenant.namespace)
        # A 404 that does not name the object may mean that its version is not served.
        kinds = {"/api", "/apis"}
        assert paths <= kinds | {f"/api/v1/namespaces/{name}" for name in namespaces}
        proxy.rule = always(faults.status(422, "Invalid", quote, headers=warning), where=is_write)
        tenant.bundle("run", config_map("run"), **spec, **LONG)
        tenant.failed("run", "ApplyFailed")
        message = tenant.failures("run")["configmap/run"]
        assert f": not *** of {SHOWN}: PATCH /api/v1/namespaces/" in message
    found = told(tenant, running)
    assert f"not *** of {SHOWN}" in found
    assert site.token not in found
