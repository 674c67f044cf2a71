"""A tenant attacks by sources on other hosts; nothing outside its rights is read or changed.

As in ``test_tenants_cannot_escape``, the controller is an administrator, and the CRD checks only
types. It may connect to one address of this machine, and others of it are watched.
"""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.support.api import Api, AuditTrail
from tests.support.artifacts import digest_of
from tests.support.attacks.attack import DEPLOYER, VICTIM, body
from tests.support.attacks.scenery import (
    create,
    escaped,
    outside,
    populate,
    readable,
    said,
    untried,
)
from tests.support.attacks.servers import DENIED, OWN, attack_servers, command_lines
from tests.support.attacks.source_attack import SourceAttack
from tests.support.attacks.source_content import CONTENT
from tests.support.attacks.source_spec import MOVED, SPECS
from tests.support.canaries import TOKEN, TRACES, untold
from tests.support.controller import SYSTEM_NAMESPACE, Tenant, controller, served
from tests.support.objects import config_map, text
from tests.support.remote_bundles import secret
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.attacks.attack import Scene
    from tests.support.attacks.servers import Servers

ATTACKS = {**CONTENT, **SPECS}
FEW = {
    name: attack
    for name, attack in ATTACKS.items()
    if name.startswith(("leak: a blob that", "leak: a repository that"))
    or name == next(one for one in ATTACKS if one.partition(":")[0] == name.partition(":")[0])
}
"""The first of each kind, and those whose passwords the servers can tell."""
MALLORY = "mallory-of-the-web"
_FETCHING = "Fetching"


def named(attack: str) -> str:
    """Return the name of the Bundle and the branch of an attack."""
    return re.sub(r"[^a-z0-9]+", "-", attack.lower())[:55].strip("-")


def test_attacks_are_at_least_forty() -> None:
    assert len(ATTACKS) == len(CONTENT) + len(SPECS) >= 40
    assert len({named(name) for name in ATTACKS}) == len(ATTACKS)


@pytest.fixture
def admin(site: Plane) -> Iterator[Api]:
    """An administrator of the plane."""
    api = Api(site)
    yield api
    api.close()


@pytest.fixture(params=[FEW, pytest.param(ATTACKS, marks=pytest.mark.sweep)], ids=["few", "all"])
def attacks(request: pytest.FixtureRequest) -> Mapping[str, SourceAttack]:
    """The attacks of a test, by their names."""
    chosen: Mapping[str, SourceAttack] = request.param
    return chosen


@pytest.fixture
def servers(attacks: Mapping[str, SourceAttack], tmp_path: Path) -> Iterator[Servers]:
    """The servers of the attacker and of its victim, with what is on them."""
    with attack_servers(tmp_path) as found:
        honest = {f"{one}/a.yaml": text(config_map(one)) for one in ("web", "moved")}
        found.git.repository("evil").commit(honest, "honest")
        bank = found.vault.repository("bank")
        bank.commit({"web/a.yaml": text(config_map("from-vault", TOKEN))})
        for name, attack in attacks.items():
            if attack.files:
                repository = found.git.repository_of("evil")
                repository.commit(attack.files, named(name), keeps=False, modes=attack.modes)
            attack.prepare(found)
        yield found


def begin(scene: Scene, servers: Servers, name: str, attack: SourceAttack) -> None:
    """Create the Bundle of an attack, as the tenant."""
    branch = {"url": servers.git.url("evil"), "ref": {"branch": named(name)}, "path": attack.path}
    own = {"git": {**branch, "secretRef": {"name": "cas"}}}
    source = own if attack.source is None else attack.source(servers)
    spec = {"source": source, "retryInterval": "1h", **attack.spec}
    made = body("applyprune.dev/v1alpha1", "Bundle", named(name), spec=spec)
    create(scene.tenant.api, scene.tenant.bundle_path(), made)


