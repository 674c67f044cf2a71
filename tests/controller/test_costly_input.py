"""One tenant's input never takes the memory or the time of the others, nor their health.

The limit is set by the kernel: each process has 1 GiB of addresses.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from gzip import compress
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.controller import controller, served
from tests.support.costly import MEGABYTE, doubling
from tests.support.objects import config_map, text
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.controller import Tenant

MIB = 2**20
SMALL = ("env", "MALLOC_ARENA_MAX=2", "prlimit", f"--as={2**30}")
SUSPENDED = 'applyprune_reconciles_total{reason="Suspended"}'
BUNDLES = 20
HUNDREDS = 300


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


@pytest.mark.sweep
def test_hundreds_of_large_bundles_take_nothing_from_others(
    site: Plane, new_tenant: Callable[[], Tenant], tmp_path: Path
) -> None:
    """300 of them, each suspended and of almost a megabyte, at the start and while it works."""
    attacker, other = new_tenant(), new_tenant()
    namespaces = f"{attacker.namespace},{other.namespace}"
    arguments = ("lease=0", "--watch-namespaces", namespaces)
    with controller(site.kubeconfig, tmp_path / "first", *arguments, within=SMALL) as running:
        other.bundle("first", config_map("first"))
        other.ready("first")
        suspended(attacker, HUNDREDS)
        served(other, running, "at-once")
        eventually(lambda: running.metric(SUSPENDED) >= HUNDREDS, lambda: "their first turns")
        served(other, running, "later")
    with controller(site.kubeconfig, tmp_path / "second", *arguments, within=SMALL) as running:
        eventually(lambda: running.ask("/readyz")[0] == 200, lambda: "a list of all Bundles")
        served(other, running, "after-start")
        eventually(lambda: running.metric(SUSPENDED) >= HUNDREDS, lambda: "their first turns")
        served(other, running, "in-the-end")


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
    """Aliases, CEL, forged inventories, large Bundles, nesting and errors."""
    attacker, other = new_tenant(), new_tenant()
    suspended(attacker, BUNDLES)
    namespaces = f"{attacker.namespace},{other.namespace}"
    arguments = ("lease=0", "--watch-namespaces", namespaces)
    with controller(site.kubeconfig, tmp_path / "log", *arguments, within=SMALL) as running:
        eventually(lambda: running.metric(SUSPENDED) >= BUNDLES, lambda: "their first turns")
        served(other, running, "suspended")

        attacker.bundle("aliases", source=source("a", aliases()))
        message = attacker.failed("aliases", "InvalidSource")
        assert "spec.source.inline:" in message
        assert "with all aliases expanded, it takes more than 64 MiB" in message
        served(other, running, "aliases")

        depends = [{"name": "aliases", "readyWhen": doubling("self.spec.source.inline")}]
        attacker.bundle("cel", config_map("c"), dependsOn=depends)
        attacker.failed("cel", "ReconcileLimitExceeded")
        served(other, running, "cel")
        rules: dict[str, Any] = {"readyWhen": [f"cm={doubling('self.data.key')}"], "wait": True}
        large = config_map("ruled", "x" * MEGABYTE)
        attacker.bundle("ruled", large, **rules, timeout="2s", retryInterval="1h")
        served(other, running, "beside-ruled")
        attacker.failed("ruled", "ReconcileLimitExceeded")
        served(other, running, "ruled")

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
