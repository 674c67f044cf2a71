"""Replicas as processes: they share the Bundles, and take over from those that end."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.api import status_writes
from tests.support.fault_proxy import FaultProxy, Held, faults
from tests.support.namespaces import PROVED, own_namespaces, pod, resume_inside, stop_inside
from tests.support.objects import config_map, text
from tests.support.replicas import LEASES, Fleet, agent, check_written_once, deleted, written
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import AuditTrail
    from tests.support.controller import Controller, Tenant
    from tests.support.fault_proxy import Exchange, Fault
    from tests.support.plane import Kubectl

BUNDLES = 16
MANY = 32
"""So many that each of four replicas has one, in every run."""
LEASE = 2.0
STEADY = 6.0
"""So long that a busy machine renews it in time: who serves what is exact."""


def change(tenant: Tenant, version: int, bundles: int = BUNDLES) -> None:
    """Give each Bundle one object with a new value."""
    for number in range(bundles):
        tenant.bundle(f"b{number}", config_map(f"b{number}", str(version)))


def await_values(tenant: Tenant, version: int, bundles: int = BUNDLES) -> None:
    """Wait until every Bundle has applied a version."""

    def values() -> bool:
        items = tenant.api.get(tenant.path("configmaps"))["items"]
        found = [one["data"]["key"] for one in items if "key" in one.get("data", {})]
        return found.count(str(version)) == bundles

    eventually(values, lambda: f"version {version} of every Bundle")


def status_writers(audit: AuditTrail, tenant: Tenant) -> dict[str, set[str]]:
    """Return which replicas have written the status of each Bundle."""
    found: dict[str, set[str]] = {}
    for one in audit.events():
        about = one.get("objectRef", {})
        if (about.get("namespace"), about.get("subresource")) == (tenant.namespace, "status"):
            found.setdefault(about["name"], set()).add(agent(one))
    return found


def test_replicas_share_the_bundles(
    site: Plane,
    kubectl: Kubectl,
    new_tenant: Callable[[], Tenant],
    site_audit: AuditTrail,
    tmp_path: Path,
) -> None:
    """Each Bundle has one; a new one takes some, and a killed one's go to the others."""
    tenant = new_tenant()
    with Fleet(site.kubeconfig, tmp_path, tenant, STEADY, pod(proof=False)) as fleet:
        one, two, three = (fleet.start() for _ in range(3))
        fleet.settled()
        site_audit.restart()
        change(tenant, 1, MANY)
        await_values(tenant, 1, MANY)
        shares = fleet.servers()
        assert set(shares.values()) == {one.replica, two.replica, three.replica}
        fleet.settled()
        assert Counter(shares.values()) == {
            running.replica: running.metric("applyprune_served_bundles")
            for running in fleet.replicas
        }
        for running in fleet.replicas:
            assert [running.ask(path)[0] for path in ("/livez", "/readyz", "/healthz")] == [200] * 3
        assert status_writers(site_audit, tenant) == {name: {who} for name, who in shares.items()}
        head, *rows = kubectl(
            "get", "bundles", "-n", tenant.namespace, "-o", "wide", plane=site
        ).splitlines()
        assert "REPLICA" in head
        assert all(shares[row.split()[0]] in row.split() for row in rows)

        # One more: it takes what it serves from the others, and nothing else moves.
        four = fleet.start()
        fleet.settled()
        eventually(lambda: four.replica in fleet.servers().values(), lambda: "Bundles that moved")
        moved = eventually(
            lambda: (
                {k for k, who in fleet.servers().items() if who == four.replica}
                if Counter(fleet.servers().values())[four.replica]
                == four.metric("applyprune_served_bundles")
                else set()
            ),
            lambda: "each Bundle that moved",
        )
        now = fleet.servers()
        assert {name for name in now if now[name] != shares[name]} == moved

        # One is killed: what it served is served by the others. make bench-controller says when.
        lost = {name for name, who in now.items() if who == two.replica}
        fleet.kill(two)
        change(tenant, 2, MANY)
        await_values(tenant, 2, MANY)
        after = fleet.servers()
        assert {name for name in after if after[name] != now[name]} == lost

        # One is asked to end: it leaves no Lease, and the others need not wait.
        left = three.replica
        fleet.stop(three)
        assert left not in fleet.leases()
        fleet.settled()
        change(tenant, 3, MANY)
        await_values(tenant, 3, MANY)
        assert set(fleet.servers().values()) == {one.replica, four.replica}
    check_written_once(site_audit.events(), tenant.namespace)


def is_of_prune(seen: Exchange) -> bool:
    """Return whether a request deletes a ConfigMap."""
    return seen.method == "DELETE" and "/configmaps/" in seen.path


