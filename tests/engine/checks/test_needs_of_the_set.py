"""What the server refuses only because an earlier object of the same set is not applied yet."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from applyprune.model.fate import Outcome
from tests.support.api import Api
from tests.support.objects import crd, crd_name, custom_resource, of_kind
from tests.support.stage import Stage, Story
from tests.support.waiting import eventually

POD: dict[str, Any] = of_kind("Pod", "p", spec={"containers": [{"name": "c", "image": "c"}]})
SERVICE: dict[str, Any] = of_kind("Service", "s", spec={"ports": [{"port": 80}]})


def _not_checked(story: Story) -> dict[str, str]:
    steps = story.plan.applies
    return {step.desired.ref.short: step.not_checked for step in steps if step.not_checked}


def _needs(name: str) -> str:
    return f"not checked: it needs {name}, which is about to change"


def _namespace(name: str, level: str) -> dict[str, Any]:
    labels = {"pod-security.kubernetes.io/enforce": level}
    return of_kind("Namespace", name, {"labels": labels})


def test_pod_that_the_present_namespace_forbids_is_not_checked(stage: Stage) -> None:
    """The set loosens Pod Security; if it does not, the Pod is refused before any write."""
    inside = f"{stage.namespace}-inside"
    pod = {**POD, "metadata": {"name": "p", "namespace": inside}}
    assert stage.run(_namespace(inside, "restricted")).exit_code == 0
    refused = stage.run(_namespace(inside, "restricted"), pod, check=True, reapply_all=True)
    assert refused.exit_code == 3
    assert "violates PodSecurity" in refused.problem("pod/p")
    story = stage.run(_namespace(inside, "privileged"), pod, check=True)
    assert _not_checked(story) == {"pod/p": _needs(f"namespace/{inside}")}
    assert (story.exit_code, story.outcomes["pod/p"]) == (0, Outcome.CREATED)


@pytest.mark.holds("excused-by-a-change")
def test_object_beyond_the_present_quota_is_not_checked(stage: Stage, api: Api) -> None:
    """The set raises the quota."""

    def quota(services: int) -> dict[str, Any]:
        return of_kind("ResourceQuota", "q", api="v1", spec={"hard": {"count/services": services}})

    assert stage.run(quota(0)).exit_code == 0
    path = f"/api/v1/namespaces/{stage.namespace}/resourcequotas/q"
    eventually(lambda: api.get(path)["status"].get("used"), lambda: "the quota is counted")
    refused = stage.run(quota(0), SERVICE, check=True, reapply_all=True)
    assert (refused.exit_code, refused.outcomes) == (3, {"service/s": Outcome.FAILED})
    story = stage.run(quota(5), SERVICE, check=True)
    assert _not_checked(story) == {"service/s": _needs("resourcequota/q")}


def test_custom_resource_moves_to_a_version_that_its_crd_gets_in_the_same_set(
    crd_stage: Stage,
) -> None:
    """It exists already; the server does not serve the new version yet."""
    old, new = crd("Moving"), crd("Moving")
    later = copy.deepcopy(new["spec"]["versions"][0])
    new["spec"]["versions"].append({**later, "name": "v2", "storage": False})
    one = custom_resource("one", "Moving")
    assert crd_stage.run(old, one).exit_code == 0
    moved = {**one, "apiVersion": one["apiVersion"].replace("/v1", "/v2")}
    story = crd_stage.run(new, moved, check=True)
    assert story.exit_code == 0, story.problem("moving.x.example.com/one")
    assert story.outcomes[crd_name("Moving")] is Outcome.UPDATED


def test_token_of_an_account_of_the_same_set_is_kept(stage: Stage, api: Api) -> None:
    """The token controller deletes a token Secret whose ServiceAccount does not exist."""
    account = of_kind("ServiceAccount", "robot")
    token = of_kind(
        "Secret",
        "a-token",
        {"annotations": {"kubernetes.io/service-account.name": "robot"}},
        type="kubernetes.io/service-account-token",
    )
    story = stage.run(token, account, check=True)
    assert (story.exit_code, set(story.outcomes.values())) == (0, {Outcome.CREATED})
    waves = {step.desired.ref.kind: step.desired.wave for step in story.plan.applies}
    assert waves["ServiceAccount"] < waves["Secret"]
    path = f"/api/v1/namespaces/{stage.namespace}/secrets/a-token"
    eventually(lambda: "token" in api.get(path).get("data", {}), lambda: "the token is there")
