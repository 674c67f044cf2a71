"""A tenant with all rights in its own namespace changes nothing elsewhere, and reads no Secret.

The controller is an administrator here, and the CRD checks only types: whatever holds, holds
because each request is sent as an account of the tenant's namespace, and because the controller
checks every name itself.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.support.api import Api, AuditTrail
from tests.support.attacks.attack import (
    DEPLOYER,
    Attack,
    Scene,
    body,
)
from tests.support.attacks.clusters import CLUSTERS
from tests.support.attacks.identity import IDENTITY
from tests.support.attacks.places import ELSEWHERE
from tests.support.attacks.records import RECORDS
from tests.support.attacks.scenery import (
    create,
    escaped,
    outside,
    populate,
    readable,
    said,
    uids,
    untried,
)
from tests.support.attacks.sources import ORACLES, SOURCES
from tests.support.canaries import untold
from tests.support.controller import SYSTEM_NAMESPACE, Tenant, controller
from tests.support.objects import config_map, text
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from applyprune.localplane import Plane

GROUPS = (IDENTITY, CLUSTERS, ELSEWHERE, SOURCES, RECORDS)
ATTACKS = {name: attack for group in GROUPS for name, attack in group.items()}


def named(attack: str) -> str:
    """Return the name of the Bundle of an attack."""
    return re.sub(r"[^a-z0-9]+", "-", attack.lower())[:55].strip("-")


def begin(scene: Scene, name: str, attack: Attack) -> None:
    """Prepare an attack, and create its Bundle, as the tenant."""
    bundle = named(name)
    attack.before(scene, bundle)
    source = {"inline": attack.inline or text(*attack.manifests)}
    spec = {"source": source, "retryInterval": "1h", **attack.spec}
    made = body("applyprune.dev/v1alpha1", "Bundle", bundle, spec=spec)
    create(scene.tenant.api, scene.tenant.bundle_path(), made)


@pytest.fixture
def admin(site: Plane) -> Iterator[Api]:
    """An administrator of the plane."""
    api = Api(site)
    yield api
    api.close()


@pytest.mark.holds("account-exists")
def test_no_tenant_escapes_from_its_namespace(site: Plane, admin: Api, tmp_path: Path) -> None:
    """All attacks at once; afterwards other tenants are served, and the victim is as it was.

    Slow: a hundred attacks are each reconciled twice.
    """
    assert len({named(name) for name in ATTACKS}) == sum(map(len, GROUPS))
    scene = populate(admin, site)
    scene.uids = uids(admin)
    tenant, victim = scene.tenant, scene.victim
    arguments = ("lease=4", "-n", SYSTEM_NAMESPACE)
    with controller(site.kubeconfig, tmp_path / "log", *arguments) as running:
        victim.bundle("web", config_map("web"), serviceAccountName=DEPLOYER)
        victim.bundle("vault", source={"secretRefs": [{"name": "manifests"}]})
        tenant.bundle("stepping-stone", config_map("stone"))
        for one, bundle in ((victim, "web"), (victim, "vault"), (tenant, "stepping-stone")):
            one.ready(bundle)
        before, audit = outside(admin), AuditTrail(site, admin)

        for name, attack in ATTACKS.items():
            begin(scene, name, attack)
        eventually(lambda: not untried(scene), lambda: "every attack is tried")
        later = {name: attack for name, attack in ATTACKS.items() if attack.then is not None}
        for name, attack in later.items():
            assert attack.then is not None
            attack.then(scene, named(name))
        going = [named(name) for name, attack in ATTACKS.items() if attack.deletes]
        for name in later:
            tenant.annotate(named(name), reconcile_now="again")
        eventually(lambda: not untried(scene, "again"), lambda: "every attack is tried again")
        texts = {
            one["metadata"]["name"]: said(one)
            for one in tenant.api.get(tenant.bundle_path())["items"]
        }
        for bundle in going:
            tenant.delete(bundle)
        for bundle in going:
            tenant.gone(bundle)

        told = readable(scene, running, admin)
        unsaid = {
            name: texts[named(name)]
            for name, attack in ATTACKS.items()
            if attack.says != "*" and (attack.says or "Applied: ") not in texts[named(name)]
        }
        assert unsaid == {}, json.dumps(unsaid, indent=2)
        assert [path for one in ATTACKS.values() for path in one.never if admin.exists(path)] == []
        assert escaped(audit) == []
        assert outside(admin) == before
        untold(told)
        first, second = (texts[named(name)].replace(named(name), "oracle") for name in ORACLES)
        assert first.replace("bank", "bonk") == second

        other = Tenant(admin, "other")
        other.bundle("web", config_map("served"))
        other.ready("web")
        assert running.ask("/healthz") == (200, "ok\n")
        victim.reconciled("web", "after")
        assert victim.condition("web")[:2] == ("True", "Applied")
        victim.delete("web")
        victim.gone("web")
