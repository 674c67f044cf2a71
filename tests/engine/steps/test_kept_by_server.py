"""A field that leaves the manifest, and whose value the server keeps: the line says so."""

from __future__ import annotations

from typing import Any

from applyprune.model.events import ObjectDone
from applyprune.model.fate import Outcome
from tests.support.api import Api
from tests.support.objects import of_kind
from tests.support.stage import Stage, Story


def _service(**spec: Any) -> dict[str, Any]:
    ports = [{"port": 80}]
    return of_kind("Service", "shop", spec={"selector": {"app": "shop"}, "ports": ports, **spec})


def _with_its_port(stage: Stage, api: Api) -> int:
    """Let the set own the node port that the server has chosen, and return it."""
    assert stage.run(_service(type="NodePort")).exit_code == 0
    live = api.get(f"/api/v1/namespaces/{stage.namespace}/services/shop")
    port: int = live["spec"]["ports"][0]["nodePort"]
    fixed = _service(type="NodePort", ports=[{"port": 80, "nodePort": port}])
    assert stage.run(fixed).exit_code == 0
    return port


def _line(story: Story) -> tuple[Outcome, str]:
    (done,) = story.of(ObjectDone)
    return done.outcome, done.reason


def test_headless_service_stays_so(stage: Stage) -> None:
    """The line says it once: the next run has nothing to remove."""
    assert stage.run(_service(clusterIP="None")).exit_code == 0
    kept = "the server keeps spec.clusterIP: None; only --recreate changes it"
    assert _line(stage.run(_service())) == (Outcome.UPDATED, kept)
    assert _line(stage.run(_service())) == (Outcome.UNCHANGED, "")


def test_fixed_node_port_stays(stage: Stage, api: Api) -> None:
    """Another example of the kind."""
    port = _with_its_port(stage, api)
    outcome, reason = _line(stage.run(_service(type="NodePort")))
    assert outcome is Outcome.UPDATED
    assert f"nodePort: {port}; only --recreate changes it" in reason


def test_removal_that_the_server_follows_is_not_said(stage: Stage, api: Api) -> None:
    """A node port goes with the type."""
    _with_its_port(stage, api)
    assert _line(stage.run(_service())) == (Outcome.UPDATED, "")
