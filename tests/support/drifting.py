"""The four ways in which a field of a Deployment drifts, and what the guide says of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tests.docs.pages import page

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.support.api import Api
    from tests.support.plane import Kubectl

BEFORE, AFTER = "before the refused apply", "after it"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
PATH = "/apis/apps/v1/namespaces/{}/deployments/web"


def deployment() -> dict[str, Any]:
    """Return a Deployment with replicas, whose Pods no controller can start."""
    pod = {"containers": [{"name": "c", "image": "web:1"}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod},
        },
    }


def _patched(kubectl: Kubectl, _: Api, namespace: str) -> None:
    kubectl("patch", "deployment/web", "-n", namespace, "-p", '{"spec":{"replicas":1}}')


def _scaled(kubectl: Kubectl, _: Api, namespace: str) -> None:
    kubectl("scale", "deployment/web", "-n", namespace, "--replicas=1")


def _updated(_: Kubectl, api: Api, namespace: str) -> None:
    path = f"{PATH.format(namespace)}?fieldManager=team-operator"
    assert api("PATCH", path, {"spec": {"replicas": 1}}, content_type=MERGE)[0] == 200


def _applied(_: Kubectl, api: Api, namespace: str) -> None:
    body = deployment()
    body["spec"]["replicas"] = 1
    path = f"{PATH.format(namespace)}?fieldManager=team-pipeline&force=true"
    assert api("PATCH", path, body, content_type=APPLY)[0] == 200


DRIFTS: Mapping[str, tuple[str, Callable[[Kubectl, Api, str], None]]] = {
    "`kubectl patch` or `edit`": ("kubectl-patch", _patched),
    "`kubectl scale`": ("kubectl", _scaled),
    "a controller's update": ("team-operator", _updated),
    "another applier, by force": ("team-pipeline", _applied),
}
"""What changes the field, its field manager, and how."""


def documented(row: str, when: str) -> Mapping[str, str]:
    """Return what the guide says that each verb reports, by the heading of its column."""
    text = page("docs/guides/drift.md").section("What each verb reports")
    head, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in re.findall(r"^\|.*\|$", text, re.MULTILINE)
    ]
    (found,) = (cells for cells in rows if cells[:2] == [row, when])
    return dict(zip(head[2:], found[2:], strict=True))
