"""One tenant's input never takes the memory or the time of the others, nor their health.

The limit is that of deploy/deployment.yaml, set by the kernel: the process has 1 GiB of addresses.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from gzip import compress
from typing import TYPE_CHECKING, Any

from tests.support.controller import controller
from tests.support.fault_proxy import FaultProxy, always, faults
from tests.support.objects import config_map, text
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.controller import Controller, Tenant
    from tests.support.fault_proxy import Exchange

MIB = 2**20
SMALL = ("env", "MALLOC_ARENA_MAX=2", "prlimit", f"--as={2**30}")
SOON = 5.0
"""Seconds in which another tenant is served."""
SUSPENDED = 'applyprune_reconciles_total{reason="Suspended"}'
BUNDLES = 160
MEGABYTE = 900_000


def served(other: Tenant, running: Controller, after: str) -> None:
    """Another tenant's new Bundle is applied soon, and the controller says that it is well."""
    other.bundle(after, config_map(after))
    other.ready(after, within=SOON)
    assert other.exists(after) == [True]
    assert running.ask("/healthz") == (200, "ok\n")
    assert running.process.poll() is None


def source(name: str, more: str) -> dict[str, Any]:
    """Return a source with one ConfigMap and more text."""
    return {"inline": text(config_map(name)) + "\n---\n" + more}


def suspended(tenant: Tenant, count: int) -> None:
    """Create suspended Bundles, each of almost a megabyte."""
    for number in range(count):
        body = {
            "apiVersion": "applyprune.dev/v1alpha1",
            "kind": "Bundle",
            "metadata": {"name": f"large-{number}"},
            "spec": {"source": {"inline": "#" * MEGABYTE}, "suspend": True},
        }
        assert tenant.api("POST", tenant.bundle_path(), body)[0] == 201


def aliases() -> str:
    """Return documents that are each within Go's limit for aliases, and together are a bomb."""
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
    each = f"{head}x: &x [{'[],' * 300}]\ny: [{'*x,' * 97}]\n---\n"
    return each * (989_000 // len(each))


def forged(tenant: Tenant, name: str, parts: list[bytes], times: int) -> None:
    """Let the inventory of a Bundle name some shards, each of them several times."""
    digests = []
    for lines in parts:
        digests.append(hashlib.sha256(lines).hexdigest())
        shard = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"applyprune-{name}.{digests[-1][:32]}"},
            "immutable": True,
            "binaryData": {"entries.gz": b64encode(compress(lines, 1)).decode()},
        }
        assert tenant.api("POST", tenant.path("configmaps"), shard)[0] == 201
    path = tenant.path("configmaps", f"applyprune-{name}")
    root = tenant.api.get(path)
    header = json.loads(root["data"]["header"])
    header["shards"] = [[digest, 1] for digest in digests] * times
    root["data"] = {"header": json.dumps(header)}
    assert tenant.api("PUT", path, root)[0] == 200
    tenant.annotate(name, reconcile_now="forged")


def test_no_tenants_input_takes_down_the_controller(
    site: Plane, new_tenant: Callable[[], Tenant], tmp_path: Path
) -> None:
    """Aliases, CEL, forged inventories, large Bundles, nesting and errors; and a lost server."""
    attacker, other, alone = new_tenant(), new_tenant(), new_tenant()
    suspended(attacker, BUNDLES)
    with (
        FaultProxy(site) as proxy,
        _watching(proxy.kubeconfig(tmp_path), tmp_path / "lost", alone) as lost,
        _watching(site.kubeconfig, tmp_path / "log", attacker, other) as running,
    ):
        alone.bundle("first", config_map("first"))
        alone.ready("first")
        assert lost.ask("/healthz") == (200, "ok\n")
        proxy.rule = always(faults.reset(), where=_is_of_bundles)
        eventually(lambda: running.metric(SUSPENDED) >= BUNDLES, "their first turns", within=120)
        served(other, running, "suspended")

        attacker.bundle("aliases", source=source("a", aliases()))
        message = attacker.failed("aliases", "InvalidSource")
        assert "spec.source.inline:" in message
        assert "with all aliases expanded, it takes more than 64 MiB" in message
        served(other, running, "aliases")

        rule = "[self.spec.source.inline]" + ".map(a, a + a)" * 13 + ".exists(a, a == '')"
        assert len(rule) < 231
        depends = [{"name": "aliases", "readyWhen": rule}]
        attacker.bundle("cel", config_map("c"), dependsOn=depends)
        message = attacker.failed("cel", "DependencyNotReady")
        assert "it would cost too much memory or time on an object of this size" in message
        served(other, running, "cel")

        for name in ("again", "many"):
            attacker.bundle(name, config_map(name))
            attacker.ready(name)
        forged(attacker, "again", [b"\n" * 15 * MIB], 80)
        assert " twice" in attacker.failed("again", "InventoryUnreadable")
        different = [b"\n" * (15 * MIB + number) for number in range(12)]
        forged(attacker, "many", different, 1)
        message = attacker.failed("many", "InventoryUnreadable")
        assert "its unpacked entries are larger than 128 MiB" in message
        served(other, running, "forged")

        attacker.bundle("deep", source=source("d", "[" * MEGABYTE))
        assert "nested deeper than 100 levels" in attacker.failed("deep", "InvalidSource")
        attacker.bundle("errors", source=source("e", "a\n---\n" * 150_000))
        message = attacker.failed("errors", "InvalidSource")
        assert "(and " in message
        assert len(json.dumps(attacker.get("errors")["status"])) < 10_000
        served(other, running, "errors")

        # Nobody is served where the Bundles cannot even be listed, although no queue says so.
        status, said = eventually(lambda: _unwell(lost), "an unhealthy controller", within=120)
        assert (status, "the Bundles cannot be listed or watched for 6" in said) == (503, True)
        assert lost.ask("/livez") == (200, "ok\n")
        proxy.rule = lambda _seen: None
        eventually(lambda: lost.ask("/healthz") == (200, "ok\n"), "health")


def _watching(kubeconfig: Path, log: Path, *tenants: Tenant) -> Any:
    """Run a controller in little memory for the Bundles of some tenants."""
    namespaces = ",".join(tenant.namespace for tenant in tenants)
    arguments = ("--no-leader-elect", "--watch-namespaces", namespaces)
    return controller(kubeconfig, log, *arguments, within=SMALL)


def _is_of_bundles(seen: Exchange) -> bool:
    return seen.path.endswith("/bundles")


def _unwell(running: Controller) -> tuple[int, str] | None:
    status, said = running.ask("/healthz")
    return None if status == 200 else (status, said)
