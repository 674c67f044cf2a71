"""A Bundle that leaves a set: what its own set would lose is counted before it goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest

from applyprune.model.events import Planned
from applyprune.model.fate import Outcome
from applyprune.model.options import AdoptFrom, DryRun, Mode
from applyprune.planning.applyset import PART_OF, applyset_identity
from tests.support.fault_proxy import FaultProxy, always, faults
from tests.support.objects import CLAIM, config_map, of_kind, text
from tests.support.stage import Stage, on
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.controller import Tenant


def bundle(name: str, *manifests: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Return the manifest of a Bundle."""
    source = {"source": {"inline": text(*manifests)}, "retryInterval": "1s"}
    return of_kind("Bundle", name, api="applyprune.dev/v1alpha1", spec={**source, **spec})


def of_map(name: str, **spec: Any) -> dict[str, Any]:
    """Return the manifest of a Bundle whose source is a ConfigMap, which ``fill`` writes."""
    source = {"source": {"configMapRefs": [{"name": f"of-{name}"}]}, "retryInterval": "1s"}
    return of_kind("Bundle", name, api="applyprune.dev/v1alpha1", spec={**source, **spec})


def fill(tenant: Tenant, name: str, *manifests: dict[str, Any]) -> None:
    tenant.put("configmaps", {**config_map(f"of-{name}"), "data": {"objects": text(*manifests)}})


def maps(name: str, count: int) -> list[dict[str, Any]]:
    return [config_map(f"{name}{number}") for number in range(count)]


@pytest.fixture
def parent(site: Plane, tenant: Tenant) -> Stage:
    """A set in the tenant's namespace, of the command line."""
    return Stage(site.kubeconfig, tenant.namespace, "parent")


KEPT = [config_map("p1"), config_map("p2")]


def test_objects_of_a_pruned_bundle_count(parent: Stage, tenant: Tenant) -> None:
    """In the plan, the guards, the limit and the digest; approved, they go with it."""
    parent.run(*KEPT, bundle("old", *maps("o", 8)))
    tenant.ready("old")
    refused = parent.run(*KEPT)
    assert refused.exit_code == 6
    assert "9 deletions are more than 5, and more than 30% of the set's 11 live objects" in (
        refused.refusal
    )
    assert "including 8 cascaded deletions" in refused.refusal
    assert f"{tenant.namespace}/configmap/o0" in refused.refusal
    assert tenant.exists(*(f"o{number}" for number in range(8))) == [True] * 8
    assert parent.run(*KEPT, max_prune=parent.most(1)).exit_code == 6
    step = next(one for one in parent.run(*KEPT, dry_run=DryRun.SERVER).plan.removals)
    assert len(step.cascade) == 8
    done = parent.run(*KEPT, approved=refused.deletions)
    assert (done.exit_code, done.outcomes["bundle.applyprune.dev/old"]) == (0, Outcome.PRUNED)
    assert tenant.exists("o0", "p1") == [False, True]


@pytest.mark.holds("one-bundle")
def test_one_app_of_several_goes_as_any_object(parent: Stage, tenant: Tenant) -> None:
    """Also through Bundles in Bundles, suspended or not; a delete of all says what goes."""
    inner = bundle("inner", *maps("i", 3))
    apps = [bundle("a", *maps("a", 8)), bundle("b", inner, *maps("b", 3))]
    parent.run(*apps)
    for name in ("a", "b", "inner"):
        tenant.ready(name)
    told = parent.run(mode=Mode.DELETE, dry_run=DryRun.SERVER)
    goes = {
        one.entry.ref.name: {also.ref.name for also in one.cascade} for one in told.plan.removals
    }
    assert goes["b"] == {"inner", "b0", "b1", "b2", "i0", "i1", "i2"}
    assert len(goes["a"]) == 8
    tenant.patch("inner", suspend=True)
    again = parent.run(apps[0], dry_run=DryRun.SERVER)
    assert again.refusal == ""
    assert {also.ref.name for also in again.plan.removals[0].cascade} == goes["b"]
    tenant.patch("inner", suspend=False)
    done = parent.run(apps[0])
    assert (done.exit_code, done.refusal) == (0, ""), done.events
    assert tenant.exists("a0", "b0", "i0") == [True, False, False]


@pytest.mark.holds("bundle-owns")
def test_set_that_a_bundle_does_not_own_stays(parent: Stage, tenant: Tenant) -> None:
    """It is there before the Bundle, which therefore applies nothing, and removes nothing."""
    own = Stage(parent.kubeconfig, tenant.namespace, "old")
    own.run(*maps("o", 8))
    parent.run(*KEPT, bundle("old", config_map("o")))
    eventually(lambda: tenant.get("old")["metadata"].get("finalizers"), lambda: "the finalizer")
    done = parent.run(*KEPT)
    assert (done.exit_code, done.refusal) == (0, ""), done.events
    tenant.gone("old")
    assert tenant.exists("o0") == [True]


