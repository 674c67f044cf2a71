"""A real mutating webhook that changes what is applied: its name, or a value of the set."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from applyprune.localplane import Plane
from applyprune.model.events import ObjectDone
from applyprune.model.fate import Outcome
from applyprune.model.inventory import Ownership
from applyprune.model.options import DryRun, Mode
from applyprune.planning.applyset import OWNED_BY
from tests.support.api import Api
from tests.support.objects import DEPLOYMENT, SECRET, config_map
from tests.support.stage import Stage
from tests.support.webhook import Webhook

Change = dict[str, Any]
REWRITTEN = "the server stores other values than the manifests have"


def changing(changes: dict[str, list[Change]]) -> Callable[[Change], list[Change]]:
    """Return what a webhook changes: the JSON patch of each object, by its name."""
    return lambda request: changes.get(request["name"], [])


def put(path: str, value: object) -> Change:
    return {"op": "replace", "path": path, "value": value}


RENAMED = changing({"a": [put("/metadata/name", "z")]})


def _names(api: Api, stage: Stage) -> dict[str, str]:
    """Return the UIDs of the set's ConfigMaps by name, as a list has them."""
    path = f"/api/v1/namespaces/{stage.namespace}/configmaps?labelSelector=applyset.kubernetes.io"
    items = api.get(f"{path}/part-of={stage.target.id}")["items"]
    return {item["metadata"]["name"]: item["metadata"]["uid"] for item in items}


def test_renamed_object_fails_and_stays_listed(plane: Plane, api: Api, stage: Stage) -> None:
    """It is listed by the name that the server finds it by, with its UID; a prune removes it."""
    with Webhook(plane, api, stage.namespace, ("CREATE",), change=RENAMED):
        story = stage.run(config_map("a"), config_map("b"), check=False)
    assert story.outcomes == {"configmap/a": Outcome.FAILED, "configmap/b": Outcome.CREATED}
    assert story.exit_code == 3
    assert "was created with the name z" in story.problem("configmap/a")
    assert "webhook" in story.problem("configmap/a")
    assert f"kubectl delete configmap/a -n {stage.namespace}" in story.problem("configmap/a")
    there = _names(api, stage)
    assert there.keys() == {"z", "b"}
    recorded = {ref.short: entry.uid for ref, entry in stage.inventory().entries.items()}
    assert recorded == {"configmap/a": there["z"], "configmap/b": there["b"]}
    pruned = stage.run(config_map("b"))
    assert (pruned.exit_code, pruned.outcomes["configmap/a"]) == (0, Outcome.PRUNED)
    assert _names(api, stage).keys() == {"b"}
    assert stage.listed() == {"configmap/b"}


@pytest.mark.holds("other-name")
def test_renamed_object_is_refused_until_it_is_deleted(
    plane: Plane, api: Api, stage: Stage
) -> None:
    """The next run says what is wrong before it writes; a delete of the set removes it too."""
    bodies = config_map("a"), config_map("b")
    with Webhook(plane, api, stage.namespace, ("CREATE",), change=RENAMED):
        stage.run(*bodies, check=False)
    again = stage.run(*bodies)
    assert again.outcomes["configmap/a"] is Outcome.FAILED
    assert "was created with the name z" in again.problem("configmap/a")
    assert again.warnings == []
    assert stage.check().found == {}
    deleted = stage.run(mode=Mode.DELETE)
    assert deleted.exit_code == 0
    assert deleted.outcomes == dict.fromkeys(("configmap/a", "configmap/b"), Outcome.DELETED)
    assert _names(api, stage) == {}
    assert stage.run(*bodies).exit_code == 0


def test_nothing_is_created_where_a_renamed_object_is_listed(
    plane: Plane, api: Api, stage: Stage
) -> None:
    """Lists show that object there, a GET finds none; what the hint says ends it."""
    with Webhook(plane, api, stage.namespace, ("CREATE",), change=RENAMED):
        stage.run(config_map("a"), config_map("b"), check=False)
    bodies = config_map("z"), config_map("b")
    path = stage.path()
    story = stage.run(*bodies)
    assert story.outcomes["configmap/z"] is Outcome.FAILED
    assert "configmap/a" in story.problem("configmap/z")
    assert f"kubectl delete configmap/a -n {stage.namespace}" in story.problem("configmap/z")
    assert not api.exists(f"{path}/z")
    assert api("DELETE", f"{path}/a")[0] == 200
    again = stage.run(*bodies)
    assert (again.exit_code, again.outcomes["configmap/z"]) == (0, Outcome.CREATED)
    assert _names(api, stage).keys() == {"z", "b"}
    assert stage.listed() == {"configmap/z", "configmap/b"}


@pytest.mark.parametrize("options", [{"check": True}, {"dry_run": DryRun.SERVER}], ids=str)
def test_check_refuses_a_name_that_a_webhook_changes(
    plane: Plane, api: Api, stage: Stage, options: dict[str, Any]
) -> None:
    """Before the first write."""
    with Webhook(plane, api, stage.namespace, ("CREATE",), change=RENAMED):
        story = stage.run(config_map("a"), config_map("b"), **options)
    assert story.outcomes["configmap/a"] is Outcome.FAILED
    assert "would be created with the name z" in story.problem("configmap/a")
    assert _names(api, stage) == {}
    assert not stage.inventory().exists


