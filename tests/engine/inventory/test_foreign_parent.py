"""ApplySet parents (KEP-3659) that are not this set's own: refused, explained, never taken over."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from applyprune.errors import ForeignParent, InventoryError
from applyprune.model.fate import Outcome
from applyprune.model.inventory import MismatchType, Ownership
from applyprune.model.options import Mode
from applyprune.planning.applyset import GROUP_KINDS, SET_ID, TOOLING
from tests.support.api import Api
from tests.support.objects import config_map, text
from tests.support.plane import Kubectl
from tests.support.stage import Stage

REFUSALS: dict[str, tuple[dict[str, Any], str]] = {
    "another tool by a prefix": (
        {"annotations": {TOOLING: "applyprune.example/fork/v1"}},
        "'applyprune.example/fork/v1'",
    ),
    "another ID": ({"labels": {SET_ID: "applyset-x-v1"}}, "its label .* is 'applyset-x-v1'"),
}
NO_LABEL = "it has no label applyset.kubernetes.io/id"
MARKS: dict[str, dict[str, Any]] = {
    "label": {"labels": {SET_ID: None}},
    "all of them": {"labels": None, "annotations": None},
}
FAULTS: dict[str, tuple[str | None, str]] = {
    "no kinds": (None, "it has no annotation applyset.kubernetes.io/contains-group-kinds"),
    "other kinds": ("Service", "lacks ConfigMap, and it lists objects of that kind"),
}


def _path(stage: Stage) -> str:
    return stage.path(f"applyprune-{stage.name}")


def _verbs(stage: Stage) -> dict[str, Callable[[], object]]:
    """Return operations that could write the inventory."""
    return {
        "apply": lambda: stage.run(config_map("a"), config_map("b")),
        "delete": lambda: stage.run(mode=Mode.DELETE),
        "move": lambda: stage.move(Stage(stage.kubeconfig, stage.namespace, name="other")),
    }


def _assert_refused(stage: Stage, api: Api, words: str, *, repair: bool) -> None:
    before = api.get(_path(stage))
    verbs = _verbs(stage) | ({"repair": stage.repair, "check": stage.check} if repair else {})
    for verb in verbs.values():
        with pytest.raises(InventoryError) as refused:
            verb()
        assert refused.value.exit_code == 3
        refused.match(words)
        assert "Nothing was" in str(refused.value)
        # That would lose the record of every object.
        assert "delete" not in str(refused.value)
    assert api.get(_path(stage)) == before


@pytest.mark.holds("other-parent-id", row="another ID")
@pytest.mark.parametrize("name", REFUSALS)
def test_parent_of_somebody_else_is_refused(stage: Stage, api: Api, name: str) -> None:
    """By every verb, also by a repair; nothing is written, and nothing of the set changes."""
    stage.run(config_map("a"))
    change, words = REFUSALS[name]
    api.patch(_path(stage), {"metadata": change})
    _assert_refused(stage, api, words, repair=True)
    assert api.exists(_path(stage).replace("applyprune-web", "a"))


@pytest.mark.holds("other-tools-parent")
def test_parent_of_kubectl_is_not_taken_over(stage: Stage, api: Api, kubectl: Kubectl) -> None:
    """It has the ID that its name gives, and kubectl's objects have its label."""
    kubectl(
        *("apply", "-n", stage.namespace, "--server-side", "--prune", "-f", "-"),
        "--applyset=configmap/applyprune-web",
        stdin=text(config_map("theirs")),
        env={"KUBECTL_APPLYSET": "true"},
    )
    assert api.get(_path(stage))["metadata"]["labels"][SET_ID] == stage.target.id
    _assert_refused(stage, api, "is the ApplySet parent of another tool", repair=True)


@pytest.mark.parametrize(
    "tooling", ["", pytest.param("bare", marks=pytest.mark.holds("nobodys-parent"))]
)
def test_parent_without_a_tool_is_refused(stage: Stage, api: Api, tooling: str) -> None:
    """A ConfigMap with our name, and with nothing of ours in it, is not ours."""
    body = config_map("applyprune-web", labels={SET_ID: stage.target.id} if tooling else {})
    api.create(stage.path(), body)
    words = "parent of an unknown tool" if tooling else "is not this set's inventory"
    _assert_refused(stage, api, words, repair=True)


