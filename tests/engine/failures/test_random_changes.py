"""200 random changes from outside over more than 25 kinds: each is seen, and put back."""

from __future__ import annotations

import copy
import json
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote

import pytest

from applyprune.localplane import PlaneSpec
from applyprune.model.events import ObjectDone, Outcome
from applyprune.planning.applyset import PART_OF
from tests.support.api import Api, AuditTrail
from tests.support.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from applyprune.localplane import Plane
    from applyprune.planning.applyset import ApplySetIdentity
    from tests.support.plane import FreshPlane

# No controllers: what they write at any moment would make a forced apply, which holds for the
# object as it was read, fail now and then. test_outside_changes has them.
BARE = PlaneSpec(controller_manager=False, scheduler=False, kwok=False, nodes=0, audit=True)

SEEDS = range(20)
A_SEED = 10
"""So many changes are counted for each seed, each of another object, before the next run."""

JSON: TypeAlias = Any
Path: TypeAlias = tuple[str, ...]
"""The way to a field as ``fieldsV1`` writes it: ``f:spec``, ``k:{"name":"web"}``."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One object of a kind; ``path`` is where the API server has it."""

    path: str
    body: dict[str, Any] = field(repr=False)

    @property
    def kind(self) -> str:
        """Return the kind."""
        return str(self.body["kind"])


def _sample(group: str, plural: str, kind: str, **top: JSON) -> Sample:
    """Return an object with a label and an annotation of its own; ``group`` is ``apps/v1``."""
    metadata = {"name": "one", "labels": {"team": "x"}, "annotations": {"note": "y"}}
    if kind not in CLUSTERED:
        metadata["namespace"] = "default"
    root = f"/apis/{group}" if "/" in group else f"/api/{group}"
    home = "" if kind in CLUSTERED else "/namespaces/default"
    body = {"apiVersion": group, "kind": kind, "metadata": metadata, **top}
    return Sample(f"{root}{home}/{plural}/one", body)


