"""What others do to an inventory: parents of other tools, metadata of others, and policies.

An ApplySet parent (KEP-3659) that is not this set's own is refused, explained, never taken over."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from applyprune.errors import ApiError, ForeignParent, InventoryError, InventoryLocked
from applyprune.model.events import Event, InventoryWritten, Phase
from applyprune.model.fate import Outcome
from applyprune.model.inventory import MismatchType, Ownership
from applyprune.model.options import Mode
from applyprune.planning.applyset import GROUP_KINDS, SET_ID, TOOLING
from tests.support.api import Api
from tests.support.objects import config_map, text
from tests.support.plane import Kubectl
from tests.support.stage import Stage
from tests.support.waiting import eventually

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


def _root(stage: Stage) -> str:
    return stage.path(f"applyprune-{stage.name}")


def _verbs(stage: Stage) -> dict[str, Callable[[], object]]:
    """Return operations that could write the inventory."""
    return {
        "apply": lambda: stage.run(config_map("a"), config_map("b")),
        "delete": lambda: stage.run(mode=Mode.DELETE),
        "orphan": lambda: stage.orphan("configmap/a"),
    }


def _assert_refused(stage: Stage, api: Api, words: str, *, repair: bool) -> None:
    before = api.get(_root(stage))
    verbs = _verbs(stage) | ({"repair": stage.repair, "check": stage.check} if repair else {})
    for verb in verbs.values():
        with pytest.raises(InventoryError) as refused:
            verb()
        assert refused.value.exit_code == 3
        refused.match(words)
        assert "Nothing was" in str(refused.value)
        # That would lose the record of every object.
        assert "delete" not in str(refused.value)
    assert api.get(_root(stage)) == before


@pytest.mark.holds("other-parent-id", row="another ID")
@pytest.mark.parametrize("name", REFUSALS)
def test_parent_of_somebody_else_is_refused(stage: Stage, api: Api, name: str) -> None:
    """By every verb, also by a repair; nothing is written, and nothing of the set changes."""
    stage.run(config_map("a"))
    change, words = REFUSALS[name]
    api.patch(_root(stage), {"metadata": change})
    _assert_refused(stage, api, words, repair=True)
    assert api.exists(_root(stage).replace("applyprune-web", "a"))


@pytest.mark.holds("other-tools-parent")
def test_parent_of_kubectl_is_not_taken_over(stage: Stage, api: Api, kubectl: Kubectl) -> None:
    """It has the ID that its name gives, and kubectl's objects have its label."""
    kubectl(
        *("apply", "-n", stage.namespace, "--server-side", "--prune", "-f", "-"),
        "--applyset=configmap/applyprune-web",
        stdin=text(config_map("theirs")),
        env={"KUBECTL_APPLYSET": "true"},
    )
    assert api.get(_root(stage))["metadata"]["labels"][SET_ID] == stage.target.id
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
    api.patch(_root(stage), {"metadata": {"annotations": {GROUP_KINDS: kinds}}})
    _assert_refused(stage, api, words, repair=False)
    with pytest.raises(InventoryError, match=f"inventory repair web -n {stage.namespace}"):
        stage.run(config_map("a"))
    assert stage.check().exit_code == 0
    assert stage.repair().exit_code == 0
    assert api.get(_root(stage))["metadata"]["annotations"][GROUP_KINDS] == "ConfigMap"
    assert {one.ownership for one in stage.inventory().entries.values()} == {Ownership.OWNED}
    assert not stage.check().found


