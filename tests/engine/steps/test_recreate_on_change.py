"""``recreate: on-change``: only a change of the manifest itself deletes an object."""

from __future__ import annotations

import copy
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.model.events import ObjectDone
from applyprune.model.fate import Outcome
from applyprune.model.options import Conflicts
from applyprune.planning.applyset import MANIFEST_DIGEST
from tests.support.forged import edit_entry
from tests.support.objects import DEPLOYMENT, config_map

if TYPE_CHECKING:
    from tests.support.api import Api
    from tests.support.fault_proxy import Exchange, FaultProxy
    from tests.support.stage import Stage

MARK = {"applyprune.dev/recreate": "on-change"}
SCALER: dict[str, Any] = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "web"},
    "spec": {
        "maxReplicas": 5,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
    },
}


def test_options_rules_and_autoscalers_recreate_nothing(stage: Stage, api: Api) -> None:
    """They change what is sent, and not the manifest."""
    deployment = copy.deepcopy(DEPLOYMENT)
    deployment["metadata"]["annotations"] = MARK
    name = f"deployment.apps/{deployment['metadata']['name']}"
    SCALER["spec"]["scaleTargetRef"]["name"] = deployment["metadata"]["name"]
    bodies = deployment, config_map("c", annotations=MARK)
    assert stage.run(*bodies).exit_code == 0
    path = f"/apis/apps/v1/namespaces/{stage.namespace}/{name.replace('.apps', 's')}"
    uid = api.get(path)["metadata"]["uid"]
    stories = [
        stage.run(*bodies, SCALER),
        stage.run(*bodies, SCALER, ignore=("configmap:/data/other",)),
        stage.run(*bodies, SCALER, no_default_ignore=frozenset({"autoscaled-replicas"})),
        stage.run(*bodies, SCALER, reapply_all=True),
    ]
    for story in stories:
        assert Outcome.RECREATED not in story.outcomes.values()
    assert api.get(path)["metadata"]["uid"] == uid


def test_edited_inventory_recreates_nothing(stage: Stage, api: Api) -> None:
    """The object itself has the digest of its manifest, in a field of the set."""
    body = config_map("c", annotations=MARK)
    stage.run(body)
    path = f"/api/v1/namespaces/{stage.namespace}/configmaps/c"
    before = api.get(path)["metadata"]
    assert MANIFEST_DIGEST in before["annotations"]
    edit_entry(stage, api, "c", digest="0" * 32)
    assert stage.run(body).outcomes == {"configmap/c": Outcome.UNCHANGED}
    # Nor does somebody else's text on the object.
    patch = {"metadata": {"annotations": {MANIFEST_DIGEST: "0" * 32}}}
    kind = "application/merge-patch+json"
    assert api("PATCH", f"{path}?fieldManager=alice", patch, content_type=kind)[0] == 200
    told = stage.run(body, conflicts=Conflicts.FORCE).outcomes
    assert told == {"configmap/c": Outcome.UPDATED}
    assert api.get(path)["metadata"]["uid"] == before["uid"]
    # The manifest can be copied from the live object, and its change still counts.
    copied = config_map("c", annotations={**MARK, MANIFEST_DIGEST: "f" * 32})
    assert stage.run(copied).outcomes == {"configmap/c": Outcome.UNCHANGED}
    changed = stage.run(config_map("c", "new", annotations=MARK))
    assert changed.outcomes == {"configmap/c": Outcome.RECREATED}


def test_recreation_that_others_were_faster_than_is_not_reported_as_done(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api
) -> None:
    """Another tool takes the name between the delete and the create."""
    stage.run(config_map("c", annotations=MARK))
    path = f"/api/v1/namespaces/{stage.namespace}/configmaps"

    def before(seen: Exchange) -> None:
        is_create = seen.method == "PATCH" and seen.path == f"{path}/c"
        if is_create and not api.exists(seen.path):
            marks = {"meta.helm.sh/release-name": "web"}
            assert api("POST", path, config_map("c", "theirs", annotations=marks))[0] == 201

    proxy.before_forward = before
    story = spoiled.run(config_map("c", "new", annotations=MARK))
    assert story.exit_code == 3
    (done,) = (one for one in story.events if isinstance(one, ObjectDone))
    assert done.outcome is Outcome.FAILED
    assert done.problem is not None
    assert api.get(f"{path}/c")["data"] == {"key": "theirs"}


@pytest.mark.parametrize("way", ["in place", "on change"])
@pytest.mark.parametrize("change", ["a value", "a mark", "always"])
def test_object_that_changes_before_its_delete_is_judged_again(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api, way: str, change: str
) -> None:
    """A controller writes to it, somebody protects it, or it never stays as it is."""
    old, new = (
        config_map("c", value, annotations=MARK)
        if way == "on change"
        else {**config_map("c", value), "immutable": True}
        for value in "ab"
    )
    stage.run(old)
    path = f"/api/v1/namespaces/{stage.namespace}/configmaps/c"
    uid = api.get(path)["metadata"]["uid"]
    deletes = count(1)

    def before(seen: Exchange) -> None:
        is_delete = seen.method == "DELETE" and seen.path == path and "dryRun" not in seen.query
        if not is_delete or ((number := next(deletes)) > 1 and change != "always"):
            return
        marks = {"applyprune.dev/prune": "disabled"} if change == "a mark" else {"n": str(number)}
        patch = {"metadata": {"annotations": marks}}
        kind = "application/merge-patch+json"
        assert (
            api("PATCH", f"{path}?fieldManager=job-controller", patch, content_type=kind)[0] == 200
        )

    proxy.before_forward = before
    story = spoiled.run(new, recreate=True)
    if change == "a value":
        assert story.outcomes == {"configmap/c": Outcome.RECREATED}, story.events
        assert (api.get(path)["metadata"]["uid"] != uid, next(deletes)) == (True, 3)
        return
    expected = {
        "a mark": "applyprune.dev/prune",
        "always": "changes faster than it can be deleted",
    }
    assert (story.exit_code, story.outcomes) == (3, {"configmap/c": Outcome.FAILED})
    assert expected[change] in story.problem("configmap/c")
    assert (api.get(path)["metadata"]["uid"], api.get(path)["data"]) == (uid, {"key": "a"})
