"""Whose objects: adopted ones are never deleted, another set's never touched."""

from __future__ import annotations

from applyprune.model.fate import Outcome
from applyprune.model.options import Adopt
from applyprune.planning.applyset import PART_OF
from tests.support.api import Api
from tests.support.command import applyprune
from tests.support.objects import SERVICE, config_map
from tests.support.plane import Kubectl
from tests.support.stage import Stage


def _create(kubectl: Kubectl, stage: Stage, name: str) -> None:
    kubectl("create", "configmap", name, "-n", stage.namespace, "--from-literal=mine=1")


def test_adopted_object_is_orphaned_not_deleted(stage: Stage, api: Api, kubectl: Kubectl) -> None:
    """Its data stays; our label and our managedFields entry go, and kubectl's stays."""
    _create(kubectl, stage, "old")
    story = stage.run(config_map("old"), config_map("a"))
    assert story.outcomes["configmap/old"] is Outcome.UPDATED
    assert stage.run(config_map("a")).outcomes["configmap/old"] is Outcome.ORPHANED
    left = api.get(stage.path("old"))
    assert left["data"] == {"key": "v", "mine": "1"}
    assert PART_OF not in (left["metadata"].get("labels") or {})
    assert [one["manager"] for one in left["metadata"]["managedFields"]] == ["kubectl-create"]
    assert stage.listed() == {"configmap/a"}


def test_adopt_none_refuses_and_prunes_nothing(stage: Stage, api: Api, kubectl: Kubectl) -> None:
    """The rest of the input is not applied either."""
    stage.run(config_map("go"))
    _create(kubectl, stage, "old")
    story = stage.run(config_map("old"), config_map("a"), adopt=Adopt.NONE)
    assert story.outcomes == {"configmap/old": Outcome.FAILED, "configmap/go": Outcome.NOT_PRUNED}
    assert not api.exists(stage.path("a"))
    assert "--adopt=unowned" in story.problem("configmap/old")
    assert story.exit_code == 3
    assert api.get(stage.path("old"))["data"] == {"mine": "1"}


def test_object_of_another_set_names_that_set_and_the_move(stage: Stage) -> None:
    """The command from the error makes the next run succeed; to take it over comes last."""
    other = Stage(stage.kubeconfig, stage.namespace, name="other")
    stage.run(config_map("moved"), config_map("a"))
    first, *hints = other.run(config_map("moved")).problem("configmap/moved").splitlines()
    assert f"it belongs to the set web in namespace {stage.namespace}" in first
    assert hints[0].strip() == "Did you mean the set web?"
    assert "--adopt=set/web" in hints[-1]
    command = hints[1].partition(": applyprune ")[2]
    assert command == f"inventory move web other configmap/moved -n {stage.namespace}"
    assert applyprune(*command.split(), kubeconfig=stage.kubeconfig).code == 0
    assert other.run(config_map("moved")).exit_code == 0
    assert stage.listed() == {"configmap/a"}


def test_object_with_a_copied_label_is_never_touched(
    stage: Stage, api: Api, kubectl: Kubectl
) -> None:
    """Endpoints and EndpointSlices have a Service's labels; no plan of ours contains them."""
    stage.run(config_map("a"), SERVICE)
    kubectl(
        "wait", "endpointslices", "-n", stage.namespace, "--for=create", "--timeout=300s",
        "-l", "kubernetes.io/service-name=web",
    )  # fmt: skip
    slices = f"/apis/discovery.k8s.io/v1/namespaces/{stage.namespace}/endpointslices"
    (copied,) = api.get(slices)["items"]
    assert copied["metadata"]["labels"][PART_OF] == stage.target.id
    stage.run(SERVICE)
    assert [one["metadata"]["uid"] for one in api.get(slices)["items"]] == [
        copied["metadata"]["uid"]
    ]
