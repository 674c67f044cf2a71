"""Objects that others have managed until now: their fields become ours, so that they can go."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.model.events import Outcome
from applyprune.model.options import Mode
from applyprune.planning.applyset import LAST_APPLIED
from tests.support.fault_proxy import Exchange, FaultProxy, always, faults
from tests.support.objects import DEPLOYMENT, config_map

if TYPE_CHECKING:
    from tests.support.api import Api
    from tests.support.plane import Kubectl
    from tests.support.stage import Stage


def _path(stage: Stage, name: str) -> str:
    return f"/api/v1/namespaces/{stage.namespace}/configmaps/{name}"


def _body(**data: str) -> dict[str, Any]:
    return {**config_map("old"), "data": data}


def _make(kubectl: Kubectl, stage: Stage, how: str) -> None:
    """Make a ConfigMap with the keys ``key`` and ``stale``, in one of the ways that people have."""
    where = ("-n", stage.namespace)
    text = json.dumps(_body(key="v", stale="1"))
    match how:
        case "kubectl apply":
            kubectl("apply", *where, "-f", "-", stdin=text)
        case "kubectl create":
            kubectl("create", *where, "-f", "-", stdin=text)
        case "kubectl apply --server-side":
            kubectl("apply", "--server-side", *where, "-f", "-", stdin=text)
        case "kubectl edit":
            kubectl("create", *where, "-f", "-", stdin=json.dumps(_body(key="v")))
            patch = '{"data":{"stale":"1"}}'
            kubectl(
                "patch", "configmap/old", *where, "--type=merge", "-p", patch,
                "--field-manager=kubectl-edit",
            )  # fmt: skip
        case _:
            kubectl("create", *where, "-f", "-", f"--field-manager={how}", stdin=text)


WAYS = (
    "kubectl apply",
    "kubectl create",
    "kubectl apply --server-side",
    "kubectl edit",
    "helm",
    "before-first-apply",
)


@pytest.mark.parametrize("how", WAYS)
def test_fields_missing_from_the_manifest_are_removed_by_one_apply(
    stage: Stage, api: Api, kubectl: Kubectl, how: str
) -> None:
    """And what it holds is ours alone; the second run writes nothing."""
    _make(kubectl, stage, how)
    assert stage.run(_body(key="v")).outcomes == {"configmap/old": Outcome.CONFIGURED}
    now = api.get(_path(stage, "old"))
    assert now["data"] == {"key": "v"}
    assert LAST_APPLIED not in (now["metadata"].get("annotations") or {})
    assert [(one["manager"], one["operation"]) for one in now["metadata"]["managedFields"]] == [
        (stage.target.manager, "Apply")
    ]
    version = now["metadata"]["resourceVersion"]
    assert stage.run(_body(key="v")).outcomes == {"configmap/old": Outcome.UNCHANGED}
    assert api.get(_path(stage, "old"))["metadata"]["resourceVersion"] == version


def test_other_manager_is_left_alone_until_named(stage: Stage, api: Api, kubectl: Kubectl) -> None:
    """``--take-over``, at any time: also of an object that was unchanged otherwise."""
    _make(kubectl, stage, "our-old-deployer")
    stage.run(_body(key="v"))
    assert api.get(_path(stage, "old"))["data"] == {"key": "v", "stale": "1"}
    assert stage.run(_body(key="v")).outcomes == {"configmap/old": Outcome.UNCHANGED}
    taken = stage.run(_body(key="v"), take_over=frozenset({"our-old-deployer"}))
    assert taken.outcomes == {"configmap/old": Outcome.CONFIGURED}
    assert api.get(_path(stage, "old"))["data"] == {"key": "v"}
    again = stage.run(_body(key="v"), take_over=frozenset({"our-old-deployer"}))
    assert again.outcomes == {"configmap/old": Outcome.UNCHANGED}


def test_kubectl_edit_of_our_object_is_no_adoption(
    stage: Stage, api: Api, kubectl: Kubectl
) -> None:
    """Somebody's hot fix beside our fields stays his, and stays."""
    stage.run(_body(key="v"))
    patch = '{"data":{"theirs":"1"}}'
    kubectl(
        "patch", "configmap/old", "-n", stage.namespace, "--type=merge", "-p", patch,
        "--field-manager=kubectl-edit",
    )  # fmt: skip
    stage.run(_body(key="w"))
    assert api.get(_path(stage, "old"))["data"] == {"key": "w", "theirs": "1"}


