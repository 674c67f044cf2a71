"""Where objects are not watched, nobody knows whether they have drifted, and the status says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.cluster.access import cluster_access
from applyprune.cluster.client import KubernetesClient
from applyprune.cluster.transport import Transport
from applyprune.controller.queue import WorkQueue
from applyprune.controller.task import AppliedObjects, Unwatched
from applyprune.controller.watches import Watches
from applyprune.model.live import CONFIG_MAPS, SECRETS
from tests.support.accounts import WRITE, rule
from tests.support.objects import config_map
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from applyprune.controller.reasons import Key
    from applyprune.localplane import Plane
    from tests.support.controller import Controller, Tenant

LONG = {"interval": "1h", "retryInterval": "1h"}


def test_account_that_may_not_watch_says_so_until_it_may(
    tenant: Tenant, running: Controller
) -> None:
    """Not that nothing has drifted; drift that a run has found is told all the same."""
    maps = rule("", ["configmaps"], [verb for verb in WRITE if verb not in {"list", "watch"}])
    tenant.account("blind", maps)
    spec = {"serviceAccountName": "blind", **LONG}
    tenant.bundle("web", config_map("a"), **spec)
    tenant.ready("web")

    def says(status: str, reason: str) -> bool:
        return tenant.condition("web", "Drifted")[:2] == (status, reason)

    eventually(lambda: says("Unknown", "NotWatched"), lambda: "the condition")
    message = tenant.condition("web", "Drifted")[2]
    assert message == (
        "nothing had drifted at the last reconcile, and only the next one looks again: its account "
        "cannot list and watch some of its objects"
    )
    assert tenant.condition("web")[:2] == ("True", "Applied")
    # A reconcile that has nothing new to say writes nothing.
    version = tenant.get("web")["metadata"]["resourceVersion"]
    tenant.bundle("other", config_map("b"), **LONG)
    tenant.ready("other")
    eventually(lambda: tenant.condition("other", "Drifted")[:2] == ("False", "NoDrift"))
    assert tenant.get("web")["metadata"]["resourceVersion"] == version
    assert running.metric("applyprune_watches_limit") == 500
    assert running.metric("applyprune_watches") >= 1
    assert running.metric("applyprune_waiting_watches") == 0


def test_namespace_that_comes_late_is_watched(
    site: Plane, new_tenant: Callable[[], Tenant]
) -> None:
    """Another gives up a watch; both Bundles are queued, so that both statuses say what is so."""
    rich, poor = new_tenant(), new_tenant()
    access = cluster_access(kubeconfig=str(site.kubeconfig), environ={})
    transport = Transport(access, pool_size=2)
    queue = WorkQueue(min_gap=0)
    watches = Watches(queue, KubernetesClient(transport, access.server), access, "test")
    watches.shared.most = 2
    watches.shared.hub.start()  # type: ignore[union-attr]
    try:
        first, second = (rich.namespace, "web"), (poor.namespace, "web")

        def follow(key: Key, unwatched: str = "") -> None:
            kinds = {(CONFIG_MAPS, key[0]), (SECRETS, key[0])}
            objects = AppliedObjects(
                "default", f"set-{key[0]}", "m", frozenset(kinds), unwatched=unwatched
            )
            watches.follow_objects(key, objects)

        follow(first)
        eventually(lambda: watches.shared.unwatched(first) == "", lambda: "both lists")
        assert queue.waiting == 0
        follow(second)
        assert {queue.get(), queue.get()} == {first, second}
        for key in (first, second):
            assert watches.shared.unwatched(key) == Unwatched.NONE_FREE
            follow(key, Unwatched.NONE_FREE)
            queue.done(key)
        assert (watches.shared.count, watches.shared.waiting) == (2, 2)
        assert queue.waiting == 0
        # The other's end gives it all of them.
        watches.drop(first)
        assert queue.get() == second
        assert watches.shared.unwatched(second) == ""
    finally:
        watches.close()
        transport.close()
