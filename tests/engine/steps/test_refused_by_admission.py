"""A refusal by an admission policy or webhook is not an immutable field: nothing is recreated."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import pytest

from applyprune.errors import Denied
from applyprune.localplane import Plane
from applyprune.model.fate import Outcome
from applyprune.model.options import DryRun
from tests.support.api import Api
from tests.support.denials import denied
from tests.support.objects import config_map, of_kind
from tests.support.stage import Stage
from tests.support.webhook import Webhook

ALLOWED = {"applyprune.dev/recreate": "allowed"}
WAYS: tuple[tuple[dict[str, str], dict[str, Any]], ...] = (
    ({}, {}),
    (ALLOWED, {}),
    ({}, {"recreate": True}),
    ({}, {"recreate": True, "check": True}),
    ({}, {"recreate": True, "dry_run": DryRun.SERVER}),
)


def _secret(value: str, annotations: dict[str, str]) -> dict[str, Any]:
    return of_kind("Secret", "frozen", {"annotations": annotations}, stringData={"key": value})


def _frozen(
    api: Api, namespace: str, plural: str, **validation: str
) -> AbstractContextManager[None]:
    """Let a policy refuse each change of the data of the object ``frozen``."""
    tried = f"/api/v1/namespaces/{namespace}/{plural}/frozen?dryRun=All"
    expression = "object.metadata.name != 'frozen' || object.data == oldObject.data"
    told = {"expression": expression, "message": "updates are frozen until Monday"}

    def change() -> int:
        kind = "application/merge-patch+json"
        return api("PATCH", tried, {"data": {"key": "eA=="}}, content_type=kind)[0]

    return denied(api, namespace, plural, "UPDATE", change, **told | validation)


@pytest.mark.parametrize("reason", ["", "Forbidden", "RequestEntityTooLarge"])
def test_refusal_of_a_policy_recreates_nothing(stage: Stage, api: Api, reason: str) -> None:
    """Its words are shown, whatever allows a recreation, and whichever code it answers with."""
    path = stage.path("frozen")
    chosen = {"reason": reason} if reason else {}
    for marks, options in WAYS if not reason else WAYS[1:2]:
        assert stage.run(config_map("frozen", "1", annotations=marks)).exit_code == 0
        uid = api.get(path)["metadata"]["uid"]
        with _frozen(api, stage.namespace, "configmaps", **chosen):
            after = config_map("frozen", "2", annotations=marks)
            story = stage.run(after, **options)
        assert (story.exit_code, story.outcomes) == (3, {"configmap/frozen": Outcome.FAILED})
        told = story.problem("configmap/frozen")
        assert "updates are frozen until Monday" in told, options
        assert f"ValidatingAdmissionPolicy '{stage.namespace}'" in told
        assert "--recreate" not in told
        assert "in place" not in told
        assert "credentials" not in told
        live = api.get(path)
        assert (live["metadata"]["uid"], live["data"]) == (uid, {"key": "1"}), options


def test_refusal_of_a_secret_by_a_policy_recreates_nothing(stage: Stage, api: Api) -> None:
    """The policy is named; its words may have a value of the Secret."""
    path = f"/api/v1/namespaces/{stage.namespace}/secrets/frozen"
    stage.run(_secret("one", ALLOWED))
    uid = api.get(path)["metadata"]["uid"]
    with _frozen(api, stage.namespace, "secrets", message="geheim-4711"):
        story = stage.run(_secret("two", ALLOWED), recreate=True)
    told = story.problem("secret/frozen")
    assert story.outcomes == {"secret/frozen": Outcome.FAILED}
    assert f"ValidatingAdmissionPolicy '{stage.namespace}'" in told
    assert "geheim" not in told
    assert "in place" not in told
    assert api.get(path)["metadata"]["uid"] == uid


def _like_an_immutable_field(code: int, request: dict[str, Any]) -> dict[str, Any] | None:
    if request["name"] != "frozen":
        return None
    cause = {"reason": "FieldValueForbidden", "message": "field is immutable", "field": "data"}
    return {
        "status": "Failure",
        "reason": "Invalid",
        "code": code,
        "message": "data: Forbidden: field is immutable when `immutable` is set",
        "details": {"name": "frozen", "kind": "ConfigMap", "causes": [cause]},
    }


def test_refusal_of_a_webhook_recreates_nothing(stage: Stage, plane: Plane, api: Api) -> None:
    """Whatever it says: the server's own words would begin otherwise."""
    path = stage.path("frozen")
    stage.run(config_map("frozen", "1", annotations=ALLOWED))
    uid = api.get(path)["metadata"]["uid"]

    codes = [400, 413, 422]

    def reply(request: dict[str, Any]) -> dict[str, Any] | None:
        return _like_an_immutable_field(codes[0], request)

    with Webhook(plane, api, stage.namespace, ("UPDATE",), reply) as webhook:
        while codes:
            story = stage.run(config_map("frozen", "2", annotations=ALLOWED), recreate=True)
            assert set(webhook.refused) == {"UPDATE frozen"}
            assert story.outcomes == {"configmap/frozen": Outcome.FAILED}
            told = story.problem("configmap/frozen")
            assert 'admission webhook "' in told
            assert "field is immutable" in told
            assert "--recreate" not in told
            codes.pop(0)
    assert api.get(path)["metadata"]["uid"] == uid


def test_refusal_of_the_inventory_says_what_to_except(stage: Stage, api: Api) -> None:
    """A policy that demands a label of every ConfigMap: the set itself has it."""
    maps = stage.path()
    api.create(maps, config_map("frozen"))
    member = config_map("a")
    member["metadata"]["labels"] = {"team": "x"}
    assert stage.run(member).exit_code == 0
    rule = "has(object.metadata.labels) && 'team' in object.metadata.labels"
    with (
        _frozen(api, stage.namespace, "configmaps", expression=rule, message="no label team"),
        pytest.raises(Denied) as caught,
    ):
        stage.run({**member, "data": {"key": "changed"}})
    assert "no label team" in caught.value.message
    assert "configmap/applyprune-web is the set's inventory" in caught.value.hint
    assert "applyset.kubernetes.io/id or applyprune.dev/inventory" in caught.value.hint
    assert api.get(f"{maps}/a")["data"] == {"key": "v"}
