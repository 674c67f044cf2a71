"""Whose field it is: what a conflict refuses, what drift is reverted, and what is left to others.

The words of a conflict are tables of ``tests/unit/planning/conflicts``.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from applyprune.errors import InputError
from applyprune.model.fate import Fate
from applyprune.model.fieldset import ObjectWriter
from applyprune.model.options import Adopt, Conflicts
from tests.decisions.rows import Row, rows
from tests.decisions.world import (
    HOME,
    THEM,
    Body,
    Change,
    applied_by,
    changed,
    created,
    deleted,
    other_set,
    relabelled,
    scaled,
)
from tests.support.objects import DEPLOYMENT, config_map, of_kind

APPLY, ASKED = "applyprune.dev/apply", "applyprune.dev/conflicts"
IGNORE = "applyprune.dev/ignore-fields"
A, B, NEW = config_map("a"), config_map("b"), config_map("b", "new")
DRIFTED = changed("configmap/b", {"data": {"key": "hand"}})
TAKEN = applied_by("argocd", config_map("b", "hand"), force=True)
REFUSED, CHANGED = {"configmap/b": Fate.REFUSE}, {"configmap/b": Fate.CHANGE}
ADOPTED, LEAVES = {"configmap/b": Fate.ADOPT}, {"configmap/b": Fate.LEAVE}
FORCED = {"configmap/b": "apply by force guarded by UID and version"}
REVERT, FORCE = {"conflicts": Conflicts.REVERT}, {"conflicts": Conflicts.FORCE}


def _row(
    change: Change, fates: dict[str, Fate], because: str = "", *, mark: str = "", **options: Any
) -> Row:
    """Return a row of an object that is applied again, maybe with what it says of conflicts."""
    given = config_map("b", annotations={ASKED: mark}) if mark else B
    sends = FORCED if fates == CHANGED else {}
    told = {"configmap/b": because} if because else {}
    return Row([A, given], [change], options=options, fates=fates, because=told, sends=sends)


# What the options say, and what an object says of itself.

REQUESTS = {
    "by hand": _row(DRIFTED, REFUSED, "owned by them (Update"),
    "by hand: revert": _row(DRIFTED, CHANGED, **REVERT),
    "by hand: force": _row(DRIFTED, CHANGED, **FORCE),
    "another applier's": _row(TAKEN, REFUSED, "--take-over argocd"),
    "another applier's, of the same value": _row(applied_by("argocd", B), {}),
    "another applier's: revert": _row(TAKEN, REFUSED, "--conflicts force", **REVERT),
    "another applier's: force": _row(TAKEN, CHANGED, **FORCE),
    "by hand, marked revert": _row(DRIFTED, CHANGED, mark="revert"),
    "another applier's, marked revert": _row(TAKEN, REFUSED, mark="revert", **FORCE),
    "by hand, marked force": _row(DRIFTED, CHANGED, mark="force"),
    "another applier's, marked force": _row(TAKEN, CHANGED, mark="force"),
    "by hand, marked fail": _row(DRIFTED, REFUSED, mark="fail", **FORCE),
    "another applier's, marked fail": _row(
        TAKEN, REFUSED, "--take-over argocd", mark="fail", **FORCE
    ),
    "two objects, one of them marked": Row(
        [A, B], [DRIFTED, changed("configmap/a", {"data": {"key": "hand"}})],
        [config_map("a", annotations={ASKED: "force"}), B],
        fates={"configmap/a": Fate.CHANGE, "configmap/b": Fate.REFUSE},
        sends={"configmap/a": FORCED["configmap/b"]},
    ),
    "an invalid mark": Row(
        given=[A, config_map("b", annotations={ASKED: "yes"})], error=InputError,
        says=["dev/conflicts: 'yes'"],
    ),
}  # fmt: skip


@pytest.mark.holds("own-conflicts", row="another applier's, marked fail")
@rows(REQUESTS)
def test_field_of_another_manager_is_taken_only_if_that_is_asked_for(row: Row) -> None:
    """Drift is what somebody has changed by hand; of another applier it is a contention."""
    row.holds()


# Objects that another set may list.

LOST = (other_set(B), relabelled("configmap/b", None))
FORGED = created(config_map("b", labels={"applyset.kubernetes.io/part-of": "applyset-x-v1"}))
MINE = {ASKED: "force"}
ALL = {"adopt": Adopt.ALL}
OTHERS = {
    "unlabelled: force": Row(
        [A], LOST, [A, NEW], FORCE, REFUSED, {"configmap/b": "--adopt=all"}
    ),
    "unlabelled: marked force": Row(
        [A], LOST, [A, config_map("b", "new", annotations=MINE)], {}, ADOPTED,
        sends={"configmap/b": "apply guarded by UID"},
    ),
    "unlabelled: all, force": Row([A], LOST, [A, NEW], {**FORCE, **ALL}, ADOPTED, sends=FORCED),
    "labelled: marked force": Row(
        [A], LOST[:1], [A, config_map("b", "new", annotations=MINE)], {}, REFUSED,
        {"configmap/b": "belongs to another set"},
    ),
    "a label of nobody": Row(
        [A], [FORGED], [A, B], {}, REFUSED, {"configmap/b": "there is no inventory with this id"}
    ),
    "a label of nobody: all": Row([A], [FORGED], [A, B], ALL, ADOPTED),
    "a label of nobody, another value: all": Row(
        [A], [FORGED], [A, NEW], ALL, REFUSED, {"configmap/b": "--conflicts force"}
    ),
    "a label of nobody, another value: all, force": Row(
        [A], [FORGED], [A, NEW], {**FORCE, **ALL}, ADOPTED
    ),
    "a label of nobody, only required to exist": Row(
        [A], [FORGED], [A, config_map("b", annotations={APPLY: "exists"})], fates=LEAVES
    ),
    "a label of nobody that is removed": Row(
        [A], [FORGED, relabelled("configmap/b", None)], [A, B], fates=ADOPTED
    ),
}  # fmt: skip


@pytest.mark.holds("other-set", row="unlabelled: marked force")
@rows(OTHERS)
def test_force_takes_nothing_of_another_set(row: Row) -> None:
    """Neither an object with its label, nor one whose label somebody has removed."""
    row.holds()


# Drift that a run keeps, because it was asked to, or because somebody changes it back.

KEEP = {"keep_drift": True}
BY_THEM = {"configmap/b": ['/data/key: "hand" them']}
CONTENDED = {**REVERT, "contended": frozenset({ObjectWriter("configmap/b", HOME, THEM)})}
GONE = {**REVERT, "contended": frozenset({ObjectWriter("configmap/b", HOME, "")})}
SECRET = of_kind("Secret", "s", data={"a": "YQ==", "b": "Yg=="})
OTHER_SECRET = of_kind("Secret", "s", data={"a": "YQ==", "b": "Yw=="})
THEIR_SECRET = changed("secret/s", {"data": {"a": "dGhlaXJz"}})
TEAM = config_map("b", labels={"team": "x"})
KEPT = {
    "a value": Row([A, B], [DRIFTED], options=KEEP, fates=LEAVES, drift=BY_THEM),
    "a value, and a label that is gone": Row(
        [TEAM], [changed("configmap/b", {"data": {"key": "hand"},
                                         "metadata": {"labels": {"team": None}}})],
        options=KEEP, fates=LEAVES,
        drift={"configmap/b": [*BY_THEM["configmap/b"], "/metadata/labels/team: none"]},
    ),
    "a deletion": Row(
        [A, B], [deleted("configmap/b")], options=KEEP, fates=LEAVES,
        drift={"configmap/b": [": none"]},
    ),
    "a value, another manifest": Row([A, B], [DRIFTED], [A, NEW], KEEP, CHANGED, sends=FORCED),
    "a deletion, another manifest": Row(
        [A, B], [deleted("configmap/b")], [A, NEW], KEEP, {"configmap/b": Fate.CREATE}
    ),
    "a Secret": Row(
        [SECRET], [THEIR_SECRET], options=KEEP, fates={"secret/s": Fate.LEAVE},
        drift={"secret/s": ["/data/a: (secret) them"]},
    ),
    "a Secret with other values": Row(
        [SECRET], [THEIR_SECRET], [OTHER_SECRET], KEEP, {"secret/s": Fate.CHANGE}
    ),
    "of who changes it back": Row(
        [A, B], [DRIFTED], options=CONTENDED, fates=LEAVES, drift=BY_THEM
    ),
    "of somebody else": Row(
        [A, B], [changed("configmap/b", {"data": {"key": "hand"}}, "other")], options=CONTENDED,
        fates=CHANGED,
    ),
    "of who changes back another object": Row(
        [A, B], [changed("configmap/a", {"data": {"key": "hand"}})], options=CONTENDED,
        fates={"configmap/a": Fate.CHANGE},
    ),
    "of who deletes it again": Row(
        [A, B], [deleted("configmap/b")], options=GONE, fates=LEAVES
    ),
    "a deletion: revert": Row(
        [A, B], [deleted("configmap/b")], options=REVERT, fates={"configmap/b": Fate.CREATE},
        drift={"configmap/b": [": none"]},
    ),
}  # fmt: skip


@pytest.mark.holds("kept-drift", row="a value")
@pytest.mark.holds("kept-deletion", row="a deletion")
@pytest.mark.holds("changed-secret", row="a Secret with other values")
@pytest.mark.holds("contended-object", row="of who changes it back")
@rows(KEPT)
def test_drift_is_kept_until_the_manifest_changes(row: Row) -> None:
    """Or while it is contended; no digest shows that the values of a Secret have changed."""
    row.holds()


# Fields that the manifest leaves to others.

WEB: Body = {**DEPLOYMENT, "spec": {**DEPLOYMENT["spec"], "replicas": 3}}
NAME = "deployment.apps/web"


def _web(replicas: int | None = 3, left: str = "", **spec: Any) -> Body:
    body = copy.deepcopy(WEB)
    body["spec"].update(spec)
    if replicas is None:
        del body["spec"]["replicas"]
    else:
        body["spec"]["replicas"] = replicas
    if left:
        body["metadata"]["annotations"] = {IGNORE: left}
    return body


def _scaler(target: str = "web", kind: str = "Deployment", **annotations: str) -> Body:
    scaled = {"apiVersion": "apps/v1", "kind": kind, "name": target}
    spec = {"scaleTargetRef": scaled, "minReplicas": 2, "maxReplicas": 9}
    return of_kind("HorizontalPodAutoscaler", "web", {"annotations": annotations}, spec=spec)


MORE = {NAME: Fate.CHANGE}
REPLICAS = "/spec/replicas"
SCALED = scaled(NAME, 5)
FIELDS = {
    "others have scaled it": Row(
        [WEB], [SCALED], [_web(paused=True)], fates={NAME: Fate.REFUSE},
        because={NAME: ".spec.replicas: theirs 5 → ours 3, owned by kube-controller-manager"},
    ),
    "others have scaled it, and it is left to them": Row(
        [WEB], [SCALED], [_web(left=REPLICAS, paused=True)], fates=MORE,
        sends={NAME: "apply guarded by UID"},
    ),
    "only the set has it, and it is left": Row(
        [WEB], given=[_web(4, REPLICAS)], fates=MORE,
        sends={NAME: "apply guarded by UID and version"},
    ),
    "it was sent at the creation": Row(
        [_web(left=REPLICAS)], given=[_web(5, REPLICAS)], fates=MORE,
        sends={NAME: "apply guarded by UID and version"},
    ),
    "by a rule of the user": Row(
        [WEB], [SCALED], [_web(4)], {"ignore": ("deployment.apps:/spec/replicas",)}, MORE
    ),
    "an invalid mark": Row(
        given=[A, config_map("b", annotations={IGNORE: "/data/0x,spec"})], error=InputError,
        says=["begin with /"],
    ),
}  # fmt: skip


@rows(FIELDS)
def test_field_that_is_left_to_others_is_no_conflict(row: Row) -> None:
    row.holds()


# Replicas, which an autoscaler sets.

SCALER = "horizontalpodautoscaler.autoscaling/web"
TOLD = {NAME: "/spec/replicas is left to HorizontalPodAutoscaler web"}
SCALERS = {
    "it is in the set": Row(
        [WEB, _scaler()], [SCALED], [_web(4, paused=True), _scaler()], {}, MORE, TOLD
    ),
    "it is in the cluster": Row(
        [WEB], [created(_scaler()), SCALED], [_web(4, paused=True)], {}, MORE, TOLD
    ),
    "the rule is off": Row(
        [WEB, _scaler()], [SCALED], [_web(paused=True), _scaler()],
        {"no_default_ignore": frozenset({"autoscaled-replicas"})}, {NAME: Fate.REFUSE},
    ),
    "they were sent at the creation": Row(
        [WEB, _scaler()], given=[_web(4), _scaler()], fates=MORE, because=TOLD
    ),
    "it is disabled": Row(
        [WEB], given=[_web(4), _scaler(**{APPLY: "disabled"})],
        fates={**MORE, SCALER: Fate.LEAVE}, sends={NAME: "apply guarded by UID"},
    ),
    "it gets another target": Row(
        [WEB, _scaler()], given=[_web(4), _scaler("other")],
        fates={**MORE, SCALER: Fate.CHANGE}, sends={NAME: "apply guarded by UID"},
    ),
    "it is pruned": Row(
        [WEB, _scaler()], given=[_web(4)], fates={**MORE, SCALER: Fate.PRUNE}, because=TOLD
    ),
    "it was pruned": Row(
        [WEB], [SCALED], [_web(4)], fates={NAME: Fate.REFUSE}, because={NAME: "--conflicts force"}
    ),
    "the replicas leave, and it comes": Row(
        [WEB], given=[_web(None), _scaler()], fates={**MORE, SCALER: Fate.CREATE}, because=TOLD
    ),
    "the replicas leave, and it is there": Row(
        [WEB], [created(_scaler())], [_web(None)], fates=MORE, because=TOLD
    ),
}  # fmt: skip


@pytest.mark.holds("disabled-autoscaler", row="it is disabled")
@pytest.mark.holds("lost-replicas", row="the replicas leave, and it comes")
@rows(SCALERS)
def test_replicas_are_left_to_an_autoscaler_that_will_be_there(row: Row) -> None:
    """One that the run prunes is there while the object is applied."""
    row.holds()
