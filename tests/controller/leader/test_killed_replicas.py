"""Three replicas in Pods of their own, the leader killed or stopped; and who has written what."""

from __future__ import annotations

import json
import os
import random
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.api import Api
from tests.support.controller import Tenant
from tests.support.footprint import Footprint, footprint
from tests.support.namespaces import all_inside, own_pids, pod, resume_inside, stop_inside
from tests.support.objects import config_map
from tests.support.processes import is_running
from tests.support.replicas import Fleet, check_written_once, deleted, leads, written
from tests.support.waiting import HANG, eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import AuditTrail
    from tests.support.controller import Controller

BUNDLES = 6
LEASE = 2.0
REPLICAS = 3
PACE = 0.5
"""Seconds between two versions of the sources."""
EVERY = 10
"""How many versions there are, at least, between one killed or stopped leader and the next."""
SECONDS = float(os.environ.get("SWEEP_SECONDS", "300"))
"""How long the sweep lasts, at least."""


def change(tenant: Tenant, version: int) -> None:
    """Give each Bundle three objects with a new value, and one with a new name."""
    for number in range(BUNDLES):
        stays = [config_map(f"b{number}-{one}", str(version)) for one in range(3)]
        comes = config_map(f"b{number}-v{version}", str(version))
        # A replica that is killed before each prune leaves more than half of the set to prune.
        tenant.bundle(f"b{number}", *stays, comes, interval="2s", prune={"maxPrune": "100%"})


class Changes(threading.Thread):
    """Changes the sources all the time, until it is ended."""

    def __init__(self, site: Plane, namespace: str) -> None:
        """Begin."""
        super().__init__(name="changes")
        self.version = 0
        self._tenant = Tenant(Api(site), namespace)
        self._over = threading.Event()
        self._failure: BaseException | None = None

    def run(self) -> None:
        """Change them every half a second or so."""
        try:
            while not self._over.wait(PACE):
                self.version += 1
                change(self._tenant, self.version)
        except BaseException as error:  # noqa: BLE001 -- the test's own thread raises it again
            self._failure = error

    def await_more(self, count: int) -> None:
        """Wait until the sources have changed so many times again."""
        wanted = self.version + count
        eventually(lambda: self.version >= wanted or self._failure, lambda: "a change")

    def end(self) -> int:
        """Return the last version."""
        self._over.set()
        self.join(HANG)
        assert self._failure is None, self._failure
        return self.version


