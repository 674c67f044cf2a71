"""What a plan says it causes, and what it then does cause, on a real server."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from applyprune.model.options import DryRun, PruneLimit
from tests.support.api import Api, AuditTrail, writes
from tests.support.fault_proxy import FaultProxy, always, faults
from tests.support.objects import (
    CLAIM,
    GUARDED,
    SERVICE,
    config_map,
    crd,
    crd_name,
    custom_resource,
    of_kind,
)  # fmt: skip
from tests.support.stage import Stage
from tests.support.waiting import eventually
from tests.support.workloads import workload

Body = dict[str, Any]


def _forecast(
    stage: Stage, *bodies: Body, dry_run: DryRun = DryRun.SERVER, **options: Any
) -> list[str]:
    """Return what an apply would cause, as ``kind/name: message``; nothing is written."""
    story = stage.run(*bodies, dry_run=dry_run, **options)
    return [f"{one.ref.short}: {one.message}" for one in story.plan.consequences]


def _image(body: Body, image: str = "main:2") -> Body:
    changed = copy.deepcopy(body)
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = image
    return changed


def _pods(api: Api, stage: Stage, app: str) -> set[str]:
    """Return the UIDs of the Pods of an app that are not being deleted."""
    path = f"/api/v1/namespaces/{stage.namespace}/pods?labelSelector=app%3D{app}"
    return {
        pod["metadata"]["uid"]
        for pod in api.get(path)["items"]
        if "deletionTimestamp" not in pod["metadata"]
    }


def _has_pods(api: Api, stage: Stage, number: int, app: str) -> set[str]:
    eventually(lambda: len(_pods(api, stage, app)) == number, lambda: f"{number} Pods")
    return _pods(api, stage, app)


def _lists(audit: AuditTrail) -> list[str]:
    """Return what applyprune has listed beyond the kinds of the set, with ``full`` for bodies."""
    return sorted(one["objectRef"]["resource"] for one in audit.ours() if one["verb"] == "list")


def _web(name: str, kind: str = "Deployment", **spec: Any) -> Body:
    return workload(kind, name, spec={} if kind == "DaemonSet" else {"replicas": 3, **spec})


WAYS = {
    "deployment.apps/rolls": (_web("rolls"), "rollout, 3 Pods"),
    "deployment.apps/stops": (
        _web("stops", strategy={"type": "Recreate"}), "3 Pods stop, then start",
    ),
    "statefulset.apps/waits": (
        _web("waits", "StatefulSet", updateStrategy={"type": "OnDelete"}),
        "3 Pods change when they are deleted",
    ),
    "deployment.apps/paused": (
        _web("paused", paused=True), "3 Pods change when the rollout is resumed",
    ),
    "daemonset.apps/agent": (_web("agent", "DaemonSet"), "rollout, 1 Pod"),
}  # fmt: skip


def test_changed_template_says_what_its_pods_do(stage: Stage, api: Api) -> None:
    """The replicas and the strategy are those of the server; a second Pod shows that it is true."""
    bodies = {name: body for name, (body, _) in WAYS.items()}
    started = copy.deepcopy(bodies)
    del started["deployment.apps/paused"]["spec"]["paused"]
    stage.run(*started.values(), wait=True)
    before = {}
    for name, body in bodies.items():
        number = body["spec"].get("replicas", 1)
        before[name] = _has_pods(api, stage, number, name.rpartition("/")[2])
    changed = [_image(body) for body in bodies.values()]
    told = [f"{name}: {message}" for name, (_, message) in WAYS.items()]
    assert sorted(_forecast(stage, *changed)) == sorted(told)
    stage.run(*changed)

    def is_replaced(name: str) -> bool:
        return len(_pods(api, stage, name.rpartition("/")[2]) - before[name]) == len(before[name])

    stays = [name for name, (_, message) in WAYS.items() if "change when" in message]
    for name in [one for one in WAYS if one not in stays]:
        eventually(partial(is_replaced, name), lambda: "the rollout")
    assert [_pods(api, stage, name.rpartition("/")[2]) for name in stays] == [
        before[name] for name in stays
    ]


def _volume(stage: Stage, policy: str) -> Body:
    return of_kind("PersistentVolume", f"{stage.namespace}-{policy.lower()}", spec={
        **GUARDED["persistentvolume"]["spec"],
        # Of others, the controller deletes nothing.
        "hostPath": {"path": f"/tmp/{stage.namespace}"},
        "storageClassName": "none",
        "persistentVolumeReclaimPolicy": policy,
        "claimRef": {"name": policy.lower(), "namespace": stage.namespace},
    })  # fmt: skip


def _is_bound(api: Api, path: str) -> bool:
    phase: str = api.get(path).get("status", {}).get("phase", "")
    return phase.lower() == "bound"


@pytest.fixture
def bound(stage: Stage, api: Api) -> Iterator[dict[str, Body]]:
    """Applies two claims and binds them to volumes, one of which is deleted with its claim."""
    path = "/api/v1/persistentvolumes"
    claims = {}
    for policy in ("Delete", "Retain"):
        volume = _volume(stage, policy)
        api.create(path, volume)
        name = volume["metadata"]["name"]
        spec = {**CLAIM["spec"], "volumeName": name}
        body = {**CLAIM, "metadata": {"name": policy.lower()}, "spec": spec}
        claims[policy.lower()] = body
    stage.run(config_map("a"), *claims.values())
    for policy in ("delete", "retain"):
        where = f"{path}/{stage.namespace}-{policy}"
        eventually(partial(_is_bound, api, where), lambda: "a bound volume")
    yield claims
    for policy in ("delete", "retain"):
        api("DELETE", f"{path}/{stage.namespace}-{policy}")


PRUNES: dict[str, Any] = {
    "allow_kinds": frozenset(
        {"persistentvolumeclaim", "statefulset", "namespace", "customresourcedefinition"}
    ),
    "max_prune": PruneLimit(9, 0),
}


def test_pruned_claim_says_what_happens_to_its_volume(
    stage: Stage, api: Api, bound: dict[str, Body]
) -> None:
    """By its reclaim policy, which then holds."""
    name = stage.namespace
    claims = [f"persistentvolumeclaim/{one}: its volume {name}-{one}" for one in bound]
    assert _forecast(stage, config_map("a"), **PRUNES) == [
        f"{claims[0]} is deleted with its data (reclaim policy Delete)",
        f"{claims[1]} stays with its data (reclaim policy Retain)",
    ]
    stage.run(config_map("a"), **PRUNES)
    path = f"/api/v1/persistentvolumes/{name}"
    eventually(lambda: not api.exists(f"{path}-delete"), lambda: "the deletion of the volume")
    assert api.get(f"{path}-retain")["status"]["phase"] == "Released"


def test_volumes_that_may_not_be_listed_leave_a_doubt(
    spoiled: Stage, proxy: FaultProxy, bound: dict[str, Body]
) -> None:
    """The account of a pipeline seldom has a right to volumes."""
    proxy.rule = always(
        faults.status(403, reason="Forbidden", message="no"),
        where=lambda seen: seen.path.endswith("/persistentvolumes"),
    )
    doubt = "its volume may be deleted with the data: no right to list persistentvolumes"
    assert _forecast(spoiled, config_map("a"), bound["delete"], **PRUNES) == [
        f"persistentvolumeclaim/retain: {doubt}"
    ]


def test_pruned_namespace_and_crd_name_what_goes_with_them(crd_stage: Stage, crds: Api) -> None:
    """Those that the plan deletes itself are not counted twice; what they own nobody counts."""
    place, kind = f"{crd_stage.namespace}-old", "Consequent"
    stays, mine = config_map("a"), config_map("mine", namespace=place)
    crd_stage.run(stays, of_kind("Namespace", place), mine, crd(kind), custom_resource("one", kind))
    for name in ("b", "c"):
        crds.create(f"/api/v1/namespaces/{place}/configmaps", config_map(name))
        path = f"/apis/x.example.com/v1/namespaces/{crd_stage.namespace}/consequents"
        crds.create(path, custom_resource(name, kind))
    allowed = frozenset({f"namespace/{place}", crd_name(kind)})
    assert sorted(_forecast(crd_stage, stays, allow_cascade=allowed, **PRUNES)) == [
        f"{crd_name(kind)}: deleted with it: 2 Consequents",
        f"namespace/{place}: deleted with it: 2 ConfigMaps",
    ]


READS_ALL: Body = {"envFrom": [{"configMapRef": {"name": "c"}}]}


def test_forecast_reads_only_the_volumes_of_deleted_claims_more(
    stage: Stage, audit: AuditTrail
) -> None:
    """Any run lists each kind of the set once, and what a prune may cascade to.

    A plan without a check reads nothing for it, and does not guess. The wait before the prune of a
    workload would watch the objects.
    """
    container = {"name": "main", "image": "main:1", **READS_ALL}
    reader = workload("Deployment", pods={"containers": [container]})
    stage.run(config_map("c"), reader, workload("DaemonSet", "agent"), SERVICE, CLAIM)
    changed = (config_map("c", "new"), _image(reader))
    kinds = "configmaps daemonsets deployments persistentvolumeclaims services"
    audit.restart()
    assert _forecast(stage, *changed, dry_run=DryRun.CLIENT, prune=False) == []
    assert _lists(audit) == kinds.split()
    audit.restart()
    told = _forecast(stage, *changed, diff=True, **PRUNES)
    assert "configmap/c: read by deployment.apps/web" in told
    more = "persistentvolumeclaims pods replicasets statefulsets"
    lists = sorted(f"{kinds} {more}".split())
    assert _lists(audit) == sorted([*lists, "persistentvolumes"])
    assert writes(audit) == []
    audit.restart()
    stage.run(*changed, wait=False, **PRUNES)
    assert _lists(audit) == lists
