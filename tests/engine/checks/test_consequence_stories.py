"""What a plan says it causes, and what it then does cause, on a real server."""

from __future__ import annotations

import base64
import copy
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from applyprune.model.options import DryRun, PruneLimit
from tests.support.api import Api, AuditTrail, writes
from tests.support.fault_proxy import FaultProxy, always, faults
from tests.support.objects import CLAIM, SERVICE, config_map, crd, custom_resource, of_kind
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


READS_ALL: Body = {"envFrom": [{"configMapRef": {"name": "c"}}]}
MOUNTS: Body = {"volumeMounts": [{"name": "v", "mountPath": "/c"}]}
SECRETS: Body = {"envFrom": [{"secretRef": {"name": "s"}}]}


def _reading(name: str, container: Body, **pods: Any) -> Body:
    pods = {**pods, "containers": [{"name": "main", "image": "main:1", **container}]}
    return workload("Deployment", name, pods=pods)


def test_changed_values_name_their_readers_and_who_keeps_the_old_ones(stage: Stage) -> None:
    """Of a Secret, neither the old nor the new value is in any event."""
    fixed = {"volumes": [{"name": "v", "configMap": {"name": "fixed"}}]}
    readers = (
        _reading("env", READS_ALL), _reading("mount", MOUNTS, **fixed), _reading("secret", SECRETS),
    )  # fmt: skip

    def values(value: str) -> tuple[Body, ...]:
        return (
            config_map("c", value),
            {**config_map("fixed", value), "immutable": True},
            of_kind("Secret", "s", stringData={"password": f"hunter2-{value}"}),
        )

    stage.run(*values("old"), *readers)
    story = stage.run(*values("new"), *readers, dry_run=DryRun.SERVER, diff=True, recreate=True)
    restart = "keeps the old values until its Pods restart"
    assert sorted(f"{one.ref.short}: {one.message}" for one in story.plan.consequences) == [
        f"configmap/c: deployment.apps/env (environment) {restart}",
        "configmap/c: read by deployment.apps/env",
        f"configmap/fixed: deployment.apps/mount (immutable volume) {restart}",
        "configmap/fixed: read by deployment.apps/mount",
        f"secret/s: deployment.apps/secret (environment) {restart}",
        "secret/s: read by deployment.apps/secret",
    ]
    for value in (b"hunter2-old", b"hunter2-new"):
        assert value.decode() not in repr(story.events)
        assert base64.b64encode(value).decode() not in repr(story.events)