INTERVAL = 5
"""Seconds, at most, between two looks at a Bundle."""


def reconciles(running: Controller) -> list[dict[str, Any]]:
    """Return what a replica has logged about each reconcile."""
    return [one for one in running.lines if one["message"] == "bundle reconciled"]


UNCHANGED: dict[str, tuple[dict[str, Any], str]] = {
    "applied": ({}, "Applied"),
    "source": ({"source": {"configMapRefs": [{"name": "none"}]}}, "SourceNotFound"),
    "spec": ({"dependsOn": [{"name": "db", "readyWhen": "self.("}]}, "InvalidSpec"),
    "input": ({"source": {"inline": "["}}, "InvalidSource"),
    "account": ({"serviceAccountName": "none"}, "ServiceAccountNotFound"),
    "dependency": ({"dependsOn": [{"name": "none"}]}, "DependencyNotReady"),
    "pending": ({"approval": "Always"}, "PendingApproval"),
    "conflict": ({"source": {"inline": text(config_map("theirs"))}}, "Conflicts"),
    "suspended": ({"suspend": True}, "Suspended"),
}


def test_restart_writes_no_status_that_stays_the_same(
    site: Plane, new_tenant: Callable[[], Tenant], site_audit: AuditTrail, tmp_path: Path
) -> None:
    """Whatever a Bundle says, its next replica has the name of another process, and no news."""
    tenant = new_tenant()
    tenant.put("configmaps", config_map("theirs", "theirs"))
    with Fleet(site.kubeconfig, tmp_path, tenant, LEASE) as fleet:
        one = fleet.start()
        for name, (spec, _) in UNCHANGED.items():
            tenant.bundle(name, config_map(f"of-{name}"), interval="1h", **spec)
        for name, (_, reason) in UNCHANGED.items():
            # The second look at each has nothing to add.
            tenant.reconciled(name, "1")
            assert reason in one.reconciles(tenant, name), name
        fleet.stop(one)
        site_audit.restart()
        two = fleet.start()
        looked = [partial(two.reconciles, tenant, name) for name in UNCHANGED]
        eventually(lambda: all(reasons() for reasons in looked), lambda: "a look at each")
    assert status_writes(site_audit, tenant.namespace) == 0


@pytest.mark.parametrize("proof", PROVED)
def test_stopped_replica_stops_its_prune_when_it_goes_on(
    site: Plane,
    new_tenant: Callable[[], Tenant],
    site_audit: AuditTrail,
    tmp_path: Path,
    proof: bool,
) -> None:
    """Another one has decided again, and what was wanted again stays: each change is one.

    What it had sent before reaches the server only then. In the sweep it is stopped for longer than
    any of its requests may take.
    """
    tenant, names = new_tenant(), [f"p{number}" for number in range(30)]
    with (
        FaultProxy(site) as proxy,
        Fleet(site.kubeconfig, tmp_path, tenant, LEASE, pod(proof=proof)) as fleet,
    ):
        one = fleet.start(kubeconfig=proxy.kubeconfig(tmp_path))
        fleet.settled()
        stays = config_map("stays", "1")
        spec: dict[str, Any] = {"prune": {"maxPrune": "100%"}, "interval": f"{INTERVAL}s"}
        tenant.bundle("web", stays, *(config_map(name, "1") for name in names), **spec)
        tenant.ready("web")
        site_audit.restart()
        held = Held(proxy, 9, is_of_prune, then_sent=True)
        tenant.bundle("web", config_map("stays", "2"), **spec)
        held.await_one()
        stop_inside(one.process)
        seen = {one.path.rpartition("/")[2]: one for one in proxy.exchanges if is_of_prune(one)}
        late = {name for name, one in seen.items() if not one.forwarded}
        assert late
        back = {*late, *[name for name in names if name not in seen][:5]}
        wanted = [config_map("stays", "3"), *(config_map(name, "1") for name in sorted(back))]
        tenant.bundle("web", *wanted, **spec)
        two = fleet.start()
        eventually(lambda: two.metric("applyprune_served_bundles") == 1, lambda: "it takes over")
        status = tenant.ready("web")
        objects = {"total": len(wanted), "failing": 0, "elsewhere": 0}
        assert (status["objects"], status["replica"]) == (objects, two.replica)
        assert tenant.exists(*names) == [name in back for name in names]
        if proof:
            looks = len(reconciles(two)) + 60 / INTERVAL
            eventually(lambda: len(reconciles(two)) >= looks, lambda: "a minute of looks")
        stopped, before = one.replica, len(site_audit.events())
        resume_inside(one.process)
        held.over.set()
        # It serves its share again, and nothing of what it was about to do is done.
        fleet.settled()
        fleet.stop(one)
        fleet.settled()
        tenant.reconciled("web", "again")
        tenant.ready("web")
        assert {tenant.value(name) for name in back} == {"1"}
        decided = two.replica
    events = site_audit.events()
    removed = deleted(events, tenant.namespace)
    assert len(removed) == len(names) - len(back)
    assert {len(who) for who in removed.values()} == {1}
    kept = [one for one in events if one.get("objectRef", {}).get("name") in back]
    check_written_once([one for one in events if one not in kept], tenant.namespace)
    # A mark is set and removed: no deletion that comes late is about the present state.
    assert written(kept, tenant.namespace) == {(name, "1"): [decided] * 2 for name in back}
    by_it = [one for one in events[before:] if agent(one) == stopped and one["verb"] == "delete"]
    maps = [one for one in by_it if one["objectRef"]["resource"] == "configmaps"]
    assert {one["objectRef"]["resource"] for one in by_it} == {"leases", "configmaps"}
    # They name the state before it.
    assert {one["objectRef"]["name"]: one["responseStatus"]["code"] for one in maps} == (
        dict.fromkeys(late, 409)
    )