@pytest.mark.parametrize("name", MARKS)
def test_lost_marks_are_set_again(stage: Stage, api: Api, name: str) -> None:
    """UID, name and contents prove that it is the set's own inventory: the entries stay."""
    stage.run(config_map("a"), config_map("b"))
    before = api.get(_root(stage))
    api.patch(_root(stage), {"metadata": MARKS[name]})
    _assert_refused(stage, api, "is not a valid ApplySet parent", repair=False)
    with pytest.raises(InventoryError, match=f"inventory repair web -n {stage.namespace}") as error:
        stage.run(config_map("a"))
    assert not isinstance(error.value, ForeignParent)
    assert set(stage.check().found.values()) == {MismatchType.DAMAGED}
    assert stage.repair().exit_code == 0
    after = api.get(_root(stage))
    for part in ("labels", "annotations"):
        assert after["metadata"][part] == before["metadata"][part]
    assert {one.ownership for one in stage.inventory().entries.values()} == {Ownership.OWNED}
    assert not stage.check().found
    assert stage.run(config_map("a")).outcomes["configmap/b"] is Outcome.PRUNED


def test_label_lost_at_the_first_write_is_set_again(stage: Stage, api: Api) -> None:
    """The first write does not know the UID: the server's record shows who has created it."""
    stage.run(config_map("a"))
    body = api.get(_root(stage))
    header = json.loads(body["data"]["header"])
    api("DELETE", _root(stage))
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
    data = dict(api.get(_root(stage))["data"])
    header = json.loads(data["header"])
    edit(header, data)
    data["header"] = json.dumps(header)
    api.patch(_root(stage), {"metadata": {"labels": {SET_ID: None}}, "data": data})
    _assert_refused(stage, api, NO_LABEL, repair=True)


MERGE = "application/merge-patch+json"
HOLD = "example.com/hold"


@pytest.fixture
def release(stage: Stage, api: Api) -> Iterator[None]:
    """Remove the finalizer at the end, so that the namespace can go."""
    yield
    api("PATCH", _root(stage), {"metadata": {"finalizers": None}}, content_type=MERGE)


@pytest.mark.holds("foreign-metadata-kept")
@pytest.mark.usefixtures("release")
def test_metadata_of_other_tools_stays_and_stops_no_run(stage: Stage, api: Api) -> None:
    """They are added between two writes of the same run, before a run, and before its end."""
    one, two = (config_map(name, namespace=stage.namespace) for name in ("one", "two"))
    assert stage.run(one, two).exit_code == 0
    account = api.get(f"/api/v1/namespaces/{stage.namespace}/serviceaccounts/default")
    owner = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "name": "default",
        "uid": account["metadata"]["uid"],
    }
    api.patch(_root(stage), {"metadata": {"ownerReferences": [owner], "finalizers": [HOLD]}})

    def between(event: Event) -> None:
        if isinstance(event, InventoryWritten) and event.phase is not Phase.FINAL:
            mark = {str(event.phase): "seen"}
            api.patch(_root(stage), {"metadata": {"labels": mark, "annotations": mark}})

    stage.seen = between
    one["data"] = {"key": "other"}
    assert stage.run(one, max_prune=stage.most(1)).exit_code == 0
    assert stage.listed() == {"configmap/one"}
    metadata = api.get(_root(stage))["metadata"]
    added = {"before-apply": "seen", "before-delete": "seen"}
    assert added.items() <= metadata["labels"].items()
    assert added.items() <= metadata["annotations"].items()
    assert metadata["ownerReferences"] == [owner]
    assert metadata["finalizers"] == [HOLD]


@pytest.mark.holds("inventory-own-data")
def test_change_of_applyprunes_own_data_still_ends_the_run(stage: Stage, api: Api) -> None:
    """An annotation that applyprune writes is its own data, and so is a new key in the data."""
    one = config_map("one", namespace=stage.namespace)
    for patch in (
        {"metadata": {"annotations": {GROUP_KINDS: "Secret"}}},
        {"data": {"note": "mine"}},
        {"metadata": {"labels": {"applyset.kubernetes.io/id": None}}},
    ):

        def between(event: Event, patch: dict[str, Any] = patch) -> None:
            if isinstance(event, InventoryWritten) and event.phase is Phase.BEFORE_APPLY:
                api.patch(_root(stage), patch)

        stage.seen = between
        with pytest.raises((InventoryLocked, InventoryError)):
            stage.run(one)
        stage.seen = lambda _: None
        api("DELETE", _root(stage))
        api("DELETE", stage.path("one"))