CLUSTERED = frozenset(
    {
        "ClusterRole",
        "ClusterRoleBinding",
        "CSIDriver",
        "IngressClass",
        "MutatingWebhookConfiguration",
        "Namespace",
        "PersistentVolume",
        "PriorityClass",
        "RuntimeClass",
        "StorageClass",
        "ValidatingAdmissionPolicy",
        "ValidatingWebhookConfiguration",
    }
)
POD: dict[str, Any] = {
    "serviceAccountName": "one",
    "terminationGracePeriodSeconds": 20,
    "containers": [
        {
            "name": "web",
            "image": "web:1",
            "args": ["--a", "--b"],
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
            "ports": [{"name": "http", "containerPort": 80, "protocol": "TCP"}],
            "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
        },
        {"name": "side", "image": "side:1"},
    ],
}
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "web", "tier": "front"}, "annotations": {"hint": "z"}},
    "spec": POD,
}
ONCE: dict[str, Any] = {"template": {"spec": {**POD, "restartPolicy": "Never"}}}
CHOSEN = {"matchLabels": {"app": "web"}}
RULES = [{"apiGroups": [""], "resources": ["pods", "services"], "verbs": ["get", "list"]}]
RBAC = "rbac.authorization.k8s.io"
SUBJECTS = [
    {"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"} for name in ("a", "b")
]
# About a group that does not exist: nobody sends a request there.
HOOK: dict[str, Any] = {
    "name": "one.example.com",
    "clientConfig": {"url": "https://127.0.0.1:1/"},
    "rules": [
        {
            "apiGroups": ["nobody.example.com"],
            "apiVersions": ["v1"],
            "operations": ["CREATE", "UPDATE"],
            "resources": ["nothings"],
        }
    ],
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
    "failurePolicy": "Ignore",
    "timeoutSeconds": 3,
}
SAMPLES: tuple[Sample, ...] = (
    _sample("v1", "configmaps", "ConfigMap", data={"a": "1", "b": "2"}),
    _sample("v1", "secrets", "Secret", type="Opaque", data={"a": "MQ==", "b": "Mg=="}),
    _sample(
        "v1",
        "services",
        "Service",
        spec={
            "selector": {"app": "web", "tier": "front"},
            "sessionAffinity": "None",
            "ports": [
                {"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"},
                {"name": "https", "port": 443, "targetPort": 8443, "protocol": "TCP"},
            ],
        },
    ),
    _sample(
        "v1",
        "serviceaccounts",
        "ServiceAccount",
        automountServiceAccountToken=False,
        imagePullSecrets=[{"name": "pull"}],
    ),
    _sample(
        "v1",
        "endpoints",
        "Endpoints",
        subsets=[{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"name": "p", "port": 80}]}],
    ),
    _sample("v1", "resourcequotas", "ResourceQuota", spec={"hard": {"pods": "10"}}),
    _sample(
        "v1",
        "limitranges",
        "LimitRange",
        spec={"limits": [{"type": "Container", "max": {"cpu": "4", "memory": "4Gi"}}]},
    ),
    _sample(
        "v1",
        "persistentvolumeclaims",
        "PersistentVolumeClaim",
        spec={
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "none",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    ),
    _sample(
        "v1",
        "persistentvolumes",
        "PersistentVolume",
        spec={
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "hostPath": {"path": "/x"},
            "mountOptions": ["a", "b"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "none",
        },
    ),
    _sample("v1", "namespaces", "Namespace"),
    _sample("v1", "pods", "Pod", spec=POD),
    _sample("v1", "podtemplates", "PodTemplate", template=TEMPLATE),
    _sample(
        "v1",
        "replicationcontrollers",
        "ReplicationController",
        spec={"replicas": 0, "selector": {"app": "web"}, "template": TEMPLATE},
    ),
    _sample(
        "apps/v1",
        "deployments",
        "Deployment",
        spec={"replicas": 2, "selector": CHOSEN, "template": TEMPLATE, "minReadySeconds": 1},
    ),
    _sample(
        "apps/v1",
        "statefulsets",
        "StatefulSet",
        spec={"replicas": 2, "selector": CHOSEN, "serviceName": "one", "template": TEMPLATE},
    ),
    _sample(
        "apps/v1",
        "daemonsets",
        "DaemonSet",
        spec={"selector": CHOSEN, "template": TEMPLATE, "minReadySeconds": 2},
    ),
    _sample(
        "apps/v1",
        "replicasets",
        "ReplicaSet",
        spec={"replicas": 2, "selector": CHOSEN, "template": TEMPLATE},
    ),
    _sample(
        "batch/v1",
        "jobs",
        "Job",
        spec={"suspend": True, "parallelism": 2, "backoffLimit": 3, **ONCE},
    ),
    _sample(
        "batch/v1",
        "cronjobs",
        "CronJob",
        spec={
            "schedule": "30 3 * * *",
            "concurrencyPolicy": "Forbid",
            "startingDeadlineSeconds": 60,
            "jobTemplate": {"spec": {"backoffLimit": 2, **ONCE}},
        },
    ),
    _sample(
        "autoscaling/v2",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        spec={
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"},
            "minReplicas": 2,
            "maxReplicas": 5,
            "metrics": [
                {
                    "type": "Resource",
                    "resource": {
                        "name": "cpu",
                        "target": {"type": "Utilization", "averageUtilization": 60},
                    },
                }
            ],
        },
    ),
    _sample(
        "policy/v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        spec={"minAvailable": 1, "selector": {"matchLabels": {"app": "web", "tier": "front"}}},
    ),
    _sample(
        "networking.k8s.io/v1",
        "ingresses",
        "Ingress",
        spec={
            "ingressClassName": "one",
            "rules": [
                {
                    "host": "one.example.com",
                    "http": {
                        "paths": [
                            {
                                "path": "/",
                                "pathType": "Prefix",
                                "backend": {"service": {"name": "one", "port": {"number": 80}}},
                            }
                        ]
                    },
                }
            ],
        },
    ),
    _sample(
        "networking.k8s.io/v1",
        "networkpolicies",
        "NetworkPolicy",
        spec={
            "podSelector": CHOSEN,
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"ports": [{"port": 80, "protocol": "TCP"}]}],
        },
    ),
    _sample(
        "networking.k8s.io/v1",
        "ingressclasses",
        "IngressClass",
        spec={"controller": "example.com/one", "parameters": {"kind": "ConfigMap", "name": "a"}},
    ),
    _sample(f"{RBAC}/v1", "roles", "Role", rules=RULES),
    _sample(f"{RBAC}/v1", "clusterroles", "ClusterRole", rules=RULES),
    _sample(
        f"{RBAC}/v1",
        "rolebindings",
        "RoleBinding",
        roleRef={"apiGroup": RBAC, "kind": "Role", "name": "one"},
        subjects=SUBJECTS,
    ),
    _sample(
        f"{RBAC}/v1",
        "clusterrolebindings",
        "ClusterRoleBinding",
        roleRef={"apiGroup": RBAC, "kind": "ClusterRole", "name": "one"},
        subjects=SUBJECTS,
    ),
    _sample(
        "scheduling.k8s.io/v1",
        "priorityclasses",
        "PriorityClass",
        value=1000,
        description="of no use",
    ),
    _sample(
        "storage.k8s.io/v1",
        "storageclasses",
        "StorageClass",
        provisioner="example.com/none",
        allowVolumeExpansion=True,
    ),
    _sample(
        "storage.k8s.io/v1",
        "csidrivers",
        "CSIDriver",
        spec={"attachRequired": False, "podInfoOnMount": True, "storageCapacity": True},
    ),
    _sample(
        "node.k8s.io/v1",
        "runtimeclasses",
        "RuntimeClass",
        handler="none",
        scheduling={"nodeSelector": {"a": "1"}},
    ),
    _sample(
        "coordination.k8s.io/v1",
        "leases",
        "Lease",
        spec={"holderIdentity": "me", "leaseDurationSeconds": 15},
    ),
    _sample(
        "discovery.k8s.io/v1",
        "endpointslices",
        "EndpointSlice",
        addressType="IPv4",
        endpoints=[{"addresses": ["10.1.2.4"]}, {"addresses": ["10.1.2.5"]}],
        ports=[{"name": "p", "port": 80, "protocol": "TCP"}],
    ),
    _sample(
        "admissionregistration.k8s.io/v1",
        "validatingadmissionpolicies",
        "ValidatingAdmissionPolicy",
        spec={
            "failurePolicy": "Ignore",
            "matchConstraints": {"resourceRules": HOOK["rules"]},
            "validations": [{"expression": "true", "message": "fine"}],
        },
    ),
    _sample(
        "admissionregistration.k8s.io/v1",
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        webhooks=[HOOK],
    ),
    _sample(
        "admissionregistration.k8s.io/v1",
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
        webhooks=[HOOK],
    ),
)
MERGE = "application/merge-patch+json"
SET_LABEL = ("f:metadata", "f:labels", f"f:{PART_OF}")
WAYS = ("merge patch", "JSON patch", "PUT", "another's apply", "our own name", "removal")