def test_replica_without_its_lease_serves_nothing(
    site: Plane, new_tenant: Callable[[], Tenant], site_audit: AuditTrail, tmp_path: Path
) -> None:
    """It ends what it is doing; another one serves all; it takes its share again when it can."""
    tenant = new_tenant()
    with (
        FaultProxy(site) as proxy,
        Fleet(site.kubeconfig, tmp_path, tenant, STEADY) as fleet,
    ):
        cut = fleet.start(kubeconfig=proxy.kubeconfig(tmp_path))
        other = fleet.start()
        fleet.settled()  # or the first one may have done all before the other is there
        change(tenant, 1)
        await_values(tenant, 1)
        fleet.settled()
        shares = fleet.servers()
        assert set(shares.values()) == {cut.replica, other.replica}

        mine = next(name for name, who in shares.items() if who == cut.replica)
        is_cut = False

        def without_lease(seen: Exchange) -> Fault | None:
            return faults.reset() if is_cut and "/leases" in seen.path else None

        proxy.rule = without_lease
        held = Held(proxy, 5, lambda seen: f"/{mine}-object-" in seen.path, then_sent=True)
        site_audit.restart()
        tenant.bundle(mine, *(config_map(f"{mine}-object-{one}", "1") for one in range(40)))
        held.await_one()
        is_cut = True
        eventually(
            lambda: cut.metric("applyprune_served_bundles") == 0, lambda: "it serves nothing"
        )
        assert cut.metric("applyprune_live_replicas") == 0
        code, told = cut.ask("/readyz")
        assert (code, "its Lease could not be renewed" in told) == (503, True), told
        # It is not unhealthy before a minute without service, and a restart would not help.
        assert [cut.ask(path)[0] for path in ("/livez", "/healthz")] == [200, 200]
        assert cut.process.poll() is None
        eventually(
            lambda: other.metric("applyprune_served_bundles") == BUNDLES, lambda: "one serves all"
        )
        begun = {one.path for one in held.seen}
        held.over.set()
        assert tenant.ready(mine)["objects"] == {"total": 40, "failing": 0, "elsewhere": 0}
        tenant.bundle(mine, config_map(mine, "1"), prune={"maxPrune": "100%"})
        tenant.ready(mine)
        assert set(fleet.servers([other]).values()) == {other.replica}
        by_cut = {
            one["requestURI"].partition("?")[0]
            for one in site_audit.events()
            if agent(one) == cut.replica and f"{mine}-object-" in one["requestURI"]
        }
        # What was in flight is sent, and nothing is begun.
        assert by_cut <= begun
        assert len(begun) < 40

        is_cut = False
        fleet.settled()
        change(tenant, 2)
        await_values(tenant, 2)
        eventually(lambda: set(fleet.servers().values()) == {cut.replica, other.replica})
        assert any(one["message"] == "the Lease was not renewed in time" for one in cut.lines)