def _volume(stage: Stage, policy: str) -> Body:
    return of_kind(
        "PersistentVolume",
        f"{stage.namespace}-{policy.lower()}",
        spec={
            "capacity": {"storage": "1Mi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "none",
            "persistentVolumeReclaimPolicy": policy,
            "hostPath": {"path": f"/tmp/{stage.namespace}"},
            "claimRef": {"name": policy.lower(), "namespace": stage.namespace},
        },
    )


def _is_bound(api: Api, path: str) -> bool:
    phase: str = api.get(path).get("status", {}).get("phase", "")
    return phase.lower() == "bound"


@pytest.fixture
def bound(stage: Stage, api: Api) -> Iterator[list[Body]]:
    """Applies two claims and binds them to volumes, one of which is deleted with its claim."""
    path = "/api/v1/persistentvolumes"
    claims = []
    for policy in ("Delete", "Retain"):
        volume = _volume(stage, policy)
        api.create(path, volume)
        name = volume["metadata"]["name"]
        spec = {**CLAIM["spec"], "volumeName": name}
        claims.append({**CLAIM, "metadata": {"name": policy.lower()}, "spec": spec})
    stage.run(config_map("a"), *claims)
    for policy in ("delete", "retain"):
        where = f"{path}/{stage.namespace}-{policy}"
        eventually(partial(_is_bound, api, where), lambda: "a bound volume")
    yield claims
    for policy in ("delete", "retain"):
        api("DELETE", f"{path}/{stage.namespace}-{policy}")


PRUNES: dict[str, Any] = {
    "allow_kinds": frozenset({"persistentvolumeclaim", "statefulset", "namespace"}),
    "max_prune": PruneLimit(9, 0),
}


def test_pruned_claim_says_what_happens_to_its_volume(
    stage: Stage, api: Api, bound: list[Body]
) -> None:
    """By its reclaim policy, which then holds."""
    name = stage.namespace
    assert _forecast(stage, config_map("a"), **PRUNES) == [
        (
            f"persistentvolumeclaim/delete: its volume {name}-delete is deleted with its data "
            "(reclaim policy Delete)"
        ),
        (
            f"persistentvolumeclaim/retain: its volume {name}-retain stays with its data "
            "(reclaim policy Retain)"
        ),
    ]
    assert len(bound) == 2
    stage.run(config_map("a"), **PRUNES)
    path = f"/api/v1/persistentvolumes/{name}"
    eventually(lambda: not api.exists(f"{path}-delete"), lambda: "the deletion of the volume")
    assert api.get(f"{path}-retain")["status"]["phase"] == "Released"


def test_volumes_that_may_not_be_listed_leave_a_doubt(
    spoiled: Stage, proxy: FaultProxy, bound: list[Body]
) -> None:
    """The account of a pipeline seldom has a right to volumes."""
    proxy.rule = always(
        faults.status(403, reason="Forbidden", message="no"),
        where=lambda seen: seen.path.endswith("/persistentvolumes"),
    )
    doubt = "its volume may be deleted with the data: no right to list persistentvolumes"
    assert _forecast(spoiled, config_map("a"), bound[0], **PRUNES) == [
        f"persistentvolumeclaim/retain: {doubt}"
    ]


def test_pruned_namespace_names_its_contents(stage: Stage, api: Api) -> None:
    """Those that the plan deletes itself are not counted twice."""
    place = f"{stage.namespace}-old"
    namespace = of_kind("Namespace", place)
    mine = config_map("mine", namespace=place)
    stage.run(config_map("a"), namespace, mine)
    for name in ("b", "c"):
        api.create(f"/api/v1/namespaces/{place}/configmaps", config_map(name))
    allowed = frozenset({f"namespace/{place}"})
    assert _forecast(stage, config_map("a"), allow_cascade=allowed, **PRUNES) == [
        f"namespace/{place}: deleted with it: 2 ConfigMaps"
    ]


def test_pruned_crd_names_what_goes_with_it(crd_stage: Stage, crds: Api) -> None:
    """Its custom resources, but not what they own: nobody counts that."""
    kind = "Consequent"
    definition, resource = crd(kind), custom_resource("one", kind)
    crd_stage.run(config_map("a"), definition, resource)
    path = f"/apis/x.example.com/v1/namespaces/{crd_stage.namespace}/consequents"
    for name in ("two", "three"):
        crds.create(path, custom_resource(name, kind))
    allowed: dict[str, Any] = {
        "allow_kinds": frozenset({"customresourcedefinition"}),
        "allow_cascade": frozenset({f"customresourcedefinition/{definition['metadata']['name']}"}),
        "max_prune": PruneLimit(9, 0),
    }
    assert _forecast(crd_stage, config_map("a"), resource, **allowed) == []
    (told,) = _forecast(crd_stage, config_map("a"), **allowed)
    name = definition["metadata"]["name"]
    assert told.endswith(f"/{name}: deleted with it: 2 Consequents")


def test_plan_without_a_check_does_not_guess(stage: Stage, audit: AuditTrail) -> None:
    """Only the server knows its defaults; nothing is read for that."""
    reader = _reading("web", READS_ALL)
    stage.run(config_map("c"), reader)
    audit.restart()
    told = _forecast(stage, config_map("c", "new"), _image(reader), dry_run=DryRun.CLIENT)
    assert told == []
    assert _lists(audit) == ["configmaps", "deployments"]
    assert writes(audit) == []


def test_plan_that_is_shown_reads_only_the_volumes_of_deleted_claims_more(
    stage: Stage, audit: AuditTrail
) -> None:
    """Any run lists each kind of the set once, and what a prune may cascade to.

    The wait before the prune of a workload would watch the objects.
    """
    reader = _reading("web", READS_ALL)
    daemon_set = workload("DaemonSet", "agent")
    stage.run(config_map("c"), reader, daemon_set, SERVICE, CLAIM)
    changed = (config_map("c", "new"), _image(reader))
    lists = [
        "configmaps",
        "daemonsets",
        "deployments",
        "persistentvolumeclaims",
        "persistentvolumeclaims",
        "pods",
        "replicasets",
        "services",
        "statefulsets",
    ]
    audit.restart()
    _forecast(stage, *changed, diff=True, **PRUNES)
    assert _lists(audit) == sorted([*lists, "persistentvolumes"])
    assert writes(audit) == []
    audit.restart()
    stage.run(*changed, wait=False, **PRUNES)
    assert _lists(audit) == lists


def test_service_that_is_switched_to_new_pods_has_a_line(stage: Stage, audit: AuditTrail) -> None:
    """The plan has read all that it takes: it sends no request more."""

    def service(version: str, **metadata: Any) -> Body:
        spec = {"selector": {"app": version}, "ports": [{"port": 80}]}
        return of_kind("Service", "web", metadata, spec=spec)

    one, two = workload("Deployment", "one"), workload("Deployment", "two")
    assert stage.run(one, service("one")).exit_code == 0
    audit.restart()
    assert _forecast(stage, one, two, service("one")) == []
    lists = _lists(audit)
    audit.restart()
    caused = _forecast(stage, one, two, service("two"))
    assert _lists(audit) == lists
    (told,) = caused
    assert told.startswith("service/web: switches to deployment.apps/two before its Pods are ready")
    later = {"annotations": {"applyprune.dev/wave": "1"}}
    assert _forecast(stage, one, two, service("two", **later)) == []
