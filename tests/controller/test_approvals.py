"""Bundles whose deletions, or whole plans, wait for an approval."""

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

OTHER = "sha256:" + "0" * 64


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


def looked(tenant: Tenant, mark: str, name: str = "web") -> None:
    """Ask for a pass, and wait until it is over."""
    tenant.annotate(name, reconcile_now=mark)
    eventually(
        lambda: tenant.get(name)["status"].get("lastHandledReconcileAt") == mark, lambda: mark
    )


def messages(tenant: Tenant, name: str = "web") -> str:
    """Return the messages of all conditions: what would be deleted is in PruneBlocked."""
    return " ".join(one["message"] for one in tenant.get(name)["status"]["conditions"])


def shown(plan: dict[str, Any]) -> list[str]:
    """Return the objects of a pending plan, with their fates."""
    return [f"{one['fate']} {one['object']}" for one in plan["objects"]]


def conditions(tenant: Tenant, name: str = "web") -> dict[str, tuple[str, str]]:
    """Return the status and the reason of each condition."""
    found = tenant.get(name)["status"]["conditions"]
    return {one["type"]: (one["status"], one["reason"]) for one in found}


def test_deletions_wait_for_their_approval(tenant: Tenant) -> None:
    """The rest is applied, a hotfix too; approved are exactly the deletions that were shown."""
    # More than half of the set stays, so that no guard refuses the prune.
    stay = [config_map("x"), config_map("y")]
    tenant.bundle("web", *map(config_map, "abc"), *stay, approval="Prune")
    tenant.ready("web")
    tenant.bundle("web", config_map("a", "new"), config_map("d"), *stay, approval="Prune")
    plan = pending(tenant)
    assert (plan["scope"], plan["counts"]) == ("Deletions", {"prune": 2})
    assert shown(plan) == ["prune configmap/b", "prune configmap/c"]
    assert tenant.exists("a", "b", "c", "d") == [True] * 4
    assert tenant.value("a") == "new"
    assert conditions(tenant) == {
        "Ready": ("False", "PendingApproval"),
        "Reconciling": ("False", "PendingApproval"),
        "Stalled": ("False", "PendingApproval"),
        "PruneBlocked": ("True", "PendingApproval"),
        "Drifted": ("False", "NoDrift"),
    }
    call = f"annotate bundles.applyprune.dev web -n {tenant.namespace} --overwrite"
    assert f"{call} applyprune.dev/approve={plan['digest']}" in messages(tenant)
    # A hotfix is not held up, and does not change what waits.
    tenant.bundle("web", config_map("a", "hotfix"), config_map("d"), *stay, approval="Prune")
    eventually(lambda: tenant.value("a") == "hotfix")
    assert pending(tenant)["digest"] == plan["digest"]
    # Another plan: one object less to delete.
    wanted = (config_map("a", "hotfix"), config_map("b"), config_map("d"), *stay)
    tenant.bundle("web", *wanted, approval="Prune")
    fewer = pending(tenant, but=plan["digest"])
    assert shown(fewer) == ["prune configmap/c"]
    approve(tenant, plan["digest"])
    eventually(lambda: "is about another plan" in messages(tenant))
    assert tenant.exists("b", "c") == [True, True]
    approve(tenant, fewer["digest"])
    status = tenant.ready("web")
    assert tenant.exists("a", "b", "c", "d") == [True, True, False, True]
    assert "pendingPlan" not in status
    assert status["lastChange"]["removed"] == 1
    # The annotation stays, and has no power over another plan.
    tenant.bundle("web", config_map("a", "hotfix"), config_map("d"), *stay, approval="Prune")
    assert shown(pending(tenant)) == ["prune configmap/b"]
    assert tenant.exists("b") == [True]


