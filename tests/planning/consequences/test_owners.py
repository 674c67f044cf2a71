"""What is deleted with an object, and what of its own stays."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.fate import Fate
from applyprune.model.live import LiveObject
from applyprune.model.options import Propagation
from applyprune.planning.consequences import Change
from applyprune.planning.recovery import CascadeContents
from tests.support.consequences import change, found, live, told

CLAIMS: dict[str, Any] = {
    "spec": {"volumeClaimTemplates": [{"metadata": {"name": "data"}}], "replicas": 2}
}


def _pruned(kind: str, name: str = "web", **parts: Any) -> Change:
    return change(kind, name, Fate.PRUNE, **parts)


CASES: dict[str, tuple[list[Change], list[LiveObject], list[str]]] = {
    "a Deployment": (
        [_pruned("Deployment")],
        [
            live("ReplicaSet", "rs", "web"),
            live("Pod", "a", "rs"),
            live("Pod", "b", "rs"),
            live("Pod", "other", "elsewhere"),
            live("Pod", "bare"),
        ],
        ["cascade: deleted with it: 2 Pods, 1 ReplicaSet"],
    ),
    "a CronJob": (
        [_pruned("CronJob")],
        [live("Job", "j", "web"), live("Pod", "p", "j")],
        ["cascade: deleted with it: 1 Job, 1 Pod"],
    ),
    "a StatefulSet": (
        [_pruned("StatefulSet", before=CLAIMS)],
        [
            live("Pod", "p", "web"),
            live("PersistentVolumeClaim", "data-web-0"),
            live("PersistentVolumeClaim", "data-web-1"),
            live("PersistentVolumeClaim", "data-web-x"),
            live("PersistentVolumeClaim", "data-old-web-0"),
            live("PersistentVolumeClaim", "data-web-0", namespace="away", uid="u"),
        ],
        [
            "cascade: deleted with it: 1 Pod",
            "kept: its PersistentVolumeClaims stay: data-web-0, data-web-1",
        ],
    ),
    "a StatefulSet that deletes its claims": (
        [_pruned("StatefulSet", before=CLAIMS)],
        [live("PersistentVolumeClaim", "data-web-0", "web")],
        ["cascade: deleted with it: 1 PersistentVolumeClaim"],
    ),
    "a claim that is pruned itself": (
        [
            _pruned("StatefulSet", before=CLAIMS),
            _pruned("PersistentVolumeClaim", "data-web-0"),
        ],
        [live("PersistentVolumeClaim", "data-web-0")],
        [],
    ),
    "an object with another owner": (
        [_pruned("Deployment")],
        [live("ReplicaSet", "rs", "web", "elsewhere")],
        [],
    ),
    "an object whose owners are all deleted": (
        [_pruned("Deployment"), _pruned("Deployment", "two")],
        [live("ReplicaSet", "rs", "web", "two")],
        ["cascade: deleted with it: 1 ReplicaSet", "cascade: deleted with it: 1 ReplicaSet"],
    ),
    "a custom resource": (
        [_pruned("Database")],
        [
            live("StatefulSet", "s", "web"),
            live("Pod", "p", "s"),
            live("Secret", "c", "web"),
            live("Event", "e", "web"),
        ],
        ["cascade: deleted with it: 1 Pod, 1 Secret, 1 StatefulSet"],
    ),
    "nothing": ([_pruned("Deployment")], [], []),
    "a Deployment that stays": (
        [change("Deployment", fate=Fate.LEAVE)],
        [live("ReplicaSet", "rs", "web")],
        [],
    ),
}


@pytest.mark.parametrize(("changes", "read", "expected"), CASES.values(), ids=CASES)
def test_dependents_are_counted_by_their_owners(
    changes: list[Change], read: list[LiveObject], expected: list[str]
) -> None:
    """What has no owner left is deleted, at any depth."""
    caused = found(*changes, read=read)
    assert told(caused) == expected
    assert all(each.certain and each.count == len(each.refs) for each in caused)


def test_orphaned_dependents_stay() -> None:
    """With ``--propagation orphan`` only the object itself is deleted."""
    read = [live("ReplicaSet", "rs", "web"), live("Pod", "p", "rs")]
    caused = found(_pruned("Deployment"), read=read, propagation=Propagation.ORPHAN)
    assert told(caused) == ["kept: stay without an owner: 1 ReplicaSet"]


def test_dependents_that_cannot_be_listed_are_named() -> None:
    """What could be counted is still counted."""
    read = [live("ReplicaSet", "rs", "web")]
    (caused,) = found(_pruned("Deployment"), read=read, failed={"Pod": "no right to list pods"})
    assert caused.message == "deleted with it: 1 ReplicaSet; not counted: no right to list pods"
    assert (caused.certain, caused.count, len(caused.refs)) == (False, None, 1)


def test_nothing_is_said_of_dependents_that_were_not_read() -> None:
    """A run that reads nothing more knows nothing of them."""
    assert found(_pruned("Deployment")) == []


@pytest.mark.parametrize(
    ("kind", "contents", "expected"),
    [
        (
            "Namespace",
            CascadeContents(
                (
                    live("ConfigMap", "kube-root-ca.crt"),
                    live("ConfigMap", "a"),
                    live("Secret", "b"),
                    live("Secret", "c"),
                    live("Pod", "mine"),
                )
            ),
            ["cascade: deleted with it: 2 Secrets, 1 ConfigMap"],
        ),
        ("CustomResourceDefinition", CascadeContents(()), []),
        (
            "CustomResourceDefinition",
            CascadeContents((live("Database", "a"),)),
            ["cascade: deleted with it: 1 Database"],
        ),
        (
            "Namespace",
            CascadeContents((), "secrets: forbidden"),
            ["cascade: not counted: secrets: forbidden"],
        ),
    ],
)
def test_contents_are_counted_without_what_the_plan_deletes_itself(
    kind: str, contents: CascadeContents, expected: list[str]
) -> None:
    """They were read for the guards."""
    place = _pruned(kind)
    caused = found(place, _pruned("Pod", "mine"), contents={place.ref: contents})
    assert told(caused) == expected
