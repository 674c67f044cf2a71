"""How many requests each verb sends for one small set: a number here may fall, but not rise.

The check before the first write sends each object once more, reads what exists, and reviews the
rights once for each namespace. Where nothing is sent, it costs nothing.

A run that sends an object reads one OpenAPI document for each group version: here one. A run that
deletes an object lists the claims and the StatefulSets of its namespace. A prune of what Pods may
use lists the Pods and the ReplicaSets there, for the plan and before the deletion. The reply to a
DELETE proves nothing: one read confirms the deletions of a kind and namespace, and that of the
inventory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from applyprune.cluster.client import KubernetesClient
from applyprune.engine.context import RunRequest
from applyprune.engine.inventory import release
from applyprune.model.inventory import Ownership
from applyprune.model.options import AdoptFrom, DryRun, Mode, Options
from applyprune.values import replace
from tests.support.fault_proxy import FaultProxy
from tests.support.objects import config_map, of_kind
from tests.support.renewals import without_renewals
from tests.support.stage import Stage, Story


def _count(proxy: FaultProxy, call: Callable[[], Story], *, searches: bool = False) -> str:
    """Return the requests of one run by method.

    Discovery is left out, renewals, and the reads of a run that ``searches`` every kind that the
    server has.
    """
    before = len(proxy.exchanges)
    story = call()
    assert story.exit_code == 0, story.events
    made = without_renewals(proxy.exchanges[before:])
    sent = [one for one in made if one.path not in {"/api", "/apis"}]
    methods = Counter(one.method for one in sent if not (searches and one.method == "GET"))
    return " ".join(f"{method} {count}" for method, count in sorted(methods.items()))


def _release(stage: Stage) -> Story:
    transport = stage.transport()
    try:
        cluster, store = KubernetesClient(transport, "test"), stage.store(transport)
        request = RunRequest(stage.target, options=Options(Mode.REPAIR))
        return Story(tuple(release(request, cluster, store, stage.stop, lambda _: False)))
    finally:
        transport.close()


def _lost_and_repaired(stage: Stage) -> Story:
    transport = stage.transport()
    try:
        stage.store(transport).remove(stage.inventory())
    finally:
        transport.close()
    return stage.repair(ownership=Ownership.OWNED)


def test_verb_sends_the_recorded_number_of_requests(spoiled: Stage, proxy: FaultProxy) -> None:
    """Three ConfigMaps go through every verb that writes, and through their dry runs.

    Slow: these are fifteen runs, two of which search every kind of the server.
    """
    other = replace(spoiled, name="other")
    owned = replace(spoiled, name="owned", owner="Bundle shop/owned")
    bodies = [config_map(f"c-{number}") for number in range(3)]
    changed = [config_map(f"c-{number}", "w") for number in range(3)]
    limit, given = spoiled.most(9), AdoptFrom(spoiled.name)
    run = partial(spoiled.run, check=True)  # as every user does
    counts = {
        "dry run": _count(proxy, lambda: run(*bodies, dry_run=DryRun.SERVER)),
        "create": _count(proxy, lambda: run(*bodies)),
        "nothing to do": _count(proxy, lambda: run(*bodies)),
        "change": _count(proxy, lambda: run(*changed)),
        "change and wait": _count(proxy, lambda: run(*bodies, wait=True)),
        "change, not checked": _count(proxy, lambda: spoiled.run(*changed)),
        "prune": _count(proxy, lambda: run(*changed[:2], max_prune=limit)),
        "check": _count(proxy, spoiled.check, searches=True),
        "repair": _count(proxy, lambda: _lost_and_repaired(spoiled), searches=True),
        "take": _count(proxy, lambda: other.run(*changed[:2], adopt=given, check=True)),
        "forget what was taken": _count(proxy, lambda: run(config_map("own"))),
        "orphan": _count(proxy, lambda: other.orphan("ConfigMap/c-0", check=True)),
        "delete": _count(proxy, lambda: other.run(mode=Mode.DELETE, max_prune=limit, check=True)),
        "create for a Bundle": _count(proxy, lambda: owned.run(config_map("d"), check=True)),
        "release": _count(proxy, lambda: _release(owned)),
    }
    assert counts == {
        "dry run": "GET 7 PATCH 3 POST 1",
        "create": "GET 7 PATCH 6 POST 2 PUT 1",
        "nothing to do": "GET 2",
        "change": "GET 6 PATCH 6 POST 1 PUT 2",
        "change and wait": "GET 6 PATCH 6 POST 1 PUT 3",
        "change, not checked": "GET 3 PATCH 3 PUT 2",
        "prune": "DELETE 1 GET 9 POST 1 PUT 3",
        "check": "",
        "repair": "DELETE 1 POST 1 PUT 1",
        "take": "GET 10 PATCH 10 POST 2 PUT 1",
        "forget what was taken": "GET 8 PATCH 2 POST 1 PUT 3",
        "orphan": "GET 2 PATCH 1 POST 1 PUT 3",
        "delete": "DELETE 2 GET 7 POST 1 PUT 2",
        "create for a Bundle": "GET 4 PATCH 2 POST 2 PUT 1",
        "release": "GET 1 PUT 1",
    }


def test_prune_of_namespaces_lists_the_kinds_twice(spoiled: Stage, proxy: FaultProxy) -> None:
    """The CRDs and the APIServices, once each, however many Namespaces; never without one."""
    homes = [of_kind("Namespace", f"{spoiled.namespace}-{n}") for n in range(2)]
    bodies = [config_map("a"), config_map("b"), *homes]
    paths = {
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "/apis/apiregistration.k8s.io/v1/apiservices",
    }

    def lists(*left: dict[str, Any]) -> Counter[str]:
        before = len(proxy.exchanges)
        kinds = frozenset({"namespace"})
        # The namespace controller takes some seconds, for which nobody waits.
        spoiled.run(*left, allow_kinds=kinds, max_prune=spoiled.most(9), timeout=0.1)
        sent = proxy.exchanges[before:]
        first = next((at for at, one in enumerate(sent) if one.method == "DELETE"), len(sent))
        # The guarded kinds, CRDs among them, are also listed by their metadata; what is not gone
        # is looked at afterwards.
        return Counter(
            one.path
            for one in sent[:first]
            if one.path in paths and one.header("Accept") == "application/json"
        )

    assert lists(*bodies) == {}
    assert lists(*bodies) == {}
    assert lists(bodies[0], *homes) == {}
    assert lists(bodies[0]) == dict.fromkeys(paths, 1)


def test_check_in_a_new_namespace_asks_once_for_each_object(
    spoiled: Stage, proxy: FaultProxy
) -> None:
    """Only the objects on their way at the first reply have asked for the namespace too."""
    name, many, workers = f"{spoiled.namespace}-new", 20, 2
    home = of_kind("Namespace", name)
    inside = [config_map(f"c-{number}", namespace=name) for number in range(many)]
    story = spoiled.run(home, *inside, check=True, concurrency=workers)
    assert story.exit_code == 0
    dry = [one.status for one in proxy.exchanges if one.query.get("dryRun") == "All"]
    assert 1 <= dry.count(404) <= workers
    assert dry.count(201) == many + 1