def test_waiting_bundle_says_so_once(tenant: Tenant, site_audit: AuditTrail) -> None:
    """One Event; and passes that find the same plan write nothing."""
    tenant.bundle("web", *map(config_map, "ab"), approval="Prune", interval="1s")
    tenant.ready("web")
    tenant.bundle("web", config_map("a"), approval="Prune", interval="1s")
    first = pending(tenant)
    looked(tenant, "1")
    site_audit.restart()
    reads = f"/api/v1/namespaces/{tenant.namespace}/configmaps"
    eventually(
        lambda: sum(reads in one["requestURI"] for one in site_audit.events()) > 6,
        lambda: "three passes",
    )
    assert [one for one in writes(site_audit) if tenant.namespace in one] == []
    assert pending(tenant) == first
    told = [one for one in tenant.events("web") if one[1] == "PendingApproval"]
    assert [one[0] for one in told] == ["Normal"]
    assert first["digest"] in told[0][2]
    assert "1 to prune" in told[0][2]


def test_whole_plan_waits_for_its_approval(tenant: Tenant, site_audit: AuditTrail) -> None:
    """Nothing is written before, not even an inventory; what runs is the plan that was shown."""
    site_audit.restart()
    tenant.bundle("web", config_map("a"), config_map("b"), approval="Always")
    plan = pending(tenant)
    assert (plan["scope"], plan["counts"]) == ("Plan", {"create": 2})
    assert written(site_audit, tenant) == []
    assert tenant.exists("a", "b", "applyprune-web") == [False] * 3
    assert conditions(tenant)["PruneBlocked"] == ("False", "NothingToDo")
    approve(tenant, plan["digest"])
    tenant.ready("web")
    assert tenant.exists("a", "b") == [True, True]
    # Without a change there is nothing to approve, and the annotation has no power any more.
    looked(tenant, "1")
    tenant.ready("web")
    tenant.bundle("web", config_map("a", "new"), approval="Always")
    change = pending(tenant)
    assert shown(change) == ["prune configmap/b", "change configmap/a"]
    assert conditions(tenant)["PruneBlocked"] == ("True", "PendingApproval")
    site_audit.restart()
    tenant.bundle("web", config_map("a", "newer"), approval="Always")
    newer = pending(tenant, but=change["digest"])
    approve(tenant, change["digest"])
    eventually(lambda: "is about another plan" in messages(tenant))
    assert written(site_audit, tenant) == []
    assert (tenant.value("a"), tenant.exists("b")) == ("v", [True])
    approve(tenant, newer["digest"])
    tenant.ready("web")
    assert (tenant.value("a"), tenant.exists("b")) == ("newer", [False])
    # What somebody else deletes is created again only if that is approved, too.
    assert tenant.api("DELETE", tenant.path("configmaps", "a"))[0] == 200
    looked(tenant, "2")
    assert shown(pending(tenant)) == ["create configmap/a"]
    assert tenant.exists("a") == [False]


@pytest.mark.parametrize("source", ["inline", "configMapRefs", "secretRefs"])
def test_new_value_of_a_secret_is_another_plan(
    tenant: Tenant, running: Controller, source: str
) -> None:
    """No digest shows the value, so an approval holds only for the source as it was written."""

    def write(value: str) -> None:
        raw = {**SECRET, "metadata": {"name": "s"}, "stringData": {"password": value}}
        if source == "inline":
            tenant.bundle("web", raw, approval="Always")
            return
        plural, kind, key = ("configmaps", "ConfigMap", "data")
        if source == "secretRefs":
            plural, kind, key = ("secrets", "Secret", "stringData")
        meta = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "src"}}
        tenant.put(plural, {**meta, key: {"one": json.dumps(raw)}})
        tenant.bundle("web", source={source: [{"name": "src"}]}, approval="Always")

    write("first-canary")
    first = pending(tenant)
    write("second-canary")
    second = pending(tenant, but=first["digest"])
    approve(tenant, first["digest"])
    eventually(lambda: "is about another plan" in messages(tenant))
    assert not tenant.api.exists(tenant.path("secrets", "s"))
    approve(tenant, second["digest"])
    tenant.ready("web")
    data = tenant.api.get(tenant.path("secrets", "s"))["data"]
    assert base64.b64decode(data["password"]) == b"second-canary"
    told = f"{tenant.get('web')['status']} {tenant.events('web')} {running.log.read_text()}"
    assert "canary" not in told