def test_changed_namespace_is_refused_by_the_server(plane: Plane, api: Api, stage: Stage) -> None:
    """Nothing is created, so nothing can be lost."""
    elsewhere = changing({"a": [put("/metadata/namespace", "default")]})
    with Webhook(plane, api, stage.namespace, ("CREATE",), change=elsewhere):
        story = stage.run(config_map("a"), check=False)
    assert story.outcomes == {"configmap/a": Outcome.FAILED}
    assert "namespace" in story.problem("configmap/a")
    assert _names(api, stage) == {}
    assert stage.run(config_map("a")).outcomes == {"configmap/a": Outcome.CREATED}


def _deployment() -> dict[str, Any]:
    body = deepcopy(DEPLOYMENT)
    (container,) = body["spec"]["template"]["spec"]["containers"]
    container["resources"] = {"requests": {"cpu": "1000m"}}
    return body


IN_CONTAINER = "/spec/template/spec/containers/0"
REWRITES = changing(
    {
        "a": [put("/data/key", "another")],
        "s": [put("/data/password", "YW5vdGhlcg==")],
        "web": [
            put(f"{IN_CONTAINER}/image", "mirror/web:1"),
            put(f"{IN_CONTAINER}/resources/requests/cpu", "2"),
        ],
    }
)
TOLD = (
    f"{REWRITTEN}: configmap/a at .data.key; secret/s at .data.password; deployment.apps/web at "
    '.spec.template.spec.containers[name="web"].image, '
    '.spec.template.spec.containers[name="web"].resources.requests.cpu'
)


@pytest.mark.parametrize("check", [False, True], ids=str)
def test_rewritten_values_are_named_once(
    plane: Plane, api: Api, stage: Stage, *, check: bool
) -> None:
    """By the run that has sent them, or by its plan; without a value."""
    bodies = config_map("a"), config_map("b"), SECRET, _deployment()
    with Webhook(plane, api, stage.namespace, ("CREATE", "UPDATE"), change=REWRITES):
        story = stage.run(*bodies, check=check)
        unsent = stage.run(*bodies, check=check)
        compared = stage.run(*bodies, dry_run=DryRun.SERVER, reapply_all=True)
    assert story.exit_code == 0
    assert set(story.outcomes.values()) == {Outcome.CREATED}
    # The server may still call the webhook of an earlier test, and warn about that.
    (warning,) = (one for one in story.warnings if one.startswith(TOLD))
    assert "another" not in warning
    assert "YW5vdGhlcg" not in warning
    assert set(unsent.outcomes.values()) == {Outcome.UNCHANGED}
    assert set(compared.outcomes.values()) == {Outcome.UNCHANGED}
    assert warning in compared.warnings


def test_rewritten_value_that_is_ignored_is_not_named(plane: Plane, api: Api, stage: Stage) -> None:
    """Its manifest leaves it to others."""
    ignored = {"applyprune.dev/ignore-fields": "/data/key"}
    with Webhook(plane, api, stage.namespace, ("CREATE", "UPDATE"), change=REWRITES):
        story = stage.run(config_map("a", annotations=ignored))
    assert story.outcomes == {"configmap/a": Outcome.CREATED}
    assert story.warnings == []


def test_object_is_not_recreated_under_another_name(plane: Plane, api: Api, stage: Stage) -> None:
    """The trial of its creation shows the name, so the object is not deleted."""

    def rename(request: Change) -> list[Change]:
        return [put("/metadata/name", "z")] if request["name"].startswith("a") else []

    stage.run({**config_map("a"), "immutable": True})
    before = _names(api, stage)
    with Webhook(plane, api, stage.namespace, ("CREATE",), change=rename):
        story = stage.run({**config_map("a", "new"), "immutable": True}, recreate=True, check=False)
    assert story.outcomes == {"configmap/a": Outcome.FAILED}
    assert "cannot be changed in place" in story.problem("configmap/a")
    assert _names(api, stage) == before


def _take_off(request: Change) -> list[Change]:
    """Remove the annotations that no list of allowed ones has."""
    there = (request["object"] or {}).get("metadata", {}).get("annotations") or {}
    return [{"op": "remove", "path": "/metadata/annotations"}] if OWNED_BY in there else []


@pytest.mark.holds("witness-taken-off")
def test_object_without_the_annotation_of_ownership_is_not_recorded_as_owned(
    plane: Plane, api: Api, stage: Stage
) -> None:
    """The line says so at once, and not only the prune that will not delete it."""
    with Webhook(plane, api, stage.namespace, ("CREATE",), change=_take_off):
        story = stage.run(config_map("a"), check=False)
    (done,) = story.of(ObjectDone)
    assert done.outcome is Outcome.CREATED
    assert f"has removed the annotation {OWNED_BY}" in done.reason
    (entry,) = stage.inventory().entries.values()
    assert entry.ownership is Ownership.ADOPTED
    pruned = stage.run(config_map("b"), apply_anyway=True)
    assert pruned.outcomes["configmap/a"] is Outcome.ORPHANED