@pytest.fixture
def running(fresh_plane: FreshPlane) -> Plane:
    """A plane of the test's own: half of the kinds belong to a whole cluster."""
    return fresh_plane(BARE)


@pytest.fixture
def bare(running: Plane) -> Iterator[Api]:
    """Plain requests to it."""
    api = Api(running)
    yield api
    api.close()


def _fields(node: Mapping[str, JSON], at: Path = ()) -> Iterator[Path]:
    """Yield the way to each leaf of a ``fieldsV1``, and to each list item that is owned as such."""
    for key, inside in node.items():
        if key == ".":
            if at and at[-1].startswith("k:"):
                yield at
        elif not inside:
            yield (*at, key)
        else:
            yield from _fields(inside, (*at, key))


def _is_key(path: Path) -> bool:
    """Say whether a leaf is the key of its list item: changed, it is another item beside ours."""
    return len(path) > 1 and path[-2].startswith("k:") and path[-1][2:] in json.loads(path[-2][2:])


def _pointer(body: JSON, path: Path) -> list[str | int] | None:
    """Return where a field is in an object, None when it is not there."""
    found: list[str | int] = []
    for step in path:
        key: str | int | None
        if step.startswith("f:"):
            key = step[2:] if isinstance(body, dict) and step[2:] in body else None
        else:
            wanted = json.loads(step[2:])
            items = body if isinstance(body, list) else []
            is_map = step.startswith("k:")
            hits = (
                number
                for number, item in enumerate(items)
                if (wanted.items() <= item.items() if is_map else item == wanted)
            )
            key = next(hits, None)
        if key is None:
            return None
        found.append(key)
        body = body[key]
    return found


def _at(body: JSON, pointer: list[str | int]) -> JSON:
    for key in pointer:
        body = body[key]
    return body


def _set(body: JSON, pointer: list[str | int], value: JSON) -> None:
    _at(body, pointer[:-1])[pointer[-1]] = value


def _owned(live: JSON, manager: str) -> dict[Path, JSON]:
    """Return what our manager's apply owns of an object, with the values."""
    (entry,) = [
        one
        for one in live["metadata"]["managedFields"]
        if (one["manager"], one["operation"]) == (manager, "Apply")
    ]
    found = {}
    for path in _fields(entry["fieldsV1"]):
        pointer = _pointer(live, path)
        assert pointer is not None, path
        found[path] = copy.deepcopy(_at(live, pointer))
    return found