HELD = ["Prune", "Always"]
"""Whose approvals hold until all of what they let go is gone."""


def hold_up(tenant: Tenant, approval: str) -> str:
    """Approve that b and c are pruned; return the digest when b is going, and a finalizer holds it.

    The later wave goes first, so c waits.
    """
    late = {"applyprune.dev/wave": "1"}
    stay = [config_map("a"), config_map("x"), config_map("y")]
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


QUICK: dict[str, Any] = {"interval": "1s", "retryInterval": "1s"}


def told(tenant: Tenant) -> dict[str, Any]:
    """Return what the inventory says besides its entries, without what is empty."""
    header = json.loads(tenant.get_map("applyprune-web")["data"]["header"])
    return {key: value for key, value in header.items() if value}


def recorded(tenant: Tenant) -> str:
    """Return the approval of which something is left; empty if there is none."""
    return str(told(tenant).get("approved", {}).get("digest", ""))


@pytest.mark.parametrize("approval", HELD)
def test_rest_of_an_approved_prune_needs_no_second_approval(tenant: Tenant, approval: str) -> None:
    """It has run into its timeout; when all of it is gone, the approval is over."""
    hold_up(tenant, approval)
    looked(tenant, "1")
    assert "pendingPlan" not in tenant.get("web")["status"]
    tenant.strip("b")
    eventually(lambda: tenant.exists("b", "c") == [False, False], lambda: messages(tenant))
    tenant.ready("web")
    eventually(lambda: recorded(tenant) == "")
    assert tenant.exists("a", "x", "y") == [True] * 3


@pytest.mark.parametrize("approval", HELD)
def test_approval_that_has_begun_is_of_the_same_objects(tenant: Tenant, approval: str) -> None:
    """What has come back meanwhile, and a record that says more, is deleted by no approval."""
    digest = hold_up(tenant, approval)
    tenant.patch("web", suspend=True)
    eventually(lambda: tenant.condition("web", "Reconciling")[1] == "Suspended")
    path, inventory = (tenant.path("configmaps", one) for one in ("c", "applyprune-web"))
    kept = tenant.get_map("c")["metadata"]
    assert tenant.api("DELETE", path)[0] == 200
    again = config_map("c", labels=kept["labels"], annotations=kept["annotations"])
    tenant.api.apply(path, again, by=f"applyprune/{tenant.namespace}/web")
    fresh = tenant.get_map("c")["metadata"]["uid"]
    assert fresh != kept["uid"]
    # Whoever may write the inventory lists it as the set's own, and as approved.
    found = tenant.get_map("applyprune-web")["data"]
    forged = json.loads(found["header"])
    text = zlib.decompress(base64.b64decode(forged["approved"]["text"]))
    packed = zlib.compress(text.replace(kept["uid"].encode(), fresh.encode()))
    forged["approved"]["text"] = base64.b64encode(packed).decode()
    entries = found["entries"].replace(kept["uid"], fresh)
    forged["digest"] = sha256(entries.encode()).hexdigest()
    tenant.api.patch(inventory, {"data": {"header": json.dumps(forged), "entries": entries}})
    tenant.patch("web", suspend=False)
    later = pending(tenant, but=digest)
    assert "prune configmap/c" in shown(later)
    assert tenant.get_map("c")["metadata"]["uid"] == fresh
    tenant.strip("b")
    eventually(lambda: tenant.exists("b") == [False])
    later = eventually(lambda: "prune configmap/b" not in shown(one := pending(tenant)) and one)
    assert "prune configmap/c" in shown(later)
    approve(tenant, later["digest"])
    tenant.ready("web")
    assert tenant.exists("c") == [False]


