"""What the Pods of a workload read, and how."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.identity import GroupKind
from applyprune.planning.references import Reading, Way, pod_template, readings
from applyprune.values import replace

ENVIRONMENT, SUB_PATH, VOLUME, START = Way.ENVIRONMENT, Way.SUB_PATH, Way.VOLUME, Way.START
CONFIG: dict[str, Any] = {"name": "v", "configMap": {"name": "c"}}


def _main(**parts: Any) -> dict[str, Any]:
    return {"containers": [{"name": "main", **parts}]}


def _mounted(volume: dict[str, Any], *mounts: dict[str, Any]) -> dict[str, Any]:
    return {"volumes": [volume], **_main(volumeMounts=[{"name": "v", **one} for one in mounts])}


def _items(**paths: str) -> dict[str, Any]:
    found = [{"key": key, "path": path} for key, path in paths.items()]
    return {"name": "v", "configMap": {"name": "c", "items": found}}


def _keys(*keys: str) -> frozenset[str]:
    return frozenset(keys)


READ = {
    "envFrom": (
        _main(envFrom=[{"configMapRef": {"name": "c"}}, {"secretRef": {"name": "s"}}]),
        [Reading("ConfigMap", "c", ENVIRONMENT), Reading("Secret", "s", ENVIRONMENT)],
    ),
    "one key in the environment": (
        _main(env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]),
        [Reading("Secret", "s", ENVIRONMENT, _keys("k"))],
    ),
    "an optional key": (
        _main(
            env=[{"valueFrom": {"configMapKeyRef": {"name": "c", "key": "k", "optional": True}}}]
        ),
        [Reading("ConfigMap", "c", ENVIRONMENT, _keys("k"), optional=True)],
    ),
    "an init container": (
        {"initContainers": [{"envFrom": [{"configMapRef": {"name": "c"}}]}]},
        [Reading("ConfigMap", "c", ENVIRONMENT)],
    ),
    "a volume": (_mounted(CONFIG, {}), [Reading("ConfigMap", "c", VOLUME)]),
    "a volume without a mount": (_mounted(CONFIG), [Reading("ConfigMap", "c", VOLUME)]),
    "a subPath is the key": (
        _mounted(CONFIG, {"subPath": "k"}),
        [Reading("ConfigMap", "c", SUB_PATH, _keys("k"))],
    ),
    "an expanded subPath may be any key": (
        _mounted(CONFIG, {"subPathExpr": "$(POD)"}),
        [Reading("ConfigMap", "c", SUB_PATH)],
    ),
    "a volume and a subPath": (
        _mounted(CONFIG, {}, {"subPath": "k"}),
        [Reading("ConfigMap", "c", VOLUME), Reading("ConfigMap", "c", SUB_PATH, _keys("k"))],
    ),
    "the items of a volume": (
        _mounted(_items(a="x", b="y"), {}),
        [Reading("ConfigMap", "c", VOLUME, _keys("a", "b"))],
    ),
    "a subPath among the items": (
        _mounted(_items(a="conf/x", b="y", c="confused"), {"subPath": "conf"}),
        [Reading("ConfigMap", "c", SUB_PATH, _keys("a"))],
    ),
    "a secret volume": (
        _mounted({"name": "v", "secret": {"secretName": "s", "optional": True}}, {}),
        [Reading("Secret", "s", VOLUME, optional=True)],
    ),
    "a projected volume": (
        _mounted(
            {
                "name": "v",
                "projected": {"sources": [{"configMap": {"name": "c"}}, {"secret": {"name": "s"}}]},
            },
            {},
        ),
        [Reading("ConfigMap", "c", VOLUME), Reading("Secret", "s", VOLUME)],
    ),
    "a claim": (
        {"volumes": [{"persistentVolumeClaim": {"claimName": "d"}}]},
        [Reading("PersistentVolumeClaim", "d", VOLUME)],
    ),
    "what a Pod needs to start": (
        {"serviceAccountName": "a", "imagePullSecrets": [{"name": "s"}]},
        [Reading("ServiceAccount", "a", START), Reading("Secret", "s", START, optional=True)],
    ),
    "an account under its old name": (
        {"serviceAccount": "a"},
        [Reading("ServiceAccount", "a", START)],
    ),
    "an account beside its old name": (
        {"serviceAccount": "a", "serviceAccountName": "b"},
        [Reading("ServiceAccount", "b", START)],
    ),
    "values of the wrong type": (
        {"volumes": "none", "containers": [None, {"env": {}}], "imagePullSecrets": [{"name": 1}]},
        [],
    ),
}


@pytest.mark.parametrize(("spec", "expected"), READ.values(), ids=READ)
def test_readings_name_every_object_with_way_and_keys(
    spec: dict[str, Any], expected: list[Reading]
) -> None:
    """Environment and ``subPath`` are read when a container starts, a volume all the time."""
    found = readings({"spec": spec})
    assert [replace(one, path=(), required=()) for one in found] == expected


TEMPLATE = {"metadata": {"labels": {"app": "x"}}}


@pytest.mark.parametrize(
    ("kind", "body", "expected"),
    [
        (GroupKind("", "Pod"), TEMPLATE, TEMPLATE),
        (GroupKind("apps", "Deployment"), {"spec": {"template": TEMPLATE}}, TEMPLATE),
        (GroupKind("", "ReplicationController"), {"spec": {"template": TEMPLATE}}, TEMPLATE),
        (
            GroupKind("batch", "CronJob"),
            {"spec": {"jobTemplate": {"spec": {"template": TEMPLATE}}}},
            TEMPLATE,
        ),
        (GroupKind("", "ConfigMap"), {"data": {"template": "x"}}, {}),
        (GroupKind("x.example.com", "Deployment"), {"spec": {"template": TEMPLATE}}, {}),
    ],
)
def test_pod_template_is_found_in_built_in_groups(
    kind: GroupKind, body: dict[str, Any], expected: dict[str, Any]
) -> None:
    """A custom resource may have a template of something else."""
    assert pod_template(kind, body) == expected
