"""Who reads a changed ConfigMap or Secret, and who keeps the old values."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.fate import Fate
from tests.support.consequences import change, found, told

Body = dict[str, Any]

ENV: Body = {"containers": [{"name": "m", "envFrom": [{"configMapRef": {"name": "c"}}]}]}
ONE_KEY: Body = {
    "containers": [{"env": [{"valueFrom": {"configMapKeyRef": {"name": "c", "key": "a"}}}]}]
}
SECRET_ENV: Body = {"containers": [{"envFrom": [{"secretRef": {"name": "c"}}]}]}


def _volume(**mount: str) -> Body:
    return {
        "volumes": [{"name": "v", "configMap": {"name": "c"}}],
        "containers": [{"name": "m", "volumeMounts": [{"name": "v", **mount}]}],
    }


def _workload(spec: Body, image: str = "m:1", **more: Any) -> Body:
    containers = [{**each, "image": image} for each in spec["containers"]]
    return {"spec": {**more, "template": {"spec": {**spec, "containers": containers}}}}


def _data(**data: str) -> Body:
    return {"data": data}


OLD, NEW = _data(a="1", b="1"), _data(a="2", b="1")
READ = "read-by: read by deployment.apps/web"
KEEPS = "old-value: deployment.apps/web ({}) keeps the old values until its Pods restart"
CASES: dict[str, tuple[Body, Body, Body, list[str]]] = {
    "environment": (ENV, OLD, NEW, [READ, KEEPS.format("environment")]),
    "subPath": (_volume(subPath="a"), OLD, NEW, [READ, KEEPS.format("subPath")]),
    "a volume": (_volume(), OLD, NEW, [READ]),
    "both": (
        {**_volume(subPath="a"), "initContainers": ENV["containers"]},
        OLD,
        NEW,
        [READ, KEEPS.format("environment, subPath")],
    ),
    "another key of subPath": (_volume(subPath="b"), OLD, NEW, []),
    "the key that it reads": (ONE_KEY, OLD, NEW, [READ, KEEPS.format("environment")]),
    "another key": (ONE_KEY, OLD, _data(a="1", b="2"), []),
    "a new key": (ONE_KEY, _data(b="1"), OLD, [READ, KEEPS.format("environment")]),
    "a removed key": (ONE_KEY, OLD, _data(b="1"), [READ, KEEPS.format("environment")]),
    "binary data": (ENV, {"binaryData": {"a": "MQ=="}}, {}, [READ, KEEPS.format("environment")]),
    "no new value": (ENV, OLD, {**OLD, "immutable": True}, []),
    "another ConfigMap": ({"containers": []}, OLD, NEW, []),
}


@pytest.mark.parametrize(("spec", "before", "after", "expected"), CASES.values(), ids=CASES)
def test_readers_follow_from_the_keys_that_change(
    spec: Body, before: Body, after: Body, expected: list[str]
) -> None:
    """What is read when a container starts stays old, what is mounted does not."""
    web = change("Deployment", fate=Fate.LEAVE, manifest=_workload(spec))
    caused = found(change("ConfigMap", "c", before=before, after=after), web)
    assert told(caused) == expected
    assert all(each.refs == (web.ref,) and each.certain for each in caused)


CONFIG = change("ConfigMap", "c", before=OLD, after=NEW)


@pytest.mark.parametrize(
    ("fate", "image", "expected"),
    [
        (Fate.LEAVE, "m:1", [READ, KEEPS.format("environment")]),
        (Fate.CREATE, "m:1", [READ]),
        (Fate.CHANGE, "m:2", [READ, "rollout: rollout, 1 Pod"]),
        (Fate.CHANGE, "m:1", [READ, KEEPS.format("environment")]),
        (Fate.RECREATE, "m:1", [READ, "restart: 1 Pod stops, then starts"]),
    ],
)
def test_workload_that_restarts_anyway_keeps_no_old_value(
    fate: Fate, image: str, expected: list[str]
) -> None:
    """Its Pods start after the change."""
    changed = fate is Fate.CHANGE
    after = _workload(ENV, image) if changed else None
    web = change(
        "Deployment", fate=fate, before=_workload(ENV), manifest=_workload(ENV), after=after
    )
    assert told(found(CONFIG, web)) == expected


def test_partition_leaves_pods_with_the_old_values() -> None:
    """Only a part of the Pods restarts."""
    update = {"updateStrategy": {"rollingUpdate": {"partition": 1}}}
    before, after = (_workload(ENV, image, replicas=2, **update) for image in ("m:1", "m:2"))
    caused = told(found(CONFIG, change("StatefulSet", before=before, after=after)))
    assert caused == [
        "read-by: read by statefulset.apps/web",
        "old-value: statefulset.apps/web (environment) keeps the old values until its Pods restart",
        "rollout: rollout, 1 of 2 Pods (partition 1)",
    ]


def test_several_readers_are_in_one_sentence() -> None:
    """Jobs run once, and a workload without replicas has no Pods: neither keeps anything."""
    jobs = {"jobTemplate": _workload(ENV)}
    caused = found(
        CONFIG,
        change("StatefulSet", "b", Fate.LEAVE, manifest=_workload(_volume(subPath="a"))),
        change("Deployment", "a", Fate.LEAVE, manifest=_workload(ENV)),
        change("Deployment", "none", Fate.LEAVE, manifest=_workload(ENV, replicas=0)),
        change("CronJob", "nightly", Fate.LEAVE, manifest={"spec": jobs}),
        change("Job", "once", Fate.LEAVE, manifest=_workload(ENV)),
    )
    assert told(caused) == [
        (
            "read-by: read by deployment.apps/a, deployment.apps/none, statefulset.apps/b, "
            "cronjob.batch/nightly, job.batch/once"
        ),
        (
            "old-value: deployment.apps/a (environment), statefulset.apps/b (subPath) keep the old "
            "values until their Pods restart"
        ),
    ]
    assert [each.count for each in caused] == [5, 2]


def test_secret_is_read_like_a_config_map_and_never_shown() -> None:
    """Only whether a value changes is said."""
    web = change("Deployment", fate=Fate.LEAVE, manifest=_workload(SECRET_ENV))
    before, after = _data(password="aHVudGVyMg=="), _data(password="c2VjcmV0LTI=")
    checked = found(change("Secret", "c", before=before, after=after), web)
    assert told(checked) == [READ, KEEPS.format("environment")]
    assert "aHVudGVyMg" not in repr(checked)
    assert "c2VjcmV0" not in repr(checked)


def test_immutable_config_map_that_is_recreated_stays_old_in_volumes_too() -> None:
    """The kubelet does not watch an immutable object."""
    web = change("Deployment", fate=Fate.LEAVE, manifest=_workload(_volume()))
    recreated = [
        change("ConfigMap", "c", Fate.RECREATE, before={**OLD, **mark}, manifest=NEW)
        for mark in ({"immutable": True}, {})
    ]
    assert told(found(recreated[0], web)) == [READ, KEEPS.format("immutable volume")]
    assert told(found(recreated[1], web)) == [READ]


def test_config_map_that_was_not_checked_causes_nothing_known() -> None:
    """Nor does one that is created or pruned."""
    web = change("Deployment", fate=Fate.LEAVE, manifest=_workload(ENV))
    assert found(change("ConfigMap", "c", before=OLD, manifest=NEW), web) == []
    assert found(change("ConfigMap", "c", Fate.CREATE, manifest=NEW), web) == []
    assert found(change("ConfigMap", "c", Fate.PRUNE, before=OLD), web) == []