def test_approval_that_has_begun_ends_with_another_commit(tenant: Tenant) -> None:
    """What that one wants again is not deleted by an approval of before."""
    digest = hold_up(tenant, "Prune")
    stay = [config_map("a"), config_map("x"), config_map("y")]
    tenant.bundle("web", *stay, config_map("c"), config_map("new"), approval="Prune", **QUICK)
    eventually(lambda: tenant.exists("new") == [True] and recorded(tenant) == "")
    tenant.bundle("web", *stay, config_map("new"), approval="Prune", **QUICK)
    tenant.strip("b")
    later = pending(tenant, but=digest)
    assert shown(later) == ["prune configmap/c"]
    assert tenant.exists("b", "c") == [False, True]


def test_refused_prune_holds_up_a_bundle_that_always_asks(
    tenant: Tenant, site_audit: AuditTrail
) -> None:
    """It neither applies nor prunes; the approval of the whole plan lifts the guard too."""
    names = [f"a{number}" for number in range(8)]
    tenant.bundle("web", *map(config_map, names), approval="Always")
    approve(tenant, pending(tenant)["digest"])
    tenant.ready("web")
    site_audit.restart()
    tenant.bundle("web", config_map("a0", "new"), approval="Always")
    plan = pending(tenant)
    assert written(site_audit, tenant) == []
    assert (tenant.value("a0"), all(tenant.exists(*names))) == ("v", True)
    assert conditions(tenant)["PruneBlocked"][0] == "True"
    approve(tenant, plan["digest"])
    tenant.ready("web")
    assert tenant.value("a0") == "new"
    assert tenant.exists(*names) == [True] + [False] * 7


def test_approval_of_another_bundle_approves_nothing(
    tenant: Tenant, site_audit: AuditTrail
) -> None:
    """Its digest names other objects, by their UIDs; nor does a digest that was never made."""
    for name in ("web", "db"):
        parts = [config_map(f"{name}-{part}") for part in "ab"]
        tenant.bundle(name, *parts, approval="Prune")
        tenant.ready(name)
        tenant.bundle(name, parts[0], approval="Prune")
    digests = {name: pending(tenant, name)["digest"] for name in ("web", "db")}
    assert digests["web"] != digests["db"]
    site_audit.restart()
    for number, wrong in enumerate((digests["web"], OTHER, "yes")):
        approve(tenant, wrong, "db")
        looked(tenant, str(number), "db")
        assert written(site_audit, tenant) == []
        assert tenant.exists("db-a", "db-b") == [True, True]
    assert "is not a digest" in messages(tenant, "db")
    approve(tenant, digests["db"], "db")
    tenant.ready("db")
    assert tenant.exists("db-a", "db-b", "web-b") == [True, False, True]


def test_set_with_waiting_deletions_can_be_deleted(tenant: Tenant) -> None:
    """To delete the Bundle is a decision of its own."""
    for name, approval in (("web", "Prune"), ("db", "Always")):
        tenant.bundle(name, config_map(f"{name}-a"), approval=approval)
        if approval == "Always":
            approve(tenant, pending(tenant, name)["digest"], name)
        tenant.ready(name)
        tenant.delete(name)
        tenant.gone(name)
        assert tenant.exists(f"{name}-a") == [False]


def test_waiting_bundles_are_counted(tenant: Tenant, running: Controller) -> None:
    """A gauge, and the reason of the passes; a guard has refused nothing."""
    refused = running.metric("applyprune_refused_prunes_total")

    def waiting() -> int:
        # Bundles of earlier tests may still be on their way out.
        bundles = tenant.api.get("/apis/applyprune.dev/v1alpha1/bundles")["items"]
        return sum("pendingPlan" in one.get("status", {}) for one in bundles)

    def is_counted() -> bool:
        return running.metric("applyprune_pending_approvals") == waiting()

    tenant.bundle("web", config_map("a"), approval="Always")
    plan = pending(tenant)
    assert waiting() > 0
    eventually(is_counted, lambda: "the count with it")
    counted = 'applyprune_reconciles_total{reason="PendingApproval"}'
    eventually(lambda: running.metric(counted) > 0)
    approve(tenant, plan["digest"])
    tenant.ready("web")
    assert "pendingPlan" not in tenant.get("web")["status"]
    eventually(is_counted, lambda: "the count without it")
    assert running.metric("applyprune_refused_prunes_total") == refused