def _values(live: JSON, paths: Iterable[Path]) -> dict[Path, JSON]:
    """Return the values of fields, None for missing ones."""
    found = {path: _pointer(live, path) for path in paths}
    return {path: pointer and _at(live, pointer) for path, pointer in found.items()}


def _other(rng: random.Random, value: JSON) -> JSON:
    """Return another value of the same shape; the server may not like it."""
    match value:
        case bool():
            return not value
        case int():
            return value + rng.choice((1, 2, 5))
        case str():
            return rng.choice((f"{value}x", f"1{value}", f"{value}1", "Never", "Always"))
        case list() if len(value) > 1 and rng.random() < 0.5:
            return rng.choice((value[::-1], value[1:]))
        case list() if value:
            return [_other(rng, value[0]), *value[1:]]
        case dict() if value:
            key = rng.choice(sorted(value))
            return {**value, key: _other(rng, value[key])}
        case _:
            return "x"


def _merged(live: JSON, pointer: list[str | int], value: JSON) -> JSON:
    """Return the JSON merge patch that sets a field: a list on the way goes as a whole."""
    if not pointer:
        return value
    if isinstance(live, list):
        changed = copy.deepcopy(live)
        _set(changed, pointer, value)
        return changed
    key = pointer[0]
    return {key: _merged(live[key], pointer[1:], value)}


def _stated(path: Path, value: JSON) -> JSON:
    """Return the smallest manifest that contains a field."""
    if not path:
        return value
    inside = _stated(path[1:], value)
    if path[0].startswith("f:"):
        return {path[0][2:]: inside}
    wanted = json.loads(path[0][2:])
    return [{**wanted, **inside} if isinstance(inside, dict) else wanted]


@dataclass(frozen=True, slots=True)
class Change:
    """One change from outside that the server took: ``way``, of ``path``, in ``sample``."""

    sample: Sample
    path: Path
    way: str


def _draw(rng: random.Random, api: Api, sample: Sample, target: ApplySetIdentity) -> Change | None:
    """Try one change of an owned field; None when the server refuses it, or takes it for none."""
    live = api.get(sample.path)
    owned = _owned(live, target.manager)
    way = rng.choice(WAYS)
    path = rng.choice([one for one in owned if not _is_key(one)])
    pointer = _pointer(live, path)
    assert pointer is not None
    value = _other(rng, owned[path])
    if way != "removal" and (path == SET_LABEL or not path[-1].startswith("f:")):
        # Our label with another value says that the object is another set's; and a list item has
        # no other value: with another key it is another item.
        return None
    query, body, content_type = "", value, "application/json"
    match way:
        case "merge patch":
            body, content_type = _merged(live, pointer, value), MERGE
        case "JSON patch" | "removal":
            where = "".join(f"/{str(key).replace('~', '~0').replace('/', '~1')}" for key in pointer)
            operation = {"op": "replace", "path": where, "value": value}
            body = [{"op": "remove", "path": where} if way == "removal" else operation]
            content_type = "application/json-patch+json"
        case "PUT":
            body = copy.deepcopy(live)
            _set(body, pointer, value)
        case _:
            manager, content_type = "other", "application/apply-patch+yaml"
            stated = _stated(path, value)
            body = {key: live[key] for key in ("apiVersion", "kind")} | stated
            body["metadata"] = {**stated.get("metadata", {}), "name": live["metadata"]["name"]}
            if way == "our own name":
                # The whole manifest as we sent it, but for this one field.
                manager, body = target.manager, copy.deepcopy(sample.body)
                body["metadata"]["labels"][PART_OF] = target.id
                if (there := _pointer(body, path)) is None:
                    return None
                _set(body, there, value)
            query = f"?force=true&fieldManager={quote(manager, safe='')}"
    method = {"application/json": "PUT"}.get(content_type, "PATCH")
    status, _ = api(method, f"{sample.path}{query}", body, content_type=content_type)
    if status != 200 or _values(api.get(sample.path), owned) == owned:
        return None
    return Change(sample, path, way)


