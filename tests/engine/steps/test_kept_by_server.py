"""A field that leaves the manifest, and whose value the server keeps: the line says so."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.model.events import ObjectDone, Outcome

if TYPE_CHECKING:
    from tests.support.api import Api
    from tests.support.stage import Stage


def _service(**spec: Any) -> dict[str, Any]:
    ports = [{"port": 80, "name": "http"}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "shop"},
        "spec": {"selector": {"app": "shop"}, "ports": ports, **spec},
    }


def _fixed_port() -> dict[str, Any]:
    body = copy.deepcopy(_service(type="NodePort"))
    body["spec"]["ports"][0]["nodePort"] = 30999
    return body


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        (_service(clusterIP="None"), _service(), "spec.clusterIP: None"),
        (_fixed_port(), _service(type="NodePort"), "nodePort: 30999"),
    ],
    ids=["headless", "node port"],
)
def test_removal_that_the_server_ignores_is_said(
    stage: Stage, api: Api, before: dict[str, Any], after: dict[str, Any], kept: str
) -> None:
    """Once: the next run has nothing to remove."""
    assert stage.run(before).exit_code == 0
    story = stage.run(after)
    (done,) = (one for one in story.events if isinstance(one, ObjectDone))
    assert done.outcome is Outcome.CONFIGURED
    assert f"the server keeps {kept}" in done.reason.replace('spec.ports[name="http"].', "")
    assert "--recreate" in done.reason
    assert stage.run(after).outcomes == {"service/shop": Outcome.UNCHANGED}
    assert api.get(f"/api/v1/namespaces/{stage.namespace}/services/shop")["spec"]["clusterIP"]


def test_removal_that_the_server_follows_is_not_said(stage: Stage) -> None:
    """A node port goes with the type."""
    assert stage.run(_fixed_port()).exit_code == 0
    story = stage.run(_service())
    (done,) = (one for one in story.events if isinstance(one, ObjectDone))
    assert (done.outcome, done.reason) == (Outcome.CONFIGURED, "")