@pytest.mark.parametrize(
    "races",
    [8, pytest.param(16, marks=pytest.mark.sweep), pytest.param(500, marks=pytest.mark.sweep)],
)
@pytest.mark.parametrize("approval", ["Prune", "Always"])
def test_approval_that_races_a_new_revision_is_of_the_old_one(
    site: Plane, tenant: Tenant, approval: str, races: int
) -> None:
    """Both are written at once: what is done was approved, and never what is newer.

    Each revision drops one object, and adds one. Every fourth comes when the approved is done.
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


def written(audit: AuditTrail, tenant: Tenant) -> list[str]:
    """Return what was written in a namespace except for Bundles, their status, and Events."""
    ours = (f"/namespaces/{tenant.namespace}/bundles", f"/namespaces/{tenant.namespace}/events")
    return [
        one
        for one in writes(audit)
        if tenant.namespace in one and not any(part in one for part in ours)
    ]


TAKES = {
    "no approval": {},
    "a weaker one": {"approval": "Prune"},
}


def test_set_with_an_approval_is_not_adopted_from(
    tenant: Tenant, new_tenant: Callable[[], Tenant], running: Controller
) -> None:
    """Another Bundle would change and delete its objects without that approval."""
    tenant.bundle("web", config_map("a", "1"), approval="Always")
    approve(tenant, pending(tenant)["digest"])
    tenant.ready("web")
    taken = config_map("a", "2", namespace=tenant.namespace)
    takes = {"adopt": "all", "adoptAs": "owned", "conflicts": "force"}
    for number, spec in enumerate(TAKES.values()):
        tenant.bundle(f"thief{number}", taken, **takes, **spec)
    other = new_tenant()
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": other.namespace}
    rbac = "rbac.authorization.k8s.io"
    binding = {"apiVersion": f"{rbac}/v1", "kind": "RoleBinding", "metadata": {"name": "guest"}}
    role = {"apiGroup": rbac, "kind": "ClusterRole", "name": "admin"}
    tenant.put("rolebindings", {**binding, "roleRef": role, "subjects": [subject]}, f"{rbac}/v1")
    other.bundle("thief", taken, approval="Always", **takes)
    for one, name in ((tenant, "thief0"), (tenant, "thief1"), (other, "thief")):
        one.failed(name, "ApplyFailed")
        message = one.failures(name)["configmap/a"]
        assert "belongs to a set whose plans need an approval" in message
        assert f"spec.approval of the Bundle {tenant.namespace}/web is Always" in message
    assert tenant.value("a") == "1"
    # The same people approve as much: it may, as soon as they do.
    tenant.patch("thief0", approval="Always")
    plan = pending(tenant, "thief0")
    assert shown(plan) == ["adopt configmap/a"]
    assert tenant.value("a") == "1"
    approve(tenant, plan["digest"], "thief0")
    tenant.ready("thief0")
    assert tenant.value("a") == "2"
    assert running.process.poll() is None


def test_set_without_an_approval_is_adopted_from(tenant: Tenant) -> None:
    """By whoever says so, as ever."""
    tenant.bundle("web", config_map("a", "1"))
    tenant.ready("web")
    tenant.bundle("other", config_map("a", "2"), adopt="all")
    tenant.ready("other")
    assert tenant.value("a") == "2"


def test_label_of_nobody_is_taken_as_the_status_says(tenant: Tenant) -> None:
    """Somebody has set it by hand, and the account cannot see whether such a set exists."""
    labels = {"applyset.kubernetes.io/part-of": "applyset-nobody-v1"}
    tenant.put("configmaps", config_map("a", "2", labels=labels))
    tenant.bundle("web", config_map("a", "2"))
    tenant.failed("web", "ApplyFailed")
    assert "spec.adopt: all" in tenant.failures("web")["configmap/a"]
    tenant.patch("web", adopt="all")
    tenant.ready("web")


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