# In make test, test_sightings has other clocks, and the first story here the takeover.
@pytest.mark.sweep
@pytest.mark.parametrize("proof", PROVED)
def test_replicas_with_other_clocks_take_over_in_time(
    site: Plane, new_tenant: Callable[[], Tenant], tmp_path: Path, proof: bool
) -> None:
    """One's machine was started three years before the other's: neither is taken for dead."""
    tenant, years = new_tenant(), "100000000"
    ahead = own_namespaces("--time", "--boottime", years, "--monotonic", years, proof=proof)
    with Fleet(site.kubeconfig, tmp_path, tenant, LEASE) as fleet:
        here = fleet.start()
        fleet.within = ahead
        there = fleet.start()
        fleet.settled()
        change(tenant, 1)
        await_values(tenant, 1)
        shares = Counter(fleet.servers().values())
        assert set(shares) == {here.replica, there.replica}
        fleet.kill(here)
        change(tenant, 2)
        await_values(tenant, 2)
        fleet.within = ()
        here = fleet.start()
        fleet.settled()
        fleet.kill(there)
        change(tenant, 3)
        await_values(tenant, 3)
        assert set(fleet.servers().values()) == {here.replica}


def forged(tenant: Tenant, name: str, **spec: Any) -> None:
    """Create a Lease as a replica has it."""
    body = {
        "apiVersion": LEASES,
        "kind": "Lease",
        "metadata": {"name": name, "labels": {"applyprune.dev/identity": "controller"}},
        "spec": spec,
    }
    path = tenant.path("leases", group=LEASES)
    status, reply = tenant.api("POST", path, body)
    assert status == 201, reply


FROM_THE_FUTURE = {
    "holderIdentity": "x" * 100_000,
    "leaseDurationSeconds": 2**31 - 1,
    "renewTime": "2999-01-01T00:00:00.000000Z",
}


def test_forged_leases_end_by_themselves(
    site: Plane, new_tenant: Callable[[], Tenant], tmp_path: Path
) -> None:
    """One from the future, dozens of them, and one's own that somebody changes or deletes."""
    tenant = new_tenant()
    with Fleet(site.kubeconfig, tmp_path, tenant, LEASE) as fleet:
        one = fleet.start()
        change(tenant, 1)
        await_values(tenant, 1)
        fleet.settled()
        for number in range(2):
            forged(tenant, f"forged-{number}", **FROM_THE_FUTURE)
        eventually(lambda: one.metric("applyprune_live_replicas") == 3, lambda: "they are seen")
        eventually(lambda: one.metric("applyprune_served_bundles") < BUNDLES)
        change(tenant, 2)
        await_values(tenant, 2)
        eventually(lambda: fleet.leases() == {one.replica}, lambda: "they are deleted")

        # It sees all of them in one look, however long a busy machine needs to create them.
        with one.paused():
            for number in range(70):
                forged(tenant, f"many-{number}", **FROM_THE_FUTURE)
        eventually(lambda: [x for x in one.lines if x["message"] == "too many Leases of replicas"])
        eventually(
            lambda: one.metric("applyprune_live_replicas") == 1, lambda: "it believes none of them"
        )
        change(tenant, 3)
        await_values(tenant, 3)

        own, kind = tenant.path("leases", one.replica, LEASES), "application/merge-patch+json"
        for damage in (
            {"spec": FROM_THE_FUTURE},
            {"metadata": {"labels": None}},
            {"metadata": {"finalizers": ["example.com/stuck"]}},
        ):
            assert tenant.api("PATCH", own, damage, content_type=kind)[0] == 200
            eventually(lambda: _is_mended(tenant.api.get(own), one), lambda: "its own Lease")
        deleted = tenant.api.get(own)
        uid = deleted["metadata"]["uid"]
        assert tenant.api("DELETE", own)[0] == 200
        eventually(lambda: (tenant.api.find(own) or deleted)["metadata"]["uid"] != uid)
        change(tenant, 4)
        await_values(tenant, 4)


def _is_mended(lease: dict[str, Any], running: Controller) -> bool:
    return (
        lease["spec"]["holderIdentity"] == running.replica
        and lease["spec"]["leaseDurationSeconds"] == 2
        and lease["metadata"].get("labels") == {"applyprune.dev/identity": "controller"}
        and "finalizers" not in lease["metadata"]
    )


def test_replica_of_other_namespaces_takes_nothing(
    site: Plane, new_tenant: Callable[[], Tenant], tmp_path: Path
) -> None:
    """Their Leases are side by side; a Bundle waits for nobody who would not see it."""
    tenant, other = new_tenant(), new_tenant()
    with Fleet(site.kubeconfig, tmp_path, tenant, LEASE) as fleet:
        mine, theirs = fleet.start(), fleet.start("--watch-namespaces", other.namespace)
        eventually(
            lambda: theirs.metric("applyprune_live_replicas") == 2, lambda: "they see each other"
        )
        change(tenant, 1)
        other.bundle("web", config_map("web"))
        other.ready("web")
        await_values(tenant, 1)
        assert other.get("web")["status"]["replica"] == theirs.replica
        assert set(fleet.servers([mine]).values()) == {mine.replica}
        assert theirs.metric("applyprune_served_bundles") == 1
