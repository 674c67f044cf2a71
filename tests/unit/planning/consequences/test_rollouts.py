"""What happens to the Pods of a workload whose template changes."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.fate import Fate
from applyprune.model.options import Propagation
from tests.support.consequences import change, found, told

Body = dict[str, Any]


def _body(image: str = "web:1", replicas: int | None = 12, **spec: Any) -> Body:
    template = {"spec": {"containers": [{"name": "main", "image": image}]}}
    number = {} if replicas is None else {"replicas": replicas}
    return {"spec": {**number, "template": template, **spec}}


def _daemon_set(image: str, pods: int = 3, **spec: Any) -> Body:
    status = {"desiredNumberScheduled": pods}
    return {**_body(image, None, **spec), "status": status}


def _partition(number: int) -> Body:
    return {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": number}}}


ON_DELETE: Body = {"updateStrategy": {"type": "OnDelete"}}
RECREATE: Body = {"strategy": {"type": "Recreate"}}
CHECKED: dict[str, tuple[str, Body, Body, list[str]]] = {
    "a new image": ("Deployment", _body(), _body("web:2"), ["rollout: rollout, 12 Pods"]),
    "one Pod": ("Deployment", _body("a", 1), _body("b", 1), ["rollout: rollout, 1 Pod"]),
    "the same template": ("Deployment", _body(), _body(minReadySeconds=5), []),
    "only more replicas": ("Deployment", _body(), _body(replicas=15), []),
    "more replicas and a new image": (
        "Deployment",
        _body(),
        _body("web:2", 15),
        ["rollout: rollout, 12 Pods"],
    ),
    "no replicas": ("Deployment", _body("a", 0), _body("b", 0), []),
    "replicas by default": (
        "Deployment",
        _body("a", None),
        _body("b", None),
        ["rollout: rollout, 1 Pod"],
    ),
    "scaled up from none": ("Deployment", _body("a", 0), _body("b", 3), []),
    "scaled down to none": ("Deployment", _body("a", 3), _body("b", 0), []),
    "Recreate": (
        "Deployment",
        _body(**RECREATE),
        _body("web:2", **RECREATE),
        ["restart: 12 Pods stop, then start"],
    ),
    "Recreate from now on": (
        "Deployment",
        _body(),
        _body("b", **RECREATE),
        ["restart: 12 Pods stop, then start"],
    ),
    "Recreate of one Pod": (
        "Deployment",
        _body("a", 1),
        _body("b", 1, **RECREATE),
        ["restart: 1 Pod stops, then starts"],
    ),
    "paused": (
        "Deployment",
        _body(),
        _body("web:2", paused=True),
        ["paused: 12 Pods change when the rollout is resumed"],
    ),
    "resumed": (
        "Deployment",
        {**_body(paused=True), "status": {"replicas": 12, "updatedReplicas": 0}},
        _body(),
        ["rollout: rollout, 12 Pods, no longer paused"],
    ),
    "resumed with nothing to do": (
        "Deployment",
        {**_body(paused=True), "status": {"replicas": 12, "updatedReplicas": 12}},
        _body(),
        [],
    ),
    "a StatefulSet": ("StatefulSet", _body(), _body("b"), ["rollout: rollout, 12 Pods"]),
    "a partition": (
        "StatefulSet",
        _body(),
        _body("b", **_partition(10)),
        ["rollout: rollout, 2 of 12 Pods (partition 10)"],
    ),
    "a partition above all": (
        "StatefulSet",
        _body(),
        _body("b", **_partition(12)),
        ["paused: 12 Pods change when the partition is lowered from 12"],
    ),
    "OnDelete": (
        "StatefulSet",
        _body(),
        _body("b", **ON_DELETE),
        ["on-delete: 12 Pods change when they are deleted"],
    ),
    "a DaemonSet": ("DaemonSet", _daemon_set("a"), _daemon_set("b"), ["rollout: rollout, 3 Pods"]),
    "a DaemonSet without nodes": ("DaemonSet", _daemon_set("a", 0), _daemon_set("b", 0), []),
    "a DaemonSet with OnDelete": (
        "DaemonSet",
        _daemon_set("a", 1),
        _daemon_set("b", 1, **ON_DELETE),
        ["on-delete: 1 Pod changes when it is deleted"],
    ),
    "a ReplicaSet": (
        "ReplicaSet",
        _body(),
        _body("b"),
        ["on-delete: 12 Pods change when they are deleted"],
    ),
    "a ReplicationController": (
        "ReplicationController",
        _body("a", 2),
        _body("b", 2),
        ["on-delete: 2 Pods change when they are deleted"],
    ),
    "a Job": ("Job", _body(), _body("b"), []),
}


@pytest.mark.parametrize(("kind", "before", "after", "expected"), CHECKED.values(), ids=CHECKED)
def test_rollout_follows_from_both_states(
    kind: str, before: Body, after: Body, expected: list[str]
) -> None:
    """The number is that of the live Pods, the way is that of the new strategy."""
    caused = found(change(kind, before=before, after=after))
    assert told(caused) == expected
    assert all(each.certain for each in caused)


def test_adopted_workload_rolls_out_like_a_changed_one() -> None:
    """Its fate is another, its Pods do not notice."""
    adopted = change("Deployment", fate=Fate.ADOPT, before=_body(), after=_body("b"))
    assert told(found(adopted)) == ["rollout: rollout, 12 Pods"]


@pytest.mark.parametrize("fate", [Fate.CREATE, Fate.LEAVE, Fate.REFUSE])
def test_other_fates_cause_no_rollout(fate: Fate) -> None:
    """A new workload has no Pods to replace."""
    assert found(change("Deployment", fate=fate, before=_body(), manifest=_body("b"))) == []


def test_recreated_workload_stops_and_starts() -> None:
    """Its Pods are deleted with it, unless they are orphaned."""
    one = change("Deployment", fate=Fate.RECREATE, before=_body(), manifest=_body())
    assert told(found(one)) == ["restart: 12 Pods stop, then start"]
    assert found(one, propagation=Propagation.ORPHAN) == []
    unread = change("Deployment", fate=Fate.RECREATE, manifest=_body())
    assert told(found(unread)) == ["restart: its Pods stop, then start"]


def test_nothing_is_said_of_a_change_that_the_server_has_not_checked() -> None:
    """Only the server knows its defaults."""
    assert found(change("Deployment", before=_body(), manifest=_body("b"))) == []
