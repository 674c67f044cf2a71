"""Real admission webhooks that refuse, change, rename, forget or do not answer.

One that answers with 409 or 404 has refused: nobody was faster, and nothing is gone."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import pytest

from applyprune.errors import InventoryError
from applyprune.localplane import Plane
from applyprune.model.events import ObjectDone, RetryReported
from applyprune.model.fate import Outcome
from applyprune.model.inventory import Ownership
from applyprune.model.options import AdoptFrom, DryRun, Mode
from applyprune.planning.applyset import OWNED_BY
from applyprune.values import replace
from tests.support.api import Api
from tests.support.fault_proxy import FaultProxy, blind_after_delete, faults
from tests.support.objects import DEPLOYMENT, SECRET, config_map, of_kind
from tests.support.stage import Stage, on
from tests.support.waiting import HANG, eventually
from tests.support.webhook import Webhook, missing

DENIED = 'admission webhook "missing.example.com" denied the request: not today'


def conflict(request: dict[str, Any]) -> dict[str, Any]:
    """Return the Status of a conflict with another field manager, as the server would word it."""
    return {
        "status": "Failure",
        "reason": "Conflict",
        "code": 409,
        "message": "not today",
        "details": {
            "name": request["name"],
            "causes": [
                {
                    "reason": "FieldManagerConflict",
                    "message": 'conflict with "somebody" using v1',
                    "field": ".data.key",
                }
            ],
        },
    }


@pytest.mark.holds("denied-by-admission")
def test_conflict_of_a_webhook_does_not_repeat_a_delete(
    stage: Stage, plane: Plane, api: Api
) -> None:
    """One request, the webhook's words, and the entry stays."""
    stage.run(config_map("a"), config_map("b"))
    with Webhook(plane, api, stage.namespace, ("DELETE",), conflict) as webhook:
        story = stage.run(config_map("a"))
        assert webhook.refused == ["DELETE b"]
    assert story.outcomes["configmap/b"] is Outcome.FAILED
    assert DENIED in story.problem("configmap/b")
    assert "faster" not in story.problem("configmap/b")
    assert story.exit_code == 3
    assert "configmap/b" in stage.listed()


LISTED = {"configmap/a", "configmap/b", "configmap/c"}
BODIES = [config_map("a"), config_map("b"), config_map("c")]


@pytest.mark.holds("absence-confirmed")
def test_webhook_answers_a_prune_with_404(plane: Plane, api: Api, stage: Stage) -> None:
    """The object exists: it fails, stays in the inventory, and a later run prunes it."""
    stage.run(*BODIES)
    with Webhook(plane, api, stage.namespace, ("DELETE",)) as webhook:
        story = stage.run(*BODIES[:2])
    assert webhook.refused == ["DELETE c"]
    assert (story.exit_code, story.outcomes["configmap/c"]) == (3, Outcome.FAILED)
    assert "it still exists: the server answered 404" in story.problem("configmap/c")
    assert "missing.example.com" in story.problem("configmap/c")
    assert api.exists(stage.path("c"))
    assert stage.listed() == LISTED
    again = stage.run(*BODIES[:2])
    assert (again.exit_code, again.outcomes["configmap/c"]) == (0, Outcome.PRUNED)
    assert not api.exists(stage.path("c"))
    assert stage.listed() == LISTED - {"configmap/c"}


def test_webhook_answers_an_orphaning_and_a_taking_with_404(
    plane: Plane, api: Api, stage: Stage
) -> None:
    """The object still has the set's label: it stays in its inventory."""
    other, given = replace(stage, name="other"), AdoptFrom(stage.name)
    stage.run(*BODIES)
    with Webhook(plane, api, stage.namespace, ("UPDATE",), _unless_inventory) as webhook:
        orphaned = stage.orphan("ConfigMap/c")
        taken = other.run(BODIES[2], adopt=given)
    assert webhook.refused == ["UPDATE c"] * 2
    for story, told in ((orphaned, "still exists"), (taken, "missing.example.com")):
        assert (story.exit_code, story.outcomes["configmap/c"]) == (3, Outcome.FAILED)
        assert told in story.problem("configmap/c")
    assert stage.listed() == LISTED
    again = other.run(BODIES[2], adopt=given)
    assert (again.exit_code, again.outcomes["configmap/c"]) == (0, Outcome.UPDATED)
    assert stage.run(*BODIES[:2]).exit_code == 0
    assert (stage.listed(), other.listed()) == (LISTED - {"configmap/c"}, {"configmap/c"})


def test_webhook_answers_a_recreation_with_404(plane: Plane, api: Api, stage: Stage) -> None:
    """The object exists: the run does not wait for it to go, and recreates nothing."""
    old, new = ({**config_map("a", value), "immutable": True} for value in ("v", "w"))
    stage.run(old)
    uid = api.get(stage.path("a"))["metadata"]["uid"]
    with Webhook(plane, api, stage.namespace, ("DELETE",)) as webhook:
        story = stage.run(new, recreate=True, check=False)
    assert webhook.refused == ["DELETE a"]
    assert (story.exit_code, story.outcomes["configmap/a"]) == (3, Outcome.FAILED)
    assert "still exists" in story.problem("configmap/a")
    assert api.get(stage.path("a"))["metadata"]["uid"] == uid
    assert stage.listed() == {"configmap/a"}


