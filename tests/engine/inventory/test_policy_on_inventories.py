"""A policy of the cluster that denies the inventory: the error says what it has denied."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from applyprune.errors import ApiError
from tests.support.api import Api
from tests.support.objects import config_map
from tests.support.stage import Stage
from tests.support.waiting import eventually

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