@pytest.mark.holds("wrong-group-kinds", row="other kinds")
@pytest.mark.parametrize("name", FAULTS)
def test_wrong_group_kinds_are_refused_and_repaired(stage: Stage, api: Api, name: str) -> None:
    """The annotation is the second record of what the set contains; the entries stay."""
    stage.run(config_map("a"), config_map("b"))
    kinds, words = FAULTS[name]
    api.patch(_path(stage), {"metadata": {"annotations": {GROUP_KINDS: kinds}}})
    _assert_refused(stage, api, words, repair=False)
    with pytest.raises(InventoryError, match=f"inventory repair web -n {stage.namespace}"):
        stage.run(config_map("a"))
    assert stage.check().exit_code == 0
    assert stage.repair().exit_code == 0
    assert api.get(_path(stage))["metadata"]["annotations"][GROUP_KINDS] == "ConfigMap"
    assert {one.ownership for one in stage.inventory().entries.values()} == {Ownership.OWNED}
    assert not stage.check().found


@pytest.mark.parametrize("name", MARKS)
def test_lost_marks_are_set_again(stage: Stage, api: Api, name: str) -> None:
    """UID, name and contents prove that it is the set's own inventory: the entries stay."""
    stage.run(config_map("a"), config_map("b"))
    before = api.get(_path(stage))
    api.patch(_path(stage), {"metadata": MARKS[name]})
    _assert_refused(stage, api, "is not a valid ApplySet parent", repair=False)
    with pytest.raises(InventoryError, match=f"inventory repair web -n {stage.namespace}") as error:
        stage.run(config_map("a"))
    assert not isinstance(error.value, ForeignParent)
    assert set(stage.check().found.values()) == {MismatchType.DAMAGED}
    assert stage.repair().exit_code == 0
    after = api.get(_path(stage))
    for part in ("labels", "annotations"):
        assert after["metadata"][part] == before["metadata"][part]
    assert {one.ownership for one in stage.inventory().entries.values()} == {Ownership.OWNED}
    assert not stage.check().found
    assert stage.run(config_map("a")).outcomes["configmap/b"] is Outcome.PRUNED


def test_label_lost_at_the_first_write_is_set_again(stage: Stage, api: Api) -> None:
    """The first write does not know the UID: the server's record shows who has created it."""
    stage.run(config_map("a"))
    body = api.get(_path(stage))
    header = json.loads(body["data"]["header"])
    api("DELETE", _path(stage))
    first = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": body["metadata"]["name"],
            "annotations": body["metadata"]["annotations"],
        },
        "data": {**body["data"], "header": json.dumps({**header, "uid": ""})},
    }
    api.create(f"{stage.path()}?fieldManager=applyprune", first)
    with pytest.raises(InventoryError, match=NO_LABEL):
        stage.run(config_map("a"))
    assert stage.repair().exit_code == 0
    assert stage.run(config_map("a")).exit_code == 0


def _copied(header: dict[str, Any], data: dict[str, Any]) -> None:
    header["uid"] = "11111111-2222-3333-4444-555555555555"


def _cut(header: dict[str, Any], data: dict[str, Any]) -> None:
    del header["count"]


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(_copied, marks=pytest.mark.holds("unlabelled-copy")),
        pytest.param(_cut, marks=pytest.mark.holds("unlabelled-and-damaged")),
    ],
)
def test_unlabelled_record_that_proves_nothing_is_refused(
    stage: Stage, api: Api, edit: Callable[[dict[str, Any], dict[str, Any]], None]
) -> None:
    """It may be a copy of another set's, or somebody else's ConfigMap: a repair refuses it too."""
    stage.run(config_map("a"))
    data = dict(api.get(_path(stage))["data"])
    header = json.loads(data["header"])
    edit(header, data)
    data["header"] = json.dumps(header)
    api.patch(_path(stage), {"metadata": {"labels": {SET_ID: None}}, "data": data})
    _assert_refused(stage, api, NO_LABEL, repair=True)