@pytest.mark.holds("terminating-inventory")
@pytest.mark.usefixtures("release")
def test_finalizer_of_another_tool_holds_the_deleted_inventory(stage: Stage, api: Api) -> None:
    """The delete says so; nothing is recorded there any more, so no run may apply to it."""
    one = config_map("one", namespace=stage.namespace)
    assert stage.run(one).exit_code == 0

    def between(event: Event) -> None:
        if isinstance(event, InventoryWritten) and event.phase is Phase.BEFORE_DELETE:
            api.patch(_root(stage), {"metadata": {"finalizers": [HOLD]}})

    stage.seen = between
    story = stage.run(mode=Mode.DELETE)
    assert story.exit_code == 0
    assert story.outcomes == {"configmap/one": Outcome.DELETED}
    (warning,) = story.warnings
    assert f"other tools hold it by the finalizers: {HOLD}" in warning
    assert "is deleted but not gone yet" in warning
    stage.seen = lambda _: None
    assert stage.listed() == set()
    with pytest.raises(InventoryError, match="is being deleted") as refused:
        stage.run(one)
    assert HOLD in refused.value.reason
    assert api("GET", stage.path("one"))[0] == 404
    api.patch(_root(stage), {"metadata": {"finalizers": None}})
    assert stage.run(one).exit_code == 0


GROUP = "/apis/admissionregistration.k8s.io/v1"
LABEL = "applyset.kubernetes.io/id"


def _create(api: Api, name: str, namespace: str, expression: str) -> None:
    """Create a policy for the ConfigMaps of a namespace, and wait until it works."""
    rules = {
        "apiGroups": [""],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["configmaps"],
    }
    validation = {"expression": expression, "message": "label team is required"}
    spec = {"matchConstraints": {"resourceRules": [rules]}, "validations": [validation]}
    place = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    bound = {"policyName": name, "validationActions": ["Deny"], "matchResources": place}
    for kind, body in (
        ("ValidatingAdmissionPolicy", spec),
        ("ValidatingAdmissionPolicyBinding", bound),
    ):
        plural = "validatingadmissionpolic" + ("ies" if kind.endswith("Policy") else "ybindings")
        given: dict[str, Any] = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": name},
            "spec": body,
        }
        api.create(f"{GROUP}/{plural}", given)

    def denies() -> bool:
        path = f"/api/v1/namespaces/{namespace}/configmaps?dryRun=All"
        status, reply = api("POST", path, config_map("probe"))
        return status == 422 and "label team" in reply["message"]

    eventually(denies, lambda: name)


@pytest.fixture
def policy(api: Api, namespace: str) -> Iterator[str]:
    """The name of the test's policy; it is gone afterwards."""
    yield f"{namespace}-team"
    for plural in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
        api("DELETE", f"{GROUP}/{plural}/{namespace}-team")


@pytest.mark.parametrize("excepts", [False, True], ids=["refused", "the way out"])
def test_refused_inventory_is_named_with_the_way_out(
    stage: Stage, api: Api, policy: str, excepts: bool
) -> None:
    """A set whose own ConfigMap has the label that the policy asks for, and the inventory not.

    The way out is that the policy excepts what has one of the labels that the error names.
    """
    keys = f"['team', '{LABEL}']" if excepts else "['team']"
    team = f"has(object.metadata.labels) && object.metadata.labels.exists(key, key in {keys})"
    _create(api, policy, stage.namespace, team)
    wanted = config_map("a", labels={"team": "x"})
    if excepts:
        assert stage.run(wanted).exit_code == 0
        return
    with pytest.raises(ApiError) as refused:
        stage.run(wanted)
    assert "label team is required" in str(refused.value)
    assert "configmap/applyprune-web is the set's inventory" in refused.value.hint
    assert LABEL in refused.value.hint
