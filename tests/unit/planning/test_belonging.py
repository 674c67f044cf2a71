"""What an object belongs to, and who sets its fields."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.identity import Ref
from applyprune.model.inventory import Inventory, InventoryEntry, RunRecord, RunSource
from applyprune.model.live import AUTOSCALERS, LiveObject
from applyprune.planning.applyset import PART_OF
from applyprune.planning.belonging import belonging
from tests.support.planning import TARGET, TIME, live, managed

WEB = Ref("apps", "Deployment", "home", "web")
COMMIT = "3f2a91c0" * 5
RUN = RunRecord("r", "apply", "ana", TIME, 0, source=RunSource("deploy/prod", COMMIT), changed=1)
OURS = Inventory(
    TARGET.name,
    TARGET.namespace,
    {WEB: InventoryEntry(WEB, "deployments", "v1", None, uid="u1")},
    uid="i",
    last=RUN,
)
SET = f"the set {TARGET.name} in namespace {TARGET.namespace}"
HELM = {
    "meta.helm.sh/release-name": "shop",
    "meta.helm.sh/release-namespace": "home",
}
KUBECTL = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}


def owner(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": "x/v1", "kind": kind, "name": name, "uid": "o", **more}


@pytest.mark.parametrize(
    ("metadata", "inventory", "owners"),
    [
        ({}, OURS, [SET]),
        ({"uid": "u2"}, OURS, [f"{SET}, which does not list it"]),
        (
            {"label": "applyset-x-v1"},
            None,
            [f"an ApplySet whose parent cannot be found: {PART_OF}=applyset-x-v1"],
        ),
        ({"label": "", "annotations": HELM}, None, ["the Helm release shop in namespace home"]),
        ({"annotations": HELM}, OURS, [SET, "the Helm release shop in namespace home"]),
        (
            {"label": "", "labels": {"kapp.k14s.io/app": "17"}, "annotations": HELM},
            None,
            ["the Helm release shop in namespace home", "the kapp app 17"],
        ),
        (
            {"label": "", "annotations": {"argocd.argoproj.io/tracking-id": "web:apps/Deployment"}},
            None,
            ["the Argo CD application web"],
        ),
        (
            {
                "label": "",
                "ownerReferences": [owner("Web", "shop", controller=True), owner("Team", "a")],
            },
            None,
            ["its controller, Web shop", "its owner, Team a"],
        ),
        (
            {"label": "", "annotations": KUBECTL},
            None,
            ["whoever uses kubectl apply with its manifest"],
        ),
        ({"annotations": KUBECTL}, OURS, [SET]),
        ({"label": "", "annotations": {}}, None, []),
    ],
)
def test_object_belongs_to_whoever_marks_it(
    metadata: dict[str, Any], inventory: Inventory | None, owners: list[str]
) -> None:
    """A set by its label and its inventory, tools by their marks, operators by ownerReferences."""
    assert list(belonging(live(WEB, **metadata), inventory).owners) == owners


def test_object_of_a_set_says_when_and_from_where() -> None:
    """By its own record of the apply, and by the history of the set."""
    found = belonging(live(WEB), OURS)
    assert (found.applied, found.source) == (TIME, "deploy/prod @ 3f2a91c")
    assert belonging(live(WEB, uid="u2"), OURS).applied == ""


def test_mark_in_a_secret_shows_no_value() -> None:
    """Anybody may have copied a value of its data into an annotation."""
    secret = Ref("", "Secret", "home", "db")
    marked: dict[str, Any] = {"label": "", "labels": {"kapp.k14s.io/app": "hunter2"}}
    assert "hunter2" not in str(belonging(live(secret, **marked), None))


def by(manager: str, fields: dict[str, Any], time: str = TIME, **more: Any) -> dict[str, Any]:
    return managed(manager, operation="Update", time=time, fieldsV1=fields, **more)


REPLICAS: dict[str, Any] = {"f:spec": {"f:replicas": {}}}
TEAM: dict[str, Any] = {"f:metadata": {"f:labels": {"f:team": {}}, "f:annotations": {"f:why": {}}}}
SCALER = LiveObject.of(
    Ref("autoscaling", "HorizontalPodAutoscaler", "home", "scaler"),
    "s",
    "1",
    {"name": "scaler"},
    {"spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}},
)


def test_manager_of_each_field_is_named() -> None:
    """But for the set's own and the status, the newest first, by the words that people know."""
    entries = [
        managed(),
        by("kubectl-label", TEAM, "2026-11-21T10:00:02Z"),
        by("kube-controller-manager", REPLICAS, subresource="scale"),
        by("kubelet", {"f:status": {"f:replicas": {}}}, subresource="status"),
        by("", {"f:spec": {"f:paused": {}}}, ""),
    ]
    found = belonging(live(WEB, entries=entries), OURS, [SCALER])
    assert [(one.who, one.fields, one.more) for one in found.managers] == [
        ("kubectl-label", ("the annotation why", "the label team"), 0),
        ("the autoscaler scaler", (".spec.replicas",), 0),
        ("an unknown manager", (".spec.paused",), 0),
    ]
    alone = belonging(live(WEB, entries=entries), OURS)
    assert alone.managers[1].who == "kube-controller-manager, which scales it"
    assert AUTOSCALERS.kind == SCALER.ref.kind


def test_object_with_many_managers_names_ten() -> None:
    """And of each the first fields."""
    keys: dict[str, Any] = {"f:data": {f"f:k{number}": {} for number in range(9)}}
    entries = [by(f"tool-{number}", keys) for number in range(200)]
    found = belonging(live(WEB, label="", entries=entries), None)
    assert (len(found.managers), found.more) == (10, 190)
    assert (len(found.managers[0].fields), found.managers[0].more) == (5, 4)