@pytest.mark.holds("inventory-removed")
def test_webhook_answers_the_deletion_of_the_inventory_with_404(
    plane: Plane, api: Api, stage: Stage
) -> None:
    """The run fails, the inventory stays, and the next run removes it."""
    stage.run(*BODIES)
    inventory = stage.target.inventory.name

    def reply(request: dict[str, Any]) -> dict[str, Any] | None:
        return missing(request) if request["name"] == inventory else None

    with (
        Webhook(plane, api, stage.namespace, ("DELETE",), reply),
        pytest.raises(InventoryError, match="the inventory of the set web was not deleted"),
    ):
        stage.run(mode=Mode.DELETE)
    assert api.exists(stage.path(inventory))
    assert stage.inventory().holder is None
    assert stage.run(mode=Mode.DELETE).exit_code == 0
    assert not api.exists(stage.path(inventory))


@pytest.mark.holds("deletion-names-uid")
def test_success_that_names_no_uid_confirms_no_deletion(
    spoiled: Stage, proxy: FaultProxy, api: Api
) -> None:
    """An aggregated API may send it; only a GET tells whether an object is gone, and no list."""
    spoiled.run(*BODIES)
    success = {"kind": "Status", "apiVersion": "v1", "status": "Success", "metadata": {}}
    headers = (("Content-Type", "application/json"),)
    fault = faults.answer(200, json.dumps(success).encode(), headers)
    proxy.rule = blind_after_delete("configmaps", fault)
    story = spoiled.run(*BODIES[:1], max_prune=Stage.most(2))
    outcomes = {name: story.outcomes[name] for name in ("configmap/b", "configmap/c")}
    assert (story.exit_code, outcomes) == (3, dict.fromkeys(outcomes, Outcome.FAILED))
    assert api.exists(spoiled.path("c"))
    assert spoiled.listed() == LISTED


def _unless_inventory(request: dict[str, Any]) -> dict[str, Any] | None:
    """Refuse requests about objects, and allow those about inventories."""
    return None if request["name"].startswith("applyprune-") else missing(request)


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


@pytest.mark.holds("other-name")
def test_renamed_object_fails_and_is_refused_until_it_is_deleted(
    plane: Plane, api: Api, stage: Stage
) -> None:
    """It is listed by the name that the server finds it by, with its UID.

    The next run says what is wrong before it writes, and lists show the object where a GET finds
    none; a delete of the set removes it too.
    """
    bodies = config_map("a"), config_map("b")
    with Webhook(plane, api, stage.namespace, ("CREATE",), change=RENAMED):
        story = stage.run(*bodies, check=False)
    assert story.outcomes == {"configmap/a": Outcome.FAILED, "configmap/b": Outcome.CREATED}
    assert story.exit_code == 3
    assert "was created with the name z" in story.problem("configmap/a")
    assert "webhook" in story.problem("configmap/a")
    assert f"kubectl delete configmap/a -n {stage.namespace}" in story.problem("configmap/a")
    there = _names(api, stage)
    assert there.keys() == {"z", "b"}
    recorded = {ref.short: entry.uid for ref, entry in stage.inventory().entries.items()}
    assert recorded == {"configmap/a": there["z"], "configmap/b": there["b"]}
    again = stage.run(*bodies)
    assert again.outcomes["configmap/a"] is Outcome.FAILED
    assert "was created with the name z" in again.problem("configmap/a")
    assert again.warnings == []
    assert stage.check().found == {}
    other = stage.run(config_map("z"), config_map("b"))
    assert other.outcomes["configmap/z"] is Outcome.FAILED
    assert f"kubectl delete configmap/a -n {stage.namespace}" in other.problem("configmap/z")
    assert not api.exists(stage.path("z"))
    deleted = stage.run(mode=Mode.DELETE)
    assert deleted.exit_code == 0
    assert deleted.outcomes == dict.fromkeys(("configmap/a", "configmap/b"), Outcome.DELETED)
    assert _names(api, stage) == {}
    assert stage.run(*bodies).exit_code == 0


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


CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
NAME = 'the webhook "dead.example.com"'


def service(number: int) -> dict[str, object]:
    """Return a Service without Pods."""
    return of_kind(
        "Service", f"s{number}", spec={"type": "ExternalName", "externalName": "example.com"}
    )


@contextmanager
def dead_webhook(api: Api, namespace: str, resource: str = "services") -> Iterator[str]:
    """Register a webhook whose port nobody listens on; yield the path of its configuration."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"https://127.0.0.1:{free.getsockname()[1]}/"
        rule = {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "resources": [resource],
            "operations": ["CREATE", "UPDATE"],
        }
        webhook = {
            "name": "dead.example.com",
            "clientConfig": {"url": url},
            "rules": [rule],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
        }
        body = {"metadata": {"name": f"dead-{namespace}"}, "webhooks": [webhook]}
        api.create(CONFIGURATIONS, body)
        probe = {"metadata": {"name": "probe"}, "spec": {"type": "ExternalName"}}
        probe["spec"]["externalName"] = "example.com"
        path = f"/api/v1/namespaces/{namespace}/{resource}?dryRun=All"
        eventually(lambda: api("POST", path, probe)[0] == 500, lambda: "the webhook")
        try:
            yield f"{CONFIGURATIONS}/dead-{namespace}"
        finally:
            api("DELETE", f"{CONFIGURATIONS}/dead-{namespace}")


def test_run_succeeds_when_the_webhook_answers_in_time(stage: Stage, api: Api) -> None:
    """Also while the run writes its own inventory, which is a ConfigMap."""
    stage.budget = HANG
    stage.run(service(0))
    with dead_webhook(api, stage.namespace, "configmaps") as path:
        stage.seen = on(RetryReported, lambda: api("DELETE", path))
        story = stage.run(service(0), service(1))
    assert story.outcomes == {"service/s0": Outcome.UNCHANGED, "service/s1": Outcome.CREATED}
    assert story.exit_code == 0
    assert {one.what for one in story.of(RetryReported)} == {NAME}