def test_workload_status_stays_with_its_controller(
    stage: Stage, api: Api, kubectl: Kubectl
) -> None:
    """Only the main resource's fields move; a subresource's entry is not touched."""
    kubectl("apply", "-n", stage.namespace, "-f", "-", stdin=json.dumps(DEPLOYMENT))
    kubectl("wait", "deployment/web", "-n", stage.namespace, "--for=condition=Available")
    assert stage.run(DEPLOYMENT).exit_code == 0
    path = f"/apis/apps/v1/namespaces/{stage.namespace}/deployments/web"
    entries = api.get(path)["metadata"]["managedFields"]
    managers = {(one["manager"], one.get("subresource", "")) for one in entries}
    assert (stage.target.manager, "") in managers
    assert ("kube-controller-manager", "status") in managers
    assert not [one for one in managers if one[0].startswith("kubectl")]
    assert api.get(path)["status"]["availableReplicas"] == 1


def test_change_between_read_and_migration_is_no_obstacle(
    spoiled: Stage, proxy: FaultProxy, api: Api, kubectl: Kubectl
) -> None:
    """The patch is guarded: it is built again from the current object."""
    _make(kubectl, spoiled, "kubectl apply")
    done: list[int] = []

    def before(seen: Exchange) -> None:
        if "json-patch" in seen.header("content-type") and not done:
            done.append(seen.number)
            kubectl("annotate", "configmap/old", "-n", spoiled.namespace, "some=note")

    proxy.before_forward = before
    assert spoiled.run(_body(key="v")).exit_code == 0
    assert done
    now = api.get(_path(spoiled, "old"))
    assert now["data"] == {"key": "v"}


def test_run_killed_between_migration_and_apply_recovers(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api, kubectl: Kubectl
) -> None:
    """The next one ends what it began; the object is adopted still, and never deleted."""
    _make(kubectl, stage, "kubectl apply")
    spoiled.budget = 0.2

    def cut(seen: Exchange) -> bool:
        return "apply-patch" in seen.header("content-type")

    proxy.rule = always(faults.reset(), where=cut)
    assert spoiled.run(_body(key="v"), config_map("a")).exit_code == 3
    assert stage.run(_body(key="v"), config_map("a")).exit_code == 0
    assert api.get(_path(stage, "old"))["data"] == {"key": "v"}
    assert stage.run(mode=Mode.DELETE).outcomes["configmap/old"] is Outcome.ORPHANED


def test_manifest_with_last_applied_annotation_is_applied_without_it(
    stage: Stage, api: Api
) -> None:
    """It is copied along from live objects, and would hold the whole manifest, Secrets too."""
    stage.run(config_map("a", annotations={LAST_APPLIED: "{}", "mine": "1"}))
    assert api.get(_path(stage, "a"))["metadata"]["annotations"] == {"mine": "1"}


DUPLICATE = [{"name": "c", "image": "x", "env": [{"name": "E", "value": v} for v in "ab"]}]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": DUPLICATE}, "duplicate entries for key"),
        ({"containers": [{"name": "c", "image": "x", "imagee": "y"}]}, "imagee"),
    ],
    ids=["a duplicate key in a list", "a field that is not declared"],
)
def test_schema_errors_are_permanent_and_named(
    spoiled: Stage, proxy: FaultProxy, spec: dict[str, Any], expected: str
) -> None:
    """They come as a 500 without a reason: sent once, never retried.

    The server finds them where its schemas may not be read.
    """
    proxy.rule = always(faults.answer(403), where=lambda seen: "/openapi/" in seen.path)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    story = spoiled.run(pod, config_map("a"))
    assert story.exit_code == 3
    assert expected in story.problem("pod/p")
    assert story.outcomes["configmap/a"] is Outcome.CREATED
    sent = [one for one in proxy.exchanges if one.path.endswith("/pods/p")]
    assert len([one for one in sent if one.method == "PATCH"]) == 1
