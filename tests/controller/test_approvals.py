"""Bundles whose deletions, or whole plans, wait for an approval.

What an approval is of is decided in tests/decisions/test_approvals.py.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.controller.pending_plan import withholds
from applyprune.controller.spec import SPEC, BundleSpec
from applyprune.model.identity import Ref
from applyprune.model.live import BUNDLES, LiveObject
from applyprune.planning.applyset import applyset_identity
from tests.support.api import Api, writes
from tests.support.controller import Tenant
from tests.support.objects import SECRET, config_map, text
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from applyprune.localplane import Plane
    from tests.support.api import AuditTrail
    from tests.support.controller import Controller

STAY = [config_map("x"), config_map("y")]
"""More than half of a set, so that no guard refuses its prune."""


def pending(tenant: Tenant, name: str = "web", *, but: str = "") -> dict[str, Any]:
    """Wait until a plan of the last generation waits that is another than ``but``; return it."""

    def found() -> dict[str, Any] | None:
        bundle = tenant.get(name)
        status = bundle.get("status", {})
        if status.get("observedGeneration") != bundle["metadata"]["generation"]:
            return None
        plan = status.get("pendingPlan")
        return plan if plan and plan["digest"] != but else None

    return dict(eventually(found, lambda: f"{name} pending: {tenant.condition(name)}"))


def approve(tenant: Tenant, digest: str, name: str = "web") -> None:
    """Set the annotation."""
    tenant.annotate(name, approve=digest)


def messages(tenant: Tenant, name: str = "web") -> str:
    """Return the messages of all conditions: what would be deleted is in PruneBlocked."""
    return " ".join(one["message"] for one in tenant.get(name)["status"]["conditions"])


def shown(plan: dict[str, Any]) -> list[str]:
    """Return the objects of a pending plan, with their fates."""
    return [f"{one['fate']} {one['object']}" for one in plan["objects"]]


def test_deletions_wait_for_their_approval(tenant: Tenant) -> None:
    """The rest is applied, a hotfix too; approved are exactly the deletions that were shown."""

    def source(value: str, *more: str) -> None:
        maps = (config_map("a", value), *map(config_map, more), *STAY)
        tenant.bundle("web", *maps, approval="Prune")

    source("v", "b", "c")
    tenant.ready("web")
    source("new", "d")
    plan = pending(tenant)
    assert (plan["scope"], plan["counts"]) == ("Deletions", {"prune": 2})
    assert shown(plan) == ["prune configmap/b", "prune configmap/c"]
    assert (tenant.value("a"), tenant.exists(*"bcd")) == ("new", [True] * 3)
    assert tenant.condition("web")[:2] == ("False", "PendingApproval")
    assert tenant.condition("web", "PruneBlocked")[:2] == ("True", "PendingApproval")
    assert tenant.condition("web", "Drifted")[:2] == ("False", "NoDrift")
    source("hotfix", "d")
    eventually(lambda: tenant.value("a") == "hotfix")
    assert pending(tenant)["digest"] == plan["digest"]
    source("hotfix", "b", "d")
    fewer = pending(tenant, but=plan["digest"])
    assert shown(fewer) == ["prune configmap/c"]
    approve(tenant, plan["digest"])
    eventually(lambda: "is about another plan" in messages(tenant))
    assert tenant.exists("b", "c") == [True, True]
    approve(tenant, fewer["digest"])
    status = tenant.ready("web")
    assert tenant.exists(*"abcd") == [True, True, False, True]
    assert "pendingPlan" not in status
    assert status["lastChange"]["removed"] == 1
    # The annotation stays, and has no power over another plan; nor over a removal.
    source("hotfix", "d")
    assert shown(pending(tenant)) == ["prune configmap/b"]
    tenant.delete("web")
    tenant.gone("web")
    assert tenant.exists(*"ab") == [False, False]


def test_whole_plan_waits_for_its_approval(tenant: Tenant, site_audit: AuditTrail) -> None:
    """Nothing is written before, not even an inventory; what runs is the plan that was shown."""

    def written() -> list[str]:
        ours = (f"/namespaces/{tenant.namespace}/bundles", f"/namespaces/{tenant.namespace}/events")
        found = [one for one in writes(site_audit) if tenant.namespace in one]
        return [one for one in found if not any(part in one for part in ours)]

    site_audit.restart()
    tenant.bundle("web", config_map("a"), config_map("b"), approval="Always")
    plan = pending(tenant)
    assert (plan["scope"], plan["counts"]) == ("Plan", {"create": 2})
    assert written() == []
    assert tenant.condition("web", "PruneBlocked")[:2] == ("False", "NothingToDo")
    approve(tenant, plan["digest"])
    tenant.ready("web")
    site_audit.restart()
    tenant.bundle("web", config_map("a", "new"), approval="Always")
    change = pending(tenant)
    assert shown(change) == ["prune configmap/b", "change configmap/a"]
    assert tenant.condition("web", "PruneBlocked")[:2] == ("True", "PendingApproval")
    tenant.bundle("web", config_map("a", "newer"), approval="Always")
    newer = pending(tenant, but=change["digest"])
    approve(tenant, change["digest"])
    eventually(lambda: "is about another plan" in messages(tenant))
    assert written() == []
    approve(tenant, newer["digest"])
    tenant.ready("web")
    assert (tenant.value("a"), tenant.exists("b")) == ("newer", [False])
    tenant.drop("a")
    tenant.reconciled("web", "again")
    assert shown(pending(tenant)) == ["create configmap/a"]
    assert tenant.exists("a") == [False]


def test_new_value_of_a_secret_is_another_plan(tenant: Tenant, running: Controller) -> None:
    """No digest shows the value, so an approval holds only for the source as it was written."""

    def write(name: str, value: str) -> None:
        raw = {**SECRET, "metadata": {"name": f"made-{name}"}, "stringData": {"password": value}}
        body = {**SECRET, "metadata": {"name": "src"}, "stringData": {"one": json.dumps(raw)}}
        tenant.put("secrets", body)
        source = {"secretRefs": [{"name": "src"}]} if name == "refs" else {"inline": text(raw)}
        tenant.bundle(name, source=source, approval="Always")

    for name in ("inline", "refs"):
        write(name, "first-canary")
        first = pending(tenant, name)
        write(name, "second-canary")
        second = pending(tenant, name, but=first["digest"])
        approve(tenant, first["digest"], name)
        told = partial(messages, tenant, name)
        eventually(lambda: "is about another plan" in told(), told)  # noqa: B023
        assert not tenant.api.exists(tenant.path("secrets", f"made-{name}"))
        approve(tenant, second["digest"], name)
        tenant.ready(name)
        data = tenant.api.get(tenant.path("secrets", f"made-{name}"))["data"]
        assert base64.b64decode(data["password"]) == b"second-canary"
        shown = f"{tenant.get(name)['status']} {tenant.events(name)} {running.log.read_text()}"
        assert "canary" not in shown


QUICK: dict[str, Any] = {"interval": "1s", "retryInterval": "1s"}


def hold_up(tenant: Tenant, approval: str) -> str:
    """Approve that b and c are pruned; return the digest when b is going, and a finalizer holds it.

    The later wave goes first, so c waits.
    """
    late = {"applyprune.dev/wave": "1"}
    stay = [config_map("a"), *STAY]
    tenant.bundle("web", *stay, config_map("b", annotations=late), config_map("c"), **QUICK)
    tenant.ready("web")
    held = {"metadata": {"finalizers": ["example.com/hold"]}}
    tenant.api.patch(tenant.path("configmaps", "b"), held, by="opponent")
    tenant.bundle("web", *stay, approval=approval, **QUICK)
    plan = pending(tenant)
    assert plan["counts"] == {"prune": 2}
    digest = str(plan["digest"])
    approve(tenant, digest)
    eventually(lambda: "deletionTimestamp" in tenant.get_map("b")["metadata"])
    eventually(lambda: recorded(tenant) == digest and "holder" not in told(tenant))
    assert tenant.exists("c") == [True]
    return digest


def told(tenant: Tenant) -> dict[str, Any]:
    """Return what the inventory says besides its entries, without what is empty."""
    header = json.loads(tenant.get_map("applyprune-web")["data"]["header"])
    return {key: value for key, value in header.items() if value}


def recorded(tenant: Tenant) -> str:
    """Return the approval of which something is left; empty if there is none."""
    return str(told(tenant).get("approved", {}).get("digest", ""))


def test_approval_that_has_begun_is_of_the_same_objects(
    tenant: Tenant, new_tenant: Callable[[], Tenant]
) -> None:
    """The rest needs no second one; what has come back since, with a forged record, does.

    Slow: Bundles are looked at again each second, through two stories.
    """
    whole = new_tenant()
    hold_up(whole, "Always")
    digest = hold_up(tenant, "Prune")
    whole.reconciled("web", "1")
    assert "pendingPlan" not in whole.get("web")["status"]
    whole.strip("b")
    eventually(lambda: whole.exists("b", "c") == [False, False], lambda: messages(whole))
    whole.ready("web")
    eventually(lambda: recorded(whole) == "")
    assert whole.exists(*"axy") == [True] * 3

    tenant.suspended("web")
    kept = tenant.get_map("c")["metadata"]
    tenant.drop("c")
    again = config_map("c", labels=kept["labels"], annotations=kept["annotations"])
    manager = f"applyprune/{tenant.namespace}/web"
    fresh = tenant.api.apply(tenant.path("configmaps", "c"), again, by=manager)["metadata"]["uid"]
    assert fresh != kept["uid"]
    # Whoever may write the inventory lists it as the set's own, and as approved.
    found = tenant.get_map("applyprune-web")["data"]
    forged = json.loads(found["header"])
    rows = zlib.decompress(base64.b64decode(forged["approved"]["text"]))
    packed = zlib.compress(rows.replace(kept["uid"].encode(), fresh.encode()))
    forged["approved"]["text"] = base64.b64encode(packed).decode()
    entries = found["entries"].replace(kept["uid"], fresh)
    forged["digest"] = sha256(entries.encode()).hexdigest()
    change = {"data": {"header": json.dumps(forged), "entries": entries}}
    tenant.api.patch(tenant.path("configmaps", "applyprune-web"), change)
    tenant.patch("web", suspend=False)
    assert "prune configmap/c" in shown(pending(tenant, but=digest))
    tenant.strip("b")
    eventually(lambda: tenant.exists("b") == [False])
    later = eventually(lambda: "prune configmap/b" not in shown(one := pending(tenant)) and one)
    assert "prune configmap/c" in shown(later)
    assert tenant.get_map("c")["metadata"]["uid"] == fresh
    approve(tenant, later["digest"])
    tenant.ready("web")
    assert tenant.exists("c") == [False]


@pytest.mark.parametrize(
    "races",
    [4, pytest.param(16, marks=pytest.mark.sweep), pytest.param(500, marks=pytest.mark.sweep)],
)
@pytest.mark.parametrize("approval", ["Prune", "Always"])
def test_approval_that_races_a_new_revision_is_of_the_old_one(
    site: Plane, tenant: Tenant, approval: str, races: int
) -> None:
    """Both are written at once: what is done was approved, and never what is newer.

    Each revision drops one object, and adds one. Every fourth comes when the approved is done.

    Slow: each race is a run and its plan.
    """
    names = [f"a{number:03}" for number in range(races + 4)]
    api = Api(site)
    reviser = Tenant(api, tenant.namespace)

    def inventory() -> str:
        found = reviser.get_map("applyprune-web")["metadata"]["resourceVersion"]
        return str(found)

    def has_begun(known: str) -> bool:
        return inventory() != known

    def is_gone(name: str) -> bool:
        return reviser.exists(name) == [False]

    def revise(first: int, moment: Callable[[], bool] = lambda: True) -> None:
        eventually(moment, lambda: "the moment")
        kept = map(config_map, names[first : first + 3])
        reviser.patch("web", source={"inline": text(*kept)})

    tenant.bundle("web", *map(config_map, names[:3]), approval=approval, prune={"maxPrune": "100%"})
    if approval == "Always":
        approve(tenant, pending(tenant)["digest"])
    tenant.ready("web")
    ever, approved = set(names[:3]), set(names[:3] if approval == "Always" else names)
    doomed: set[str] = set()
    revise(1)
    with ThreadPoolExecutor(1) as threads:
        for number in range(1, races + 1):
            plan = pending(tenant)
            assert len(plan["objects"]) == sum(plan["counts"].values())
            of_plan = defaultdict[str, set[str]](set)
            for one in plan["objects"]:
                of_plan[one["fate"]].add(one["object"].removeprefix("configmap/"))
            assert of_plan.keys() <= {"create", "prune", "remove-from-inventory"}
            # A revision may cut off a run between a record and its create, or a prune and its
            # record.
            assert of_plan["remove-from-inventory"] <= approved | doomed
            doomed |= of_plan["prune"]
            approved |= of_plan["create"]
            if number % 4 == 3:
                # However busy the machine is, some approvals come in time.
                approve(tenant, plan["digest"])
                tenant.ready("web")
                revise(number + 1)
            else:
                # At once, when the run has begun, or when it has deleted what it drops.
                moments: Sequence[Callable[[], bool]] = (
                    lambda: True,
                    partial(has_begun, inventory()),
                    partial(is_gone, names[number - 1]),
                )
                revision = threads.submit(revise, number + 1, moments[number % 4])
                approve(tenant, plan["digest"])
                revision.result()
            later = pending(tenant, but=plan["digest"])
            found = api.get(tenant.path("configmaps", ""))["items"]
            there = {one["metadata"]["name"] for one in found} & set(names)
            ever |= there
            assert ever <= approved, number
            assert ever - there <= doomed, number
            # What this revision drops is not deleted by the approval of the one before.
            assert f"prune configmap/{names[number]}" in shown(later) or names[number] not in ever
    api.close()
    assert ever - there, "no approval came in time"
    assert len(ever) > 3, "no object was created"


def test_set_with_an_approval_is_not_adopted_from(tenant: Tenant) -> None:
    """Another Bundle would change and delete its objects without that approval."""
    tenant.bundle("web", config_map("a", "1"), approval="Always")
    approve(tenant, pending(tenant)["digest"])
    tenant.ready("web")
    takes = {"adopt": "all", "adoptAs": "owned", "conflicts": "force", "approval": "Prune"}
    tenant.bundle("thief", config_map("a", "2"), **takes)
    tenant.failed("thief", "ApplyFailed")
    message = tenant.failures("thief")["configmap/a"]
    assert "belongs to a set whose plans need an approval" in message
    assert f"spec.approval of the Bundle {tenant.namespace}/web is Always" in message
    assert tenant.value("a") == "1"
    # The same people approve as much: it may, as soon as they do.
    tenant.patch("thief", approval="Always")
    plan = pending(tenant, "thief")
    assert shown(plan) == ["adopt configmap/a"]
    assert tenant.value("a") == "1"
    approve(tenant, plan["digest"], "thief")
    tenant.ready("thief")
    assert tenant.value("a") == "2"


def test_adopted_objects_of_another_tool_name_its_record(
    tenant: Tenant, running: Controller
) -> None:
    """In what waits, and in the log; the marks go, as they do in a run of the command line."""
    marked = {"config.k8s.io/owning-inventory": f"of-{tenant.namespace}"}
    tenant.put("configmaps", config_map("a", annotations=marked))
    label = {"cli-utils.sigs.k8s.io/inventory-id": f"of-{tenant.namespace}"}
    tenant.put("configmaps", config_map("inventory", labels=label))
    told = f"still recorded by cli-utils (inventory of-{tenant.namespace}): to end that record: "
    told += (
        f"kubectl delete configmap -A -l cli-utils.sigs.k8s.io/inventory-id=of-{tenant.namespace}"
    )
    tenant.bundle("web", config_map("a"), adopt="all", approval="Always")
    plan = pending(tenant)
    assert told in tenant.condition("web")[2]
    approve(tenant, plan["digest"])
    tenant.ready("web")
    now = tenant.api.get(tenant.path("configmaps", "a"))["metadata"]
    assert marked.keys().isdisjoint(now.get("annotations", {}))
    logged = [one for one in running.lines if one.get("namespace") == tenant.namespace]
    news = [one for one in logged if one["level"] != "debug"]
    assert [one["warning"] for one in news if "another tool" in str(one["message"])] == [told]


WITHHELD = {
    "its set": ("web", "shop", {"approval": "Always"}, "shop", "Automatic", True),
    "its set, by its inventory": (
        "x",
        "shop",
        {"approval": "Prune", "inventoryName": "web"},
        "shop",
        "Automatic",
        True,
    ),
    "another set": ("db", "shop", {"approval": "Always"}, "shop", "Automatic", False),
    "a set of that name elsewhere": ("web", "a", {"approval": "Always"}, "a", "Automatic", False),
    "no approval": ("web", "shop", {}, "shop", "Automatic", False),
    "the same approval": ("web", "shop", {"approval": "Prune"}, "shop", "Prune", False),
    "a stricter one": ("web", "shop", {"approval": "Prune"}, "shop", "Always", False),
    "a weaker one": ("web", "shop", {"approval": "Always"}, "shop", "Prune", True),
    "that of others": ("web", "shop", {"approval": "Always"}, "a", "Always", True),
    "one of a later version": ("web", "shop", {"approval": "Twice"}, "shop", "Prune", True),
}


@pytest.mark.holds("as-strict", row="the same approval")
@pytest.mark.parametrize("case", WITHHELD)
def test_set_is_withheld_from_whoever_asks_less(case: str) -> None:
    """By the set's label, the Bundle that applies it, and the one that would adopt from it."""
    name, namespace, others, own_namespace, approval, wanted = WITHHELD[case]
    found = {"metadata": {"name": name, "namespace": namespace}, "spec": others}
    ref = Ref(BUNDLES.group, BUNDLES.kind, namespace, name)
    other = LiveObject.of(ref, "u", "1", found["metadata"], found)
    spec = SPEC.validate_python({"source": {"inline": ""}, "approval": approval})
    bundle = BundleSpec(own_namespace, "thief", spec, 1.0)
    label = applyset_identity("web", "shop").id
    assert bool(withholds(bundle, label, other)) is wanted