@pytest.mark.holds("guarded-kind-in-a-set")
def test_claim_of_a_bundle_needs_its_option(parent: Stage, tenant: Tenant) -> None:
    """As if it were in the set itself."""
    parent.run(*KEPT, bundle("old", CLAIM, config_map("o"), wait=False))
    eventually(lambda: "inventory" in tenant.get("old").get("status", {}), lambda: "the status")
    refused = parent.run(*KEPT)
    assert "a persistentvolumeclaim is only pruned if that is allowed" in refused.refusal


@pytest.mark.holds("unread-goes")
def test_object_that_cannot_be_listed_counts(
    parent: Stage, tenant: Tenant, site: Plane, tmp_path: Path
) -> None:
    """The inventory names it, and the removal deletes it."""
    parent.run(*KEPT, bundle("old", config_map("o"), of_kind("Secret", "s")))
    tenant.ready("old")
    label = f"{PART_OF}={applyset_identity('old', tenant.namespace).id}"
    with FaultProxy(site) as proxy:
        proxy.rule = always(
            faults.status(403),
            where=lambda seen: seen.path.endswith("/secrets") and label in unquote(seen.target),
        )
        watched = Stage(proxy.kubeconfig(tmp_path), tenant.namespace, "parent")
        (step,) = watched.run(*KEPT, dry_run=DryRun.SERVER).plan.removals
    assert [also.ref.name for also in step.cascade] == ["o", "s"]


def test_bundles_in_a_ring_count_once(
    parent: Stage, tenant: Tenant, site: Plane, tmp_path: Path
) -> None:
    """The third lists the first, which another set has taken; here it cannot be listed."""
    ring = {
        name: of_map(name, adopt="all", adoptAs="owned") for name in ("first", "second", "third")
    }
    for name, also in (("first", "second"), ("second", "third"), ("third", "first")):
        fill(tenant, name, config_map(f"in-{name}"), ring[also])
    parent.run(*KEPT, ring["first"])
    for name in ring:
        tenant.ready(name)
    tenant.patch("third", suspend=True)
    eventually(lambda: tenant.condition("third", "Reconciling")[1] == "Suspended")
    parent.run(*KEPT, ring["first"], adopt=AdoptFrom("third"))
    label = f"{PART_OF}={applyset_identity('third', tenant.namespace).id}"
    with FaultProxy(site) as proxy:
        proxy.rule = always(
            faults.status(403),
            where=lambda seen: seen.path.endswith("/bundles") and label in unquote(seen.target),
        )
        watched = Stage(proxy.kubeconfig(tmp_path), tenant.namespace, "parent")
        (step,) = watched.run(*KEPT, dry_run=DryRun.SERVER).plan.removals
    inside = ["in-first", "in-second", "in-third", "second", "third"]
    assert [also.ref.name for also in step.cascade] == inside


def test_pending_plan_of_a_bundle_names_what_goes_with_an_inner_one(tenant: Tenant) -> None:
    """An approval is of exactly that."""
    stays = [config_map("x"), config_map("y"), config_map("z"), config_map("w")]
    fill(tenant, "inner", *maps("o", 2))
    tenant.bundle("outer", *stays, of_map("inner"), approval="Prune")
    tenant.ready("outer")
    tenant.ready("inner")
    tenant.bundle("outer", *stays, approval="Prune")
    told = tenant.failed("outer", "PendingApproval")
    assert told == "waiting for an approval: 1 to prune, 2 cascaded"
    loss = f"cascade-delete 2 objects: {tenant.namespace}/configmap/o0, "
    plan = tenant.get("outer")["status"]["pendingPlan"]
    assert plan["counts"] == {"prune": 1, "cascaded": 2}
    assert plan["objects"][0]["cascade"].startswith(loss)
    blocked = tenant.condition("outer", "PruneBlocked")[2]
    assert f"bundle.applyprune.dev/inner would {loss}" in blocked
    # It grows: the approval of less approves nothing.
    fill(tenant, "inner", *maps("o", 3))
    eventually(lambda: tenant.exists("o2") == [True], lambda: "the new object")
    tenant.annotate("outer", approve=plan["digest"])
    eventually(
        lambda: "is about another plan" in tenant.condition("outer", "PruneBlocked")[2],
        lambda: str(tenant.get("outer")["status"]),
    )
    assert tenant.exists("o0", "o2") == [True, True]
    tenant.annotate("outer", approve=tenant.get("outer")["status"]["pendingPlan"]["digest"])
    tenant.gone("inner")
    assert tenant.exists("o0", "o2", "x") == [False, False, True]


@pytest.mark.holds("recounted-before-delete")
def test_set_that_grows_after_the_plan_keeps_its_bundle(parent: Stage, tenant: Tenant) -> None:
    """It is counted again right before the deletion."""
    parent.run(*KEPT, bundle("old", config_map("o")))
    tenant.ready("old")

    def grow() -> None:
        tenant.bundle("old", config_map("o"), config_map("new"))
        eventually(lambda: tenant.exists("new") == [True], lambda: "the new object")

    parent.seen = on(Planned, grow)
    story = parent.run(*KEPT)
    assert story.exit_code != 0
    assert "would now cascade to more objects than planned" in story.problem(
        "bundle.applyprune.dev/old"
    )
    assert tenant.exists("o", "new") == [True, True]
