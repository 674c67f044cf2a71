"""Whose objects: adopted ones are never deleted, another set's never touched."""

from __future__ import annotations

import pytest

from applyprune.errors import InputError
from applyprune.model.fate import Outcome
from applyprune.model.options import Adopt, Mode
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


def test_adopted_object_survives_the_delete_of_the_set(
    stage: Stage, api: Api, kubectl: Kubectl
) -> None:
    """And the set is deleted anyway."""
    _create(kubectl, stage, "old")
    stage.run(config_map("old"), config_map("a"))
    assert stage.run(mode=Mode.DELETE).outcomes == {
        "configmap/old": Outcome.ORPHANED,
        "configmap/a": Outcome.DELETED,
    }
    assert api.exists(stage.path("old"))
    assert not stage.inventory().exists


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


def test_recreated_object_is_not_deleted(stage: Stage, api: Api, kubectl: Kubectl) -> None:
    """Same name, same label by hand, another UID: not the object that we made, as far as shown."""
    stage.run(config_map("a"), config_map("b"))
    kubectl("delete", "configmap/b", "-n", stage.namespace)
    _create(kubectl, stage, "b")
    kubectl("label", "configmap/b", "-n", stage.namespace, f"{PART_OF}={stage.target.id}")
    assert stage.run(config_map("a")).outcomes["configmap/b"] is Outcome.FAILED
    assert api.get(stage.path("b"))["data"] == {"mine": "1"}


def test_object_without_our_label_is_not_deleted(stage: Stage, api: Api, kubectl: Kubectl) -> None:
    """It stays listed, and the run reports what to do."""
    stage.run(config_map("a"), config_map("b"))
    kubectl("label", "configmap/b", "-n", stage.namespace, f"{PART_OF}-")
    story = stage.run(config_map("a"))
    assert story.outcomes["configmap/b"] is Outcome.FAILED
    assert story.exit_code == 3
    assert "kubectl label" in story.problem("configmap/b")
    assert api.exists(stage.path("b"))
    assert "configmap/b" in stage.listed()


@pytest.mark.parametrize(
    "mark", ["applyprune.dev/prune: disabled", "helm.sh/resource-policy: keep"]
)
def test_annotated_object_is_orphaned(stage: Stage, api: Api, mark: str) -> None:
    """Known at prune time, when the manifest is gone."""
    key, _, value = mark.partition(": ")
    stage.run(config_map("a"), config_map("kept", annotations={key: value}))
    assert stage.run(config_map("a")).outcomes["configmap/kept"] is Outcome.ORPHANED
    assert api.exists(stage.path("kept"))


@pytest.mark.parametrize(
    ("mark", "told"),
    [
        pytest.param(
            "applyprune.dev/prune=false",
            "the value of the annotation applyprune.dev/prune",
            marks=pytest.mark.holds("unknown-annotation"),
        ),
        ("applyprune.dev/prune=disable", "the value of the annotation applyprune.dev/prune"),
        ("applyprune.dev/prune=keep", "the value of the annotation applyprune.dev/prune"),
        pytest.param(
            "applyprune.dev/prun=disabled",
            "the annotation applyprune.dev/prun",
            marks=pytest.mark.holds("mark-before-delete"),
        ),
    ],
    ids=["false", "disable", "keep", "mistyped"],
)
def test_mark_that_is_not_understood_keeps_the_object(
    stage: Stage, api: Api, kubectl: Kubectl, mark: str, told: str
) -> None:
    """It is refused in a manifest; on the live object it stops the prune until it is gone."""
    key, _, value = mark.partition("=")
    with pytest.raises(InputError, match=key):
        stage.run(config_map("a"), config_map("kept", annotations={key: value}))
    stage.run(config_map("a"), config_map("kept"))
    kubectl("annotate", "configmap/kept", "-n", stage.namespace, mark)
    uid = api.get(stage.path("kept"))["metadata"]["uid"]
    for story in (stage.run(config_map("a")), stage.run(mode=Mode.DELETE)):
        assert story.outcomes["configmap/kept"] is Outcome.FAILED
        assert f"{told} is not understood" in story.problem("configmap/kept")
        assert f"kubectl annotate configmap/kept -n {stage.namespace} {key}-" in story.problem(
            "configmap/kept"
        )
        assert story.exit_code == 3
        assert "configmap/kept" in stage.listed()
    assert api.get(stage.path("kept"))["metadata"]["uid"] == uid
    kubectl("annotate", "configmap/kept", "-n", stage.namespace, f"{key}-")
    assert stage.run(mode=Mode.DELETE).outcomes["configmap/kept"] is Outcome.DELETED
    assert not api.exists(stage.path("kept"))


def test_object_with_a_mark_that_is_not_understood_is_orphaned_by_name(
    stage: Stage, api: Api, kubectl: Kubectl
) -> None:
    """The user's own word decides; and `explain` names the mark."""
    stage.run(config_map("a"), config_map("kept"))
    kubectl("annotate", "configmap/kept", "-n", stage.namespace, "applyprune.dev/keep=yes")
    told = stage.explain("configmap/kept", config_map("a")).explanation
    assert "never deleted, because the annotation applyprune.dev/keep is not understood" in (
        told.reasons
    )
    story = stage.run(config_map("a"), orphan=frozenset({"configmap/kept"}))
    assert story.outcomes["configmap/kept"] is Outcome.ORPHANED
    assert api.exists(stage.path("kept"))


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