def test_two_hundred_random_changes_are_seen_and_reverted(running: Plane, bare: Api) -> None:
    """Each by the next run; the same run leaves unchanged objects alone."""
    stage = Stage(running.kubeconfig, "default")
    bodies = [sample.body for sample in SAMPLES]
    assert set(stage.run(*bodies).outcomes.values()) == {Outcome.CREATED}
    assert set(stage.run(*bodies).outcomes.values()) == {Outcome.UNCHANGED}
    owned = {one.path: _owned(bare.get(one.path), stage.target.manager) for one in SAMPLES}
    changes: list[Change] = []
    wrong: list[str] = []
    for seed in SEEDS:
        rng = random.Random(seed)  # noqa: S311 - no secret
        batch: dict[str, Change] = {}
        for sample in rng.sample(SAMPLES, len(SAMPLES)):
            if len(batch) < A_SEED and (change := _draw(rng, bare, sample, stage.target)):
                batch[sample.kind] = change
        story = stage.run(*bodies, force_conflicts=True)
        ended = {one.ref.kind: one for one in story.events if isinstance(one, ObjectDone)}
        for one in SAMPLES:
            expected = Outcome.CONFIGURED if one.kind in batch else Outcome.UNCHANGED
            now = _values(bare.get(one.path), owned[one.path])
            if ended[one.kind].outcome is not expected or now != owned[one.path]:
                told = {path: now[path] for path in now if now[path] != owned[one.path][path]}
                wrong.append(f"{seed}: {batch.get(one.kind)}: {ended[one.kind]}: {told}")
        changes += batch.values()
    assert not wrong, "\n".join(wrong)
    assert len(changes) == 200
    assert len({one.sample.kind for one in changes}) >= 25
    assert {one.way for one in changes} == set(WAYS)
    assert set(stage.run(*bodies).outcomes.values()) == {Outcome.UNCHANGED}


FOREIGN: dict[str, dict[str, Any]] = {
    "ConfigMap": {"data": {"foreign": "1"}},
    "Secret": {"data": {"foreign": "MQ=="}},
    "Service": {"spec": {"publishNotReadyAddresses": True}},
    "ServiceAccount": {"secrets": [{"name": "foreign"}]},
    "PersistentVolume": {"spec": {"claimRef": {"namespace": "default", "name": "foreign"}}},
    "PodTemplate": {"template": {"spec": {"nodeSelector": {"foreign": "1"}}}},
    "Deployment": {"spec": {"revisionHistoryLimit": 3}},
    "StatefulSet": {"spec": {"revisionHistoryLimit": 3}},
    "DaemonSet": {"spec": {"template": {"metadata": {"annotations": {"foreign": "1"}}}}},
    "ReplicaSet": {"spec": {"minReadySeconds": 3}},
    "Job": {"spec": {"activeDeadlineSeconds": 600}},
    "CronJob": {"spec": {"successfulJobsHistoryLimit": 1}},
    "HorizontalPodAutoscaler": {"spec": {"behavior": {"scaleDown": {"selectPolicy": "Min"}}}},
    "PodDisruptionBudget": {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}},
    "NetworkPolicy": {"spec": {"egress": [{"ports": [{"port": 53, "protocol": "UDP"}]}]}},
    "CSIDriver": {"spec": {"seLinuxMount": True}},
    "Lease": {"spec": {"leaseTransitions": 3}},
}
STATUS: dict[str, dict[str, Any]] = {
    "Deployment": {"observedGeneration": 1},
    "Pod": {"message": "of others"},
    "Namespace": {"phase": "Active"},
    "PersistentVolumeClaim": {"phase": "Pending"},
    "ResourceQuota": {"used": {"pods": "1"}},
    "Ingress": {"loadBalancer": {"ingress": [{"ip": "10.9.8.7"}]}},
}


def test_random_changes_to_fields_of_others_cause_no_write(running: Plane, bare: Api) -> None:
    """Labels, annotations, fields and status of others over all kinds: by the log, no request."""
    stage = Stage(running.kubeconfig, "default")
    bodies = [sample.body for sample in SAMPLES]
    stage.run(*bodies)
    marks = {"metadata": {"labels": {"foreign": "1"}, "annotations": {"foreign": "1"}}}
    before = {}
    for sample in SAMPLES:
        patch = {**FOREIGN.get(sample.kind, {}), **marks}
        status, reply = bare("PATCH", sample.path, patch, content_type=MERGE)
        assert status == 200, reply
        if told := STATUS.get(sample.kind):
            path = f"{sample.path}/status"
            status, reply = bare("PATCH", path, {"status": told}, content_type=MERGE)
            assert status == 200, reply["message"]
        before[sample.path] = bare.get(sample.path)
    audit = AuditTrail(running, bare)
    assert set(stage.run(*bodies).outcomes.values()) == {Outcome.UNCHANGED}
    ours = [one for one in audit.events() if one["userAgent"].startswith("applyprune/")]
    assert {one["verb"] for one in ours} == {"get", "list"}
    assert {path: bare.get(path) for path in before} == before