def untold_yet(scene: Scene) -> list[str]:
    """Return the Bundles of which the source was not tried yet."""
    waiting = set(untried(scene))
    for one in scene.tenant.api.get(scene.tenant.bundle_path())["items"]:
        conditions = one.get("status", {}).get("conditions", ())
        if any(found["reason"] == _FETCHING for found in conditions):
            waiting.add(one["metadata"]["name"])
    return sorted(waiting)


def test_no_source_lets_a_tenant_escape(
    site: Plane,
    admin: Api,
    attacks: Mapping[str, SourceAttack],
    servers: Servers,
    tmp_path: Path,
) -> None:
    """All of them at once; afterwards others are served, and the victim is as it was.

    Slow: forty sources are fetched, and some hosts are silent.
    """
    scene = populate(admin, site)
    tenant, victim = scene.tenant, scene.victim
    owner = Tenant(admin, tenant.namespace)
    secret(owner, "cas", {"ca.crt": servers.ca})
    secret(owner, "login", {"username": MALLORY, "password": TOKEN, "ca.crt": servers.ca})
    secret(victim, "vault", {"username": "me", "password": TOKEN, "ca.crt": servers.ca})
    arguments = ("lease=4", "-n", SYSTEM_NAMESPACE)
    allowed = [f"--allow-source-cidr={address}/32" for address in (OWN, DENIED)]
    rules = (*allowed, f"--deny-source-cidr={DENIED}/32")
    log = tmp_path / "log"
    with (
        command_lines() as commands,
        controller(site.kubeconfig, log, *arguments, *rules) as running,
    ):
        victim.bundle("web", config_map("web"), serviceAccountName=DEPLOYER)
        url = servers.vault.url("bank")
        source = {"url": url, "path": "web", "secretRef": {"name": "vault"}}
        victim.bundle("sealed", source={"git": source}, interval="1h")
        tenant.bundle("stepping-stone", config_map("stone"))
        for one, bundle in ((victim, "web"), (victim, "sealed"), (tenant, "stepping-stone")):
            one.ready(bundle)
        before, audit = outside(admin), AuditTrail(site, admin)
        servers.vault.requests.clear()
        for name, attack in attacks.items():
            begin(scene, servers, name, attack)
        served(Tenant(admin, "other"), running, "meanwhile")
        eventually(lambda: not untold_yet(scene), lambda: f"tried: {untold_yet(scene)}")
        texts = {
            one["metadata"]["name"]: said(one)
            for one in tenant.api.get(tenant.bundle_path())["items"]
        }
        unsaid = {
            name: texts[named(name)]
            for name, attack in attacks.items()
            if attack.says not in texts[named(name)]
        }
        assert unsaid == {}, json.dumps(unsaid, indent=2)
        assert servers.caught() == []
        assert not servers.sentinel.exists()
        assert [path for one in attacks.values() for path in one.never if admin.exists(path)] == []
        assert escaped(audit) == []
        assert outside(admin) == before
        untold(readable(scene, running, admin))
        served(Tenant(admin, "other"), running, "afterwards")
        victim.reconciled("sealed", "after")
        assert victim.condition("sealed")[:2] == ("True", "Applied")
        assert victim.value("from-vault") == TOKEN
    shown = [line for line in commands if any(trace in line for trace in TRACES)]
    assert shown == []
    assert any("ls-remote" in line for line in commands)
    given_elsewhere(servers)
    assert VICTIM not in tenant.namespace


def given_elsewhere(servers: Servers) -> None:
    """Fail if the attacker's password went to a host that it is not for.

    Both servers are asked by two names: the source has the first, and the second is a redirect's.
    """
    login = base64.b64encode(f"{MALLORY}:{TOKEN}".encode()).decode()
    calls = {call.path.partition("?")[0]: call.headers for call in servers.web.calls}
    assert login in calls[f"/v2/evil/moved/blobs/{digest_of(MOVED)}"]["Authorization"]
    assert "Authorization" not in calls["/target"]
    asked = [given for _, path, given in servers.git.requests if path.startswith("/elsewhere.git")]
    assert any(login in given for given in asked)
    moved = [given for _, path, given in servers.git.requests if path.startswith("/evil.git")]
    assert moved
    assert not any(moved)
