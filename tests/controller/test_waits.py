"""Bundles that wait for their objects hold no worker, and end their wait when something changes."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from tests.support.api import status_writes
from tests.support.controller import served
from tests.support.objects import config_map, text
from tests.support.waiting import HANG, eventually
from tests.support.webhook import Webhook
from tests.support.workloads import WAVE, Puppets, ready, workload

if TYPE_CHECKING:
    from collections.abc import Callable

    from applyprune.localplane import Plane
    from tests.support.api import Api, AuditTrail
    from tests.support.controller import Controller, Tenant

MANY = 5
"""One more than there are workers."""
WAITS: dict[str, Any] = {"wait": True, "timeout": "1h"}


def never(name: str = "never") -> dict[str, Any]:
    """Return a Deployment that never becomes ready by itself: no node exists."""
    return workload("Deployment", name)


def waiting(tenant: Tenant, name: str) -> None:
    """Wait until a Bundle says that it waits."""
    eventually(
        lambda: "waiting for" in tenant.condition(name)[2],
        lambda: f"{name} waits: {tenant.condition(name)}",
    )
    assert tenant.condition(name)[:2] == ("Unknown", "Progressing")


def test_bundles_that_never_become_ready_delay_nobody(
    running: Controller, tenant: Tenant, new_tenant: Callable[[], Tenant]
) -> None:
    """Five wait for an hour; four workers serve new ones, in their namespace and elsewhere.

    Slow: looks at what is not ready have growing pauses.
    """
    for number in range(MANY):
        tenant.bundle(f"b{number}", never(f"d{number}"), **WAITS)
    for number in range(MANY):
        waiting(tenant, f"b{number}")
    for one in (new_tenant(), tenant):
        served(one, running, "new")
    Puppets(tenant.api, tenant.namespace).pods_of("d4", ready())
    tenant.ready("b4")


def test_bundle_checks_once_what_waits_for_an_earlier_wave(
    tenant: Tenant, site_audit: AuditTrail
) -> None:
    """Each look at a wait is a run of its own, but what it applies was checked by the first."""
    later = config_map("later", annotations={WAVE: "1"})
    tenant.bundle("web", never("first"), later, **WAITS)
    waiting(tenant, "web")
    Puppets(tenant.api, tenant.namespace).pods_of("first", ready())
    tenant.ready("web")
    path = f"{tenant.path('configmaps', 'later')}?"
    sent = [one["requestURI"] for one in site_audit.events() if one["verb"] == "patch"]
    dry = ["dryRun=All" in uri for uri in sent if uri.startswith(path)]
    assert dry == [True, False]


def test_work_of_one_namespace_delays_no_other(
    running: Controller,
    site: Plane,
    site_api: Api,
    tenant: Tenant,
    new_tenant: Callable[[], Tenant],
) -> None:
    """A webhook hangs on as many writes as there are workers: one of them serves the others."""
    other, over = new_tenant(), threading.Event()

    def reply(request: dict[str, Any]) -> None:
        if request["name"].startswith("slow") and not request["dryRun"]:
            over.wait(HANG)

    with Webhook(site, site_api, tenant.namespace, ("CREATE",), reply, seconds=30):
        for number in range(4):
            tenant.bundle(f"b{number}", config_map(f"slow-{number}"))
        eventually(lambda: tenant.exists("applyprune-b0") == [True], lambda: "a run that hangs")
        served(other, running, "new")
        # It got no worker that one of the others has given back.
        assert running.reconciles(tenant) == []
        over.set()
        for number in range(4):
            tenant.ready(f"b{number}")


def test_wait_is_in_the_status_and_ends_with_a_change(
    running: Controller, tenant: Tenant, site_audit: AuditTrail
) -> None:
    """Written once; a change of the source or of the spec ends it, and so does its time.

    What becomes ready after its time is seen by its watch: the next try is in an hour.

    Slow: looks at what is not ready have growing pauses.
    """
    tenant.put("configmaps", {**config_map("src"), "data": {"one": text(never())}})
    tenant.bundle("web", source={"configMapRefs": [{"name": "src"}]}, **WAITS)
    waiting(tenant, "web")
    assert tenant.condition("web")[2] == "waiting for deployment.apps/never"
    assert tenant.condition("web", "Reconciling")[:2] == ("True", "Progressing")
    assert tenant.condition("web", "Stalled")[0] == "False"
    status = tenant.get("web")["status"]
    assert status["observedGeneration"] == 1
    assert status["objects"] == {"total": 1, "failing": 1, "elsewhere": 0}
    site_audit.restart()
    before = len(running.reconciles(tenant))
    eventually(lambda: len(running.reconciles(tenant)) >= before + 2, lambda: "two more looks")
    assert status_writes(site_audit, tenant.namespace) == 0
    assert [one[1] for one in tenant.events("web")] == []

    tenant.put("configmaps", {**config_map("src"), "data": {"one": text(config_map("a"))}})
    tenant.ready("web")
    assert tenant.exists("a") == [True]
    tenant.bundle("spec", never("other"), **WAITS)
    waiting(tenant, "spec")
    tenant.bundle("spec", config_map("b"), **WAITS)
    tenant.ready("spec")
    tenant.bundle("time", never("third"), wait=True, timeout="1s", retryInterval="1h")
    tenant.failed("time", "NotReady")
    # After its time is over it is tried again, and does not wait from the start.
    tenant.reconciled("time", "1")
    assert tenant.condition("time")[:2] == ("False", "NotReady")
    Puppets(tenant.api, tenant.namespace).pods_of("third", ready())
    tenant.ready("time")


def test_deletion_that_somebody_holds_up_is_waited_for(tenant: Tenant) -> None:
    """In a prune and in a recreation; it ends when the object is gone.

    After its time a watch shows that: the next try is in an hour.

    Slow: looks at what is not ready have growing pauses.
    """
    held: dict[str, Any] = {"finalizers": ["example.com/slow"]}

    def again(name: str, value: str = "v", **metadata: Any) -> dict[str, Any]:
        marks = {"applyprune.dev/recreate": "allowed"}
        return {**config_map(name, value, annotations=marks, **metadata), "immutable": True}

    stays = [config_map("stays"), config_map("more")]
    tenant.bundle("web", *stays, config_map("goes", **held), again("anew", **held), **WAITS)
    tenant.ready("web")
    before = tenant.get_map("anew")["metadata"]["uid"]
    changed = again("anew", "changed")
    tenant.bundle("web", *stays, changed, **WAITS)
    waiting(tenant, "web")
    assert tenant.condition("web")[2] == "waiting for configmap/anew"
    assert tenant.get_map("anew")["metadata"]["uid"] == before
    tenant.strip("anew")
    eventually(lambda: "configmap/goes" in tenant.condition("web")[2], lambda: "the prune")
    assert tenant.condition("web")[:2] == ("Unknown", "Progressing")
    assert tenant.value("anew") == "changed"
    tenant.strip("goes")
    tenant.ready("web")
    assert tenant.get("web")["status"]["objects"] == {"total": 3, "failing": 0, "elsewhere": 0}
    assert tenant.get_map("anew")["metadata"]["uid"] != before
    tenant.bundle("late", again("late", **held), **WAITS)
    tenant.ready("late")
    changed = again("late", "changed")
    tenant.bundle("late", changed, wait=True, timeout="2s", retryInterval="1h")
    tenant.failed("late", "ApplyFailed")
    tenant.strip("late")
    tenant.ready("late")
    assert tenant.value("late") == "changed"


def test_refused_prune_does_not_hide_a_wait(tenant: Tenant) -> None:
    """Its objects are starting: that is no failure. The prune has a condition of its own.

    Slow: looks at what is not ready have growing pauses.
    """
    tenant.bundle("web", *map(config_map, "abcd"), **WAITS)
    tenant.ready("web")
    tenant.bundle("web", config_map("e"), never(), **WAITS)
    tenant.waits("web", "waiting for deployment.apps/never")
    assert tenant.condition("web", "PruneBlocked")[:2] == ("True", "PruneRefused")
    tenant.bundle("web", config_map("e"), **WAITS)
    tenant.failed("web", "PruneRefused")
    tenant.bundle("web", config_map("e"), never(), **{**WAITS, "timeout": "1s"})
    tenant.failed("web", "NotReady")