def disturb(fleet: Fleet, changes: Changes, times: int) -> None:
    """Stop or kill the leader again and again; a killed one is replaced.

    The first one is never killed: if it leaks something, it does so all the time.
    """
    chance = random.Random(7)  # noqa: S311 -- no secret
    for count in range(times):
        victim = fleet.leader()
        if count % 2 == 0 or victim is fleet.replicas[0]:
            stop_inside(victim.process)
            others = [one for one in fleet.replicas if one is not victim]
            eventually(partial(_has_leader, others), lambda: "another leader")
            changes.await_more(chance.randrange(EVERY // 2))
            resume_inside(victim.process)
        else:
            processes = all_inside(victim.process)
            fleet.kill(victim)
            eventually(partial(_have_ended, processes), lambda: "the end of its processes")
            fleet.start()
        changes.await_more(EVERY)


def held(tenant: Tenant) -> list[str]:
    """Return the inventories that a run holds."""
    found = tenant.api.get(tenant.path("configmaps"))["items"]
    headers = {one["metadata"]["name"]: one["data"].get("header") for one in found}
    return [name for name, text in headers.items() if text and json.loads(text)["holder"]]


def maps(tenant: Tenant) -> set[str]:
    """Return the names of all ConfigMaps that a run has made."""
    found = tenant.api.get(tenant.path("configmaps"))["items"]
    return {one["metadata"]["name"] for one in found} - {"kube-root-ca.crt"}


def shaken(
    site: Plane,
    tenant: Tenant,
    audit: AuditTrail,
    folder: Path,
    *,
    times: int,
    within: Sequence[str],
) -> None:
    """Do it so often, and check everything at the end."""
    audit.restart()
    changes = Changes(site, tenant.namespace)
    with Fleet(site.kubeconfig, folder, tenant, LEASE, within) as fleet:
        for _ in range(REPLICAS):
            fleet.start()
        fleet.leader()
        changes.start()
        disturb(fleet, changes, times)
        version = changes.end()

        def converged() -> bool:
            bundles = tenant.api.get(tenant.bundle_path())["items"]
            return all(_is_ready(one) for one in bundles)

        eventually(converged, lambda: "the last source of every Bundle")
        fleet.leader()
        # One that is new shows what a replica holds that has leaked nothing.
        fresh = fleet.start()
        fleet.leader()
        eventually(lambda: _leaks(fleet, fresh) == [], lambda: f"no leak: {_leaks(fleet, fresh)}")
        assert held(tenant) == []
        expected = {
            f"b{number}-{one}" for number in range(BUNDLES) for one in (0, 1, 2, f"v{version}")
        }
        assert maps(tenant) == expected | {f"applyprune-b{number}" for number in range(BUNDLES)}
        assert all(tenant.value(name) == str(version) for name in expected)
        for number in range(BUNDLES):
            assert len(tenant.get(f"b{number}")["metadata"]["finalizers"]) == 1
            tenant.delete(f"b{number}")
        for number in range(BUNDLES):
            tenant.gone(f"b{number}")
        assert maps(tenant) == set()
        while fleet.replicas:
            fleet.stop(fleet.replicas[0])
        assert fleet.lease()["spec"]["holderIdentity"] == ""
    events = audit.events()
    check_written_once(events, tenant.namespace)
    removed = deleted(events, tenant.namespace)
    assert {uid: who for uid, who in removed.items() if len(who) > 1} == {}


def _leaks(fleet: Fleet, fresh: Controller) -> list[tuple[Footprint, Footprint]]:
    """Return what replicas hold that hold more than a new one, and what that holds."""
    normal = footprint(fresh)
    found = (footprint(running) for running in fleet.replicas)
    return [(one, normal) for one in found if one.is_more_than(normal)]


def _has_leader(replicas: Sequence[Controller]) -> bool:
    return any(map(leads, replicas))


def _have_ended(processes: Sequence[int]) -> bool:
    return not any(map(is_running, processes))


def _is_ready(bundle: dict[str, Any]) -> bool:
    said = {one["type"]: one for one in bundle["status"].get("conditions", ())}.get("Ready", {})
    generation = bundle["metadata"]["generation"]
    return (said.get("status"), said.get("observedGeneration")) == ("True", generation)


def test_killed_and_stopped_replicas_lose_nothing(
    site: Plane, new_tenant: Callable[[], Tenant], site_audit: AuditTrail, tmp_path: Path
) -> None:
    """One is killed and one is stopped, in the middle of its work.

    They cannot see each other's processes, but the files of their runs: they are containers with
    one memory. What a replica in another Pod does is told in ``test_failover.py``.

    Slow: another replica takes over when a Lease has ended, twice.
    """
    shaken(site, new_tenant(), site_audit, tmp_path, times=2, within=own_pids())


@pytest.mark.sweep
def test_repeatedly_killed_and_stopped_replicas_lose_nothing(
    site: Plane, new_tenant: Callable[[], Tenant], site_audit: AuditTrail, tmp_path: Path
) -> None:
    """For five minutes, in Pods."""
    times = max(2, round(SECONDS / (EVERY * PACE)))
    shaken(site, new_tenant(), site_audit, tmp_path, times=times, within=pod(proof=True))


def write(name: str, value: str, version: int, who: str, query: str = "") -> dict[str, Any]:
    """Return the audit event of an apply."""
    return {
        "verb": "patch",
        "requestURI": f"/api/v1/namespaces/shop/configmaps/{name}?fieldManager=applyprune{query}",
        "userAgent": f"applyprune/0.1.0 (linux/amd64; {who}) run/0123456789ab",
        "objectRef": {"resource": "configmaps", "namespace": "shop", "name": name},
        "responseStatus": {"code": 200},
        "responseObject": {
            "kind": "ConfigMap",
            "metadata": {"name": name, "resourceVersion": str(version)},
            "data": {"key": value},
        },
    }


ONCE = [write("a", "1", 5, "one"), write("b", "1", 6, "two"), write("a", "2", 7, "two")]
TWICE = {
    "by another replica": [*ONCE, write("a", "2", 8, "one")],
    "by itself": [*ONCE, write("a", "2", 8, "two")],
    "back to an older value": [*ONCE, write("b", "2", 8, "one"), write("b", "1", 9, "one")],
    "an older value, late": [*ONCE, write("b", "9", 8, "one"), write("b", "8", 9, "two")],
}


def test_each_object_was_changed_once_for_each_value() -> None:
    """A second request that changes nothing has the old resourceVersion; a check writes nothing."""
    events = [*ONCE, write("a", "2", 7, "one"), write("b", "2", 8, "one", "&dryRun=All")]
    assert written(events, "shop") == {
        ("a", "1"): ["one"],
        ("b", "1"): ["two"],
        ("a", "2"): ["two"],
    }
    check_written_once(events, "shop")
    assert deleted(events, "shop") == {}


@pytest.mark.parametrize("case", TWICE)
def test_second_change_is_found(case: str) -> None:
    """Whoever has made it."""
    with pytest.raises(AssertionError):
        check_written_once(TWICE[case], "shop")
